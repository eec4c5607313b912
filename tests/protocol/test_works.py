"""Works: on the books before they start, off them only when they were seen to end."""

import pytest

from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.body import Body
from tenure.protocol.evidence import WORK_EVIDENCE, evidence_of
from tenure.protocol.settings import EXTERNAL, Policy
from tenure.protocol.state import Locator
from tenure.protocol.vocabulary import DIES_WITH_PROCESS, EvidenceKind, Reason, WorkEnd, WorkKind, WorkState
from tests.protocol.world import World, body

PLACE = Locator(host="h1", boot="b1", pid=17, started=4, group=17)


def test_a_work_is_on_the_books_before_it_starts() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x")
    work = world.task.works[0]
    assert (work.state, work.epoch, work.instance) == (WorkState.RUNNING, a.epoch, "a1")


def test_a_work_can_be_located_once_it_runs_also_by_a_retiring_tenure() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x", kind=WorkKind.PROCESS)
    a.work("y")
    a.transfer("b")
    a.say(cmd.LocateWork, work_id="x", locator=PLACE)
    assert [work.locator for work in world.task.works] == [PLACE, None]
    with world.refuses("unknown_work"):
        a.say(cmd.LocateWork, work_id="z", locator=PLACE)


def test_a_work_has_an_id_of_its_own() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x")
    with world.refuses("work_exists"):
        a.work("x")
    with world.refuses("work_exists"):
        a.work("handler:2")


def test_open_works_have_a_limit() -> None:
    world = World(open_items=1)
    a = world.owned_by("a")
    a.work("x")
    with world.refuses("backlog_full"):
        a.work("y")
    world.end_work("x")
    a.work("y")


def test_a_policy_whose_grace_outlasts_the_retirement_is_refused() -> None:
    world = World(retire_ms=4_000)
    a = world.owned_by("a")
    with world.refuses("deadline_below_grace"):
        a.work("x", EXTERNAL)
    a.work("x", Policy(name="mine", grace_ms=4_000))


def test_asked_to_end_the_requests_arrival_and_the_end_are_three_facts() -> None:
    world = World()
    world.owned_by("a").work("x")
    world.cancel_work("x")
    assert [(w.state, w.delivered) for w in world.task.works] == [(WorkState.CANCEL_REQUESTED, False)]
    world.cancel_work("x", delivered=True)
    world.cancel_work("x")
    assert [(w.state, w.delivered) for w in world.task.works] == [(WorkState.CANCEL_REQUESTED, True)]
    world.end_work("x", how=WorkEnd.CANCELLED)
    assert world.task.works == ()


SHOWN = [(kind, how) for kind, ends in WORK_EVIDENCE.items() for how in sorted(ends)]


@pytest.mark.parametrize(("kind", "how"), SHOWN)
def test_how_a_work_was_seen_to_end_and_by_whom_is_kept(kind: EvidenceKind, how: WorkEnd) -> None:
    world = World()
    world.owned_by("a").work("x", kind=WorkKind.REMOTE)
    world.say(cmd.EndWork, work_id="x", instance="a1", how=how, evidence=kind, by="w9", result=body("seen"))
    stopped = world.newest(ev.WorkStopped)
    assert (stopped.how, stopped.evidence, stopped.by) == (how, kind, "w9")
    found = evidence_of(stopped)
    assert found is not None
    assert (found.of, found.kind, found.shows, found.observer, found.digest) == (
        "x",
        kind,
        how,
        "w9",
        body("seen").digest,
    )


SILENT = [(kind, how) for kind in EvidenceKind for how in WorkEnd if how not in WORK_EVIDENCE.get(kind, ())]


@pytest.mark.parametrize(("kind", "how"), SILENT)
def test_evidence_speaks_only_for_the_ends_that_it_can_show(kind: EvidenceKind, how: WorkEnd) -> None:
    world = World()
    world.owned_by("a").work("x", kind=WorkKind.REMOTE)
    with world.refuses("evidence_insufficient"):
        world.say(cmd.EndWork, work_id="x", instance="a1", how=how, evidence=kind, by="w9", result=body("seen"))


