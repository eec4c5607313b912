"""Live input: each message is consumed by exactly one tenure, in order, in its turn's commit."""

from tenure.protocol import events as ev
from tenure.protocol.vocabulary import WaitOn
from tests.protocol.world import World, body


def counts(world: World) -> tuple[int, int, int]:
    return world.task.received, world.task.seen, world.task.consumed


def test_a_message_is_numbered_in_the_order_of_its_arrival() -> None:
    world = World()
    world.owned_by("a")
    world.send("one")
    world.send("two")
    received = [event for event in world.history["t"] if isinstance(event, ev.InputReceived)]
    assert [(event.n, event.body) for event in received] == [(1, body("one").digest), (2, body("two").digest)]


def test_a_task_may_begin_with_a_message() -> None:
    world = World().submit("a", message=body("hello"))
    assert counts(world) == (1, 0, 0)


def test_input_is_marked_as_seen_before_it_is_shown_and_consumed_with_the_turn() -> None:
    world = World()
    a = world.owned_by("a")
    world.send()
    a.see(1)
    assert counts(world) == (1, 1, 0)
    a.advance(1, document={"step": 1})
    assert counts(world) == (1, 1, 1)
    assert world.said() == ("tenure.advanced",)


def test_seeing_the_same_input_again_is_no_news() -> None:
    world = World()
    a = world.owned_by("a")
    world.send()
    a.see(1)
    a.see(1)
    assert world.said() == ()


def test_input_is_consumed_in_order_once_and_only_after_it_was_shown() -> None:
    world = World()
    a = world.owned_by("a")
    world.send("one")
    world.send("two")
    with world.refuses("input_order"):
        a.see(3)
    a.see(2)
    with world.refuses("input_order"):
        a.see(1)
    a.advance(2)
    with world.refuses("input_order"):
        a.advance(1)
    with world.refuses("input_order"):
        a.advance(3)


def test_what_was_not_consumed_goes_on_to_the_next_owner_marked_as_seen() -> None:
    world = World()
    a = world.owned_by("a")
    world.send()
    a.see(1)
    a.transfer("b")
    world.send()
    b = world.ack("b")
    granted = world.newest(ev.TenureGranted)
    assert (granted.received, granted.consumed, counts(world)) == (2, 0, (2, 1, 0))
    assert list(world.task.unread) == [1, 2]
    with world.fences():
        a.advance(1)
    b.see(2)
    b.advance(2)
    assert list(world.task.unread) == []


def test_unread_input_has_a_limit() -> None:
    world = World(unread=1)
    a = world.owned_by("a")
    world.send()
    with world.refuses("backlog_full"):
        world.send()
    a.see(1)
    a.advance(1)
    world.send()


def test_a_task_that_has_ended_takes_no_input() -> None:
    world = World()
    world.owned_by("a").complete()
    with world.refuses("task_ended"):
        world.send()
    with world.refuses("unknown_task"):
        world.send(task_id="t.unheard")


def test_a_message_wakes_a_task_that_waits_for_one() -> None:
    world = World()
    world.owned_by("a").wait(WaitOn.INPUT)
    world.send()
    assert world.said() == ("input.received", "offer.issued")
    world.ack("a", "a2")
    assert list(world.task.unread) == [1]


def test_a_message_for_a_task_that_waits_for_something_else_is_kept_and_wakes_nobody() -> None:
    world = World()
    world.owned_by("a").wait(WaitOn.TIME)
    world.send()
    assert world.said() == ("input.received",)


def test_a_turn_without_anything_to_commit_is_no_event() -> None:
    world = World()
    world.owned_by("a").advance()
    assert world.said() == ()


def test_the_state_document_has_a_version() -> None:
    world = World()
    a = world.owned_by("a")
    a.advance(document={"step": 1})
    a.advance(document={"step": 2})
    assert (world.task.document, world.task.document_version) == (body({"step": 2}).digest, 2)
    assert world.task.tenure is not None
    assert world.task.tenure.turn == 2


def test_a_route_belongs_to_its_tenure() -> None:
    world = World()
    a = world.owned_by("a")
    a.route("r")
    with world.refuses("work_exists"):
        a.route("r")
    with world.refuses("unknown_work"):
        a.close("other")
    a.transfer("b")
    a.close("r")
    a.release()
    assert world.newest(ev.RoutingRetired).routes == ()
    assert world.ack("b").agent == "b"
    assert world.task.tenure is not None
    assert world.task.tenure.routes == ()
