"""Deadlines: every wait ends, overdue is computed on reading, an end of a lease only permits a takeover."""

import pytest

from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.decide import decide_heartbeat, next_deadline
from tenure.protocol.evolve import evolve
from tenure.protocol.vocabulary import EffectState, OfferKind, Phase, Reason, WorkState
from tests.protocol.world import World


def test_nothing_is_expired_before_it_is_due() -> None:
    world = World()
    with world.refuses("unknown_task"):
        world.say(cmd.Expire)
    world.submit("a")
    with world.refuses("not_due"):
        world.say(cmd.Expire)
    world.ack("a").complete()
    with world.refuses("task_ended"):
        world.say(cmd.Expire)


def test_until_a_takeover_commits_the_old_epoch_is_valid_also_past_its_lease() -> None:
    world = World(lease_ms=5_000)
    a = world.owned_by("a")
    world.now = world.due() + 60_000
    a.advance(document="late, but still mine")
    world.beat(a)
    with world.refuses("not_due"):
        world.say(cmd.Expire)


def test_a_heartbeat_moves_the_lease_is_no_event_and_fences_everybody_else() -> None:
    world = World(lease_ms=5_000)
    a = world.owned_by("a")
    before = world.task
    world.beat(a)
    assert (world.task, world.due()) == (before, world.now + 5_000)
    with world.fences():
        decide_heartbeat(world.task, a.epoch, "a2", world.now)
    with world.fences():
        decide_heartbeat(world.task, a.epoch + 1, "a1", world.now)
    with world.refuses("unknown_task"):
        decide_heartbeat(None, 1, "a1", world.now)


def test_a_lost_lease_is_offered_again_with_every_work_residual_and_every_call_in_doubt_in_one_commit() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x")
    a.intend("e1")
    world.expire()
    assert world.task.offer is not None
    assert (world.task.offer.kind, world.task.offer.reason) == (OfferKind.TAKEOVER, Reason.LEASE_LOST)
    assert {work.state for work in world.task.works} == {WorkState.RESIDUAL}
    assert world.effects["e1"].state is EffectState.IN_DOUBT
    with world.fences():
        a.advance(document="too late")


@pytest.mark.parametrize(
    ("policy", "kind"),
    [("same", OfferKind.TAKEOVER), ("return", OfferKind.RETURN), ("person", None)],
)
def test_who_is_offered_a_lost_task_is_a_policy(policy: str, kind: OfferKind | None) -> None:
    world = World(on_lost=policy)
    world.owned_by("a").transfer("b")
    world.ack("b")
    world.expire()
    assert (world.task.offer.kind if world.task.offer else None) is kind
    assert world.phase() is (Phase.OFFERED if kind else Phase.ESCALATED)


def test_a_lost_task_without_a_sender_is_offered_to_its_agent_even_when_the_policy_is_return() -> None:
    world = World(on_lost="return")
    world.owned_by("a")
    world.expire()
    assert world.ack("a", "a2").agent == "a"


def test_takeovers_without_progress_are_bounded() -> None:
    world = World(takeovers=2)
    world.owned_by("a")
    for n in (2, 3):
        world.expire()
        world.ack("a", f"a{n}")
    world.expire()
    assert world.phase() is Phase.ESCALATED
    assert world.task.question is not None
    assert world.task.question.reason is Reason.RETRIES_EXHAUSTED


def test_a_committed_turn_or_a_transfer_starts_the_count_of_takeovers_again() -> None:
    world = World(takeovers=2)
    world.owned_by("a")
    for n in range(2, 6):
        world.expire()
        world.ack("a", f"a{n}").advance(document={"n": n})
    world.expire()
    world.ack("a", "a9").transfer("b")
    world.ack("b")
    assert world.task.takeovers == 0


def test_a_heartbeat_proves_a_process_not_progress() -> None:
    world = World(progress_ms=2_000, progress_grace_ms=1_000, lease_ms=60_000)
    world.owned_by("a")
    world.expire()
    assert world.said() == ("tenure.progress_asked",)
    world.expire()
    assert world.newest(ev.TenureEnded).reason is Reason.NO_PROGRESS
    assert world.task.offer is not None
    assert world.task.offer.kind is OfferKind.TAKEOVER


