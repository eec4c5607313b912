"""Retiring: what a tenure may still do once its decision is stated, and what its end claims."""

from collections.abc import Callable

import pytest

from tenure.protocol import events as ev
from tenure.protocol.settings import CRITICAL, HELPER
from tenure.protocol.vocabulary import EffectState, Gate, Phase, Reason, WaitOn, WorkEnd, WorkKind, WorkState
from tests.protocol.world import Owner, World, body


def retiring(world: World) -> Owner:
    """An owner with a work, a route and an open effect that has decided to transfer."""
    a = world.owned_by("a")
    a.work("x")
    a.route("r")
    a.intend("e1", in_flight_ms=1_000)
    a.transfer("b", quiet=True)
    return a


def test_a_retiring_tenure_starts_nothing_new() -> None:
    world = World()
    a = retiring(world)
    forbidden: dict[str, Callable[[], object]] = {
        "work": lambda: a.work("y"),
        "route": lambda: a.route("r2"),
        "intent": lambda: a.intend("e2", key="B2"),
        "call": lambda: a.apply("e1"),
        "delegation": lambda: a.delegate("t.k", "c"),
        "turn": lambda: a.advance(document="more"),
        "input": lambda: a.see(0),
        "second decision": a.complete,
    }
    for act in forbidden.values():
        with world.refuses("retiring"):
            act()


def test_a_retiring_tenure_may_finish_what_it_started() -> None:
    world = World()
    a = retiring(world)
    world.outcome("e1", EffectState.CONFIRMED)
    a.close("r")
    world.end_work("x")
    world.beat(a)
    a.release()
    assert world.said() == (
        "routing.retired", "execution.stopped", "effects.settled", "tenure.ended", "offer.issued",
    )  # fmt: skip


def test_an_effect_that_was_intended_before_is_in_doubt_after_the_end_of_its_tenure() -> None:
    world = World()
    retiring(world).release()
    assert world.effects["e1"].state is EffectState.IN_DOUBT
    assert "effects.settled" not in world.said()


def test_stating_the_decision_asks_every_work_of_the_tenure_to_end() -> None:
    world = World()
    retiring(world)
    assert "cancellation.requested" in world.said()
    assert world.task.works[0].state is WorkState.CANCEL_REQUESTED
    assert not world.task.works[0].delivered


def test_the_request_and_its_delivery_and_the_end_are_separate_facts() -> None:
    world = World()
    a = retiring(world)
    a.release(delivered=("x", "unheard-of"))
    work = world.task.works[0]
    assert (work.delivered, work.state) == (True, WorkState.RESIDUAL)


def test_execution_stopped_is_said_only_when_every_work_was_seen_to_end() -> None:
    world = World()
    a = retiring(world)
    a.release("x", "unheard-of")
    assert "execution.stopped" in world.said()
    assert "residual.declared" not in world.said()


def test_work_that_was_not_seen_to_end_is_declared_and_stays_on_the_books() -> None:
    world = World()
    retiring(world).release()
    assert "execution.stopped" not in world.said()
    assert world.newest(ev.ResidualDeclared).works == ("x",)
    world.ack("b")
    assert world.newest(ev.TenureGranted).works == ("x",)
    world.end_work("x", how=WorkEnd.RAISED)
    assert world.task.works == ()


def test_helpers_not_seen_to_end_are_counted_and_make_the_end_residual() -> None:
    world = World()
    a = world.owned_by("a")
    a.transfer("b", quiet=False)
    a.release(unseen=2)
    declared = world.newest(ev.ResidualDeclared)
    assert (declared.unseen, declared.works) == (2, ())
    assert "execution.stopped" not in world.said()


def test_a_result_that_came_after_the_payload_was_frozen_reaches_the_next_owner() -> None:
    world = World()
    retiring(world).release()
    world.ack("b")
    world.end_work("x")
    assert [(ending.work_id, ending.how) for ending in world.task.endings] == [("x", WorkEnd.RETURNED)]


