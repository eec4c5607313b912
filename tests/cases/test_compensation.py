"""Reported failures, compensation: EF-05."""

import asyncio
from typing import Any

from tenure import (
    Compensation,
    Complete,
    Confirmed,
    Declined,
    Done,
    InDoubt,
    NotFound,
    Provider,
    Settings,
    Team,
    Tenure,
)
from tenure.ledger import Ledger
from tenure.protocol.vocabulary import EffectState, Finding
from tenure.runtime.outcomes import Outcome
from tests.runtime.harness import until

E = EffectState


class Booked(Provider):
    """A system with its own books: what was done and undone there, by key.

    Attributes:
        loses: the answer to the first ``apply`` is lost. raises: how often ``compensate`` fails without a word.
    """

    def __init__(self, name: str, *, loses: bool = False, raises: int = 0) -> None:
        self.name = name
        self.loses = loses
        self.raises = raises
        self.done: list[str] = []
        self.undone: list[str] = []
        self.undo_keys: list[str] = []

    async def apply(self, request: Any, *, key: str) -> Any:
        del request
        self.done.append(key)
        if self.loses:
            raise TimeoutError
        return Confirmed(reference=f"{self.name}-1")

    async def lookup(self, request: Any, *, key: str) -> Any:
        del request
        return Confirmed(reference=f"{self.name}-1") if key in self.done else NotFound()

    async def compensate(self, request: Any, *, key: str) -> Any:
        del request
        self.undo_keys.append(key)
        if self.raises:
            self.raises -= 1
            raise ConnectionError
        assert key not in self.undone, "undone twice"
        self.undone.append(key)
        return Confirmed()


class Said(Provider):
    """What was said cannot be unsaid."""

    name = "notify"

    async def apply(self, request: Any, *, key: str) -> Any:
        del request, key
        return Confirmed()


async def test_ef_05_undone_one_by_one_over_a_restart_and_never_called_compensated(ledger: Ledger) -> None:
    """EF-05: reserve, charge and notify are done, the fourth step is half done; the charge's undoing says nothing."""
    reserve, charge, step_4 = Booked("reserve"), Booked("charge", raises=2), Booked("ship", loses=True)
    found: list[Compensation] = []
    half_done: list[Outcome] = []
    crashed = asyncio.Event()
    team = Team("t", ledger=ledger, providers=[reserve, charge, Said(), step_4], settings=Settings(lease_ms=600))

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        if own.state is None:
            for provider in (reserve, charge, Said()):
                await own.effect(provider, {"order": "A17"}, key="A17")
            half_done.append(await own.effect(step_4, {"order": "A17"}, key="A17", patience=0))
            await own.save({"undo": True})
            found.append(await own.compensate())
            crashed.set()
            await asyncio.Event().wait()
        found.append(await own.compensate())
        return Complete()

    async with team.worker(name="first", drain=0, reconcile=False):
        handle = await team.submit(goal="g")
        await crashed.wait()
    async with team.worker(name="second", reconcile=False):
        assert (await handle.result(20)).outcome == "completed"

    assert isinstance(half_done[0], Done | InDoubt), "never taken for not done"
    assert [each.state for each in found] == ["partially_compensated"] * 2
    states = {each.tool: (str(each.state), each.undone) for each in found[1].effects}
    assert states == {
        "ship": ("compensated", True),
        "notify": ("confirmed", False),
        "charge": ("compensating", False),
        "reserve": ("compensated", True),
    }
    assert [each.tool for each in found[0].effects] == ["ship", "notify", "charge", "reserve"], "the newest first"
    assert (len(charge.undo_keys), len(step_4.undone), len(reserve.undone)) == (1, 1, 1)

    facts = await handle.facts()
    assert facts.effects.compensation == "partially_compensated"
    (open_one,) = facts.effects.open
    assert (open_one.tool, open_one.state) == ("charge", "compensating")


async def test_ef_05_after_the_budget_of_tries_a_person_is_asked_and_ends_it(ledger: Ledger) -> None:
    """EF-05: the undoing of the charge fails again and again; the record never says more than that."""

    class Refusing(Booked):
        async def compensate(self, request: Any, *, key: str) -> Any:
            del request
            self.undo_keys.append(key)
            return Declined("the till is closed")

    charge = Refusing("charge")
    found: list[Compensation] = []
    team = Team("t", ledger=ledger, providers=[charge], settings=Settings(checks=3))

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        await own.effect(charge, {"order": "A17"}, key="A17")
        found.append(await own.compensate())
        return Complete()

    async with team.worker() as worker:
        handle = await team.submit(goal="g")
        await handle.result(20)
        (effect,) = await ledger.effects(handle.task_id)
        assert (found[0].state, effect.state) == ("partially_compensated", E.COMPENSATION_FAILED)
        assert worker.reconciler is not None
        await worker.reconciler.sweep(effects=[effect])

        async def asked() -> bool:
            (now,) = await ledger.effects(handle.task_id)
            return bool(now.asked)

        await until(asked)
        (effect,) = await ledger.effects(handle.task_id)
        assert (effect.state, effect.asked) == (E.COMPENSATION_FAILED, "person:operator")
        assert len(set(charge.undo_keys)) == len(charge.undo_keys), "each try has a key of its own"
        await handle.attest(
            effect.effect_id, version=effect.version, by="person:operator", words="paid by hand", finding=Finding.UNDONE
        )
    assert (await handle.facts()).effects.compensation == "compensated"
