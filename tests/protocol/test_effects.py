"""Effects: the intent is committed before the call, evidence names its attempt, only evidence settles."""

from typing import Any

import pytest

from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.evidence import EVIDENCE
from tenure.protocol.machines import EFFECT
from tenure.protocol.outside import Effect
from tenure.protocol.settings import CRITICAL, EXTERNAL
from tenure.protocol.state import Candidate
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Purpose
from tests.protocol.world import Owner, World, body

E, K = EffectState, EvidenceKind


NO_ANSWER = {Purpose.APPLY: K.NONE, Purpose.COMPENSATE: K.RESPONSE}


def with_effect(world: World, **fields: Any) -> Owner:
    a = world.owned_by("a")
    a.intend("e1", policy=EXTERNAL, **fields)
    return a


def effect(world: World) -> Effect:
    return world.effects["e1"]


def test_an_intent_and_its_first_attempt_are_one_commit_before_the_call() -> None:
    world = World()
    with_effect(world)
    assert world.said() == ("effect.intended",)
    attempt = effect(world).attempt
    assert (effect(world).state, attempt.n, attempt.purpose, attempt.in_flight) == (E.INTENDED, 1, Purpose.APPLY, True)
    assert world.task.effects[0].state is E.INTENDED


@pytest.mark.parametrize("state", [E.CONFIRMED, E.REFUSED])
def test_an_answer_settles_it_and_takes_it_off_the_tasks_books(state: EffectState) -> None:
    world = World()
    with_effect(world)
    world.outcome("e1", state, reference="re_1", body=body("ok"))
    assert (effect(world).state, effect(world).reference, effect(world).evidence) == (state, "re_1", body("ok").digest)
    assert world.task.effects == ()


@pytest.mark.parametrize("state", [E.CONFIRMED, E.FAILED, E.CANCELLED])
def test_an_acceptance_stays_open_until_its_end_is_known(state: EffectState) -> None:
    world = World()
    with_effect(world)
    world.outcome("e1", E.ACCEPTED, reference="job_1")
    assert world.task.effects[0].state is E.ACCEPTED
    world.reconcile("e1")
    world.outcome("e1", state, K.LOOKUP)
    assert (effect(world).state, effect(world).reference) == (state, "job_1")


def test_a_time_out_leaves_it_in_doubt_and_settles_nothing() -> None:
    world = World()
    with_effect(world)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    assert not effect(world).state.settled
    assert not effect(world).attempt.in_flight
    assert world.task.effects[0].next_check == effect(world).next_check == world.now + 60_000


def test_an_inconclusive_probe_changes_nothing_but_the_next_check() -> None:
    world = World()
    with_effect(world)
    world.outcome("e1", E.ACCEPTED)
    world.reconcile("e1")
    world.now += 5_000
    world.outcome("e1", E.IN_DOUBT, K.NONE, not_found=True)
    assert (effect(world).state, effect(world).next_check) == (E.ACCEPTED, world.now + 2 * 60_000)


SILENT = [(kind, state) for kind in EvidenceKind for state in EffectState if state not in EVIDENCE[kind]]


@pytest.mark.parametrize(("kind", "state"), SILENT)
def test_evidence_speaks_only_for_what_it_can_show(kind: EvidenceKind, state: EffectState) -> None:
    world = World()
    with_effect(world)
    with world.refuses("evidence_insufficient"):
        world.outcome("e1", state, kind)


@pytest.mark.parametrize("state", [E.FAILED, E.CANCELLED, E.COMPENSATED, E.COMPENSATION_FAILED])
def test_an_intended_effect_cannot_skip_a_state(state: EffectState) -> None:
    world = World()
    with_effect(world)
    with world.refuses("evidence_insufficient"):
        world.outcome("e1", state)


@pytest.mark.parametrize(
    ("purpose", "state", "kind"),
    [
        (Purpose.APPLY, E.CONFIRMED, K.LOOKUP),
        (Purpose.LOOKUP, E.ABSENT, K.NOT_SENT),
        (Purpose.APPLY, E.ABSENT, K.SEALED),
        (Purpose.SEAL, E.ABSENT, K.NOT_FOUND_AFTER_DEATH),
    ],
)
def test_a_call_yields_only_the_evidence_of_its_kind(purpose: Purpose, state: EffectState, kind: EvidenceKind) -> None:
    world = World()
    with_effect(world)
    if purpose is not Purpose.APPLY:
        world.outcome("e1", E.IN_DOUBT, K.NONE)
        world.reconcile("e1", purpose)
    with world.refuses("evidence_insufficient"):
        world.outcome("e1", state, kind)