def test_news_of_late_endings_is_bounded() -> None:
    world = World(open_items=1)
    a = world.owned_by("a")
    a.work("x")
    a.transfer("b", quiet=False)
    a.release()
    b = world.ack("b")
    world.end_work("x")
    b.work("y")
    b.wait(WaitOn.INPUT)
    b.release("y")
    assert [ending.work_id for ending in world.task.endings] == ["y"]


def test_a_tenure_is_not_released_before_its_routes_are_retired() -> None:
    world = World()
    a = retiring(world)
    with world.refuses("wrong_phase"):
        a.release(routes_retired=False)


@pytest.mark.parametrize("left", ["route", "work", "helper"])
def test_as_long_as_anything_is_left_the_switch_waits_for_the_release(left: str) -> None:
    world = World()
    a = world.owned_by("a")
    if left == "route":
        a.route("r")
    elif left == "work":
        a.work("x")
    a.transfer("b", quiet=left != "helper")
    assert world.task.tenure is not None
    assert "tenure.ended" not in world.said()


def test_only_a_retiring_tenure_is_released_and_only_once() -> None:
    world = World()
    a = world.owned_by("a")
    with world.refuses("not_retiring"):
        a.release()
    a.work("x", CRITICAL)
    a.complete()
    assert a.release().status == "gate"
    with world.refuses("not_retiring"):
        a.release()


def test_when_the_instance_dies_while_retiring_the_ledger_finishes_the_switch() -> None:
    world = World()
    retiring(world)
    world.dies("a1")
    assert world.task.offer is not None
    assert world.hops() == [("b", "TRANSFERRED")]
    assert world.task.works == ()
    assert world.newest(ev.RoutingFenced).routes == ("r",)


def test_a_lost_lease_while_retiring_finishes_the_switch_and_claims_nothing() -> None:
    world = World()
    retiring(world)
    world.expire()
    assert world.newest(ev.TenureEnded).reason is Reason.LEASE_LOST
    assert sorted(work.work_id for work in world.task.works) == ["handler:2", "x"]
    assert {work.state for work in world.task.works} == {WorkState.RESIDUAL}
    assert world.hops() == [("b", "TRANSFERRED")]


def test_retiring_has_a_deadline_even_with_a_living_heartbeat() -> None:
    world = World(retire_ms=2_000, lease_ms=60_000)
    a = world.owned_by("a")
    a.transfer("b", quiet=False)
    world.expire()
    assert world.newest(ev.TenureEnded).reason is Reason.RETIRE_TIMEOUT
    assert world.phase() is Phase.OFFERED


def test_a_forced_end_claims_nothing_about_what_runs() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x")
    a.route("r")
    world.expire()
    assert world.said() == (
        "routing.fenced", "residual.declared", "effects.settled", "tenure.ended", "offer.issued",
    )  # fmt: skip
    assert world.newest(ev.ResidualDeclared).handler


def test_the_last_turn_is_committed_with_the_decision() -> None:
    world = World()
    a = world.owned_by("a")
    world.send()
    a.see(1)
    a.transfer("b", consumed=1, document=body({"step": 1}))
    assert (world.task.consumed, world.task.document_version) == (1, 1)


def test_helpers_have_no_rows() -> None:
    world = World()
    a = world.owned_by("a")
    with world.refuses("invalid"):
        a.work("x", HELPER)


def test_retiring_applies_at_every_end_also_when_the_agent_only_waits() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x", kind=WorkKind.PROCESS)
    a.wait(WaitOn.INPUT)
    a.release()
    assert (world.phase(), world.task.works[0].state) == (Phase.WAITING, WorkState.RESIDUAL)


def test_the_gate_of_an_edge_can_raise_what_a_policy_asks_never_lower_it() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x", CRITICAL)
    a.transfer("b", gate=Gate.ROUTING_RETIRED)
    a.release()
    assert world.ack("b").receipt.blocked_by == ("x",)
