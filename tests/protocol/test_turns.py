"""Turns: one decision on all that an agent asks for, before anything starts (RT-01, RT-03, DR-01)."""

import pytest

from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol import events as ev
from tenure.protocol.settings import Limits
from tenure.protocol.turns import Ruling
from tenure.protocol.vocabulary import OfferKind, Phase, Reason, TurnOutcome, WaitOn
from tests.protocol.graphs import THREE
from tests.protocol.world import Owner, World, body


def owner(**settings: object) -> Owner:
    world = World(**settings)
    return world.owned_by("a", graph=world.save(THREE))


def codes(ruling: Ruling) -> dict[str, str]:
    return {one.call_id: one.code for one in ruling.rejected}


def test_calls_and_delegations_go_on_and_nothing_is_rejected() -> None:
    a = owner()
    ruling = a.turn("search", "d:b", "d:c")
    assert (ruling.outcome, ruling.rejected, ruling.transfer) == (TurnOutcome.GO, (), "")
    decided = a.world.newest(ev.TurnDecided)
    assert (decided.n, decided.asked, decided.graph) == (1, ("1", "2", "3"), THREE.digest)
    assert a.world.task.tenure is not None
    assert a.world.task.tenure.turn == 1


def test_one_transfer_is_pending_and_is_then_carried_out() -> None:
    a = owner()
    ruling = a.turn("note", "t:b")
    assert (ruling.outcome, ruling.transfer) == (TurnOutcome.TRANSFER, "2")
    assert ruling.calls_by == a.world.now + a.world.settings.calls_ms
    a.work("note")
    a.intend("e1")
    a.world.end_work("note")
    assert a.world.phase() is Phase.ACTIVE
    a.decide(a.to("b", h="h2"))
    assert a.world.hops() == [("b", "TRANSFERRED")]
    assert a.world.count("handoff.initiated") == 1


def test_identical_transfers_are_one() -> None:
    a = owner()
    ruling = a.turn("t:b", "t:b")
    assert (ruling.outcome, ruling.transfer, ruling.merged, ruling.rejected) == (TurnOutcome.TRANSFER, "1", ("2",), ())


def test_two_transfers_are_handed_back_and_then_the_first_of_the_graph_wins() -> None:
    a = owner(nudges=2)
    epoch = a.world.task.epoch
    for left in (1, 0):
        ruling = a.turn("note", "t:c", "t:b")
        assert (ruling.outcome, ruling.nudges_left) == (TurnOutcome.NUDGE, left)
        assert codes(ruling) == {"2": "ambiguous_turn", "3": "ambiguous_turn"}
    assert (a.world.task.nudges, a.world.task.epoch, a.world.phase()) == (2, epoch, Phase.ACTIVE)
    assert [one.code for one in a.world.task.nudged] == ["ambiguous_turn", "ambiguous_turn"]
    ruling = a.turn("note", "t:c", "t:b")
    assert (ruling.outcome, ruling.transfer, codes(ruling)) == (TurnOutcome.TRANSFER, "3", {"2": "ambiguous_turn"})


def test_without_a_graph_the_first_that_was_asked_for_wins() -> None:
    a = World(nudges=0).owned_by("a")
    assert a.turn("t:c", "t:b").transfer == "1"


def test_delegations_win_over_a_transfer_once_the_nudges_are_used_up() -> None:
    a = owner(nudges=1)
    assert codes(a.turn("d:c", "t:b")) == {"1": "ambiguous_turn", "2": "ambiguous_turn"}
    ruling = a.turn("d:c", "t:b")
    assert (ruling.outcome, codes(ruling)) == (TurnOutcome.GO, {"2": "ambiguous_turn"})


def test_a_good_turn_earns_no_nudges_but_a_handoff_does() -> None:
    a = owner(nudges=1)
    a.turn("t:b", "t:c")
    a.turn("note")
    assert a.world.task.nudges == 1
    a.turn("t:b")
    a.decide(a.to("b"))
    assert (a.world.task.nudges, a.world.task.nudged) == (0, ())