@pytest.mark.parametrize("step", ["turn", "work", "route", "intent", "delegation", "answer of the provider"])
def test_any_step_that_the_ledger_can_see_answers_the_question_for_progress(step: str) -> None:
    world = World(progress_ms=2_000, progress_grace_ms=1_000, lease_ms=60_000)
    a = world.owned_by("a")
    a.intend("e1")
    world.expire()
    steps = {
        "turn": lambda: a.advance(document="x"),
        "work": lambda: a.work("x"),
        "route": lambda: a.route("r"),
        "intent": lambda: a.intend("e2", key="B2"),
        "delegation": lambda: a.delegate("t.k", "c"),
        "answer of the provider": lambda: world.outcome("e1", EffectState.CONFIRMED),
    }
    steps[step]()
    assert world.task.tenure is not None
    assert (world.task.tenure.asked_at, world.task.tenure.progress_at) == (0, world.now)


def test_evidence_that_somebody_else_brings_is_no_progress_of_the_owner() -> None:
    world = World(progress_ms=2_000, lease_ms=60_000)
    a = world.owned_by("a")
    a.intend("e1")
    a.transfer("b")
    world.ack("b")
    world.expire()
    world.reconcile("e1")
    world.outcome("e1", EffectState.CONFIRMED, attempt=1, instance="a1")
    assert world.task.tenure is not None
    assert world.task.tenure.asked_at > 0


def test_time_never_runs_backwards_within_a_task() -> None:
    world = World()
    a = world.owned_by("a")
    at = world.task.at
    world.now = 10
    a.advance(document="the clock was set back")
    assert world.task.at == at


def test_an_unfinished_task_is_due_at_once_in_the_middle_of_a_commit() -> None:
    world = World()
    world.owned_by("a")
    task = evolve(world.task, ev.TenureEnded(at=world.now, forced=False))
    assert next_deadline(task, 0) == world.now


def test_ta_01_an_overdue_acknowledgement_is_refused_and_never_do_both_own() -> None:
    world = World(ack_ms=5_000)
    world.owned_by("a").transfer("b", "c")
    claimed_at = world.task.epoch
    world.claim("b")
    assert world.said() == ("offer.claimed",)
    world.expire()
    assert world.task.epoch == claimed_at + 1
    with world.fences():
        world.ack("b", epoch=claimed_at)
    with world.refuses("not_a_candidate"):
        world.ack("b")
    world.ack("c").complete()
    assert [agent for agent, _ in world.grants] == ["a", "c"]


def test_ta_01_adopted_before_the_end_of_the_deadline_nobody_else_is_asked() -> None:
    world = World(ack_ms=30_000)
    world.owned_by("a").transfer("b", "c")
    world.claim("b")
    world.now += 12_000
    b = world.ack("b")
    with world.refuses("no_offer"):
        world.ack("c")
    world.now += 8_000
    b.complete()
    assert [agent for agent, _ in world.grants] == ["a", "b"]


def test_ta_03_a_result_under_the_renewed_epoch_is_accepted() -> None:
    world = World(lease_ms=60_000)
    a = world.owned_by("a")
    for _ in range(9):
        world.now += 10_000
        world.beat(a)
    assert a.complete().status == "done"
    assert world.phase() is Phase.COMPLETED


def test_ta_03_after_a_redelivery_the_first_workers_result_is_kept_and_completes_nothing() -> None:
    world = World(lease_ms=60_000)
    first = world.owned_by("a")
    first.intend("e1")
    world.expire()
    second = world.ack("a", "a2")
    assert first.complete("first").status == "late"
    assert world.newest(ev.LateRecorded).command == "retire:complete"
    assert world.task.tenure is not None
    assert (world.task.tenure.instance, [note.effect_id for note in world.task.effects]) == ("a2", ["e1"])
    second.complete("second")
    assert world.count("task.completed") == 1
    assert first.complete("again").status == "late"
    assert world.phase() is Phase.COMPLETED
