"""Gates: what is in the way is said in words, the wait is bounded, and its end is the documented fallback."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tenure import Complete, InDoubt, Policy, Provider, Settings, Team, Tenure, Transfer
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.settings import CRITICAL, EXTERNAL
from tenure.protocol.vocabulary import EffectState, Gate, Phase, Reason
from tenure.runtime.blocking import blockers
from tenure.runtime.facts import facts_of
from tenure.testing.conformance import Driver
from tests.runtime.harness import BRIEF, events, in_phase, until


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
        if own.in_flight.effects:
            return Complete([(fact.what, fact.data) for fact in own.in_flight.effects])
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
        (blocker,) = (await handle.facts()).blocked_by
        assert (blocker.what, blocker.state, blocker.by) == ("bank", "in doubt", "policy critical"), (
            "who is asked sees why"
        )


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


STOPS = Policy(name="stops", grace_ms=100, gate=Gate.STOPPED)
THE_GATE, NOTHING = "the gate", ""


@pytest.mark.parametrize("item", ["work", "effect"])
@pytest.mark.parametrize(
    ("policy", "gate", "of_work", "of_effect"),
    [
        (EXTERNAL, Gate.ROUTING_RETIRED, NOTHING, NOTHING),
        (EXTERNAL, Gate.STOPPED, THE_GATE, NOTHING),
        (EXTERNAL, Gate.SETTLED, THE_GATE, THE_GATE),
        (STOPS, Gate.ROUTING_RETIRED, "policy stops", NOTHING),
        (STOPS, Gate.STOPPED, THE_GATE, NOTHING),
        (STOPS, Gate.SETTLED, THE_GATE, THE_GATE),
        (CRITICAL, Gate.ROUTING_RETIRED, "policy critical", "policy critical"),
        (CRITICAL, Gate.STOPPED, "policy critical", "policy critical"),
        (CRITICAL, Gate.SETTLED, THE_GATE, THE_GATE),
    ],
)
async def test_each_gate_names_exactly_what_keeps_the_ledger_from_granting(
    ledger: Ledger, policy: Policy, gate: Gate, of_work: str, of_effect: str, item: str
) -> None:
    speaker = Driver(ledger)
    await speaker.owned()
    if item == "work":
        await speaker.work("x", policy=policy)
    else:
        await speaker.intend("x", policy=policy)
    decision = replace(await speaker.handoff("b"), gate=gate)
    await speaker.own(cmd.Retire, decision=decision)
    await speaker.own(cmd.Release, routes_retired=True)
    receipt = await speaker.acknowledge("b", "w2")
    by = of_work if item == "work" else of_effect
    found = (await facts_of(ledger, "t")).blocked_by
    assert (receipt.status, receipt.blocked_by) == (("gate", ("x",)) if by else ("done", ()))
    assert tuple(one.id for one in found) == receipt.blocked_by, "what is shown is what the ledger waits for"
    assert [one.by for one in found] == ([by] if by else [])
    needs = {"work": ("residual", "stopped"), "effect": ("in doubt", "settled")}[item]
    assert [(one.state, one.needs) for one in found] == ([needs] if by else [])


@pytest.mark.parametrize("policy", [EXTERNAL, CRITICAL])
async def test_an_end_waits_for_what_is_critical_and_names_it(ledger: Ledger, policy: Policy) -> None:
    speaker = Driver(ledger)
    await speaker.owned()
    await speaker.intend("x", policy=policy)
    receipt = await speaker.complete()
    found = (await facts_of(ledger, "t")).blocked_by
    assert tuple(one.id for one in found) == receipt.blocked_by == (("x",) if policy is CRITICAL else ())


async def test_an_effect_that_is_settled_while_it_is_looked_at_is_in_the_way_no_more(ledger: Ledger) -> None:
    speaker = Driver(ledger)
    await speaker.owned()
    await speaker.intend("x", policy=CRITICAL)
    await speaker.complete()
    before = await speaker.task()
    await speaker.outcome("x", EffectState.CONFIRMED)
    assert blockers(before, await ledger.effects("t", open_only=True)) == ()


async def test_a_gate_that_an_edge_raised_gives_the_task_back_and_the_sender_sees_what_was_in_the_way(
    ledger: Ledger,
) -> None:
    team = paying(Silent(), ledger, EXTERNAL, Gate.SETTLED, gate_ms=200)
    async with team.worker(reconcile=False):
        handle = await team.submit(goal="g")
        assert (await handle.result(20)).value == [["bank", {"state": "in_doubt"}]]
    hops = await events(ledger, handle.task_id, ev.HandoffEnded)
    assert [str(one.reason) for one in hops] == ["gate_timeout"]
