"""Gates: what is in the way is said in words, the wait is bounded, and its end is the documented fallback."""

import asyncio
from typing import Any

import pytest

from tenure import Complete, InDoubt, Policy, Provider, Settings, Team, Tenure, Transfer
from tenure.ledger import Ledger
from tenure.protocol.settings import CRITICAL, EXTERNAL
from tenure.protocol.vocabulary import Gate, Phase, Reason
from tests.runtime.harness import BRIEF, in_phase, until


class Silent(Provider):
    """It never says what it has done."""

    name = "bank"

    async def apply(self, request: Any, *, key: str) -> Any:
        raise TimeoutError


def paying(bank: Silent, ledger: Ledger, policy: Policy, gate: Gate, **settings: Any) -> Team:
    """One that pays and hands over, with the answer lost; the receiver completes."""
    team = Team("t", ledger=ledger, providers=[bank], settings=Settings(**settings))

    @team.agent(entry=True, may_transfer={"b": "it goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        if own.payload.hop:
            return Complete("came back")
        outcome = await own.effect(bank, {"cents": 5}, key="A17", policy=policy, patience=0)
        return Transfer("b", gate=gate) if isinstance(outcome, InDoubt) else Complete("never")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete([fact.outcome for fact in own.in_flight.effects])

    return team


@pytest.mark.parametrize(
    ("policy", "gate", "by"),
    [(CRITICAL, Gate.ROUTING_RETIRED, "policy critical"), (EXTERNAL, Gate.SETTLED, "the gate")],
)
async def test_an_open_effect_is_named_with_what_asks_for_more_and_settling_it_opens_the_gate(
    ledger: Ledger, policy: Policy, gate: Gate, by: str
) -> None:
    team = paying(Silent(), ledger, policy, gate)
    async with team.worker(reconcile=False):
        handle = await team.submit(goal="g")

        async def waiting() -> Any:
            return (await handle.facts()).blocked_by

        (blocker,) = await until(waiting)
        assert (blocker.what, blocker.state, blocker.needs, blocker.by) == ("bank", "in doubt", "settled", by)
        assert str(blocker) == f"{blocker.id} bank is in doubt; {by} needs it settled"
        (effect,) = await ledger.effects(handle.task_id)
        await handle.attest(effect.effect_id, version=effect.version, by="person:operator", words="seen")
        result = await handle.result(20)
    assert result.value == [], "nothing is open at the grant"
    assert (await handle.facts()).blocked_by == ()


async def test_an_external_effect_goes_along_open_and_blocks_nothing(ledger: Ledger) -> None:
    team = paying(Silent(), ledger, EXTERNAL, Gate.ROUTING_RETIRED)
    async with team.worker(reconcile=False):
        handle = await team.submit(goal="g")
        assert (await handle.result(20)).value == ["unknown"]


async def test_a_gate_that_is_not_met_in_time_gives_the_task_back_with_the_reason(ledger: Ledger) -> None:
    team = paying(Silent(), ledger, CRITICAL, Gate.ROUTING_RETIRED, gate_ms=200)
    async with team.worker(reconcile=False):
        handle = await team.submit(goal="g")
        task = await in_phase(handle, Phase.ESCALATED)
        ended = [one for one in await ledger.events(task_id=handle.task_id) if hasattr(one.event, "reason")]
        reasons = [str(one.event.reason) for one in ended]  # type: ignore[union-attr]
        assert reasons.count(str(Reason.GATE_TIMEOUT)) >= 2, "the return, and then the completion that may not be"
        assert task.question is not None
        assert task.question.reason is Reason.GATE_TIMEOUT


async def test_work_that_runs_on_is_named_where_the_edge_wants_it_stopped(ledger: Ledger) -> None:
    release, kept = asyncio.Event(), list[Any]()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "it goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        kept.append(own.spawn(stubborn(), policy=BRIEF, name="search"))
        await asyncio.sleep(0)
        return Transfer("b", gate=Gate.STOPPED)

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete(len(own.in_flight.works))

    async with team.worker():
        handle = await team.submit(goal="g")

        async def waiting() -> Any:
            return (await handle.facts()).blocked_by

        (blocker,) = await until(waiting)
        assert (blocker.what, blocker.state, blocker.needs, blocker.by) == ("search", "residual", "stopped", "the gate")
        release.set()
        assert (await handle.result(20)).value == 0