def test_evidence_names_an_attempt_that_was_made_by_whoever_brings_it() -> None:
    world = World()
    with_effect(world)
    with world.refuses("invalid"):
        world.outcome("e1", E.CONFIRMED, attempt=2)
    with world.refuses("invalid"):
        world.outcome("e1", E.CONFIRMED, attempt=0)
    with world.fences():
        world.outcome("e1", E.CONFIRMED, instance="somebody")


def test_an_effect_is_known_to_its_own_task_only() -> None:
    world = World()
    a = with_effect(world)
    a.delegate("t.k", "c")
    child = world.ack("c", task_id="t.k")
    with world.refuses("unknown_effect"):
        child.apply("e1", Purpose.LOOKUP)
    with world.refuses("unknown_effect"):
        a.say(cmd.AttemptEffect, effect_id="e9", version=1, purpose=Purpose.LOOKUP)


def test_an_answer_of_a_former_owner_is_kept_settles_the_effect_and_moves_no_ownership() -> None:
    world = World()
    a = with_effect(world)
    a.transfer("b")
    b = world.ack("b")
    receipt = world.outcome("e1", E.CONFIRMED, body=body("ok"))
    assert receipt.status == "late"
    assert world.said() == ("late.recorded", "effect.observed")
    assert (effect(world).state, world.task.epoch) == (E.CONFIRMED, b.epoch)


def test_what_exists_outside_counts_from_an_older_attempt_too() -> None:
    world = World()
    with_effect(world)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    world.reconcile("e1")
    world.outcome("e1", E.CONFIRMED, attempt=1, instance="a1", epoch=0)
    assert effect(world).state is E.CONFIRMED
    assert effect(world).attempt.in_flight, "the look-up has not answered"


def test_that_an_older_attempt_was_refused_says_nothing_about_the_newer_one() -> None:
    world = World()
    a = with_effect(world, idempotent_ms=60_000)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    a.apply("e1")
    receipt = world.outcome("e1", E.REFUSED, attempt=1)
    assert (receipt.status, world.said()) == ("done", ())
    assert effect(world).state is E.IN_DOUBT


def test_a_request_that_was_not_sent_does_not_take_back_what_an_earlier_one_did() -> None:
    world = World()
    a = with_effect(world, idempotent_ms=60_000)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    a.apply("e1")
    world.outcome("e1", E.ACCEPTED, attempt=1, reference="job_1")
    world.outcome("e1", E.ABSENT, K.NOT_SENT)
    assert effect(world).state is E.ACCEPTED


def test_absence_is_reached_through_doubt() -> None:
    world = World()
    with_effect(world)
    world.outcome("e1", E.ABSENT, K.NOT_SENT)
    assert world.said() == ("effect.observed", "effect.observed")
    assert effect(world).state is E.ABSENT


def test_what_was_accepted_is_not_shown_absent() -> None:
    world = World()
    with_effect(world)
    world.outcome("e1", E.ACCEPTED)
    with world.refuses("evidence_insufficient"):
        world.outcome("e1", E.ABSENT, K.NOT_SENT)


def settled(world: World, state: EffectState) -> Owner:
    """An effect in this settled state, and its owner."""
    a = with_effect(world)
    if state in (E.CONFIRMED, E.REFUSED):
        world.outcome("e1", state)
    elif state in (E.FAILED, E.CANCELLED):
        world.outcome("e1", E.ACCEPTED)
        world.outcome("e1", state)
    elif state is E.ABSENT:
        world.outcome("e1", state, K.NOT_SENT)
    elif state is E.ATTESTED:
        world.outcome("e1", E.IN_DOUBT, K.NONE)
        world.attest("e1")
    else:
        world.outcome("e1", E.CONFIRMED)
        a.apply("e1", Purpose.COMPENSATE)
        world.outcome("e1", E.COMPENSATED)
    return a


CONTRADICTIONS = [
    (E.CONFIRMED, E.REFUSED),
    (E.REFUSED, E.CONFIRMED),
    (E.FAILED, E.CONFIRMED),
    (E.CANCELLED, E.CONFIRMED),
    (E.ABSENT, E.CONFIRMED),
    (E.ABSENT, E.ACCEPTED),
    (E.ATTESTED, E.REFUSED),
    (E.COMPENSATED, E.REFUSED),
]


@pytest.mark.parametrize(("state", "evidence"), CONTRADICTIONS)
def test_evidence_against_a_settled_state_is_a_visible_dispute(state: EffectState, evidence: EffectState) -> None:
    world = World()
    settled(world, state)
    world.outcome("e1", evidence, attempt=1)
    assert effect(world).state is E.DISPUTED
    assert world.task.effects[0].state is E.DISPUTED
    world.attest("e1")
    assert (effect(world).state, world.task.effects) == (E.ATTESTED, ())


