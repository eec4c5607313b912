"""What tests of reconcilers share: ledgers whose clock is moved by hand, outside systems that do as they are told."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tenure import Confirmed, NotFound, Provider, Settings
from tenure.ledger import Ledger
from tenure.ledger.memory import MemoryLedger
from tenure.ledger.sqlite import SqliteLedger
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.outside import Effect
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Purpose, Reason
from tenure.runtime.reconciler import Reconciler
from tenure.testing.conformance import Driver, VirtualClock
from tenure.testing.conformance.driver import body

E, K = EffectState, EvidenceKind
MINUTE = 60_000
HOUR = 60 * MINUTE


class Deaf(Provider):
    """An outside system without any way out of doubt. Each method of its kin takes its next answer from ``answers``.

    An answer that is an exception is raised; ``"hang"`` never comes. The last one is given again and again.
    """

    name = "shop"

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.calls: list[tuple[str, str]] = []
        self.began = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    @property
    def made(self) -> list[str]:
        return [method for method, _ in self.calls]

    async def _answer(self, method: str, key: str) -> Any:
        self.calls.append((method, key))
        self.began.set()
        await self.may_go_on.wait()
        answers = self.answers.get(method, [TimeoutError("no answer")])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer == "hang":
            await asyncio.Event().wait()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def apply(self, request: Any, *, key: str) -> Any:
        return await self._answer("apply", key)


class Seeing(Deaf):
    """One that can be asked."""

    async def lookup(self, request: Any, *, key: str) -> Any:
        return await self._answer("lookup", key)


class Sealing(Seeing):
    """One that can be asked, and can seal a key."""

    async def seal(self, request: Any, *, key: str) -> Any:
        return await self._answer("seal", key)


class Undoing(Seeing):
    """One that can be asked, and can undo."""

    async def compensate(self, request: Any, *, key: str) -> Any:
        return await self._answer("compensate", key)

    async def lookup_compensation(self, request: Any, *, key: str) -> Any:
        return await self._answer("lookup_compensation", key)


@dataclass
class World:
    """One tree in one ledger, under a clock that is moved by hand."""

    ledger: Ledger
    clock: VirtualClock
    driver: Driver = field(init=False)

    def __post_init__(self) -> None:
        self.driver = Driver(self.ledger)

    def reconciler(self, *providers: Provider, instance: str = "r1", **options: Any) -> Reconciler:
        return Reconciler(self.ledger, {each.name: each for each in providers}, instance=instance, **options)

    def later(self, ms: int = MINUTE + 1) -> None:
        self.clock.now += ms

    async def effect(self, effect_id: str = "e1") -> Effect:
        found = {effect.effect_id: effect for effect in await self.ledger.effects("t")}
        return found[effect_id]

    async def state(self, effect_id: str = "e1") -> EffectState:
        return (await self.effect(effect_id)).state

    async def owned(self, **settings: Any) -> None:
        await self.driver.owned("a", settings=Settings(**{"checks": 3, **settings}))

    async def in_doubt(self, effect_id: str = "e1", **intent: Any) -> Effect:
        """An effect of which nothing is known, a moment after its next check was due."""
        await self.driver.intend(effect_id, **intent)
        await self.driver.outcome(effect_id, E.IN_DOUBT, evidence=K.NONE)
        self.later()
        return await self.effect(effect_id)

    async def accepted(self, effect_id: str = "e1", **intent: Any) -> None:
        await self.driver.intend(effect_id, **intent)
        await self.driver.outcome(effect_id, E.ACCEPTED, reference="job-1")
        self.later()

    async def confirmed(self, effect_id: str = "e1", **intent: Any) -> Effect:
        await self.driver.intend(effect_id, **intent)
        await self.driver.outcome(effect_id, E.CONFIRMED, reference="R1")
        return await self.effect(effect_id)

    async def undoing(self, *, idempotent_ms: int = 0) -> None:
        """A compensation that its owner has begun, of which nothing is known."""
        effect = await self.confirmed()
        await self.driver.own(
            cmd.AttemptEffect,
            effect_id="e1",
            version=effect.version,
            purpose=Purpose.COMPENSATE,
            idempotent_ms=idempotent_ms,
        )
        await self.driver.outcome("e1", E.IN_DOUBT, evidence=K.NONE)
        self.later()

    async def dies(self, instance: str = "w1") -> None:
        await self.driver.do(cmd.ReportDeath, instance=instance, by="w2")

    async def fails(self) -> None:
        """The task ends without success."""
        await self.driver.own(
            cmd.Retire, decision=dec.FailWith(reason=Reason.RAISED, detail=body("broken")), quiet=True
        )


@pytest.fixture(params=["memory", "sqlite"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A world on each ledger. After the test its chain must verify and its events must give its state."""
    clock = VirtualClock()
    ledger: Ledger
    if request.param == "memory":
        ledger = MemoryLedger(clock)
    else:
        ledger = await asyncio.to_thread(lambda: SqliteLedger(str(tmp_path / "ledger.db"), clock=clock))
    yield World(ledger, clock)
    found = await ledger.verify()
    await ledger.close()
    assert (found.chain, found.replay, found.problems) == ("verified", "equal", ())


__all__ = ["HOUR", "MINUTE", "Confirmed", "Deaf", "NotFound", "Sealing", "Seeing", "Undoing", "World", "world"]
