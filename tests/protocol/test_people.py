"""People: a structured question, one answer, a finite fallback."""

from tenure.protocol import events as ev
from tenure.protocol.settings import CRITICAL
from tenure.protocol.vocabulary import EffectState, OfferKind, Phase, Reason, WaitOn
from tests.protocol.world import World, body


def test_an_escalation_gives_the_task_up_and_names_who_answers_for_it() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    world.ack("b").escalate(who=("person:lead", "person:deputy"), reason=Reason.BUDGET)
    assert (world.phase(), world.hops(), world.task.tenure) == (Phase.ESCALATED, [], None)
    assert world.task.answerable == "person:lead"
    assert world.task.question is not None
    assert world.task.question.reason is Reason.BUDGET


def test_an_escalation_that_names_nobody_goes_to_the_fallback_within_the_default_time() -> None:
    world = World(question_ms=5_000, fallback="person:duty")
    world.owned_by("a").escalate()
    assert world.task.question is not None
    assert (world.task.question.who, world.task.question.due) == (("person:duty",), world.now + 5_000)


def test_an_escalation_may_name_its_own_time() -> None:
    world = World()
    world.owned_by("a").escalate(due_ms=1_000)
    assert world.due() == world.now + 1_000


def test_a_question_has_one_answer() -> None:
    world = World()
    world.owned_by("a").escalate()
    world.answer("q1")
    with world.refuses("already_answered"):
        world.answer("q1")


def test_dr_03_answers_are_bound_to_their_question_round_after_round() -> None:
    world = World()
    a = world.owned_by("a")
    for n in (1, 2, 3):
        a.intend(f"e{n}", key=f"step {n}")
        world.outcome(f"e{n}", EffectState.CONFIRMED)
        a.wait(WaitOn.ANSWER, question_id=f"q{n}")
        with world.refuses("unknown_question"):
            world.answer(f"q{n - 1}")
        world.answer(f"q{n}", body=body(f"answer {n}"))
        with world.refuses("already_answered"):
            world.answer(f"q{n}")
        a = world.ack("a", f"a{n + 1}")
        for done in range(1, n + 1):
            assert a.intend(f"again{done}", key=f"step {done}").status == "already"
        a.see(n)
        a.advance(n)
    assert sorted(world.effects) == ["e1", "e2", "e3"]
    questions = [event.question_id for event in world.history["t"] if isinstance(event, ev.InputReceived)]
    assert questions == ["q1", "q2", "q3"]


def test_an_answer_comes_from_those_asked_and_is_one_of_the_choices() -> None:
    world = World()
    world.owned_by("a").escalate(who=("person:lead",), allowed=("yes", "no"))
    with world.refuses("not_allowed"):
        world.answer("q1", "person:operator", choice="yes")
    with world.refuses("not_allowed"):
        world.answer("q1", "person:lead", choice="maybe")
    with world.refuses("unknown_question"):
        world.answer("q9", "person:lead", choice="yes")
    with world.refuses("invalid"):
        world.answer("q1", "person:lead", choice="yes", action="shrug")
    with world.refuses("invalid"):
        world.answer("q1", "person:lead", choice="yes", action="reassign")
    world.answer("q1", "person:lead", choice="yes")


def test_a_resumed_task_goes_to_who_held_it_with_the_answer_as_input() -> None:
    world = World()
    world.owned_by("a").escalate()
    world.answer("q1", body=body("go on"))
    assert world.task.offer is not None
    assert (world.task.offer.kind, world.task.offer.reason) == (OfferKind.RESUME, Reason.ANSWERED)
    world.ack("a", "a2")
    assert list(world.task.unread) == [1]


def test_a_person_may_give_the_task_to_another_agent() -> None:
    world = World()
    world.owned_by("a").escalate()
    world.answer("q1", action="reassign", agent="z")
    with world.refuses("not_a_candidate"):
        world.ack("a")
    assert world.ack("z").agent == "z"


def test_a_person_may_end_the_task() -> None:
    world = World()
    world.owned_by("a").escalate()
    world.answer("q1", action="abort")
    assert world.said() == ("question.answered", "task.failed")
    assert (world.phase(), world.task.reason) == (Phase.FAILED, Reason.ABORTED)
    with world.refuses("task_ended"):
        world.answer("q1")


def test_what_is_critical_must_be_attested_before_the_task_is_aborted() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1", policy=CRITICAL)
    a.escalate()
    with world.refuses("wrong_phase"):
        world.answer("q1", action="abort")
    world.attest("e1")
    world.answer("q1", action="abort")


def test_an_escalation_that_nobody_answers_fails_the_task_by_default() -> None:
    world = World()
    world.owned_by("a").escalate()
    world.expire()
    assert world.said() == ("question.expired", "task.failed")
    assert (world.phase(), world.task.reason) == (Phase.FAILED, Reason.ESCALATION_EXPIRED)


def test_or_cancels_it_by_policy_unless_critical_items_are_open() -> None:
    world = World(on_unanswered="cancel")
    world.owned_by("a").escalate()
    world.expire()
    assert world.phase() is Phase.CANCELLED
    critical = World(on_unanswered="cancel")
    a = critical.owned_by("a")
    a.intend("e1", policy=CRITICAL)
    a.escalate()
    critical.expire()
    assert critical.phase() is Phase.FAILED
    assert critical.task.answerable == "person:operator"


def test_an_open_effect_of_a_task_that_has_ended_can_still_be_attested() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1")
    a.complete()
    world.attest("e1")
    assert world.task.effects == ()


def test_a_person_who_is_asked_about_a_failure_is_told_what_failed() -> None:
    world = World()
    a = world.owned_by("a")
    a.fail()
    assert world.task.question is not None
    assert world.task.question.body


def test_a_job_whose_provider_cannot_be_asked_is_a_persons_to_speak_for() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1", policy=CRITICAL)
    world.outcome("e1", EffectState.ACCEPTED, reference="job-1")
    a.escalate()
    with world.refuses("wrong_phase"):
        world.answer("q1", action="abort")
    world.attest("e1")
    assert world.said() == ("effect.observed", "effect.observed")
    steps = [event for event in world.history["t"] if isinstance(event, ev.EffectObserved)][-2:]
    assert [(step.state, step.observer) for step in steps] == [
        (EffectState.IN_DOUBT, "person:operator"),
        (EffectState.ATTESTED, "person:operator"),
    ]
    world.answer("q1", action="abort")
    assert world.phase() is Phase.FAILED
