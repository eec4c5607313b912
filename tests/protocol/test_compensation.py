"""Compensation: an undoing is a call of its own, under a key of its own; it may fail, be lost, and be found again."""

import pytest

from tenure.protocol import events as ev
from tenure.protocol.evidence import evidence_of
from tenure.protocol.settings import EXTERNAL, Policy
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Finding, Purpose, Reason
from tests.protocol.world import Owner, World, body

E, K = EffectState, EvidenceKind
UNDONE_LATE = Policy(name="undone-late", grace_ms=1_000, orphan="compensate")


def paid(world: World, policy: Policy = EXTERNAL) -> Owner:
    """A confirmed payment."""
    a = world.owned_by("a")
    a.intend("e1", policy=policy, idempotent_ms=60_000)
    world.outcome("e1", E.CONFIRMED, reference="pay_1")
    return a


def test_it_begins_with_facts_of_its_own_and_keeps_the_name_of_what_it_undoes() -> None:
    world = World()
    a = paid(world)
    world.now += 1_000
    a.undo("e1", idempotent_ms=9_000, in_flight_ms=500)
    effect = world.effects["e1"]
    assert (effect.state, effect.undo, effect.sends, effect.senders) == (E.COMPENSATING, 1, 1, ("a1",))
    assert (effect.applied_at, effect.idempotent_ms, effect.in_flight_ms) == (world.now, 9_000, 500)
    world.outcome("e1", E.COMPENSATED, reference="undo_1")
    effect = world.effects["e1"]
    assert (effect.state, effect.reference, effect.undo_reference) == (E.COMPENSATED, "pay_1", "undo_1")
    assert world.task.effects == ()


def test_ef_05_what_failed_is_open_and_tried_again_under_a_new_key() -> None:
    world = World()
    a = paid(world)
    a.undo("e1")
    world.outcome("e1", E.COMPENSATION_FAILED)
    assert [note.state for note in world.task.effects] == [E.COMPENSATION_FAILED]
    a.undo("e1")
    assert (world.effects["e1"].state, world.effects["e1"].undo) == (E.COMPENSATING, 2)


def test_ef_05_one_without_an_answer_is_not_made_again_without_a_proof() -> None:
    world = World()
    a = paid(world)
    a.undo("e1")
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    assert world.effects["e1"].state is E.COMPENSATING
    with world.refuses("attempt_unsafe"):
        a.undo("e1")


def test_inside_its_own_window_it_is_repeated_under_the_same_key() -> None:
    world = World()
    a = paid(world)
    a.undo("e1", idempotent_ms=9_000)
    began = world.now
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    a.undo("e1", idempotent_ms=9_000)
    assert (world.effects["e1"].undo, world.effects["e1"].sends) == (1, 2)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    world.now = began + 9_000
    with world.refuses("attempt_unsafe"):
        a.undo("e1", idempotent_ms=9_000)


def test_a_key_counts_only_in_its_own_scope() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1", policy=EXTERNAL, idempotent_ms=60_000, key_scope="account 1")
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    for purpose in (Purpose.APPLY, Purpose.LOOKUP, Purpose.SEAL):
        with world.refuses("attempt_unsafe"):
            a.apply("e1", purpose, key_scope="account 2")
    a.apply("e1", key_scope="account 1")
    assert world.effects["e1"].sends == 2


def test_beside_an_undoing_in_flight_nothing_else_is_called() -> None:
    world = World()
    a = paid(world)
    a.undo("e1", idempotent_ms=9_000)
    for purpose in (Purpose.COMPENSATE, Purpose.SEAL, Purpose.CANCEL, Purpose.APPLY):
        with world.refuses("attempt_open"):
            a.apply("e1", purpose)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    for purpose in (Purpose.SEAL, Purpose.CANCEL, Purpose.APPLY):
        with world.refuses("wrong_phase"):
            a.apply("e1", purpose)


@pytest.mark.parametrize("state", [E.COMPENSATED, E.COMPENSATION_FAILED])
def test_a_look_up_tells_what_became_of_it(state: EffectState) -> None:
    world = World()
    a = paid(world)
    a.undo("e1")
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    world.reconcile("e1")
    world.outcome("e1", state, K.LOOKUP)
    assert world.effects["e1"].state is state


def test_not_found_means_that_it_failed_only_with_the_proof_of_absence() -> None:
    world = World()
    a = paid(world)
    a.undo("e1", in_flight_ms=5_000)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    world.reconcile("e1")
    with world.refuses("evidence_insufficient"):
        world.outcome("e1", E.COMPENSATION_FAILED, K.NOT_FOUND_AFTER_DEATH, not_found=True)
    world.dies("a1")
    world.now += 5_000
    world.reconcile("e1")
    world.outcome("e1", E.COMPENSATION_FAILED, K.NOT_FOUND_AFTER_DEATH, not_found=True)
    assert world.effects["e1"].state is E.COMPENSATION_FAILED


def test_one_that_did_not_leave_has_failed_if_it_was_the_only_one() -> None:
    world = World()
    a = paid(world)
    a.undo("e1", idempotent_ms=9_000)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    a.undo("e1", idempotent_ms=9_000)
    world.outcome("e1", E.COMPENSATION_FAILED, K.NOT_SENT)
    assert world.effects["e1"].state is E.COMPENSATING, "the first may have arrived"
    b = paid(World())
    b.undo("e1")
    b.world.outcome("e1", E.COMPENSATION_FAILED, K.NOT_SENT)
    assert b.world.effects["e1"].state is E.COMPENSATION_FAILED


