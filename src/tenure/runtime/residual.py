"""Residual work: what was not seen to end when its tenure did, watched by whoever can see it, until it is.

A process group is seen from its own host, also after a restart; when the host was started anew, everything of before
is gone. Remote work is seen from wherever its provider can be asked. What nobody can see is for a person to attest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from tenure.errors import Refused
from tenure.ledger import Instance, Ledger, TaskRow
from tenure.protocol import commands as cmd
from tenure.protocol.body import Body
from tenure.protocol.state import Locator, Task, Work
from tenure.protocol.vocabulary import EvidenceKind, WorkEnd, WorkKind, WorkState
from tenure.runtime import provider as pv
from tenure.runtime.content import to_body
from tenure.runtime.ids import new_id
from tenure.runtime.jobs import comparable, process_alive, survivors_of

PAGE = 100
STATUS_SECONDS = 10.0
AT_ONCE = 16


T = TypeVar("T")


class Ended(Struct, frozen=True, kw_only=True):
    """An end that was seen from here, and what it was seen by."""

    how: WorkEnd
    evidence: EvidenceKind
    result: Body | None = None


async def watch_residual(ledger: Ledger, providers: Mapping[str, pv.Provider], *, by: str) -> int:
    """Close the residual works whose end can be seen from this process; returns how many were.

    Several are looked at at the same time: a provider that does not answer holds up few of the others.

    Raises:
        Unavailable: the ledger does not answer.
    """
    closed = 0
    running: dict[str, Instance] | None = None
    async for rows in residual_pages(ledger):
        if running is None:
            running = {each.instance_id: each for each in await ledger.instances(open_only=True)}
        left = [(row.task, work) for row in rows for work in row.task.works if work.state is WorkState.RESIDUAL]
        for some in batched(left, AT_ONCE):
            seen = await asyncio.gather(*(_seen(work, running.get(work.instance), providers) for _, work in some))
            for (task, work), ended in zip(some, seen, strict=True):
                if ended is not None:
                    closed += await close_work(ledger, task, work, ended, by=by)
    return closed


async def residual_pages(ledger: Ledger) -> AsyncIterator[list[TaskRow]]:
    """Every task with residual work, in order, page by page."""
    after = 0
    while rows := await ledger.residual(after=after, limit=PAGE):
        yield rows
        after = rows[-1].position


async def close_work(ledger: Ledger, task: Task, work: Work, ended: Ended, *, by: str) -> bool:
    """Take a work off the books by what was seen; whether it still was on them."""
    command = cmd.EndWork(
        command_id=new_id("c"),
        root_id=task.root_id,
        task_id=task.task_id,
        work_id=work.work_id,
        instance=work.instance,
        how=ended.how,
        result=ended.result,
        evidence=ended.evidence,
        by=by,
    )
    try:
        await ledger.execute(command)
    except Refused as error:
        if error.code != "unknown_work":
            raise
        return False
    return True


async def group_gone(work: Work, instance: Instance | None) -> bool:
    """Whether a process group is *seen* to be gone: nothing of it is found on its host, on the same boot or a later.

    ``instance`` started it: where that was is known also of a group that it had no time to locate.
    """
    if work.kind is not WorkKind.PROCESS:
        return False
    if instance is not None and await asyncio.to_thread(comparable, place_of(instance)) is False:
        return True  # the host was started anew
    if work.locator is None:
        return False
    return await asyncio.to_thread(survivors_of, work.locator, work.work_id) == ()


GONE = Ended(how=WorkEnd.VANISHED, evidence=EvidenceKind.GONE)


async def _seen(work: Work, instance: Instance | None, providers: Mapping[str, pv.Provider]) -> Ended | None:
    if work.kind is WorkKind.REMOTE:
        return await _status(work, providers)
    if instance is not None and await asyncio.to_thread(process_alive, place_of(instance)) is True:
        return None  # the process that started it watches it still, and will say how it ended
    return GONE if await group_gone(work, instance) else None


def place_of(instance: Instance) -> Locator:
    """Where an instance runs, or ran."""
    return Locator(host=instance.host, boot=instance.boot, pid=instance.pid, started=instance.started)


async def _status(work: Work, providers: Mapping[str, pv.Provider]) -> Ended | None:
    if work.locator is None:
        return None
    provider = providers.get(work.locator.provider)
    if provider is None or not pv.can(provider, "status"):
        return None
    found = await remote_end(provider, work.locator.reference)
    if found is None:
        return None
    return Ended(how=found[0], evidence=EvidenceKind.STATUS, result=body_of(found[1]))


def body_of(value: object) -> Body | None:
    """What a work brought, for whoever owns the task next; ``None`` when there is nothing, or it has no JSON form."""
    try:
        return None if value is None else to_body(value)
    except Refused:
        return None


async def remote_end(provider: pv.Provider, reference: str) -> tuple[WorkEnd, object] | None:
    """How remote work has ended by its provider's status, with what it says of it; ``None`` when it shows no end."""
    try:
        async with asyncio.timeout(STATUS_SECONDS):
            answer = await provider.status(reference)  # type: ignore[attr-defined]  # an optional method, asked for before
    except (Exception, SystemExit):  # noqa: BLE001 - a status that cannot be had shows nothing
        return None
    match answer:
        case pv.Confirmed(value=value):
            return WorkEnd.RETURNED, value
        case pv.Failed(reason=reason) | pv.Declined(reason=reason):
            return WorkEnd.RAISED, {"error": reason}
        case pv.Cancelled():
            return WorkEnd.CANCELLED, None
        case pv.NotFound(final=True):
            return WorkEnd.VANISHED, None
        case _:
            return None


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Parts of at most ``size``, in order."""
    return (items[start : start + size] for start in range(0, len(items), size))
