"""One granted tenure as this process holds it: who it is, how long it may act by its own clock, whether it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar

from tenure.errors import Fenced, OutcomeUnknown, Refused, Unavailable
from tenure.ledger import Ledger
from tenure.protocol.commands import Command, CommandBase, OwnerCommand, Receipt
from tenure.protocol.graph import Graph
from tenure.protocol.state import Task, Tenure
from tenure.protocol.typed import typed
from tenure.runtime.books import Books
from tenure.runtime.clock import uptime_ms
from tenure.runtime.ids import jitter, new_id
from tenure.runtime.provider import Provider

C = TypeVar("C", bound=CommandBase)

REPORT_SECONDS = 3600.0
"""How long an observation is offered to a ledger that is away. It outlasts leases: what is not told looks open."""

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0


async def execute_patiently(ledger: Ledger, command: Command, *, seconds: float) -> Receipt:
    """Send a command until the ledger takes it or refuses it; its id makes every repeat safe.

    Raises:
        Unavailable, OutcomeUnknown: the last of them, after ``seconds``.
        Refused, Fenced: at once. ``invalid``: a field is not of its type, and nothing was sent.
    """
    command = typed(command)
    give_up = uptime_ms() + int(seconds * 1000)
    pause = FIRST_PAUSE
    while True:
        try:
            return await ledger.execute(command)
        except (Unavailable, OutcomeUnknown) as error:
            if error.next_action == "stop" or uptime_ms() >= give_up:
                raise
        await asyncio.sleep(jitter(pause))
        pause = min(pause * 2, LONGEST_PAUSE)


class Hold:
    """The right to act under one epoch and instance.

    The lease in the ledger ends later than the holder's own deadline: the holder stops itself first, by a clock that
    counts suspended time and was read before the heartbeat was sent.
    """

    def __init__(
        self,
        ledger: Ledger,
        task: Task,
        tenure: Tenure,
        *,
        asked_at: int,
        graph: Graph | None = None,
        providers: Mapping[str, Provider] | None = None,
    ) -> None:
        """Hold a tenure that was granted to a request sent at ``asked_at`` (:func:`uptime_ms`).

        ``graph`` is the version in force at the grant; ``providers`` are the team's.
        """
        self.providers: Mapping[str, Provider] = providers or {}
        self.ledger = ledger
        self.root_id = task.root_id
        self.task_id = task.task_id
        self.agent = tenure.agent
        self.epoch = tenure.epoch
        self.instance = tenure.instance
        self.settings = task.settings
        self.graph = graph
        self.closing = False
        self.stated = False
        self.error: Fenced | None = None
        self.lost = asyncio.Event()
        self.cancel_requested = asyncio.Event()
        self.asked = asyncio.Event()
        self.out_of_bounds = asyncio.Event()
        self.books = Books(self)
        self._deadline = 0
        self.prolong(asked_at)

    def prolong(self, sent_at: int) -> None:
        """Take note of a heartbeat that the ledger has answered; a quarter of the lease is kept as a margin."""
        self._deadline = max(self._deadline, sent_at + self.settings.lease_ms * 3 // 4)

    @property
    def left(self) -> float:
        """Seconds for which this process may still act; 0 or less when it must assume that it may not."""
        return (self._deadline - uptime_ms()) / 1000

    @property
    def overdue(self) -> bool:
        """Whether this process must assume that it may have lost its lease."""
        return uptime_ms() >= self._deadline

    def lose(self, error: Fenced) -> None:
        """Stop acting. On the loop only."""
        if self.error is None:
            self.error = error
            self.closing = True
            self.lost.set()

    def check(self) -> None:
        """Refuse to act without authority.

        Raises:
            Fenced: ``stale_epoch`` or ``lease_lost``.
        """
        if self.error is not None:
            raise self.error
        if self.overdue:
            raise Fenced("lease_lost", "No heartbeat was answered in time.", task_id=self.task_id)

    def check_open(self) -> None:
        """Refuse to start something new once the tenure is retiring.

        Raises:
            Fenced: as :meth:`check`. Refused: ``retiring``.
        """
        self.check()
        if self.closing:
            raise Refused("retiring", "The handler has returned its decision.")

    async def say(self, kind: type[C], /, **fields: Any) -> Receipt:
        """Speak as this tenure, patiently while the lease lasts.

        Raises:
            Fenced: also when the ledger says so, or does not answer while the lease lasts; the hold is lost then.
            Refused. Unavailable: ``ledger_closed``.
        """
        self.check()
        if issubclass(kind, OwnerCommand):
            fields.update(epoch=self.epoch, instance=self.instance)
        command = kind(command_id=new_id("c"), root_id=self.root_id, task_id=self.task_id, **fields)
        seconds = max(self._deadline - uptime_ms(), 0) / 1000
        try:
            receipt = await execute_patiently(self.ledger, command, seconds=seconds)  # type: ignore[arg-type]  # C is one of Command
        except Fenced as error:
            self.lose(error)
            raise
        except (Unavailable, OutcomeUnknown) as error:
            if error.next_action == "stop" or not self.overdue:
                raise
            lost = Fenced("lease_lost", f"The ledger did not answer in time: {error}", task_id=self.task_id)
            self.lose(lost)
            raise lost from error
        if receipt.status == "late":
            late = Fenced("stale_epoch", "It came too late and was kept as evidence.", kept=True, task_id=self.task_id)
            self.lose(late)
            raise late
        return receipt

    async def report(self, kind: type[C], /, *, seconds: float = REPORT_SECONDS, **fields: Any) -> Receipt:
        """Report an observation. It counts under any epoch, so a lost hold may still speak; nobody else saw it."""
        command = kind(command_id=new_id("c"), root_id=self.root_id, task_id=self.task_id, **fields)
        return await execute_patiently(self.ledger, command, seconds=seconds)  # type: ignore[arg-type]  # C is one of Command
