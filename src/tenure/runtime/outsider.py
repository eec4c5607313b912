"""Who speaks about an effect without owning its task: a reconciler, under the epoch 0."""

from __future__ import annotations

from typing import Any, TypeVar

from tenure.ledger import Ledger
from tenure.protocol.commands import CommandBase, Receipt
from tenure.protocol.outside import Effect
from tenure.runtime.hold import execute_patiently
from tenure.runtime.ids import new_id

C = TypeVar("C", bound=CommandBase)

SAY_SECONDS = 5.0
REPORT_SECONDS = 60.0
"""How long an observation is offered to a ledger that is away. What is not told stays open, and is looked at again."""


class Outsider:
    """One who may look, seal and go on with what an owner has begun."""

    epoch = 0

    def __init__(self, ledger: Ledger, effect: Effect, instance: str) -> None:
        """Speak about this effect as ``instance``."""
        self._ledger = ledger
        self._root_id, self._task_id = effect.root_id, effect.task_id
        self.instance = instance

    def check(self) -> None:
        """It holds nothing that it could lose: how late a call may begin is for whoever looks to judge."""

    async def say(self, kind: type[C], /, **fields: Any) -> Receipt:
        """Send a command, patiently.

        Raises:
            Refused, Fenced. Unavailable, OutcomeUnknown: the ledger has not answered.
        """
        return await self._send(kind, SAY_SECONDS, fields)

    async def report(self, kind: type[C], /, **fields: Any) -> Receipt:
        """Send an observation, more patiently.

        Raises:
            As :meth:`say`.
        """
        return await self._send(kind, REPORT_SECONDS, fields)

    async def _send(self, kind: type[C], seconds: float, fields: dict[str, Any]) -> Receipt:
        command = kind(command_id=new_id("c"), root_id=self._root_id, task_id=self._task_id, **fields)
        return await execute_patiently(self._ledger, command, seconds=seconds)  # type: ignore[arg-type]  # C is one of Command
