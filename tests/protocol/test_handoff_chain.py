"""Handoffs: INITIATED, TRANSFERRED, ACKNOWLEDGED, OWNED_BY_RECEIVER; open hops are a stack."""

import pytest

from tenure.protocol import events as ev
from tenure.protocol.payload import Fact
from tenure.protocol.state import Candidate
from tenure.protocol.vocabulary import Gate, HandoffState, OfferKind, Phase, Reason
from tests.protocol.world import CONSTRAINTS, World


def test_a_hop_passes_each_of_its_states_in_turn() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x")
    a.transfer("b", gate=Gate.STOPPED)
    assert world.hops() == [("b", "INITIATED")]
    a.release()
    assert world.hops() == [("b", "TRANSFERRED")]
    world.ack("b")
    assert world.hops() == [("b", "ACKNOWLEDGED")]
    world.end_work("x")
    assert world.hops() == [("b", "OWNED_BY_RECEIVER")]
    assert world.task.owner == "b"


def test_with_nothing_left_to_retire_the_switch_is_one_commit() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    assert world.said() == (
        "tenure.retiring",
        "handoff.initiated",
        "routing.retired",
        "execution.stopped",
        "effects.settled",
        "tenure.ended",
        "offer.issued",
    )
    world.ack("b")
    assert world.said() == ("offer.claimed", "offer.acknowledged", "tenure.granted")


def test_between_two_tenures_nobody_may_write_and_the_window_is_measured() -> None:
    world = World()
    a = world.owned_by("a")
    a.transfer("b")
    assert world.task.tenure is None
    with world.fences():
        a.advance(document="mine")
    world.now += 499
    world.ack("b")
    granted = world.newest(ev.TenureGranted)
    assert granted.window_ms == 501, "ms from the end of one tenure to the beginning of the next"


def test_completing_the_task_completes_every_open_hop() -> None:
    world = World()
    world.owned_by("a").transfer("b", h="h1")
    world.ack("b").transfer("c", h="h2")
    c = world.ack("c")
    assert [state for _, state in world.hops()] == ["OWNED_BY_RECEIVER"] * 2
    c.complete()
    assert (world.phase(), world.hops()) == (Phase.COMPLETED, [])


def test_a_return_pops_the_newest_hop_when_it_is_issued() -> None:
    world = World()
    world.owned_by("a").transfer("b", h="h1")
    world.ack("b").transfer("c", h="h2")
    world.ack("c").give_back(Reason.CAPABILITY)
    assert world.hops() == [("b", "OWNED_BY_RECEIVER")]
    assert world.task.offer is not None
    assert (world.task.offer.kind, world.task.offer.reason) == (OfferKind.RETURN, Reason.CAPABILITY)
    world.ack("b")
    assert world.task.owner == "b"


def test_a_return_gives_the_earlier_authority_back_and_never_more() -> None:
    world = World()
    world.submit(Candidate(agent="a", authority=("mail",)), authority=("mail", "refund"))
    world.ack("a").transfer(Candidate(agent="b", authority=("refund",)))
    b = world.ack("b")
    assert world.task.held_authority == ("refund",)
    b.give_back()
    world.ack("a")
    assert world.task.held_authority == ("mail",)


def test_a_return_gives_the_sender_its_own_input_back() -> None:
    world = World()
    world.owned_by("a").transfer("b", h="h1")
    own_input = world.task.given
    world.ack("b").transfer("c", h="h2")
    assert world.task.given == world.payload("h2", 2).digest
    world.ack("c").give_back()
    assert (world.task.owner, world.task.given) == ("c", own_input)


def test_a_return_without_a_sender_goes_to_a_person_or_ends_the_task_by_policy() -> None:
    asking = World()
    asking.owned_by("a").give_back(Reason.CAPABILITY)
    assert asking.phase() is Phase.ESCALATED
    ending = World(on_failure="fail")
    ending.owned_by("a").give_back(Reason.CAPABILITY)
    assert (ending.phase(), ending.task.reason) == (Phase.FAILED, Reason.CAPABILITY)


