"""The team of every cell: ``sender`` hands the task to ``doer``, who does the one effect; whoever gets it goes on."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Literal

from tenure import Complete, Escalate, Policy, Settings, Team, Tenure, Transfer
from tenure.ledger import Ledger
from tenure.runtime.outcomes import Outcome
from tenure.testing.crashes.outside import Outside
from tenure.testing.crashes.points import Fault, Striker
from tenure.testing.crashes.strategies import Plain

TASK = "crash"
ORDER = "order-1"
PERSON = "person:operator"

CALL_SECONDS = 30.0
PATIENCE = 0.8

BRIEF = Policy(name="brief", grace_ms=50)
"""The effect's class: on the books, answerable, with a short grace at a handover."""

UNWANTED = Policy(name="unwanted", grace_ms=50, orphan="compensate")
"""The same where everything is undone: also when the task has ended before it came to that."""

LEASES_MS = {Fault.STALL: 600, Fault.CANCEL: 2_500}
"""Short where it has to end, or where its heartbeat brings a cancellation."""

LEASE_MS = 30_000


def settings(fault: Fault) -> Settings:
    """The task's. Lost by a stalled worker it goes to another agent, by a dead one to the same."""
    on_lost: Literal["return", "same"] = "return" if fault is Fault.STALL else "same"
    return Settings(lease_ms=LEASES_MS.get(fault, LEASE_MS), on_lost=on_lost, fallback=PERSON)


class Desk:
    """The agents. ``undoes``: whether what is done is to be undone. ``striker`` is there in the first worker only."""

    def __init__(self, provider: Plain, system: Outside, *, undoes: bool, striker: Striker | None = None) -> None:
        """For one worker."""
        self.provider = provider
        self.system = system
        self.undoes = undoes
        self.striker = striker

    async def sender(self, own: Tenure[Any]) -> Any:
        """Hand the task over; when it has come back, do what there is to do."""
        if own.epoch > FIRST_EPOCH:
            return await self.perform(own)
        return Transfer("doer", own.input, summary="do it")

    async def doer(self, own: Tenure[Any]) -> Any:
        """Do it; or hand the task over while it is being done."""
        if self.striker is None or self.striker.fault is not Fault.HAND_OVER:
            return await self.perform(own)
        performing = own.spawn(self.work(own), policy=BRIEF)
        await self.striker.struck.wait()
        del performing  # it ends with the tenure
        return Transfer("other", own.input, summary="go on")

    async def other(self, own: Tenure[Any]) -> Any:
        """Go on with it."""
        return await self.perform(own)

    async def perform(self, own: Tenure[Any]) -> Any:
        """Do it, and ask a person when nobody can tell whether it is done, or undone."""
        word = await self.work(own)
        if word in OPEN:
            return Escalate("What became of it?", evidence={"order": ORDER}, who=(PERSON,))
        return Complete(word)

    async def work(self, own: Tenure[Any]) -> str:
        """The one effect and its undoing, and a note of what was said of it in the end."""
        word = type(await self.effect(own)).__name__
        if self.undoes:
            word = (await own.compensate(timeout=CALL_SECONDS)).state
        await asyncio.to_thread(self.system.tell, own.agent, word, os.getpid())
        return word

    async def effect(self, own: Tenure[Any]) -> Outcome:
        """The effect."""
        policy = UNWANTED if self.undoes else BRIEF
        return await own.effect(
            self.provider, own.input, key=ORDER, policy=policy, timeout=CALL_SECONDS, patience=PATIENCE
        )


OPEN = frozenset({"InDoubt", "partially_compensated"})
"""What is said of something that is open."""

FIRST_EPOCH = 2
"""Of the first tenure: epochs count offers too."""


def team_of(desk: Desk, ledger: Ledger, fault: Fault) -> Team:
    """A team on a ledger."""
    team = Team("crashes", ledger=ledger, settings=settings(fault), providers=(desk.provider,))
    team.agent(entry=True, may_transfer={"doer": "does it"})(desk.sender)
    team.agent(may_transfer={"other": "goes on"})(desk.doer)
    team.agent(desk.other)
    return team