@pytest.mark.parametrize(
    ("asked", "code", "reason"),
    [
        ("t:nobody", "unknown_agent", Reason.ROUTE_FORBIDDEN),
        ("t:a", "self_transfer", Reason.ROUTE_FORBIDDEN),
        ("d:nobody", "unknown_agent", Reason.ROUTE_FORBIDDEN),
    ],
)
def test_what_is_forbidden_is_handed_back_and_then_ends_the_task(asked: str, code: str, reason: Reason) -> None:
    a = owner(nudges=1)
    assert codes(a.turn("note", asked)) == {"2": code}
    ruling = a.turn("note", asked)
    assert (ruling.outcome, ruling.reason, codes(ruling)) == (TurnOutcome.END, reason, {"2": code})
    with a.world.refuses("retiring"):
        a.work("late")
    a.release()
    assert (a.world.phase(), a.world.task.question and a.world.task.question.reason) == (Phase.ESCALATED, reason)


def test_the_end_by_a_turn_follows_the_policy() -> None:
    a = owner(nudges=0, on_failure="fail")
    a.turn("t:nobody")
    a.release()
    assert (a.world.phase(), a.world.task.reason, a.world.task.result) == (
        Phase.FAILED,
        Reason.ROUTE_FORBIDDEN,
        body("the path").digest,
    )


def test_used_up_transfers_and_delegations_end_with_their_own_reasons() -> None:
    a = owner(nudges=0, transfers=0)
    assert a.turn("t:b").reason is Reason.TRANSFER_LIMIT_EXCEEDED
    a = owner(nudges=0, delegations=0)
    assert a.turn("d:b", detail=None).reason is Reason.DELEGATION_LIMIT_EXCEEDED
    world = World(nudges=0)
    a = world.owned_by("a", graph=world.save(THREE), limits=Limits(depth=0))
    assert a.turn("d:b").reason is Reason.DELEGATION_LIMIT_EXCEEDED


def test_a_fault_in_a_payload_is_no_missing_route() -> None:
    a = owner(nudges=0)
    ruling = a.turn(a.to("b", payload=a.world.payload("h9", 1, constraints=())))
    assert (codes(ruling), ruling.reason) == ({"1": "constraints_dropped"}, Reason.RAISED)


def test_what_is_allowed_goes_on_beside_what_is_forbidden() -> None:
    a = owner(nudges=0)
    ruling = a.turn("d:b", "t:nobody")
    assert (ruling.outcome, codes(ruling)) == (TurnOutcome.GO, {"2": "unknown_agent"})


def test_a_turn_counts_its_own_delegations() -> None:
    a = owner(turn_delegations=2, nudges=0)
    for child in ("t.1", "t.2"):
        a.delegate(child, "b")
    with a.world.refuses("delegation_limit_exceeded"):
        a.delegate("t.3", "b")
    ruling = a.turn("d:b", "d:b", "d:c")
    assert (ruling.outcome, codes(ruling)) == (TurnOutcome.GO, {"3": "delegation_limit_exceeded"})
    a.delegate("t.3", "b")
    a.delegate("t.4", "b")
    with a.world.refuses("delegation_limit_exceeded"):
        a.delegate("t.5", "b")
    assert a.world.task.delegated == 4


def test_a_task_counts_its_delegations_over_all_turns() -> None:
    a = owner(delegations=1)
    a.delegate("t.1", "b")
    a.advance(document={"step": 1})
    with a.world.refuses("delegation_limit_exceeded"):
        a.delegate("t.2", "b")