def test_a_return_may_bring_a_payload_of_its_own() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    report = world.payload("h1", 1, summary="not ours")
    world.ack("b").give_back(payload=report)
    assert world.task.offer is not None
    assert world.task.offer.payload == report.digest
    world.ack("a", digest=report.digest)


def test_what_a_receiver_learned_to_forbid_binds_the_sender_after_a_return() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    grown = (*CONSTRAINTS, "no refund on weekends")
    world.ack("b").give_back(payload=world.payload("h1", 1, constraints=grown))
    a = world.ack("a")
    with world.refuses("constraints_dropped"):
        a.transfer("c", h="h2")
    a.transfer("c", payload=world.payload("h2", 2, constraints=grown), h="h2")


def test_a_returned_payload_must_carry_goal_and_constraints_too() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    b = world.ack("b")
    with world.refuses("constraints_dropped"):
        b.give_back(payload=world.payload("h1", 1, constraints=()))


def test_an_ack_time_out_resends_the_same_part_and_counts_as_an_attempt_not_as_a_transfer() -> None:
    world = World()
    world.owned_by("a").transfer("b", "c")
    sent = world.task.payload
    world.claim("b")
    world.expire()
    assert world.task.offer is not None
    assert (world.task.offer.payload, world.task.offer.attempt, world.task.transfers) == (sent, 2, 1)
    assert world.task.offer.reason is Reason.ACK_TIMEOUT
    assert world.hops() == [("c", "TRANSFERRED")]
    world.ack("c")
    assert world.hops() == [("c", "OWNED_BY_RECEIVER")]


@pytest.mark.parametrize(("policy", "phase"), [("return", Phase.OFFERED), ("escalate", Phase.ESCALATED)])
def test_attempts_used_up_end_the_hop_as_timed_out_then_return_or_escalate(policy: str, phase: Phase) -> None:
    world = World(attempts=1, on_ack_timeout=policy)
    world.owned_by("a").transfer("b")
    world.expire()
    ended = world.newest(ev.HandoffEnded)
    assert (ended.state, ended.reason) == (HandoffState.TIMED_OUT, Reason.PICKUP_TIMEOUT)
    assert (world.phase(), world.hops()) == (phase, [])


def test_a_declined_transfer_whose_policy_is_to_escalate_fails_the_hop_with_the_escalation() -> None:
    world = World(on_ack_timeout="escalate")
    world.owned_by("a").transfer("b")
    world.decline("b")
    assert world.said() == ("offer.declined", "offer.withdrawn", "task.escalated")
    assert (world.phase(), world.hops()) == (Phase.ESCALATED, [])


def test_the_window_in_which_nobody_may_write_has_an_upper_bound() -> None:
    world = World(transition_ms=60_000, attempts=99)
    world.owned_by("a").transfer("b", "c")
    while world.task.offer is not None and world.task.offer.kind is OfferKind.TRANSFER:
        world.claim(world.task.offer.open_to[0].agent)
        world.expire()
    ended = world.newest(ev.HandoffEnded)
    assert (ended.state, ended.reason) == (HandoffState.TIMED_OUT, Reason.TRANSITION_LIMIT)
    assert ended.at - world.newest(ev.HandoffInitiated).at == 60_000


def test_a_claim_near_the_end_of_the_window_does_not_outlast_it() -> None:
    world = World(transition_ms=60_000, ack_ms=30_000)
    world.owned_by("a").transfer("b")
    end = world.newest(ev.HandoffInitiated).at + 60_000
    world.now = end - 10_000
    world.claim("b")
    world.now = end
    with world.refuses("offer_lapsed"):
        world.ack("b")


def test_a_reversal_ends_its_hop_and_all_above_and_offers_the_task_to_that_sender() -> None:
    world = World()
    world.owned_by("a").transfer("b", h="h1")
    world.ack("b").transfer("c", h="h2")
    c = world.ack("c")
    world.reverse("h1")
    ended = [event for event in world.history["t"] if isinstance(event, ev.HandoffEnded)]
    assert [(event.handoff_id, event.state) for event in ended] == [("h2", "REVERSED"), ("h1", "REVERSED")]
    with world.fences():
        c.advance(document="late")
    world.ack("a")
    assert (world.task.owner, world.hops()) == ("a", [])


