"""One invocation: a provider is called again only where that cannot make the effect happen twice."""

from typing import Any

import pytest

from tenure.protocol.decide.effects import may_apply_again
from tenure.protocol.decide.evidence import absence_proven
from tenure.protocol.settings import EXTERNAL
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Purpose
from tests.protocol.world import Owner, World

E, K = EffectState, EvidenceKind


def lost_answer(world: World, **facts: Any) -> Owner:
    """An effect whose call timed out."""
    a = world.owned_by("a")
    a.intend("e1", policy=EXTERNAL, **facts)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    return a


def test_ef_03_the_same_intent_with_another_request_is_a_conflict() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1", compared="4200 cents")
    with world.refuses("intent_conflict") as caught:
        a.intend("e2", compared="9900 cents")
    assert caught[0].facts["effect"].effect_id == "e1"


def test_ef_03_after_a_time_out_the_next_owner_meets_the_open_intent_and_must_reconcile() -> None:
    world = World()
    a = lost_answer(world)
    a.transfer("b")
    b = world.ack("b")
    with world.refuses("effect_open") as caught:
        b.intend("e2")
    assert (caught[0].next_action, caught[0].facts["effect"].state) == ("reconcile", E.IN_DOUBT)
    world.reconcile("e1")
    world.outcome("e1", E.CONFIRMED, K.LOOKUP, reference="re_1")
    receipt = b.intend("e2")
    assert receipt.status == "already"
    assert receipt.effect is not None
    assert (receipt.effect.reference, list(world.effects)) == ("re_1", ["e1"])


def test_ef_03_of_two_attempts_with_one_key_only_one_is_made() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1")
    with world.refuses("effect_open"):
        a.intend("e2")
    with world.refuses("attempt_open"):
        a.apply("e1")


def test_ef_03_an_open_intent_is_refused_anywhere_in_the_tree() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1")
    a.delegate("t.k", "c")
    child = world.ack("c", task_id="t.k")
    with world.refuses("effect_open"):
        child.intend("e2")
    world.outcome("e1", E.CONFIRMED)
    assert child.intend("e2").status == "already"


def test_once_proven_absent_the_intent_may_be_made_again_in_the_same_task_or_in_another() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1")
    world.outcome("e1", E.ABSENT, K.NOT_SENT)
    a.delegate("t.k", "c")
    child = world.ack("c", task_id="t.k")
    child.intend("e2")
    with world.refuses("effect_open"):
        a.intend("e3")
    world.outcome("e2", E.ABSENT, K.NOT_SENT)
    receipt = a.intend("e3")
    assert receipt.effect is not None
    assert (receipt.effect.effect_id, receipt.effect.attempt.n, receipt.effect.state) == ("e1", 2, E.INTENDED)
    with world.refuses("effect_open"):
        child.intend("e4")


def test_an_absent_effect_is_not_called_again_once_its_intent_was_taken_up_elsewhere() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1")
    world.outcome("e1", E.ABSENT, K.NOT_SENT)
    a.delegate("t.k", "c")
    world.ack("c", task_id="t.k").intend("e2")
    with world.refuses("attempt_unsafe"):
        a.apply("e1")
    world.outcome("e2", E.CONFIRMED)
    with world.refuses("attempt_unsafe"):
        a.apply("e1")


def test_an_absent_effect_may_be_called_again_as_a_new_attempt() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1")
    world.outcome("e1", E.ABSENT, K.NOT_SENT)
    assert not world.task.effects
    a.apply("e1")
    effect = world.effects["e1"]
    assert (effect.state, effect.attempt.n, effect.sends) == (E.INTENDED, 2, 1)
    assert world.task.effects[0].state is E.INTENDED


def test_an_absent_effect_that_is_wanted_in_another_scope_of_keys_is_another_effect() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1", key_scope="live")
    world.outcome("e1", E.ABSENT, K.NOT_SENT)
    a.intend("e2", key_scope="test")
    assert [(each.state, each.key_scope) for each in world.effects.values()] == [
        (E.ABSENT, "live"),
        (E.INTENDED, "test"),
    ]
    with world.refuses("attempt_unsafe"):
        a.apply("e1", key_scope="live")
    world.outcome("e2", E.ABSENT, K.NOT_SENT)
    receipt = a.intend("e3", key_scope="test")
    assert receipt.effect is not None
    assert (receipt.effect.effect_id, receipt.effect.attempt.n) == ("e2", 2)


