"""What a worker finds when it starts: instances of this host that are dead, and what their death proves.

It proves the end of their coroutines, threads and handlers. A process group that they started is looked up: seen to
be gone it is off the books, else it stays residual. Nothing else is concluded. What could not be recovered, because
the ledger failed, is listed and tried again.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from tenure.errors import Refused, TenureError
from tenure.ledger import Instance, Ledger, root_of
from tenure.protocol import commands as cmd
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import DIES_WITH_PROCESS
from tenure.runtime.ids import new_id
from tenure.runtime.jobs import process_alive
from tenure.runtime.residual import GONE, close_work, group_gone, place_of


class Recovery(Struct, frozen=True, kw_only=True):
    """One sweep, counted completely: ``found = recovered + open + failed``.

    Attributes:
        found: tasks in which a dead instance held something, once per instance. recovered: nothing of it is left there.
        open: something is left that its death does not prove ended. failed: task id → why it must be tried again.
        unfinished: instance → why what it holds could not be read, or its own end not be noted.
    """

    found: int = 0
    recovered: int = 0
    open: int = 0
    failed: dict[str, str]
    unfinished: dict[str, str] = {}


async def recover(ledger: Ledger, *, by: str) -> Recovery:
    """Report the deaths that can be observed from this host. Safe to repeat, and by several workers at once."""
    found = recovered = left = 0
    failed: dict[str, str] = {}
    unfinished: dict[str, str] = {}
    for instance in await ledger.instances(open_only=True):
        if not await _observed_dead(instance):
            continue
        try:
            for task_id in await ledger.held_by(instance.instance_id):
                found += 1
                try:
                    over = await _recover_task(ledger, task_id, instance, by)
                except TenureError as error:
                    failed[task_id] = str(error)
                    continue
                recovered += over
                left += not over
            if not instance.ended_at:
                await asyncio.to_thread(ledger.retire_instance, instance.instance_id)
        except TenureError as error:
            unfinished[instance.instance_id] = str(error)
    return Recovery(found=found, recovered=recovered, open=left, failed=failed, unfinished=unfinished)


async def free_name(ledger: Ledger, name: str) -> None:
    """Note the end of dead instances of this name, so that whoever takes their place need not wait for their lease."""
    for instance in await ledger.instances(open_only=True):
        if instance.name == name and not instance.ended_at and await _observed_dead(instance):
            await asyncio.to_thread(ledger.retire_instance, instance.instance_id)


async def _observed_dead(instance: Instance) -> bool:
    """Whether the process is *seen* to be gone; silence is not enough."""
    return await asyncio.to_thread(process_alive, place_of(instance)) is False


async def _recover_task(ledger: Ledger, task_id: str, instance: Instance, by: str) -> bool:
    """Report what one task needs; returns whether nothing of the instance is left in it."""
    command = cmd.ReportDeath(
        command_id=new_id("c"), root_id=root_of(task_id), task_id=task_id, instance=instance.instance_id, by=by
    )
    task = await ledger.task(task_id)
    if task is not None and await _proves_something(ledger, task, instance.instance_id):
        try:
            await ledger.execute(command)
        except Refused as error:
            if error.code != "not_due":
                raise
    task = await ledger.task(task_id)
    if task is None:
        return True
    await _recover_groups(ledger, task, instance, by)
    return instance.instance_id not in set(await _holders(ledger, task_id))


async def _proves_something(ledger: Ledger, task: Task, instance_id: str) -> bool:
    """Whether the death of an instance changes anything in a task: a sweep that finds the same leaves no trace."""
    if task.tenure is not None and task.tenure.instance == instance_id:
        return True
    if any(work.instance == instance_id and work.kind in DIES_WITH_PROCESS for work in task.works):
        return True
    effects = await ledger.effects(task.task_id, open_only=True)
    return any(instance_id in effect.senders for effect in effects)


async def _holders(ledger: Ledger, task_id: str) -> list[str]:
    task = await ledger.task(task_id)
    if task is None:
        return []
    holders = [work.instance for work in task.works]
    if task.tenure is not None:
        holders.append(task.tenure.instance)
    return holders


async def _recover_groups(ledger: Ledger, task: Task, instance: Instance, by: str) -> None:
    """A process group that is seen to be gone has ended; one that is alive, or cannot be seen, stays on the books."""
    for work in task.works:
        if work.instance == instance.instance_id and await group_gone(work, instance):
            await close_work(ledger, task, work, GONE, by=by)