def test_a_hop_in_transit_can_be_reversed_and_its_offer_is_gone() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    seen = world.task.epoch
    world.reverse("h1")
    assert world.said() == ("offer.withdrawn", "handoff.ended", "offer.issued")
    with world.fences():
        world.ack("b", epoch=seen)


@pytest.mark.parametrize("moment", ["INITIATED", "ACKNOWLEDGED"])
def test_a_hop_can_be_reversed_before_it_is_owned(moment: str) -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x")
    a.transfer("b", gate=Gate.STOPPED)
    if moment == "ACKNOWLEDGED":
        a.release()
        world.ack("b")
    assert world.hops() == [("b", moment)]
    world.reverse("h1")
    assert world.ack("a", "a2").agent == "a"


def test_a_handoff_that_is_not_open_cannot_be_reversed() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    with world.refuses("unknown_handoff"):
        world.reverse("h9")
    world.ack("b")
    world.cancel()
    with world.refuses("wrong_phase"):
        world.reverse("h1")


def test_the_transfer_budget_is_counted_in_the_commit_that_spends_it() -> None:
    world = World(transfers=1)
    world.owned_by("a").transfer("b", h="h1")
    b = world.ack("b")
    with world.refuses("transfer_limit_exceeded") as caught:
        b.transfer("c", h="h2")
    assert caught[0].facts["limit"] == 1


def test_a_transfer_names_a_receiver_other_than_its_sender_and_an_id_of_its_own() -> None:
    world = World()
    a = world.owned_by("a")
    with world.refuses("self_transfer"):
        a.transfer("b", "a")
    with world.refuses("invalid"):
        a.transfer()
    with world.refuses("invalid"):
        a.transfer("b", h="")
    a.transfer("b", h="h1")
    b = world.ack("b")
    with world.refuses("invalid"):
        b.transfer("c", h="h1", payload=world.payload("h1", 2))


def test_at_most_one_transfer_wins_a_turn() -> None:
    world = World()
    a = world.owned_by("a")
    a.transfer("b", h="h1", quiet=False)
    with world.refuses("retiring"):
        a.transfer("c", h="h2", payload=world.payload("h2", 1))
    assert world.hops() == [("b", "INITIATED")]


def test_failure_without_return_goes_to_a_person_or_ends_the_task_by_policy() -> None:
    asking = World()
    asking.owned_by("a").transfer("b")
    asking.ack("b").fail(Reason.RETRIES_EXHAUSTED)
    assert (asking.phase(), asking.hops()) == (Phase.ESCALATED, [])
    ending = World(on_failure="fail")
    ending.owned_by("a").transfer("b")
    ending.ack("b").fail(Reason.RETRIES_EXHAUSTED)
    assert (ending.phase(), ending.task.reason) == (Phase.FAILED, Reason.RETRIES_EXHAUSTED)


def test_task_id_goal_and_constraints_go_with_every_hop() -> None:
    world = World()
    a = world.owned_by("a")
    with world.refuses("payload_invalid"):
        a.transfer("b", payload=world.payload("h1", 1, task_id="other"))
    with world.refuses("payload_invalid"):
        a.transfer("b", payload=world.payload("h1", 1, goal="another goal"))
    with world.refuses("constraints_dropped"):
        a.transfer("b", payload=world.payload("h1", 1, constraints=()))
    with world.refuses("payload_invalid"):
        a.transfer("b", payload=world.payload("h1", 2))
    with world.refuses("payload_invalid"):
        a.transfer("b", payload=world.payload("h2", 1))


def test_a_work_that_ended_while_the_payload_was_built_stays_news_for_the_receiver() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("early")
    a.transfer("b", quiet=False)
    a.release()
    b = world.ack("b")
    world.end_work("early")
    b.transfer("c", h="h2")
    assert [(ending.work_id, ending.agent) for ending in world.task.endings] == [("early", "a")]
    c = world.ack("c")
    told = world.payload("h3", 3, done=(Fact(id="early", what="early", outcome="done"),))
    c.transfer("d", h="h3", payload=told)
    assert world.task.endings == ()
