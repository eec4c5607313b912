"""Knows when a submitted task has come to rest: it ended, or only a person or new input can move it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tenure.errors import TenureError
from tenure.ledger import Ledger
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import Phase, WaitOn

POLL = 1.0
PAGE = 1_000
OUTSIDE = (WaitOn.ANSWER, WaitOn.INPUT)


class Watch:
    """Follows the feed once for all tasks of a run. ``resting`` maps a task's id to its phase then."""

    def __init__(self, ledger: Ledger, changed: Callable[[], None]) -> None:
        self.resting: dict[str, Phase] = {}
        self._ledger = ledger
        self._changed = changed
        self._waiting: dict[str, asyncio.Future[Phase]] = {}

    async def rest(self, task_id: str) -> Phase:
        """Wait until the task of this id, a root, has come to rest."""
        if task_id in self.resting:
            return self.resting[task_id]
        future = self._waiting.setdefault(task_id, asyncio.get_running_loop().create_future())
        # Listed first, looked at second: what is committed in between is seen by one of the two.
        await self._look(task_id)
        return await asyncio.shield(future)

    async def follow(self) -> None:
        """Look again at each awaited tree that the feed speaks of. Runs until it is cancelled."""
        position = await self._ledger.wait(0, 0)
        while True:
            try:
                await self._ledger.wait(position, POLL)
                events = await self._ledger.events(after=position, limit=PAGE)
                for root_id in {event.root_id for event in events} & self._waiting.keys():
                    await self._look(root_id)
            except TenureError:
                await asyncio.sleep(POLL)
                continue
            position = events[-1].position if events else position

    async def _look(self, root_id: str) -> None:
        task = await self._ledger.task(root_id)
        if task is None or not (task.phase.ended or await self._with_a_person(task)):
            return
        future = self._waiting.pop(root_id, None)
        if future is not None and not future.done():
            self.resting[root_id] = task.phase
            future.set_result(task.phase)
            self._changed()

    async def _with_a_person(self, task: Task) -> bool:
        """Whether nothing in this process moves the task on: a person's answer or input from outside would."""
        if task.phase is Phase.ESCALATED:
            return True
        if task.phase is Phase.WAITING and task.wait is not None and task.wait.on in OUTSIDE:
            return True
        if task.phase not in (Phase.ACTIVE, Phase.WAITING):
            return False
        # An owner that awaits its delegations rests with them.
        waiting = [child.child_id for child in task.children if not child.outcome]
        if not waiting or (task.wait is not None and task.wait.on is not WaitOn.CHILD):
            return False
        children = [await self._ledger.task(child_id) for child_id in waiting]
        return all([child is not None and await self._with_a_person(child) for child in children])
