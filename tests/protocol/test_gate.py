"""The gate: judged at every grant and at completion, over everything open in the task; every wait has a deadline."""

import pytest

from tenure.protocol import events as ev
from tenure.protocol.settings import CRITICAL, EXTERNAL, LOCAL, POLICIES, Policy
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Gate, OfferKind, Phase, Reason
from tests.protocol.world import Owner, World

STANDS = {
    Gate.ROUTING_RETIRED: (),
    Gate.STOPPED: ("x",),
    Gate.SETTLED: ("x", "e1"),
}


@pytest.mark.parametrize("gate", list(Gate))
def test_an_edge_says_how_much_of_the_old_tenure_must_be_over(gate: Gate) -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x")
    a.intend("e1", policy=EXTERNAL)
    a.transfer("b", gate=gate)
    a.release()
    b = world.ack("b")
    assert b.receipt.blocked_by == STANDS[gate]
    assert b.receipt.status == ("gate" if STANDS[gate] else "done")


def acknowledged_behind_a_critical_effect(world: World) -> Owner:
    a = world.owned_by("a")
    a.intend("e1", policy=CRITICAL)
    a.transfer("b")
    return world.ack("b")


def test_the_receiver_owns_nothing_before_the_gate_is_met() -> None:
    world = World()
    b = acknowledged_behind_a_critical_effect(world)
    assert (b.receipt.status, b.receipt.blocked_by) == ("gate", ("e1",))
    assert world.task.tenure is None
    with world.fences():
        b.advance(document="mine")


def test_the_evidence_that_settles_the_last_item_grants_in_the_same_commit() -> None:
    world = World()
    acknowledged_behind_a_critical_effect(world)
    world.outcome("e1", EffectState.CONFIRMED)
    assert world.said() == ("late.recorded", "effect.observed", "tenure.granted")
    assert world.task.owner == "b"


def test_a_persons_word_can_settle_it_too() -> None:
    world = World()
    acknowledged_behind_a_critical_effect(world)
    world.attest("e1")
    assert world.task.owner == "b"


def test_a_gate_not_met_in_time_sends_a_transfer_back_under_a_new_epoch() -> None:
    world = World(gate_ms=5_000)
    b = acknowledged_behind_a_critical_effect(world)
    world.expire()
    assert world.task.offer is not None
    assert (world.task.offer.kind, world.task.offer.reason) == (OfferKind.RETURN, Reason.GATE_TIMEOUT)
    assert world.task.epoch > b.epoch
    assert world.ack("a").receipt.status == "done", "the sender gets it back with what is open"


def test_a_gate_not_met_in_time_elsewhere_asks_a_person() -> None:
    world = World(gate_ms=5_000)
    a = world.owned_by("a")
    a.intend("e1", policy=CRITICAL)
    world.expire()
    assert world.ack("a", "a2").receipt.status == "gate"
    world.expire()
    assert world.said() == ("offer.expired", "offer.withdrawn", "task.escalated")
    assert world.phase() is Phase.ESCALATED


def test_a_completion_waits_for_critical_items_and_then_completes_by_itself() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x", CRITICAL)
    a.complete()
    receipt = a.release()
    assert (receipt.status, receipt.blocked_by) == ("gate", ("x",))
    assert world.phase() is Phase.ACTIVE
    world.end_work("x")
    assert world.phase() is Phase.COMPLETED
    assert "execution.stopped" in world.said()


def test_a_completion_that_still_waits_tells_what_it_waits_for() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x", CRITICAL)
    a.work("y", CRITICAL)
    a.complete()
    a.release()
    world.end_work("x")
    assert world.phase() is Phase.ACTIVE
    world.end_work("y")
    assert world.phase() is Phase.COMPLETED


def test_a_completion_whose_gate_is_not_met_in_time_asks_a_person() -> None:
    world = World(gate_ms=5_000)
    a = world.owned_by("a")
    a.intend("e1", policy=CRITICAL)
    assert a.complete().status == "gate"
    world.expire()
    assert world.phase() is Phase.ESCALATED
    assert world.task.question is not None
    assert world.task.question.reason is Reason.GATE_TIMEOUT


def test_a_completion_does_not_wait_for_what_no_policy_calls_critical() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x", LOCAL)
    a.intend("e1", policy=EXTERNAL)
    a.complete()
    assert a.release().status == "done"
    assert world.phase() is Phase.COMPLETED
    assert world.task.answerable == "person:operator"
    assert ([w.work_id for w in world.task.works], [e.effect_id for e in world.task.effects]) == (["x"], ["e1"])


def test_the_gate_of_a_return_counts_what_is_critical() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    b = world.ack("b")
    b.work("x", CRITICAL)
    b.give_back()
    b.release()
    assert world.ack("a").receipt.blocked_by == ("x",)


# --- each gate, each class, each open state ---------------------------------------------------------------------------