AGREEMENTS = [
    (E.CONFIRMED, E.CONFIRMED),
    (E.CONFIRMED, E.ACCEPTED),
    (E.COMPENSATED, E.CONFIRMED),
    (E.FAILED, E.ACCEPTED),
    (E.ABSENT, E.REFUSED),
    (E.REFUSED, E.REFUSED),
]


@pytest.mark.parametrize(("state", "evidence"), AGREEMENTS)
def test_evidence_that_agrees_with_a_settled_state_moves_nothing(state: EffectState, evidence: EffectState) -> None:
    world = World()
    settled(world, state)
    world.outcome("e1", evidence, attempt=1)
    assert (effect(world).state, world.said()) == (state, ())


def test_that_one_of_several_requests_did_not_leave_is_no_dispute() -> None:
    world = World()
    a = with_effect(world, idempotent_ms=60_000)
    world.expire()
    world.ack("a", "a2").apply("e1")
    world.outcome("e1", E.CONFIRMED)
    late = world.outcome("e1", E.ABSENT, K.NOT_SENT, attempt=1, instance="a1", epoch=a.epoch)
    assert (late.status, effect(world).state) == ("late", E.CONFIRMED)


def test_that_the_only_request_did_not_leave_contradicts_what_was_found() -> None:
    world = World()
    a = with_effect(world)
    world.expire()
    world.reconcile("e1")
    world.outcome("e1", E.CONFIRMED, K.LOOKUP)
    world.outcome("e1", E.ABSENT, K.NOT_SENT, attempt=1, instance="a1", epoch=a.epoch)
    assert effect(world).state is E.DISPUTED


def test_the_late_refusal_of_a_sealed_key_is_no_dispute() -> None:
    world = World()
    with_effect(world)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    world.reconcile("e1", Purpose.SEAL)
    world.outcome("e1", E.ABSENT, K.SEALED)
    world.outcome("e1", E.REFUSED, attempt=1, instance="a1", epoch=0)
    assert effect(world).state is E.ABSENT


def test_nor_is_it_when_the_effect_was_made_under_another_key_since() -> None:
    world = World()
    a = with_effect(world)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    world.reconcile("e1", Purpose.SEAL)
    world.outcome("e1", E.ABSENT, K.SEALED)
    a.apply("e1")
    world.outcome("e1", E.CONFIRMED)
    world.outcome("e1", E.REFUSED, attempt=1, instance="a1", epoch=0)
    assert effect(world).state is E.CONFIRMED
    world.outcome("e1", E.REFUSED)
    assert effect(world).state is E.DISPUTED, "the call that made it cannot have been refused too"


def test_a_time_out_after_the_fact_disputes_nothing() -> None:
    world = World()
    settled(world, E.CONFIRMED)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    assert effect(world).state is E.CONFIRMED


def test_one_effect_under_two_references_is_a_dispute() -> None:
    world = World()
    with_effect(world)
    world.outcome("e1", E.CONFIRMED, reference="re_1")
    world.outcome("e1", E.CONFIRMED, reference="re_1")
    assert effect(world).state is E.CONFIRMED
    world.outcome("e1", E.CONFIRMED, reference="re_2")
    assert effect(world).state is E.DISPUTED


def test_a_compensation_is_an_attempt_of_its_own_and_can_fail_and_be_tried_again() -> None:
    world = World()
    a = settled(world, E.CONFIRMED)
    a.apply("e1", Purpose.COMPENSATE)
    assert (effect(world).state, world.task.effects[0].state) == (E.COMPENSATING, E.COMPENSATING)
    world.outcome("e1", E.COMPENSATION_FAILED)
    assert not effect(world).state.settled
    a.apply("e1", Purpose.COMPENSATE)
    world.outcome("e1", E.COMPENSATED)
    assert (effect(world).state, world.task.effects) == (E.COMPENSATED, ())


def test_only_what_is_confirmed_can_be_compensated() -> None:
    world = World()
    a = settled(world, E.REFUSED)
    with world.refuses("wrong_phase"):
        a.apply("e1", Purpose.COMPENSATE)


@pytest.mark.parametrize("state", [state for state in EFFECT if state.settled])
def test_nobody_probes_what_is_settled(state: EffectState) -> None:
    world = World()
    settled(world, state)
    with world.refuses("wrong_phase"):
        world.reconcile("e1")


