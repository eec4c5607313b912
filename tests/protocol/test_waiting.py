"""Waiting: the agent keeps the task without lease or instance, and every wait has an end."""

import pytest

from tenure.protocol import decisions as dec
from tenure.protocol import events as ev
from tenure.protocol.settings import CRITICAL
from tenure.protocol.state import Candidate
from tenure.protocol.vocabulary import OfferKind, Phase, Reason, WaitOn
from tests.protocol.world import World, body


def test_a_waiting_task_has_no_tenure_but_an_agent_and_a_time_to_wake() -> None:
    world = World()
    a = world.owned_by("a")
    a.wait(WaitOn.TIME, within_ms=5_000)
    assert (world.phase(), world.task.tenure, world.task.owner) == (Phase.WAITING, None, "a")
    assert world.due() == world.now + 5_000
    with world.fences():
        a.advance(document="mine")


@pytest.mark.parametrize("on", [WaitOn.TIME, WaitOn.INPUT, WaitOn.CHILD])
def test_every_wait_ends_at_its_time(on: WaitOn) -> None:
    world = World()
    a = world.owned_by("a")
    a.delegate("t.k", "c")
    a.wait(on)
    world.expire()
    assert world.task.offer is not None
    assert (world.task.offer.kind, world.task.offer.reason) == (OfferKind.RESUME, Reason.WAKE_TIME)


def test_waking_is_an_offer_to_the_same_agent_with_the_same_authority_and_a_new_epoch() -> None:
    world = World()
    a = world.submit(Candidate(agent="a", authority=("mail",)), authority=("mail", "refund")).ack("a")
    a.wait(WaitOn.INPUT)
    world.send()
    with world.refuses("not_a_candidate"):
        world.ack("b")
    again = world.ack("a", "a2")
    assert again.epoch > a.epoch
    assert world.task.held_authority == ("mail",)


def test_input_that_is_unread_already_wakes_at_once() -> None:
    world = World()
    a = world.owned_by("a")
    world.send()
    a.wait(WaitOn.INPUT)
    assert world.said()[-2:] == ("task.waiting", "offer.issued")


def test_a_wait_for_an_answer_asks_a_question_and_wakes_with_the_answer_as_input() -> None:
    world = World()
    world.owned_by("a").wait(WaitOn.ANSWER, question_id="q1")
    assert world.task.question is not None
    assert world.task.question.due == world.due()
    world.answer("q1", body=body("yes"))
    assert world.said() == ("question.answered", "input.received", "offer.issued")
    received = world.newest(ev.InputReceived)
    assert (received.question_id, received.body) == ("q1", body("yes").digest)
    world.ack("a", "a2")


def test_a_question_that_nobody_answers_in_time_is_expired_which_is_not_rejected() -> None:
    world = World()
    world.owned_by("a").wait(WaitOn.ANSWER, question_id="q1")
    world.expire()
    assert world.said() == ("question.expired", "offer.issued")
    with world.refuses("already_answered"):
        world.answer("q1")


def test_a_wait_has_a_deadline_and_only_one_for_an_answer_has_a_question() -> None:
    world = World()
    a = world.owned_by("a")
    with world.refuses("invalid"):
        a.wait(WaitOn.TIME, within_ms=0)
    with world.refuses("invalid"):
        a.wait(WaitOn.ANSWER)
    with world.refuses("invalid"):
        a.wait(WaitOn.INPUT, question_id="q1")


def test_a_resume_that_nobody_takes_is_offered_again_and_then_goes_to_a_person() -> None:
    world = World(attempts=2)
    world.owned_by("a").wait(WaitOn.TIME)
    world.expire()
    world.expire()
    assert world.task.offer is not None
    assert (world.task.offer.kind, world.task.offer.attempt) == (OfferKind.RESUME, 2)
    world.expire()
    assert world.phase() is Phase.ESCALATED


def test_the_hops_stay_open_while_a_receiver_waits() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    world.ack("b").wait(WaitOn.INPUT)
    assert world.hops() == [("b", "OWNED_BY_RECEIVER")]
    world.send()
    world.ack("b", "b2").give_back()
    world.ack("a")


def test_a_waiting_hop_can_be_reversed() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    world.ack("b").wait(WaitOn.INPUT)
    world.reverse("h1")
    assert world.ack("a").agent == "a"


def test_a_waiting_task_is_cancelled_at_once() -> None:
    world = World()
    world.owned_by("a").wait(WaitOn.INPUT)
    world.cancel()
    assert world.phase() is Phase.CANCELLED


def test_unless_critical_items_are_open_then_a_person_is_asked() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1", policy=CRITICAL)
    a.wait(WaitOn.INPUT)
    world.cancel()
    assert (world.phase(), world.task.wait) == (Phase.ESCALATED, None)


def test_the_question_of_a_wait_names_who_may_answer_and_what() -> None:
    world = World()
    question = dec.EscalateTo(question_id="q1", body=body("?"), who=("person:lead",), allowed=("yes", "no"))
    world.owned_by("a").decide(dec.WaitFor(on=WaitOn.ANSWER, within_ms=60_000, question=question))
    with world.refuses("not_allowed"):
        world.answer("q1", choice="yes")
    with world.refuses("not_allowed"):
        world.answer("q1", "person:lead", choice="perhaps")
    world.answer("q1", "person:lead", choice="no")


def test_who_waits_for_an_answer_can_be_given_up_on() -> None:
    world = World()
    world.owned_by("a").wait(WaitOn.ANSWER, question_id="q1")
    world.answer("q1", action="abort")
    assert (world.phase(), world.task.reason) == (Phase.FAILED, Reason.ABORTED)
