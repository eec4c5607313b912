"""Cancellation: asked, delivered, stopped are separate facts; what is asked proves nothing about what runs."""

import pytest

from tenure.protocol import decisions as dec
from tenure.protocol import events as ev
from tenure.protocol.settings import CRITICAL, LOCAL
from tenure.protocol.vocabulary import EffectState, Gate, Phase, Reason, WaitOn, WorkEnd, WorkState
from tests.protocol.world import Owner, World, body


def cancelled(world: World) -> Owner:
    """An owner of a work that was asked to stop."""
    a = world.owned_by("a")
    a.work("x")
    world.cancel()
    return a


def test_an_owner_is_asked_and_keeps_the_task_until_it_has_stopped() -> None:
    world = World()
    a = cancelled(world)
    assert world.said() == ("task.cancel_requested", "cancellation.requested")
    assert (world.phase(), world.task.owner) == (Phase.CANCEL_REQUESTED, "a")
    a.advance(document="tidying up")


def test_a_request_with_nothing_running_asks_no_work() -> None:
    world = World()
    world.owned_by("a")
    world.cancel()
    assert world.said() == ("task.cancel_requested",)


def test_asking_twice_is_asking_once() -> None:
    world = World()
    cancelled(world)
    assert world.cancel().status == "already"
    assert world.said() == ()


def test_ca_01_requested_delivered_and_stopped_are_three_facts() -> None:
    world = World()
    a = cancelled(world)
    work = world.task.works[0]
    assert (work.state, work.delivered) == (WorkState.CANCEL_REQUESTED, False)
    world.cancel_work("x", delivered=True)
    assert world.task.works[0].delivered
    a.stop()
    a.release()
    assert world.phase() is Phase.CANCELLED
    assert "execution.stopped" not in world.said()
    assert [work.work_id for work in world.task.works] == ["x"]
    world.end_work("x", how=WorkEnd.CANCELLED)
    assert world.task.works == ()


def test_ca_01_the_next_owner_is_told_what_may_still_run_and_nobody_repeats_it() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x")
    a.transfer("b")
    world.cancel_work("x", delivered=True)
    a.release()
    b = world.ack("b")
    assert world.newest(ev.TenureGranted).works == ("x",)
    assert world.newest(ev.ResidualDeclared).works == ("x",)
    assert "execution.stopped" not in world.said()
    with world.refuses("work_exists"):
        b.work("x")


def test_an_owner_that_stops_as_asked_ends_the_task() -> None:
    world = World()
    a = cancelled(world)
    a.stop()
    a.release("x")
    assert world.said()[-1] == "task.cancelled"
    assert "execution.stopped" in world.said()
    assert world.task.reason is Reason.CANCELLED


def test_nobody_stops_as_asked_who_was_not_asked() -> None:
    world = World()
    a = world.owned_by("a")
    with world.refuses("wrong_phase"):
        a.stop()


@pytest.mark.parametrize("how", ["transfer", "return", "wait", "escalate"])
def test_a_requested_cancellation_stops_every_further_grant(how: str) -> None:
    world = World()
    world.owned_by("a").transfer("b")
    b = world.ack("b")
    world.cancel()
    if how == "transfer":
        b.transfer("c", h="h2")
    elif how == "return":
        b.give_back()
    elif how == "wait":
        b.wait(WaitOn.INPUT)
    else:
        b.escalate()
    assert (world.phase(), world.hops()) == (Phase.CANCELLED, [])


def test_an_owner_that_has_finished_anyway_completes() -> None:
    world = World()
    a = cancelled(world)
    a.complete()
    a.release("x")
    assert world.phase() is Phase.COMPLETED


def test_an_owner_that_fails_instead_fails() -> None:
    world = World()
    a = cancelled(world)
    a.fail()
    a.release("x")
    assert world.phase() is Phase.FAILED


def test_critical_items_keep_a_cancelled_task_from_being_called_cancelled() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1", policy=CRITICAL)
    world.cancel()
    assert a.stop().status == "gate"
    world.expire()
    assert world.phase() is Phase.ESCALATED
    moving = World()
    a = moving.owned_by("a")
    a.intend("e1", policy=CRITICAL)
    moving.cancel()
    a.transfer("b")
    assert moving.phase() is Phase.ESCALATED


def test_a_gate_that_is_met_lets_the_cancellation_finish() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1", policy=CRITICAL)
    world.cancel()
    a.stop()
    world.outcome("e1", EffectState.REFUSED)
    assert world.phase() is Phase.CANCELLED


def test_an_owner_that_does_not_stop_in_time_is_fenced_and_a_person_is_asked() -> None:
    world = World(cancel_ms=1_000)
    a = cancelled(world)
    world.expire()
    assert world.said()[-2:] == ("tenure.ended", "task.escalated")
    assert world.newest(ev.TenureEnded).forced
    assert {work.state for work in world.task.works} == {WorkState.RESIDUAL}
    with world.fences():
        a.advance(document="still here")


def test_an_owner_that_is_lost_after_the_request_ends_the_task_without_a_takeover() -> None:
    world = World()
    cancelled(world)
    world.dies("a1")
    assert world.phase() is Phase.CANCELLED
    critical = World()
    a = critical.owned_by("a")
    a.intend("e1", policy=CRITICAL)
    critical.cancel()
    critical.dies("a1")
    assert critical.phase() is Phase.ESCALATED


def test_a_task_that_nobody_owns_is_cancelled_at_once_and_its_offer_is_gone() -> None:
    world = World().submit("a")
    world.cancel()
    assert world.said() == ("offer.withdrawn", "task.cancelled")
    with world.refuses("task_ended"):
        world.ack("a", epoch=1)
    with world.refuses("task_ended"):
        world.cancel()


def test_a_hop_in_transit_fails_with_its_task() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    world.cancel()
    assert (world.phase(), world.hops()) == (Phase.CANCELLED, [])


def test_an_escalated_task_is_cancelled_unless_critical_items_are_open() -> None:
    world = World()
    world.owned_by("a").escalate()
    world.cancel()
    assert world.phase() is Phase.CANCELLED
    critical = World()
    a = critical.owned_by("a")
    a.intend("e1", policy=CRITICAL)
    a.escalate()
    with critical.refuses("wrong_phase"):
        critical.cancel()


@pytest.mark.parametrize("gate", [Gate.ROUTING_RETIRED, Gate.STOPPED])
def test_cancelling_behind_a_gate_asks_a_person_when_critical_items_are_open(gate: Gate) -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x", CRITICAL if gate is Gate.ROUTING_RETIRED else LOCAL)
    a.transfer("b", gate=gate)
    a.release()
    assert world.ack("b").receipt.status == "gate"
    world.cancel()
    assert world.phase() is (Phase.ESCALATED if gate is Gate.ROUTING_RETIRED else Phase.CANCELLED)
    assert world.hops() == []


def test_a_decision_that_was_stated_before_the_request_still_obeys_it() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x")
    a.transfer("b")
    world.cancel()
    a.release("x")
    assert (world.phase(), world.hops()) == (Phase.CANCELLED, [])


def test_a_stated_escalation_with_critical_items_still_reaches_a_person() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x", CRITICAL)
    a.decide(dec.EscalateTo(question_id="q1", body=body("?")))
    world.cancel()
    a.release()
    assert world.phase() is Phase.ESCALATED
