"""Delegation: a child task under its caller, within the tree's budgets; its result reaches the parent task."""

from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.decide import next_deadline
from tenure.protocol.settings import Limits, Settings
from tenure.protocol.state import Candidate
from tenure.protocol.vocabulary import OfferKind, Phase, Reason, WaitOn
from tests.protocol.world import CONSTRAINTS, World, body


def test_the_caller_keeps_its_task_and_the_child_is_offered() -> None:
    world = World()
    a = world.owned_by("a")
    a.delegate("t.k", "c")
    child = world.tasks["t.k"]
    assert (world.task.owner, world.phase(), child.phase, child.parent, child.depth) == (
        "a", Phase.ACTIVE, Phase.OFFERED, "t", 1,
    )  # fmt: skip
    assert world.tree is not None
    assert (world.tree.tasks, world.tree.unfinished, world.tree.delegations) == (2, 2, 1)


def test_a_result_reaches_the_parent_in_the_childs_final_commit_whoever_owns_it_by_then() -> None:
    world = World()
    a = world.owned_by("a")
    a.delegate("t.k", "c")
    a.transfer("b")
    b = world.ack("b")
    assert world.newest(ev.TenureGranted).children == ("t.k",)
    world.ack("c", task_id="t.k").complete("found")
    assert world.said()[-2:] == ("task.completed", "delegation.ended")
    child = world.task.children[0]
    assert (child.outcome, child.result) == ("completed", body("found").digest)
    b.advance(0, "t.k")
    assert world.task.children == ()


def test_a_result_is_collected_once_and_only_when_it_is_there() -> None:
    world = World()
    a = world.owned_by("a")
    a.delegate("t.k", "c")
    with world.refuses("unknown_task"):
        a.advance(0, "t.k")
    world.ack("c", task_id="t.k").complete()
    a.advance(0, "t.k")
    with world.refuses("unknown_task"):
        a.advance(0, "t.k")


def test_a_childs_failure_tells_its_parent_the_reason() -> None:
    world = World(on_failure="fail")
    a = world.owned_by("a")
    a.delegate("t.k", "c")
    world.ack("c", task_id="t.k").fail(Reason.CAPABILITY)
    child = world.task.children[0]
    assert (child.outcome, child.reason) == ("failed", Reason.CAPABILITY)


def test_a_result_for_a_parent_that_has_ended_is_kept_as_unclaimed() -> None:
    world = World()
    a = world.owned_by("a")
    a.delegate("t.k", "c")
    a.complete()
    world.ack("c", task_id="t.k").complete("late")
    assert world.newest(ev.DelegationEnded).unclaimed
    assert world.phase() is Phase.COMPLETED
    assert world.tree is not None
    assert world.tree.unfinished == 0


def test_each_child_tells_its_own_end() -> None:
    world = World()
    a = world.owned_by("a")
    a.delegate("t.k", "c")
    a.delegate("t.l", "c")
    world.ack("c", task_id="t.l").complete()
    assert [(child.child_id, child.outcome) for child in world.task.children] == [("t.k", ""), ("t.l", "completed")]


def test_a_waiting_parent_is_woken_by_the_child_that_it_waits_for() -> None:
    world = World()
    a = world.owned_by("a")
    a.delegate("t.k", "c")
    a.delegate("t.l", "c")
    a.wait(WaitOn.CHILD, child_id="t.l")
    world.ack("c", task_id="t.k").complete()
    assert world.phase() is Phase.WAITING
    world.ack("c", task_id="t.l").complete()
    assert world.task.offer is not None
    assert (world.task.offer.kind, world.task.offer.reason) == (OfferKind.RESUME, Reason.WAKE_CHILD)


def test_no_wake_up_is_lost_when_the_child_ends_before_the_parent_waits() -> None:
    world = World()
    a = world.owned_by("a")
    a.delegate("t.k", "c")
    world.ack("c", task_id="t.k").complete()
    a.wait(WaitOn.CHILD)
    assert world.said()[-2:] == ("task.waiting", "offer.issued")
    assert world.phase() is Phase.OFFERED


def test_one_waits_only_for_a_delegation_that_exists() -> None:
    world = World()
    a = world.owned_by("a")
    with world.refuses("unknown_task"):
        a.wait(WaitOn.CHILD)
    a.delegate("t.k", "c")
    with world.refuses("unknown_task"):
        a.wait(WaitOn.CHILD, child_id="t.other")


