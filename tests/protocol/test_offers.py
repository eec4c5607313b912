"""Offers: an open invitation to own. Picked up, acknowledged and granted are three facts."""

import pytest

from tenure.protocol.state import Candidate
from tenure.protocol.vocabulary import Gate, HandoffState, OfferKind, OfferState, Phase, Reason
from tests.protocol.world import World, body


def test_a_submitted_task_is_offered_and_owned_by_nobody() -> None:
    task = World().submit("a").task
    assert (task.phase, task.tenure, task.epoch) == (Phase.OFFERED, None, 1)
    assert task.offer is not None
    assert (task.offer.kind, task.offer.state) == (OfferKind.START, OfferState.OPEN)


def test_picked_up_acknowledged_and_owned_are_separate_facts() -> None:
    world = World().submit("a")
    world.claim("a")
    assert world.said() == ("offer.claimed",)
    assert world.task.tenure is None
    world.ack("a")
    assert world.said() == ("offer.acknowledged", "tenure.granted")
    assert world.phase() is Phase.ACTIVE


def test_an_acknowledgement_also_claims_an_open_offer() -> None:
    world = World().submit("a")
    owner = world.ack("a")
    assert world.said() == ("offer.claimed", "offer.acknowledged", "tenure.granted")
    assert (owner.epoch, world.task.owner, world.task.answerable) == (2, "a", "a")


def test_a_claim_moves_no_epoch_a_grant_does() -> None:
    world = World().submit("a")
    assert world.claim("a").epoch == 1
    assert world.ack("a").epoch == 2


def test_the_first_claim_wins() -> None:
    world = World().submit("a", "b", broadcast=True)
    world.claim("b")
    with world.refuses("already_claimed"):
        world.claim("a")
    with world.refuses("already_claimed"):
        world.ack("a")
    with world.refuses("already_claimed"):
        world.decline("a")


def test_claiming_twice_by_the_same_instance_is_one_claim() -> None:
    world = World().submit("a")
    world.claim("a", "a1")
    assert world.claim("a", "a1").status == "done"
    assert world.said() == ()
    with world.refuses("already_claimed"):
        world.claim("a", "a2")


def test_candidates_are_asked_in_turn_and_a_broadcast_asks_all() -> None:
    world = World().submit("a", "b")
    with world.refuses("not_a_candidate"):
        world.ack("b")
    open_to_all = World().submit("a", "b", broadcast=True)
    assert open_to_all.ack("b").agent == "b"
    assert open_to_all.task.owner == "b"


def test_the_digest_acknowledged_is_the_digest_of_the_frozen_part() -> None:
    world = World().submit("a")
    with world.refuses("wrong_digest") as caught:
        world.ack("a", digest="0" * 64)
    assert caught[0].facts["expected"] == world.payload().digest


def test_a_readback_is_kept_with_the_acknowledgement() -> None:
    world = World().submit("a")
    understood = body("refund the order, at most 50 EUR")
    world.ack("a", readback=understood)
    assert '"readback":"' + understood.digest in world.snapshot()[3].decode()


def test_nobody_can_take_an_offer_that_is_not_there() -> None:
    world = World()
    world.owned_by("a")
    with world.refuses("no_offer"):
        world.claim("b")
    with world.refuses("no_offer"):
        world.ack("b")
    with world.refuses("no_offer"):
        world.decline("b")


def test_an_offer_that_was_issued_again_fences_whoever_saw_the_old_one() -> None:
    world = World().submit("a")
    world.expire()
    with world.fences():
        world.ack("a", epoch=1)
    with world.fences():
        world.claim("a", epoch=1)
    with world.fences():
        world.decline("a", epoch=1)


def test_a_deadline_holds_before_any_watchdog_has_acted_on_it() -> None:
    world = World().submit("a")
    world.now = world.due()
    with world.refuses("offer_lapsed"):
        world.claim("a")
    with world.refuses("offer_lapsed"):
        world.ack("a")


def test_who_claimed_must_acknowledge_in_time() -> None:
    world = World(ack_ms=5_000).submit("a")
    world.claim("a")
    world.now += 5_000
    with world.refuses("offer_lapsed"):
        world.ack("a")