def test_a_provider_speaks_for_remote_work_only() -> None:
    world = World()
    world.owned_by("a").work("x", kind=WorkKind.PROCESS)
    with world.refuses("evidence_insufficient"):
        world.say(cmd.EndWork, work_id="x", instance="a1", how=WorkEnd.RETURNED, evidence=EvidenceKind.STATUS)


@pytest.mark.parametrize(("by", "words"), [("", body("gone")), ("person:operator", None)])
def test_a_person_who_attests_an_end_says_who_it_is_and_what_was_found(by: str, words: Body | None) -> None:
    world = World()
    world.owned_by("a").work("x")
    with world.refuses("invalid"):
        world.say(
            cmd.EndWork,
            work_id="x",
            instance="a1",
            how=WorkEnd.ATTESTED,
            evidence=EvidenceKind.ATTESTATION,
            by=by,
            result=words,
        )


def test_an_end_is_an_observation_and_counts_under_any_epoch() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x")
    a.transfer("b")
    a.release()
    world.ack("b")
    world.say(cmd.EndWork, work_id="x", instance="a1", how=WorkEnd.RETURNED, result=body("found"))
    stopped = world.newest(ev.WorkStopped)
    assert (stopped.late, stopped.result) == (True, body("found").digest)


def test_only_the_instance_that_runs_a_work_sees_it_end() -> None:
    world = World()
    world.owned_by("a").work("x")
    with world.fences():
        world.end_work("x", "b1")
    with world.refuses("unknown_work"):
        world.end_work("y")
    with world.refuses("unknown_work"):
        world.cancel_work("y")


def test_a_release_cannot_tell_of_another_instances_residual_work() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x")
    a.transfer("b")
    a.release()
    b = world.ack("b")
    b.transfer("c", h="h2", quiet=False)
    b.release("x", delivered=("x",))
    assert [(work.work_id, work.delivered) for work in world.task.works] == [("x", False)]


def test_a_residual_work_is_still_asked_and_still_watched() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x")
    a.transfer("b")
    a.release()
    world.cancel_work("x", delivered=True)
    assert [(w.state, w.delivered) for w in world.task.works] == [(WorkState.RESIDUAL, True)]


@pytest.mark.parametrize("kind", list(WorkKind))
def test_a_dead_process_proves_the_end_of_its_coroutines_and_threads_and_of_nothing_else(kind: WorkKind) -> None:
    world = World()
    world.owned_by("a").work("x", kind=kind)
    world.dies("a1")
    left = [work.work_id for work in world.task.works]
    assert left == ([] if kind in DIES_WITH_PROCESS else ["x"])


def test_a_dead_process_ends_its_handler_and_its_tenure() -> None:
    world = World()
    world.owned_by("a")
    world.dies("a1")
    assert world.said()[-2:] == ("offer.issued", "work.stopped")
    assert world.newest(ev.TenureEnded).reason is Reason.INSTANCE_DEAD
    assert world.task.works == ()


def test_the_death_of_an_instance_that_has_nothing_open_is_no_news() -> None:
    world = World()
    world.owned_by("a")
    with world.refuses("not_due"):
        world.dies("b1")


def test_the_death_of_a_former_owner_settles_its_residual_works_and_leaves_the_owner_alone() -> None:
    world = World()
    a = world.owned_by("a")
    a.work("x")
    a.transfer("b")
    a.release()
    world.ack("b")
    world.dies("a1")
    assert world.said() == ("work.stopped",)
    assert world.task.owner == "b"


def test_the_death_of_a_released_instance_leaves_no_handler_behind() -> None:
    world = World()
    a = world.owned_by("a")
    a.intend("e1", policy=Policy(name="strict", grace_ms=1, gate=EXTERNAL.gate.SETTLED))
    assert a.complete().status == "gate"
    world.dies("a1")
    assert world.task.works == ()
    assert world.newest(ev.TenureEnded).forced is False