def test_nothing_else_begins_once_a_transfer_is_decided() -> None:
    a = owner()
    a.world.send()
    a.turn("t:b")
    with a.world.refuses("transfer_decided"):
        a.delegate("t.1", "c")
    with a.world.refuses("transfer_decided"):
        a.turn("note")
    with a.world.refuses("transfer_decided"):
        a.route("r1")
    with a.world.refuses("transfer_decided"):
        a.see(1)
    with a.world.refuses("transfer_decided"):
        a.complete()
    with a.world.refuses("transfer_decided"):
        a.wait(WaitOn.TIME)
    with a.world.refuses("transfer_decided"):
        a.decide(a.to("c", h="h1"))
    with a.world.refuses("transfer_decided"):
        a.decide(a.to("b", h="h7"))


def test_a_lost_instance_does_not_lose_what_its_turn_has_decided() -> None:
    """DR-01: the first durable trace of the transfer leads to the switch, once."""
    a = owner()
    a.turn("note", "t:b")
    a.work("note")
    a.world.expire()
    assert a.world.hops() == [("b", "TRANSFERRED")]
    assert a.world.task.offer is not None
    assert a.world.task.offer.kind is OfferKind.TRANSFER
    assert [work.work_id for work in a.world.task.works] == ["note", f"handler:{a.epoch}"]
    b = a.world.ack("b")
    assert a.world.task.owner == "b"
    assert b.epoch == a.world.task.epoch


def test_an_observed_death_carries_the_decided_transfer_out() -> None:
    a = owner()
    a.turn("t:b")
    a.world.dies("a1")
    assert a.world.hops() == [("b", "TRANSFERRED")]


def test_the_calls_beside_a_transfer_have_a_deadline_of_the_ledger_too() -> None:
    a = owner(calls_ms=5_000, retire_ms=5_000, lease_ms=60_000)
    a.turn("t:b")
    assert a.world.due() == a.world.now + 10_000
    a.world.expire()
    assert a.world.hops() == [("b", "TRANSFERRED")]


def test_a_requested_cancellation_stands_above_a_decided_transfer() -> None:
    a = owner()
    a.turn("t:b")
    a.world.cancel()
    a.stop()
    assert a.world.phase() is Phase.CANCELLED
    a = owner()
    a.turn("t:b")
    a.world.cancel()
    a.world.dies("a1")
    assert a.world.phase() is Phase.CANCELLED


def test_a_turn_cannot_end_a_task_that_is_being_cancelled() -> None:
    a = owner(nudges=0)
    a.world.cancel()
    assert a.turn("t:nobody").outcome is TurnOutcome.END
    assert a.world.phase() is Phase.CANCEL_REQUESTED
    a.stop()
    assert a.world.phase() is Phase.CANCELLED


def test_a_turn_names_each_thing_once() -> None:
    a = owner()
    with a.world.refuses("invalid"):
        a.turn("note", "note", asked=("1", "1"))
    with a.world.refuses("invalid"):
        a.turn("t:b", asked=("2",))


def test_a_person_s_answer_begins_a_new_path() -> None:
    a = owner(nudges=0)
    a.turn("t:nobody")
    a.release()
    assert a.world.task.question is not None
    a.world.answer(a.world.task.question.question_id)
    assert (a.world.task.nudges, a.world.task.trail) == (0, ())


def test_the_tree_s_stop_is_a_typed_rejection() -> None:
    a = owner(nudges=0)
    a.world.say(cmd.StopTree, by="person:operator")
    ruling = a.turn("d:b")
    assert (codes(ruling), ruling.reason) == ({"1": "tree_stopped"}, Reason.DELEGATION_LIMIT_EXCEEDED)


def test_an_empty_turn_is_only_a_turn() -> None:
    a = owner()
    assert a.turn().outcome is TurnOutcome.GO
    assert isinstance(a.to("b"), dec.TransferTo)


def test_a_forbidden_delegation_takes_no_place_in_a_budget() -> None:
    a = owner(nudges=0, turn_delegations=1)
    ruling = a.turn("d:forged", "d:c")
    assert (ruling.outcome, codes(ruling)) == (TurnOutcome.GO, {"1": "unknown_agent"})
