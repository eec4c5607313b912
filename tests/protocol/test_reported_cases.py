"""Reported failures of other systems, as far as the core alone decides them. Each test bears the id of its report."""

import pytest

from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.payload import Fact, read_payload
from tenure.protocol.vocabulary import HandoffState, OfferKind, OfferState, Phase, Reason, WaitOn, WorkEnd
from tests.protocol.world import Owner, World, body


def beside_a_transfer(world: World) -> Owner:
    """An owner that has started a search and states a transfer at once."""
    a = world.owned_by("a")
    a.work("search")
    told = Fact(id="search", what="search(x)", outcome="running", by="a")
    a.transfer("b", payload=world.payload("h1", 1, done=(told,)))
    return a


def test_rt_03_the_switch_waits_for_a_call_beside_the_transfer_and_its_result_goes_on() -> None:
    world = World()
    a = beside_a_transfer(world)
    assert world.task.owner == "a"
    a.say(
        cmd.Release,
        routes_retired=True,
        ended=(cmd.Ended(work_id="search", how=WorkEnd.RETURNED, result=body("found")),),
    )
    world.ack("b")
    assert world.newest(ev.TenureGranted).works == ()
    ending = world.task.endings[0]
    assert (ending.work_id, ending.how, ending.result) == ("search", WorkEnd.RETURNED, body("found").digest)


@pytest.mark.parametrize("how", [WorkEnd.RETURNED, WorkEnd.RAISED])
def test_rt_03_a_call_that_outlasts_its_grace_is_in_flight_for_the_receiver_then_done_or_failed(how: WorkEnd) -> None:
    world = World()
    beside_a_transfer(world).release()
    b = world.ack("b")
    assert world.newest(ev.TenureGranted).works == ("search",)
    with world.refuses("work_exists"):
        b.work("search")
    world.end_work("search", how=how)
    assert [(ending.work_id, ending.how) for ending in world.task.endings] == [("search", how)]
    assert not world.task.works


def test_rt_03_the_news_is_passed_on_once() -> None:
    world = World()
    beside_a_transfer(world).release()
    b = world.ack("b")
    world.end_work("search")
    done = Fact(id="search", what="search(x)", outcome="done", by="a")
    b.transfer("c", h="h2", payload=world.payload("h2", 2, done=(done,)))
    assert not world.task.endings


def test_ow_05_ownership_stays_until_the_senders_work_is_seen_to_end_and_the_transfer_is_pending() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("ask_human")
    a.route("chat")
    a.transfer("b")
    assert world.task.tenure is not None
    assert (world.task.owner, world.task.tenure.epoch, world.task.tenure.routes) == ("a", a.epoch, ("chat",))
    assert world.hops() == [("b", "INITIATED")]
    with world.refuses("no_offer"):
        world.ack("b")


def test_ow_05_an_interrupt_beside_a_transfer_is_no_second_decision() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("ask_human")
    a.transfer("b")
    with world.refuses("retiring"):
        a.wait(WaitOn.ANSWER, question_id="q1")
    a.release("ask_human")
    b = world.ack("b")
    started = world.newest(ev.WorkStarted)
    ended = world.newest(ev.WorkStopped)
    assert (started.work_id, ended.work_id, ended.late) == ("ask_human", "ask_human", False)
    assert b.epoch > a.epoch


def test_ow_05_an_answer_reaches_whoever_asked_as_numbered_input_bound_to_its_question() -> None:
    world = World()
    a = world.owned_by("a")
    a.wait(WaitOn.ANSWER, question_id="q1")
    world.answer("q1", body=body("yes"))
    again = world.ack("a", "a2")
    received = world.newest(ev.InputReceived)
    assert (received.n, received.question_id, again.agent) == (1, "q1", "a")


def pending(world: World) -> tuple[str, OfferState | None, int]:
    """What is durable about a hop under way: its target, its offer, its payload's version (by digest) is fixed."""
    hop = world.task.hops[-1]
    assert hop.payload == world.task.payload
    return hop.receiver, world.task.offer.state if world.task.offer else None, world.task.epoch


def test_dr_01_crash_1_after_the_decision_before_the_switch_completes_the_switch_once() -> None:
    world = World()
    a = world.owned_by("a")
    a.transfer("b", quiet=False)
    assert pending(world) == ("b", None, a.epoch)
    world.dies("a1")
    assert pending(world)[:2] == ("b", OfferState.OPEN)
    world.send()
    b = world.ack("b")
    b.see(1)
    b.advance(1)
    assert (world.count("handoff.initiated"), world.count("offer.issued")) == (1, 2)


def test_dr_01_crash_2_after_the_switch_before_the_start_the_target_is_asked_again() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    assert pending(world)[:2] == ("b", OfferState.OPEN)
    world.send()
    world.ack("b", "b2")
    assert world.hops() == [("b", "OWNED_BY_RECEIVER")]
    assert list(world.task.unread) == [1]


def test_dr_01_crash_3_a_target_that_fails_to_start_returns_the_task_with_the_reason() -> None:
    world = World(attempts=1)
    world.owned_by("a").transfer("b")
    world.claim("b")
    world.decline("b", Reason.START_FAILED, detail=body("no memory"))
    ended = world.newest(ev.HandoffEnded)
    assert (ended.state, ended.reason) == (HandoffState.FAILED_RETURNED, Reason.START_FAILED)
    assert world.task.offer is not None
    assert world.task.offer.kind is OfferKind.RETURN
    world.send()
    world.ack("a", "a2")
    assert (world.task.owner, list(world.task.unread)) == ("a", [1])


def test_dr_01_crash_4_after_the_start_before_the_ack_the_target_is_waited_for_and_not_started_twice() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    world.claim("b", "b1")
    with world.refuses("already_claimed"):
        world.claim("b", "b2")
    with world.refuses("not_due"):
        world.dies("b1")
    world.expire()
    assert world.newest(ev.OfferExpired).reason is Reason.ACK_TIMEOUT
    world.ack("b", "b2")
    assert [agent for agent, _ in world.grants] == ["a", "b"]


def test_dr_01_the_records_of_a_handoff_are_there_from_its_first_trace_until_it_is_acknowledged() -> None:
    world = World()
    a = world.owned_by("a")
    a.transfer("b", quiet=False)
    frozen = world.payload("h1", 1)
    assert read_payload(frozen.content, 10_000).handoff_id == world.task.hops[0].handoff_id
    digests = {world.task.payload}
    a.release()
    world.claim("b")
    world.expire()
    digests.add(world.task.payload)
    world.ack("b")
    assert digests == {frozen.digest}
    assert world.phase() is Phase.ACTIVE