def test_without_any_proof_no_further_call_is_allowed() -> None:
    world = World()
    a = lost_answer(world)
    with world.refuses("attempt_unsafe"):
        a.apply("e1")


def test_an_idempotent_call_is_repeated_inside_its_window_and_not_after_it() -> None:
    world = World()
    a = lost_answer(world, idempotent_ms=10_000)
    first = world.effects["e1"].applied_at
    a.apply("e1")
    assert (world.effects["e1"].sends, world.effects["e1"].applied_at) == (2, first)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    world.now = first + 10_000
    with world.refuses("attempt_unsafe"):
        a.apply("e1")


def test_a_repeat_must_meet_the_window_even_when_it_lands_as_late_as_it_can() -> None:
    world = World()
    a = lost_answer(world, idempotent_ms=10_000, in_flight_ms=4_000)
    first = world.effects["e1"].applied_at
    world.now = first + 5_990
    a.apply("e1")
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    world.now = first + 6_000
    with world.refuses("attempt_unsafe"):
        a.apply("e1")


def test_what_was_accepted_or_disputed_is_not_applied_again() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1", idempotent_ms=10_000)
    world.outcome("e1", E.ACCEPTED)
    with world.refuses("attempt_unsafe"):
        a.apply("e1")
    world.outcome("e1", E.FAILED)
    world.outcome("e1", E.CONFIRMED)
    assert world.effects["e1"].state is E.DISPUTED
    with world.refuses("attempt_unsafe"):
        a.apply("e1")


def test_a_sealed_key_can_never_land_so_the_next_call_gets_a_key_of_its_own() -> None:
    world = World()
    a = lost_answer(world)
    world.reconcile("e1", Purpose.SEAL)
    world.outcome("e1", E.ABSENT, K.SEALED)
    assert world.effects["e1"].sealed
    a.apply("e1")
    effect = world.effects["e1"]
    assert (effect.generation, effect.sealed, effect.senders) == (1, False, ("a1",))


def test_a_key_that_was_sealed_for_another_task_of_the_tree_is_not_used_again() -> None:
    world = World()
    a = lost_answer(world)
    a.delegate("t.k", "c")
    child = world.ack("c", task_id="t.k")
    world.reconcile("e1", Purpose.SEAL)
    world.outcome("e1", E.ABSENT, K.SEALED)
    child.intend("e2", policy=EXTERNAL)
    assert world.effects["e2"].generation == 1
    world.outcome("e2", E.IN_DOUBT, K.NONE)
    child.apply("e2", Purpose.SEAL)
    world.outcome("e2", E.ABSENT, K.SEALED)
    a.intend("e1", policy=EXTERNAL)
    assert [world.effects[name].generation for name in ("e1", "e2")] == [2, 1]


def test_not_found_alone_proves_nothing() -> None:
    world = World()
    lost_answer(world, in_flight_ms=5_000)
    world.reconcile("e1")
    with world.refuses("evidence_insufficient"):
        world.outcome("e1", E.ABSENT, K.NOT_FOUND_AFTER_DEATH, not_found=True)
    world.outcome("e1", E.IN_DOUBT, K.NONE, not_found=True)
    assert world.effects["e1"].state is E.IN_DOUBT


def test_not_found_proves_absence_after_observed_death_and_the_in_flight_limit() -> None:
    world = World()
    lost_answer(world, in_flight_ms=5_000)
    world.dies("a1")
    died = world.effects["e1"].dead_at
    world.now = died + 4_000
    world.reconcile("e1")
    with world.refuses("evidence_insufficient"):
        world.outcome("e1", E.ABSENT, K.NOT_FOUND_AFTER_DEATH, not_found=True)
    world.now = died + 5_000
    world.reconcile("e1")
    world.outcome("e1", E.ABSENT, K.NOT_FOUND_AFTER_DEATH, not_found=True)
    assert world.effects["e1"].state is E.ABSENT


def test_a_lost_lease_proves_nothing() -> None:
    world = World()
    lost_answer(world, in_flight_ms=1)
    world.expire()
    world.now += 1_000_000
    world.reconcile("e1")
    with world.refuses("evidence_insufficient"):
        world.outcome("e1", E.ABSENT, K.NOT_FOUND_AFTER_DEATH)


