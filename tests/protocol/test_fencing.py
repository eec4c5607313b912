"""Fencing: nothing that an owner says counts under any epoch or instance but the current one."""

from collections.abc import Callable

import pytest

from tenure.errors import Fenced
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.state import Locator
from tenure.protocol.vocabulary import Phase, Purpose, WaitOn
from tests.protocol.world import Owner, World, body

ACTS: dict[str, Callable[[Owner], object]] = {
    "turn": lambda owner: owner.advance(document="x"),
    "input": lambda owner: owner.see(1),
    "work": lambda owner: owner.work("y"),
    "place": lambda owner: owner.say(cmd.LocateWork, work_id="x", locator=Locator(pid=1)),
    "route": lambda owner: owner.route("r2"),
    "close": lambda owner: owner.close("r"),
    "intent": lambda owner: owner.intend("e2", key="B2"),
    "call": lambda owner: owner.apply("e1"),
    "look-up": lambda owner: owner.apply("e1", Purpose.LOOKUP),
    "delegation": lambda owner: owner.delegate("t.k", "c"),
}


def busy_owner(world: World) -> Owner:
    a = world.owned_by("a")
    a.work("x")
    a.route("r")
    a.intend("e1", idempotent_ms=60_000)
    world.send()
    return a


@pytest.mark.parametrize("act", ACTS)
def test_a_former_owner_is_fenced(act: str) -> None:
    world = World()
    a = busy_owner(world)
    world.expire()
    with world.fences():
        ACTS[act](a)
    world.ack("a", "a2")
    with world.fences() as caught:
        ACTS[act](a)
    assert isinstance(caught[0], Fenced)
    assert (caught[0].next_action, caught[0].facts["epoch"]) == ("stop", world.task.epoch)


@pytest.mark.parametrize("act", ACTS)
def test_the_right_epoch_under_another_instance_is_fenced(act: str) -> None:
    world = World()
    a = busy_owner(world)
    impostor = Owner(world, "t", "a", "a2", a.receipt)
    with world.fences():
        ACTS[act](impostor)


@pytest.mark.parametrize("act", ACTS)
def test_an_epoch_that_has_not_come_yet_is_fenced(act: str) -> None:
    world = World()
    a = busy_owner(world)
    a.epoch += 1
    with world.fences():
        ACTS[act](a)


def late(world: World) -> Owner:
    a = world.owned_by("a")
    a.transfer("b")
    world.ack("b")
    return a


def test_a_late_decision_is_kept_as_evidence_and_moves_no_ownership() -> None:
    world = World()
    a = late(world)
    before = world.task
    receipt = a.complete("my result")
    kept = world.newest(ev.LateRecorded)
    assert (receipt.status, kept.command, kept.body) == ("late", "retire:complete", body("my result").digest)
    assert (kept.epoch, kept.instance) == (a.epoch, "a1")
    after = world.task
    assert (after.tenure, after.epoch, after.phase) == (before.tenure, before.epoch, before.phase)


def test_a_late_release_is_kept_too() -> None:
    world = World()
    a = late(world)
    assert a.release().status == "late"
    assert world.newest(ev.LateRecorded).command == "release"


def test_what_an_ended_task_is_brought_is_kept_and_reopens_nothing() -> None:
    world = World()
    a = world.owned_by("a")
    a.complete("done")
    assert a.complete("again").status == "late"
    assert (world.phase(), world.count("task.completed")) == (Phase.COMPLETED, 1)
    assert world.task.result == body("done").digest


@pytest.mark.parametrize("epoch", [0, -1, 99])
def test_who_never_can_have_owned_the_task_is_not_even_kept(epoch: int) -> None:
    world = World()
    a = late(world)
    a.epoch = epoch
    with world.fences():
        a.complete()
    with world.fences():
        a.release()


def test_between_two_tenures_nobody_is_the_owner() -> None:
    world = World()
    a = world.owned_by("a")
    a.wait(WaitOn.TIME)
    for act in ACTS.values():
        if act is not ACTS["call"] and act is not ACTS["look-up"]:
            with world.fences():
                act(a)


def test_tenures_never_overlap_and_each_has_an_epoch_of_its_own() -> None:
    world = World()
    world.owned_by("a").transfer("b")
    world.ack("b").give_back()
    world.ack("a", "a2")
    world.expire()
    world.ack("a", "a3").complete()
    epochs = [epoch for _, epoch in world.grants]
    assert epochs == sorted(set(epochs))
    assert len(epochs) == world.count("tenure.ended")
