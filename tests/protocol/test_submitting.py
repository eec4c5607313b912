"""Submitting: a root task exists once; a conversation has at most one that is unfinished."""

from tenure.protocol.body import text_digest
from tests.protocol.world import CONSTRAINTS, GOAL, World


def test_a_task_holds_the_digests_of_its_goal_and_constraints() -> None:
    task = World().submit("a").task
    assert (task.goal, task.constraints) == (text_digest(GOAL), (text_digest(CONSTRAINTS[0]),))
    assert (task.created_at, task.revision, task.parent) == (task.at, 2, "")


def test_a_task_is_submitted_once() -> None:
    world = World().submit("a")
    with world.refuses("task_exists"):
        world.submit("a")


def test_a_submitted_task_is_the_root_of_its_own_tree_and_has_an_id() -> None:
    world = World()
    with world.refuses("invalid"):
        world.submit("a", task_id="other")
    with world.refuses("invalid"):
        world.submit("a", task_id="", root_id="")


def test_a_task_needs_a_candidate_and_a_payload_of_its_own() -> None:
    world = World()
    with world.refuses("invalid"):
        world.submit()
    with world.refuses("payload_invalid"):
        world.submit("a", payload=world.payload(task_id="other"))
    tight = World(payload_bytes=10)
    with tight.refuses("payload_too_large"):
        tight.submit("a")


def test_a_conversation_has_one_unfinished_task_and_outlives_it() -> None:
    world = World().submit("a", conversation="chat-991")
    with world.refuses("conversation_open") as caught:
        world.submit("a", task_id="u", root_id="u", conversation="chat-991")
    assert caught[0].facts["task_id"] == "t"
    world.ack("a").complete()
    world.submit("a", task_id="u", root_id="u", payload=world.payload(task_id="u"), conversation="chat-991")
    assert world.tasks["u"].conversation == "chat-991"
