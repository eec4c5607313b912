"""A task as its submitter sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from typing import Any

from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import Finding, Phase
from tenure.runtime.content import to_body
from tenure.runtime.delegation import Result, result_of
from tenure.runtime.facts import Facts, facts_of
from tenure.runtime.hold import execute_patiently
from tenure.runtime.ids import new_id

POLL = 1.0
SECONDS = 30
ENDED = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED})


class TaskHandle:
    """A handle of one task; it owns nothing and may be thrown away."""

    def __init__(self, ledger: Ledger, task_id: str) -> None:
        """Handles are made by the team."""
        self._ledger = ledger
        self.task_id = task_id

    async def state(self) -> Task:
        """The task as the ledger has it.

        Raises:
            Refused: ``unknown_task``.
        """
        task = await self._ledger.task(self.task_id)
        if task is None:
            raise Refused("unknown_task", self.task_id)
        return task

    async def reached(self, phases: Container[Phase], timeout: float | None = None) -> Task:
        """Wait until the task is in one of these phases.

        Raises:
            TimeoutError: after ``timeout`` seconds, with the phase that it is in. The task is not affected.
        """
        phase = "not read yet"
        try:
            async with asyncio.timeout(timeout):
                while True:
                    position = await self._ledger.wait(0, 0)
                    task = await self.state()
                    if task.phase in phases:
                        return task
                    phase = str(task.phase)
                    await self._ledger.wait(position, POLL)
        except TimeoutError:
            raise TimeoutError(f"Task {self.task_id} is {phase} after {timeout} s.") from None

    async def result(self, timeout: float | None = None) -> Result:
        """Wait for the end of the task and say how it ended.

        Raises:
            TimeoutError: after ``timeout`` seconds.
        """
        return await result_of(self._ledger, await self.reached(ENDED, timeout))

    async def send(self, message: Any, *, sender: str = "") -> None:
        """Give the task live input. It reaches whoever owns the task, once, in order.

        Raises:
            Refused: ``task_ended``, ``backlog_full``.
        """
        await self._execute(cmd.Send, message=to_body(message), sender=sender)

    async def cancel(self, *, by: str, reason: str = "") -> str:
        """Ask for the end of the task; returns its phase afterwards. Only ``cancelled`` says that it is over.

        Its delegations are tasks of their own and are not asked: :meth:`facts` names those that have not ended.
        """
        receipt = await self._execute(cmd.RequestCancel, by=by, reason=reason)
        return str(receipt.phase)

    async def answer(
        self, question_id: str, *, by: str, action: str = "resume", choice: str = "", agent: str = "", words: Any = None
    ) -> None:
        """Answer the open question of the task: ``resume`` the owner, ``reassign`` to ``agent`` or ``abort``.

        Raises:
            Refused: ``already_answered``, ``unknown_question``, ``not_allowed``.
        """
        await self._execute(
            cmd.Answer,
            question_id=question_id,
            by=by,
            action=action,
            choice=choice,
            agent=agent,
            body=to_body({"choice": choice, "words": words}),
        )

    async def attest(
        self,
        effect_id: str,
        *,
        version: int,
        by: str,
        words: Any,
        finding: Finding | str = Finding.PRESENT,
        retry: bool = False,
    ) -> None:
        """Give a person's word on an effect; it settles the effect as ``attested``.

        Args:
            version: of the effect, as it was seen (:attr:`Facts.effects`). words: what was found, and how.
            finding: it is ``present`` outside, it is ``absent``, or it was ``undone``.
            retry: with ``absent``, the owner of the task may make it happen once more.

        Raises:
            Refused: ``version_conflict`` when the effect has changed since; ``unknown_effect``; ``wrong_phase`` when
                this cannot be found of it; ``attempt_unsafe`` for a ``retry`` while an earlier request may still land.
        """
        await self._execute(
            cmd.Attest,
            effect_id=effect_id,
            version=version,
            by=by,
            body=to_body(words),
            finding=finding,
            retry=retry,
        )

    async def reverse(self, handoff_id: str, *, by: str, reason: str = "") -> None:
        """End an open handoff and all above it; the task goes back to that handoff's sender."""
        await self._execute(cmd.Reverse, handoff_id=handoff_id, by=by, reason=reason)

    async def adopt(self, graph: str, *, by: str, reason: str = "") -> None:
        """Let the task go on under another saved version of the routing graph, with its budgets and fallbacks.

        Raises:
            Refused: ``unknown_graph``; ``unknown_agent`` when the owner is not in that version; ``task_ended``;
                ``retiring`` or ``transfer_decided`` while it changes hands.
        """
        await self._execute(cmd.AdoptGraph, graph=graph, by=by, reason=reason)

    async def facts(self) -> Facts:
        """The four facts of the task, each as far as it is proven."""
        return await facts_of(self._ledger, self.task_id)

    async def _execute(self, kind: Any, **fields: Any) -> cmd.Receipt:
        root_id = (await self.state()).root_id
        command = kind(command_id=new_id("c"), root_id=root_id, task_id=self.task_id, **fields)
        return await execute_patiently(self._ledger, command, seconds=SECONDS)