def test_a_probe_is_committed_before_it_is_made_and_settles_by_its_answer() -> None:
    world = World()
    with_effect(world)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    world.reconcile("e1")
    assert world.task.effects[0].state is E.IN_DOUBT
    world.outcome("e1", E.CONFIRMED, K.LOOKUP, reference="re_1")
    assert (effect(world).state, world.task.effects) == (E.CONFIRMED, ())


@pytest.mark.parametrize(
    ("purpose", "state", "kind"),
    [(Purpose.LOOKUP, E.REFUSED, K.LOOKUP), (Purpose.CANCEL, E.CANCELLED, K.RESPONSE)],
)
def test_doubt_ends_by_whatever_a_later_call_shows(purpose: Purpose, state: EffectState, kind: EvidenceKind) -> None:
    world = World()
    with_effect(world)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    world.reconcile("e1", purpose)
    world.outcome("e1", state, kind)
    assert effect(world).state is state


def test_a_decision_on_an_effect_names_the_version_that_it_saw() -> None:
    world = World()
    a = with_effect(world)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    with world.refuses("version_conflict"):
        world.reconcile("e1", version=1)
    with world.refuses("version_conflict"):
        world.attest("e1", version=1)
    with world.refuses("version_conflict"):
        a.apply("e1", version=1)
    world.attest("e1")
    observed = world.newest(ev.EffectObserved)
    assert (observed.observer, observed.evidence) == ("person:operator", K.ATTESTATION)


def test_a_person_attests_only_what_is_accepted_in_doubt_or_disputed() -> None:
    world = World()
    with_effect(world)
    with world.refuses("wrong_phase"):
        world.attest("e1")


def test_the_death_of_its_sender_is_recorded_on_the_effect() -> None:
    world = World()
    with_effect(world)
    world.dies("a1")
    assert "effect.sender_died" in world.said()
    assert (effect(world).state, effect(world).senders) == (E.IN_DOUBT, ())
    assert effect(world).dead_at > 0


def test_a_death_says_nothing_about_the_calls_of_others() -> None:
    world = World()
    a = with_effect(world)
    a.transfer("b")
    world.ack("b").intend("e2", key="B2")
    world.dies("a1")
    assert world.said() == ("effect.sender_died",)
    assert world.effects["e2"].senders == ("b1",)


def test_open_effects_have_a_limit_and_ids_of_their_own() -> None:
    world = World(open_items=2)
    a = with_effect(world)
    with world.refuses("invalid"):
        a.intend("e1", key="B2")
    a.intend("e2", key="B2")
    with world.refuses("backlog_full"):
        a.intend("e3", key="C3")


def test_an_effects_policy_is_held_to_the_tasks_deadlines() -> None:
    world = World(retire_ms=1_000)
    a = world.owned_by("a")
    with world.refuses("deadline_below_grace"):
        a.intend("e1", policy=CRITICAL)


@pytest.mark.parametrize("purpose", [Purpose.APPLY, Purpose.COMPENSATE])
def test_pl_03_what_another_agent_began_is_not_done_again_or_undone_with_its_authority(purpose: Purpose) -> None:
    world = World()
    a = with_effect(world, idempotent_ms=60_000)
    world.outcome("e1", E.IN_DOUBT if purpose is Purpose.APPLY else E.CONFIRMED, NO_ANSWER[purpose])
    a.transfer(Candidate(agent="b", authority=("mail",)))
    b = world.ack("b")
    with world.refuses("tool_not_allowed"):
        b.apply("e1", purpose)
    b.give_back()
    world.ack("a").apply("e1", purpose)


def test_pl_03_a_tool_outside_the_agents_own_authority_is_refused_and_nothing_runs() -> None:
    world = World()
    a = world.owned_by("a", authority=("search", "refund", "mail"))
    a.intend("e1", tool="refund")
    world.outcome("e1", E.CONFIRMED)
    a.transfer(Candidate(agent="b", authority=("mail",)))
    b = world.ack("b")
    with world.refuses("tool_not_allowed") as caught:
        b.intend("e2", key="B2", tool="refund")
    assert caught[0].facts["tool"] == "refund"
    b.intend("e2", key="B2", tool="mail")
    world.outcome("e2", E.CONFIRMED)
    b.give_back()
    world.ack("a").intend("e3", key="C3", tool="refund")


def test_a_retiring_tenure_undoes_nothing_new() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1")
    world.outcome("e1", EffectState.CONFIRMED)
    a.complete(quiet=False)
    with world.refuses("retiring"):
        a.apply("e1", Purpose.COMPENSATE)
