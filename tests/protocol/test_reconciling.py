"""What may be done by somebody who does not own the task: look, go on with what was begun, ask a person."""

from typing import Any

import pytest

from tenure.protocol import events as ev
from tenure.protocol.evidence import EVIDENCE, FINDINGS, SHOWN_BY, WORK_EVIDENCE, evidence_of
from tenure.protocol.settings import EXTERNAL, HOUR, Policy
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Finding, Purpose, Reason
from tests.protocol.world import Owner, World

E, K = EffectState, EvidenceKind
LOOK = Policy(name="look", grace_ms=1_000, doubt="look")


def in_doubt(world: World, policy: Policy = EXTERNAL, **facts: Any) -> Owner:
    """A request whose answer was lost, at a provider that answers a repeated key from its record."""
    a = world.owned_by("a")
    a.intend("e1", policy=policy, **{"idempotent_ms": 60_000_000, **facts})
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    return a


def test_it_calls_again_where_that_cannot_act_twice() -> None:
    world = World()
    in_doubt(world)
    world.reconcile("e1", Purpose.APPLY)
    assert (world.effects["e1"].sends, world.effects["e1"].senders) == (2, ("a1", "reconciler"))
    world.outcome("e1", E.CONFIRMED)
    assert world.effects["e1"].state is E.CONFIRMED


def test_it_does_not_without_a_window() -> None:
    world = World()
    in_doubt(world, idempotent_ms=0)
    with world.refuses("attempt_unsafe"):
        world.reconcile("e1", Purpose.APPLY)


def test_it_does_not_where_the_policy_says_to_look_only() -> None:
    world = World()
    in_doubt(world, LOOK)
    with world.refuses("owner_needed"):
        world.reconcile("e1", Purpose.APPLY)
    world.reconcile("e1")


@pytest.mark.parametrize("how", ["cancelled", "cancel requested", "failed"])
def test_it_makes_nothing_happen_for_a_task_that_is_not_wanted_any_more(how: str) -> None:
    world = World(on_failure="fail")
    a = in_doubt(world)
    if how == "failed":
        a.fail()
    else:
        world.cancel()
        if how == "cancelled":
            a.stop()
    with world.refuses("owner_needed"):
        world.reconcile("e1", Purpose.APPLY)


def test_it_makes_no_new_request_of_what_is_proven_absent() -> None:
    world = World()
    in_doubt(world)
    world.reconcile("e1", Purpose.SEAL)
    world.outcome("e1", E.ABSENT, K.SEALED)
    with world.refuses("owner_needed"):
        world.reconcile("e1", Purpose.APPLY)


def test_two_of_them_are_never_at_one_effect_until_the_first_is_overdue() -> None:
    world = World()
    in_doubt(world)
    world.reconcile("e1")
    for purpose in (Purpose.LOOKUP, Purpose.SEAL, Purpose.APPLY):
        with world.refuses("attempt_open"):
            world.reconcile("e1", purpose, instance="other")
    world.reconcile("e1")
    world.now = world.effects["e1"].next_check
    world.reconcile("e1", instance="other")
    assert world.effects["e1"].attempt.instance == "other"


def test_the_owner_looks_beside_it_and_does_not_act_beside_its_act() -> None:
    world = World()
    a = in_doubt(world)
    world.reconcile("e1")
    a.apply("e1")
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    world.reconcile("e1", Purpose.APPLY)
    with world.refuses("attempt_open"):
        a.apply("e1")


def test_each_look_that_finds_nothing_out_is_followed_by_a_later_one() -> None:
    world = World()
    in_doubt(world)
    pauses = []
    for _ in range(9):
        world.reconcile("e1")
        world.outcome("e1", E.IN_DOUBT, K.NONE)
        pauses.append(world.effects["e1"].next_check - world.now)
    assert pauses == [min(60_000 << n, HOUR) for n in range(1, 10)]
    assert world.effects["e1"].checks == 9


def test_a_job_that_is_seen_to_go_on_is_looked_at_as_often_as_before() -> None:
    world = World()
    in_doubt(world)
    for _ in range(3):
        world.reconcile("e1")
        world.outcome("e1", E.ACCEPTED, K.LOOKUP, reference="job_1")
    assert (world.effects["e1"].checks, world.effects["e1"].next_check) == (0, world.now + 60_000)


def test_a_person_is_asked_once_and_answers_for_it_until_it_is_settled() -> None:
    world = World()
    in_doubt(world)
    world.ask_about("e1", reason=Reason.RETRIES_EXHAUSTED)
    asked = world.newest(ev.EffectAsked)
    assert (asked.who, asked.by, asked.reason) == ("person:operator", "reconciler", Reason.RETRIES_EXHAUSTED)
    assert (world.effects["e1"].asked, world.task.effects[0].state) == ("person:operator", E.IN_DOUBT)
    assert (world.ask_about("e1").status, world.said()) == ("already", ())
    world.reconcile("e1")
    world.outcome("e1", E.CONFIRMED, K.LOOKUP)
    assert world.effects["e1"].asked == ""
    with world.refuses("wrong_phase"):
        world.ask_about("e1")


def test_who_asks_names_the_version_that_was_seen() -> None:
    world = World()
    in_doubt(world)
    with world.refuses("version_conflict"):
        world.ask_about("e1", version=1)


def test_who_attests_names_the_version_that_was_seen() -> None:
    world = World()
    in_doubt(world)
    with world.refuses("version_conflict"):
        world.attest("e1", version=1)