def test_what_an_undoing_shows_says_nothing_of_the_effect_itself() -> None:
    world = World()
    a = paid(world)
    a.undo("e1")
    for state in (E.CONFIRMED, E.REFUSED, E.ABSENT, E.CANCELLED):
        with world.refuses("evidence_insufficient"):
            world.outcome("e1", state)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    world.reconcile("e1")
    with world.refuses("evidence_insufficient"):
        world.outcome("e1", E.REFUSED, K.LOOKUP)
    world.outcome("e1", E.CONFIRMED, K.LOOKUP)
    assert (world.effects["e1"].state, world.said()) == (E.COMPENSATING, ()), "that it had happened is known"


def test_older_evidence_against_it_moves_nothing_while_it_is_undone() -> None:
    world = World()
    a = paid(world)
    a.undo("e1")
    world.outcome("e1", E.REFUSED, attempt=1)
    assert (world.effects["e1"].state, world.said()) == (E.COMPENSATING, ())


def test_ef_05_an_undoing_that_was_taken_for_failed_and_is_seen_done_is_a_visible_dispute() -> None:
    world = World()
    a = paid(world)
    a.undo("e1", idempotent_ms=9_000)
    world.outcome("e1", E.COMPENSATION_FAILED)
    world.outcome("e1", E.COMPENSATED)
    assert (world.effects["e1"].state, world.task.effects[0].state) == (E.DISPUTED, E.DISPUTED)


def test_ef_05_whoever_reconciles_goes_on_with_an_undoing_and_does_not_begin_one() -> None:
    world = World()
    a = paid(world)
    with world.refuses("owner_needed"):
        world.reconcile("e1", Purpose.COMPENSATE)
    a.undo("e1", idempotent_ms=9_000)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    a.complete()
    world.reconcile("e1", Purpose.COMPENSATE, idempotent_ms=9_000)
    world.outcome("e1", E.COMPENSATION_FAILED)
    world.reconcile("e1", Purpose.COMPENSATE)
    world.outcome("e1", E.COMPENSATED)
    assert world.effects["e1"].state is E.COMPENSATED


def test_what_turns_out_to_have_happened_after_a_failure_is_undone_where_its_policy_says_so() -> None:
    for policy, checked in ((EXTERNAL, False), (UNDONE_LATE, True)):
        world = World(on_failure="fail")
        a = world.owned_by("a")
        a.intend("e1", policy=policy)
        world.outcome("e1", E.IN_DOUBT, K.NONE)
        a.fail()
        world.reconcile("e1")
        world.outcome("e1", E.CONFIRMED, K.LOOKUP)
        assert (world.effects["e1"].next_check == world.now) is checked
        if not checked:
            with world.refuses("owner_needed"):
                world.reconcile("e1", Purpose.COMPENSATE)
            with world.refuses("wrong_phase"):
                world.ask_about("e1")
            continue
        world.ask_about("e1", reason=Reason.CAPABILITY)
        assert (world.effects["e1"].asked, world.task.effects) == ("person:operator", ())
        world.reconcile("e1", Purpose.COMPENSATE)
        world.outcome("e1", E.COMPENSATED)
        assert world.effects["e1"].state is E.COMPENSATED


def test_what_was_confirmed_before_the_failure_is_its_handlers_affair() -> None:
    world = World(on_failure="fail")
    a = paid(world, UNDONE_LATE)
    a.fail()
    with world.refuses("owner_needed"):
        world.reconcile("e1", Purpose.COMPENSATE)


@pytest.mark.parametrize(
    ("finding", "allowed"), [(Finding.UNDONE, True), (Finding.PRESENT, True), (Finding.ABSENT, False)]
)
def test_ef_05_a_person_ends_an_undoing_that_nothing_else_can_end(finding: Finding, *, allowed: bool) -> None:
    world = World()
    a = paid(world)
    a.undo("e1")
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    if not allowed:
        with world.refuses("wrong_phase"):
            world.attest("e1", finding=finding)
        return
    world.attest("e1", finding=finding)
    assert (world.effects["e1"].state, world.effects["e1"].finding) == (E.ATTESTED, finding)
    if finding is Finding.PRESENT:
        with world.refuses("attempt_unsafe"):
            a.undo("e1")  # the first may land yet
    else:
        with world.refuses("wrong_phase"):
            a.undo("e1")


def test_what_is_still_there_is_undone_again_only_where_no_earlier_undoing_can_land() -> None:
    world = World()
    paid(world).undo("e1", in_flight_ms=5_000)
    world.dies("a1")
    b = world.ack("a", "a2")
    world.attest("e1", finding=Finding.PRESENT)
    with world.refuses("attempt_unsafe"):
        b.undo("e1")
    world.now += 5_000
    b.undo("e1")
    assert (world.effects["e1"].state, world.effects["e1"].undo) == (E.COMPENSATING, 2)


def test_what_a_person_has_undone_by_hand_is_attested_as_undone() -> None:
    world = World()
    paid(world)
    with world.refuses("wrong_phase"):
        world.attest("e1", finding=Finding.PRESENT)
    world.attest("e1", finding=Finding.UNDONE, body=body("paid back in cash"))
    event = world.newest(ev.EffectObserved)
    found = evidence_of(event)
    assert found is not None
    assert (found.kind, found.source, found.observer, found.shows) == (
        K.ATTESTATION, "person", "person:operator", "attested",
    )  # fmt: skip
    world.outcome("e1", E.CONFIRMED, attempt=1)
    assert world.effects["e1"].state is E.ATTESTED, "that it had happened is no contradiction"
