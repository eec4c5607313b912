"""Delegations of a tenure: a child task, awaited inside the handler. The caller keeps its own task."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenure.errors import Refused
from tenure.protocol import commands as cmd
from tenure.protocol.state import Candidate, Task
from tenure.runtime.books import Reader
from tenure.runtime.hold import Hold
from tenure.runtime.ids import child_id
from tenure.runtime.payloads import encode_payload, first_payload

POLL = 1.0


class Result(Struct, frozen=True, kw_only=True):
    """How a task ended.

    Attributes:
        outcome: ``completed``, ``failed`` or ``cancelled``. value: what it completed with, or the failure's detail.
        reason: of the closed vocabulary; empty for a completed task.
    """

    task_id: str
    outcome: str
    value: Any = None
    reason: str = ""


async def result_of(ledger: Reader, task: Task) -> Result:
    """The result of a task that has ended."""
    body = await ledger.body(task.root_id, task.result) if task.result else None
    return Result(
        task_id=task.task_id,
        outcome=str(task.phase),
        value=body.value() if body is not None else None,
        reason=str(task.reason),
    )


class Delegations:
    """Children that this tenure has opened or found open."""

    def __init__(self, hold: Hold, salt: str, given: str) -> None:
        """Start with none; what the owner was given and the count name children that got no key."""
        self._hold = hold
        # A child that fails has somebody who can decide what follows: its caller, before any person.
        self._settings = replace(hold.settings, on_failure="fail")
        self._given = given
        self._salt = salt
        self._count = 0
        self.collected: list[str] = []

    async def open(
        self, agent: str, data: Any, *, goal: str, constraints: tuple[str, ...], key: str, summary: str
    ) -> str:
        """Open a child without waiting; the same key gives the same child. Returns its task id."""
        self._hold.check_open()
        self._count += 1
        # Another owner of the task, with an input of its own, must not be answered with what this one has asked for.
        named = f"key:{key}" if key else f"count:{self._given}:{agent}:{self._count}"
        task_id = child_id(self._hold.root_id, self._hold.task_id, named)
        payload = first_payload(task_id, goal, data, constraints, summary, self._salt)
        try:
            await self._hold.say(
                cmd.Delegate,
                child_id=task_id,
                candidates=(Candidate(agent=agent),),
                payload=encode_payload(payload),
                settings=self._settings,
            )
        except Refused:
            # After a crash the child is there already, whatever else would stand against a new one by now.
            if await self._hold.books.task(task_id) is None:
                raise
            await self._same_agent(task_id, agent)
        return task_id

    async def _same_agent(self, task_id: str, agent: str) -> None:
        """A key that named a child of another agent is not answered with that child's result."""
        own = await self._hold.books.task(self._hold.task_id)
        entry = next((child for child in own.children if child.child_id == task_id), None) if own else None
        if entry is not None and entry.agent != agent:
            raise Refused("intent_conflict", f"This key has opened a delegation to {entry.agent}.")

    async def join(self, task_id: str) -> Result:
        """Wait for a child's end. Its result is collected in the commit of the turn."""
        ledger = self._hold.books
        while True:
            self._hold.check()
            position = await ledger.wait(0, 0)
            child = await ledger.task(task_id)
            if child is None:
                raise Refused("unknown_task", task_id)
            if child.phase.ended:
                break
            await ledger.wait(position, POLL)
        own = await ledger.task(self._hold.task_id)
        if own is not None and any(entry.child_id == task_id and entry.outcome for entry in own.children):
            self.collected.append(task_id)
        return await result_of(ledger, child)

    def take_collected(self) -> tuple[str, ...]:
        """The results whose collection the next commit states."""
        taken, self.collected = tuple(dict.fromkeys(self.collected)), []
        return taken