# --- what a person finds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finding", [Finding.PRESENT, Finding.ABSENT])
def test_a_finding_is_kept_with_the_effect(finding: Finding) -> None:
    world = World()
    in_doubt(world)
    world.attest("e1", finding=finding)
    assert (world.effects["e1"].state, world.effects["e1"].finding) == (E.ATTESTED, finding)


def test_what_was_not_done_cannot_be_found_undone() -> None:
    world = World()
    in_doubt(world)
    with world.refuses("wrong_phase"):
        world.attest("e1", finding=Finding.UNDONE)


@pytest.mark.parametrize(
    ("finding", "evidence", "disputed"),
    [
        (Finding.ABSENT, E.CONFIRMED, True),
        (Finding.ABSENT, E.REFUSED, False),
        (Finding.PRESENT, E.CONFIRMED, False),
        (Finding.PRESENT, E.REFUSED, True),
    ],
)
def test_later_evidence_against_a_finding_is_a_visible_dispute(
    finding: Finding, evidence: EffectState, *, disputed: bool
) -> None:
    world = World()
    in_doubt(world)
    world.attest("e1", finding=finding)
    world.outcome("e1", evidence)
    assert (world.effects["e1"].state is E.DISPUTED) is disputed


def granted(world: World) -> Owner:
    """One more try, after the sender was seen dead."""
    in_doubt(world, idempotent_ms=0, in_flight_ms=5_000)
    world.dies("a1")
    b = world.ack("a", "a2")
    world.now += 5_000
    world.attest("e1", finding=Finding.ABSENT, retry=True)
    return b


def test_a_grant_is_good_for_one_retry() -> None:
    world = World()
    b = granted(world)
    assert world.effects["e1"].granted
    receipt = b.intend("e2", policy=EXTERNAL)
    assert receipt.effect is not None
    assert (receipt.effect.effect_id, receipt.effect.state, receipt.effect.granted) == ("e1", E.INTENDED, False)
    world.outcome("e1", E.IN_DOUBT, K.NONE)
    with world.refuses("attempt_unsafe"):
        b.apply("e1")


def test_without_a_grant_what_was_found_absent_answers_a_repeat() -> None:
    world = World()
    a = in_doubt(world)
    world.attest("e1", finding=Finding.ABSENT)
    assert a.intend("e2", policy=EXTERNAL).status == "already"
    with world.refuses("wrong_phase"):
        a.apply("e1")


def test_a_grant_does_not_take_the_place_of_the_senders_death() -> None:
    world = World()
    in_doubt(world, in_flight_ms=5_000)
    with world.refuses("attempt_unsafe"):
        world.attest("e1", finding=Finding.ABSENT, retry=True)
    world.dies("a1")
    with world.refuses("attempt_unsafe"):
        world.attest("e1", finding=Finding.ABSENT, retry=True)
    with world.refuses("invalid"):
        world.attest("e1", finding=Finding.PRESENT, retry=True)


def test_evidence_that_comes_after_a_grant_takes_it_back() -> None:
    world = World()
    b = granted(world)
    world.outcome("e1", E.CONFIRMED)
    assert (world.effects["e1"].state, world.effects["e1"].granted) == (E.DISPUTED, False)
    with world.refuses("effect_open"):
        b.intend("e2", policy=EXTERNAL)


def test_a_grant_is_used_up_when_another_task_has_taken_up_the_intent() -> None:
    world = World()
    b = granted(world)
    b.delegate("t.k", "c")
    world.ack("c", task_id="t.k").intend("e2", policy=EXTERNAL)
    with world.refuses("effect_open"):
        b.intend("e3", policy=EXTERNAL)
    world.outcome("e2", E.CONFIRMED)
    receipt = b.intend("e3", policy=EXTERNAL)
    assert receipt.effect is not None
    assert (receipt.status, receipt.effect.effect_id) == ("already", "e2")
    with world.refuses("attempt_unsafe"):
        b.apply("e1")


def test_a_call_cannot_bring_a_persons_word() -> None:
    world = World()
    in_doubt(world)
    with world.refuses("evidence_insufficient"):
        world.outcome("e1", E.ATTESTED, K.ATTESTATION)


# --- the contract ----------------------------------------------------------------------------------------------------


def test_the_tables_speak_of_every_kind_and_of_states_that_exist() -> None:
    assert set(EVIDENCE) == set(EvidenceKind)
    assert set(WORK_EVIDENCE) <= set(EvidenceKind)
    assert not any(EVIDENCE[kind] for kind in set(WORK_EVIDENCE) - {K.ATTESTATION}), "what shows a work shows no effect"
    assert set(SHOWN_BY) <= set(Purpose)
    assert set(FINDINGS) <= set(EffectState)


def test_every_observation_reads_as_evidence() -> None:
    world = World()
    in_doubt(world, in_flight_ms=5_000)
    world.dies("a1")
    world.reconcile("e1")
    world.outcome("e1", E.CONFIRMED, K.LOOKUP, reference="pay_1")
    found = [one for one in map(evidence_of, world.history["t"]) if one is not None and one.of == "e1"]
    assert [(one.kind, one.source, one.observer, one.attempt, one.reference) for one in found] == [
        (K.NONE, "apply", "a1", 1, ""),
        (K.DEATH, "host", "a1", 0, ""),
        (K.LOOKUP, "lookup", "reconciler", 2, "pay_1"),
    ]
    assert evidence_of(world.history["t"][0]) is None


def test_the_ledgers_own_doubt_names_the_ledger() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1", policy=EXTERNAL)
    a.transfer("b")
    found = evidence_of(world.newest(ev.EffectObserved))
    assert found is not None
    assert (found.source, found.observer, found.attempt) == ("ledger", "ledger", 0)