def test_the_trees_budgets_are_counted_in_the_commit_that_spends_them() -> None:
    world = World()
    a = world.owned_by("a", limits=Limits(depth=1, delegations=2))
    a.delegate("t.k", "c")
    child = world.ack("c", task_id="t.k")
    with world.refuses("delegation_limit_exceeded"):
        child.delegate("t.k.m", "d")
    a.delegate("t.l", "c")
    with world.refuses("delegation_limit_exceeded"):
        a.delegate("t.m", "c")


def test_results_that_nobody_collects_are_limited_too() -> None:
    world = World(open_items=1)
    a = world.owned_by("a")
    a.delegate("t.k", "c")
    with world.refuses("backlog_full"):
        a.delegate("t.l", "c")


def test_a_child_carries_the_constraints_and_is_within_the_authority_of_its_caller() -> None:
    world = World()
    a = world.owned_by("a", authority=("mail", "refund"))
    with world.refuses("constraints_dropped"):
        a.delegate("t.k", "c", payload=world.payload(task_id="t.k", constraints=()))
    with world.refuses("authority_widened"):
        a.delegate("t.k", "c", authority=("mail", "ban"))
    a.delegate("t.k", Candidate(agent="c", authority=("mail", "ban")), authority=("mail",))
    world.ack("c", task_id="t.k")
    assert world.tasks["t.k"].held_authority == ("mail",)


def test_who_asks_for_everything_gets_what_the_caller_holds() -> None:
    world = World()
    a = world.owned_by("a", authority=("mail",))
    a.delegate("t.k", "c")
    assert world.tasks["t.k"].authority == ("mail",)


def test_a_child_may_have_more_constraints_another_goal_and_settings_of_its_own() -> None:
    world = World()
    a = world.owned_by("a")
    more = world.payload(task_id="t.k", goal="track the parcel", constraints=(*CONSTRAINTS, "German"))
    a.delegate("t.k", "c", payload=more, settings=Settings(lease_ms=5_000))
    child = world.tasks["t.k"]
    assert (len(child.constraints), child.settings.lease_ms, child.goal != world.task.goal) == (2, 5_000, True)


def test_a_child_has_a_payload_an_id_and_a_candidate_of_its_own() -> None:
    world = World()
    a = world.owned_by("a")
    with world.refuses("payload_invalid"):
        a.delegate("t.k", "c", payload=world.payload(task_id="t.other"))
    with world.refuses("invalid"):
        a.delegate("t.k")
    a.delegate("t.k", "c")
    with world.refuses("task_exists"):
        a.delegate("t.k", "c")


def test_a_broadcast_child_is_open_to_all_its_candidates() -> None:
    world = World()
    world.owned_by("a").delegate("t.k", "c", "d", broadcast=True)
    assert world.ack("d", task_id="t.k").agent == "d"


def test_a_stopped_tree_starts_no_new_task() -> None:
    world = World()
    a = world.owned_by("a")
    a.delegate("t.k", "c")
    with world.refuses("unknown_task"):
        world.say(cmd.StopTree, "t.k", by="person:operator")
    assert world.say(cmd.StopTree, by="person:operator").status == "done"
    assert world.say(cmd.StopTree, by="person:operator").status == "already"
    with world.refuses("tree_stopped"):
        a.delegate("t.l", "c")
    assert world.tasks["t.k"].phase is Phase.OFFERED, "descendants are cancelled one by one"
    world.cancel("t.k")
    assert world.task.children[0].outcome == "cancelled"


def test_a_child_that_ends_wakes_no_parent_that_acts() -> None:
    world = World()
    a = world.owned_by("a")
    a.delegate("t.k", "c")
    world.ack("c", task_id="t.k").complete()
    assert world.said()[-1] == "delegation.ended"
    assert a.advance(document="still mine").epoch == a.epoch


def test_the_agents_at_work_at_the_same_time_are_limited() -> None:
    world = World()
    a = world.owned_by("a", limits=Limits(agents=2))
    a.delegate("t.k", "c")
    with world.refuses("delegation_limit_exceeded"):
        a.delegate("t.l", "c")
    world.ack("c", task_id="t.k").complete()
    assert a.delegate("t.l", "c").status == "done"


def test_whoever_waits_for_a_delegation_owes_no_steps_and_its_end_is_one() -> None:
    world = World(progress_ms=2_000, lease_ms=60_000)
    a = world.owned_by("a")
    a.delegate("t.k", "c")
    assert next_deadline(world.task, world.leases["t"]) == world.leases["t"]
    world.now += 10_000
    world.ack("c", task_id="t.k").complete()
    assert next_deadline(world.task, world.leases["t"]) == world.now + 2_000