def test_every_process_that_has_sent_must_be_dead() -> None:
    world = World()
    a = lost_answer(world, in_flight_ms=1, idempotent_ms=60_000)
    a.transfer("b")
    world.ack("b").apply("e1")
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    assert world.effects["e1"].senders == ("a1", "b1")
    world.dies("a1")
    assert not absence_proven(world.effects["e1"])
    world.dies("b1")
    world.now += 10
    world.reconcile("e1")
    assert absence_proven(world.effects["e1"])


def test_a_provider_that_gives_no_in_flight_limit_can_not_prove_absence_by_a_look_up() -> None:
    world = World()
    lost_answer(world)
    world.dies("a1")
    world.reconcile("e1")
    assert not absence_proven(world.effects["e1"])


def test_a_request_that_did_not_leave_proves_absence_only_if_it_was_the_only_one() -> None:
    world = World()
    a = lost_answer(world, idempotent_ms=60_000)
    a.apply("e1")
    world.outcome("e1", E.ABSENT, K.NOT_SENT)
    assert world.effects["e1"].state is E.IN_DOUBT


@pytest.mark.parametrize("purpose", list(Purpose))
def test_a_former_owner_makes_no_call_at_all(purpose: Purpose) -> None:
    world = World()
    a = lost_answer(world, idempotent_ms=60_000)
    a.transfer("b")
    world.ack("b")
    with world.fences():
        a.apply("e1", purpose)


def test_beside_a_look_up_anybody_may_look_but_nobody_acts_beside_the_owners_call() -> None:
    world = World()
    a = lost_answer(world)
    a.apply("e1", Purpose.LOOKUP)
    world.reconcile("e1")
    a.apply("e1", Purpose.CANCEL)
    with world.refuses("attempt_open"):
        world.reconcile("e1")


def test_a_call_whose_sender_lost_the_task_stands_in_nobodys_way() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1")
    a.transfer("b")
    world.ack("b").apply("e1", Purpose.LOOKUP)
    world.outcome("e1", E.CONFIRMED, K.LOOKUP)
    assert world.effects["e1"].state is E.CONFIRMED


def test_a_key_that_is_sealed_while_in_doubt_is_not_used_again() -> None:
    world = World()
    a = lost_answer(world, idempotent_ms=60_000)
    assert may_apply_again(world.effects["e1"], world.now)
    world.reconcile("e1", Purpose.SEAL)
    world.outcome("e1", E.ABSENT, K.SEALED)
    a.apply("e1")
    assert world.effects["e1"].applied_at == world.now


def test_ef_07_a_lost_owner_changes_ownership_only_its_job_stays_open_with_its_id() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("job", policy=EXTERNAL)
    world.outcome("job", E.ACCEPTED, reference="remote-17")
    world.expire()
    b = world.ack("a", "a2")
    note = world.task.effects[0]
    assert (note.effect_id, note.state, world.task.answerable) == ("job", E.ACCEPTED, "a")
    assert world.effects["job"].reference == "remote-17"
    with world.refuses("effect_open"):
        b.intend("job2")
    with world.refuses("attempt_unsafe"):
        b.apply("job")


@pytest.mark.parametrize("evidence", [E.CONFIRMED, E.CANCELLED, E.FAILED])
def test_ef_07_the_next_owner_adopts_the_job_by_its_status(evidence: EffectState) -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("job", policy=EXTERNAL)
    world.outcome("job", E.ACCEPTED, reference="remote-17")
    a.transfer("b")
    b = world.ack("b")
    b.apply("job", Purpose.CANCEL if evidence is E.CANCELLED else Purpose.LOOKUP)
    world.outcome("job", evidence, K.RESPONSE if evidence is E.CANCELLED else K.LOOKUP)
    assert world.effects["job"].state is evidence
    assert world.task.effects == ()


def test_ef_07_without_a_status_it_stays_unknown_and_a_person_decides() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("job", policy=EXTERNAL)
    world.expire()
    b = world.ack("a", "a2")
    with world.refuses("effect_open"):
        b.intend("job2")
    b.escalate()
    world.attest("job")
    assert world.effects["job"].state is E.ATTESTED