def test_an_offer_that_nobody_picks_up_goes_to_the_next_attempt_then_to_a_person() -> None:
    world = World(attempts=2).submit("a")
    world.expire()
    assert world.said() == ("offer.expired", "offer.issued")
    assert world.task.offer is not None
    assert (world.task.offer.attempt, world.task.offer.reason) == (2, Reason.PICKUP_TIMEOUT)
    world.expire()
    assert world.said() == ("offer.expired", "offer.withdrawn", "task.escalated")
    assert world.phase() is Phase.ESCALATED


def test_every_attempt_asks_the_next_candidate() -> None:
    world = World(attempts=4).submit("a", "b")
    turns = []
    for _ in range(4):
        assert world.task.offer is not None
        turns.append(world.task.offer.open_to[0].agent)
        world.expire()
    assert turns == ["a", "b", "a", "b"]


def test_who_declines_is_not_asked_again() -> None:
    world = World().submit("a", "b")
    world.decline("a")
    assert world.task.offer is not None
    assert [entry.agent for entry in world.task.offer.candidates] == ["b"]
    world.decline("b")
    assert world.phase() is Phase.ESCALATED


def test_who_failed_to_start_may_be_asked_again() -> None:
    world = World().submit("a")
    world.claim("a")
    world.decline("a", Reason.START_FAILED, detail=body("no memory"))
    assert world.said() == ("offer.declined", "offer.issued")
    assert world.ack("a").agent == "a"


@pytest.mark.parametrize("reason", [Reason.ACK_TIMEOUT, Reason.LEASE_LOST, Reason.NONE])
def test_a_candidate_declines_for_a_reason_of_its_own(reason: Reason) -> None:
    world = World()
    world.owned_by("a").transfer("b")
    with world.refuses("invalid"):
        world.decline("b", reason)


def test_what_is_acknowledged_cannot_be_declined_or_taken_again() -> None:
    world = World()
    owner = world.owned_by("a")
    owner.work("x")
    owner.transfer("b", gate=Gate.STOPPED, quiet=False)
    owner.release()
    assert world.ack("b").receipt.status == "gate"
    with world.refuses("already_claimed"):
        world.decline("b")
    with world.refuses("already_claimed"):
        world.ack("b")
    with world.refuses("already_claimed"):
        world.claim("b", "b2")


def test_the_authority_granted_is_within_the_edge_and_within_the_task() -> None:
    narrow = Candidate(agent="a", authority=("refund", "ban"))
    world = World().submit(narrow, authority=("refund", "mail"))
    world.ack("a")
    assert world.task.tenure is not None
    assert world.task.tenure.authority == ("refund",)


def test_one_agent_on_two_edges_gets_the_authority_of_the_edge_whose_turn_it_is() -> None:
    world = World().submit(Candidate(agent="a", authority=("mail",)), Candidate(agent="a", authority=("refund",)))
    world.expire()
    world.ack("a")
    assert world.task.tenure is not None
    assert world.task.tenure.authority == ("refund",)


def test_a_task_that_was_never_owned_can_still_be_resumed_with_the_authority_of_its_first_edge() -> None:
    world = World(attempts=1).submit(Candidate(agent="a", authority=("refund",)), authority=("refund", "ban"))
    world.expire()
    assert world.task.question is not None
    world.answer(world.task.question.question_id)
    world.ack("a")
    assert world.task.tenure is not None
    assert world.task.tenure.authority == ("refund",)


def test_a_claim_offer_that_all_decline_ends_with_a_person() -> None:
    world = World().submit("a", "b", broadcast=True)
    world.decline("b")
    world.decline("a")
    assert world.phase() is Phase.ESCALATED


@pytest.mark.parametrize("reason", [Reason.DECLINED, Reason.CAPABILITY, Reason.PERMISSION])
def test_a_transfer_that_its_receiver_declines_goes_back_with_the_reason(reason: Reason) -> None:
    world = World()
    world.owned_by("a").transfer("b")
    world.decline("b", reason)
    assert world.said() == ("offer.declined", "handoff.ended", "offer.issued")
    assert world.task.offer is not None
    assert (world.task.offer.kind, world.task.offer.reason) == (OfferKind.RETURN, reason)
    ended = world.history["t"][-2]
    assert getattr(ended, "state", None) is HandoffState.FAILED_RETURNED


def test_a_broadcast_transfer_is_open_to_every_receiver_at_once() -> None:
    world = World()
    world.owned_by("a").transfer("b", "c", broadcast=True)
    assert world.task.offer is not None
    assert world.task.offer.kind is OfferKind.CLAIM
    world.ack("c")
    assert world.hops() == [("c", "OWNED_BY_RECEIVER")]