E = EffectState
STOPPING = Policy(name="stopping", grace_ms=1_000, gate=Gate.STOPPED)
CLASSES = [*(each for each in POLICIES.values() if each.booked), STOPPING]
WAYS: dict[EffectState, tuple[EffectState, ...]] = {
    E.INTENDED: (),
    E.ACCEPTED: (E.ACCEPTED,),
    E.IN_DOUBT: (E.IN_DOUBT,),
    E.COMPENSATING: (E.CONFIRMED, E.COMPENSATING),
    E.COMPENSATION_FAILED: (E.CONFIRMED, E.COMPENSATING, E.COMPENSATION_FAILED),
    E.DISPUTED: (E.CONFIRMED, E.REFUSED),
}
"""How an effect gets into each open state. A call without an answer is in doubt once its tenure has ended."""


def test_the_table_has_every_open_state() -> None:
    assert set(WAYS) == {state for state in E if not state.settled}


def leave_effect(a: Owner, state: EffectState, policy: Policy) -> None:
    """An effect in this state, at the end of its owner's tenure."""
    a.intend("e1", policy=policy)
    for step in WAYS[state]:
        if step is E.COMPENSATING:
            a.undo("e1", idempotent_ms=60_000)
        else:
            a.world.outcome("e1", step, EvidenceKind.NONE if step is E.IN_DOUBT else EvidenceKind.RESPONSE)
    assert a.world.effects["e1"].state is state


def judged(world: World, a: Owner, gate: Gate, blocks: tuple[str, ...]) -> None:
    """Hand over behind a gate: what is in the way is named, and a wait that is over leads back, with the reason."""
    a.transfer("b", gate=gate)
    a.release()
    b = world.ack("b")
    assert (b.receipt.status, b.receipt.blocked_by) == ("gate" if blocks else "done", blocks)
    if not blocks:
        assert world.task.owner == "b"
        return
    assert world.due() == world.now + world.settings.gate_ms, "the wait is bounded"
    world.expire()
    assert world.newest(ev.HandoffEnded).reason is Reason.GATE_TIMEOUT
    offer = world.task.offer
    assert offer is not None
    assert (offer.kind, offer.reason, offer.candidates[0].agent) == (OfferKind.RETURN, Reason.GATE_TIMEOUT, "a")


@pytest.mark.parametrize("policy", CLASSES, ids=lambda each: each.name)
@pytest.mark.parametrize("gate", list(Gate))
def test_a_work_is_in_the_way_of_a_gate_that_waits_for_ends(gate: Gate, policy: Policy) -> None:
    world = World(gate_ms=5_000)
    a = world.owned_by("a")
    a.work("x", policy)
    waits = max(gate.rank, policy.gate.rank) >= Gate.STOPPED.rank
    judged(world, a, gate, ("x",) if waits else ())


@pytest.mark.parametrize("state", list(WAYS))
@pytest.mark.parametrize("policy", CLASSES, ids=lambda each: each.name)
@pytest.mark.parametrize("gate", list(Gate))
def test_an_effect_is_in_the_way_of_a_gate_that_waits_for_evidence(
    gate: Gate, policy: Policy, state: EffectState
) -> None:
    world = World(gate_ms=5_000)
    a = world.owned_by("a")
    leave_effect(a, state, policy)
    waits = Gate.SETTLED in (gate, policy.gate)
    judged(world, a, gate, ("e1",) if waits else ())


@pytest.mark.parametrize("state", list(WAYS))
@pytest.mark.parametrize("policy", CLASSES, ids=lambda each: each.name)
def test_a_takeover_waits_for_what_its_own_class_demands(policy: Policy, state: EffectState) -> None:
    world = World(gate_ms=5_000)
    a = world.owned_by("a")
    leave_effect(a, state, policy)
    waits = policy.gate is Gate.SETTLED
    world.expire(after=world.leases["t"])
    again = world.ack("a", "a2")
    assert again.receipt.blocked_by == (("e1",) if waits else ())
    if waits:
        assert world.due() == world.now + 5_000, "the wait is bounded"
        world.expire()
    else:
        assert again.complete().status == "done"
    assert world.phase() is (Phase.ESCALATED if waits else Phase.COMPLETED)
    assert (world.task.question.reason if world.task.question else "") == (Reason.GATE_TIMEOUT if waits else "")


@pytest.mark.parametrize("policy", CLASSES, ids=lambda each: each.name)
def test_a_completion_that_its_own_class_holds_up_names_it_and_asks_a_person_in_time(policy: Policy) -> None:
    world = World(gate_ms=5_000)
    a = world.owned_by("a")
    a.work("x", policy)
    a.intend("e1", policy=policy)
    a.complete()
    blocks = {Gate.ROUTING_RETIRED: (), Gate.STOPPED: ("x",), Gate.SETTLED: ("x", "e1")}[policy.gate]
    receipt = a.release()
    assert (receipt.status, receipt.blocked_by) == ("gate" if blocks else "done", blocks)
    if blocks:
        world.beat(a)
        assert world.due() <= world.now + 5_000, "the wait is bounded"
        world.expire()
    assert world.phase() is (Phase.ESCALATED if blocks else Phase.COMPLETED)
