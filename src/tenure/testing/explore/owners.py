"""What a tenure does: the current one, and one that does not know yet that it is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenure.protocol import commands as cmd
from tenure.protocol.decisions import Decision
from tenure.protocol.state import Task, Tenure
from tenure.protocol.vocabulary import Phase, Purpose, WorkEnd, WorkKind
from tenure.testing.explore import commands as make
from tenure.testing.explore.commands import NOTE, ROOT
from tenure.testing.explore.scope import Scope
from tenure.testing.explore.world import Running, World

Raw = tuple[str, World, cmd.Command | None]


def owner_moves(scope: Scope, world: World, task: Task) -> Iterator[Raw]:
    """What the current owner may do, its mistakes included."""
    tenure = task.tenure
    if tenure is None or not world.up(tenure.instance):
        return
    who: dict[str, Any] = {
        "command_id": "x",
        "root_id": ROOT,
        "task_id": task.task_id,
        "epoch": tenure.epoch,
        "instance": tenure.instance,
    }
    yield from _start_moves(scope, world, task, who)
    yield from _turn_moves(scope, world, task, who)
    yield from _input_moves(world, task, who)
    yield from _decision_moves(scope, world, task, tenure)
    if tenure.retiring is not None:
        yield from _release_moves(scope, world, task, tenure, who)


def _start_moves(scope: Scope, world: World, task: Task, who: dict[str, Any]) -> Iterator[Raw]:
    """Works, helpers, effects, routes, children. A retiring tenure tries too, and must be refused."""
    name = who["instance"]
    if world.left("works"):
        used = scope.budget["works"] - world.left("works")
        work = cmd.StartWork(
            **who,
            work_id=f"w{used + 1}",
            kind=scope.kinds[used % len(scope.kinds)],
            name="work",
            policy=scope.work_policy,
        )
        yield f"{name} starts w{used + 1}, a {work.kind}", world.but(spend="works"), work
    if world.left("helpers") and task.tenure is not None and task.tenure.retiring is None:
        helper = Running(task.task_id, who["epoch"], name, WorkKind.COROUTINE, booked=False)
        running = {**world.running, (task.task_id, f"helper{world.left('helpers')}"): helper}
        yield f"{name} starts a helper", world.but(spend="helpers", running=running), None
    if world.left("routes"):
        yield f"{name} opens a route", world.but(spend="routes"), cmd.OpenRoute(**who, route_id="r")
    if world.left("effects"):
        # Intents are alike: a new one is the next in order; an old one is tried again as such.
        used = scope.budget["effects"] - world.left("effects")
        for intent in dict.fromkeys(
            (scope.outside.intents[min(used, len(scope.outside.intents) - 1)], scope.outside.intents[0])
        ):
            yield f"{name} intends {intent}", world.but(spend="effects"), intend(scope, world, who, intent)
    if world.left("children"):
        used = scope.budget["children"] - world.left("children")
        known = {**world.constraints, f"{ROOT}.{used + 1}": world.constraints[task.task_id]}
        opened = world.but(spend="children", constraints=known)
        yield f"{name} delegates", opened, _delegate(scope, world, task, who, used)


TURNS = (("tB", "call"), ("tB", "tC"), ("tC", "tB", "tB'"), ("tB", "dB"), ("call",))
"""What is asked for in one response: a transfer beside a call, two transfers, two that are alike, a delegation too."""


def _turn_moves(scope: Scope, world: World, task: Task, who: dict[str, Any]) -> Iterator[Raw]:
    if not world.left("turns") or task.task_id != ROOT:
        return
    for asked in TURNS:
        if who["instance"].startswith("a") or "tB" not in asked:
            spent = world.but(spend="turns")
            yield f"{who['instance']} asks for {' and '.join(asked)}", spent, make.turn(scope, task, who, asked)


def intend(scope: Scope, world: World, who: dict[str, Any], intent: str) -> cmd.Intend:
    """An intent with a new effect id."""
    outside = scope.outside
    used = scope.budget["effects"] - world.left("effects")
    return cmd.Intend(
        **who,
        effect_id=f"e{used + 1}",
        provider="p",
        tool="tool",
        intent=intent,
        request=NOTE,
        compared="c",
        policy=outside.policy,
        idempotent_ms=outside.window_ms,
        in_flight_ms=outside.limit_ms,
        check_ms=10,
    )


def _delegate(scope: Scope, world: World, task: Task, who: dict[str, Any], used: int) -> cmd.Delegate:
    child = f"{ROOT}.{used + 1}"
    return cmd.Delegate(
        **who,
        child_id=child,
        candidates=make.entries(scope, (scope.children,)),
        payload=make.payload(child, "", 0, world.constraints[task.task_id]),
        authority=scope.authority,
    )


def _input_moves(world: World, task: Task, who: dict[str, Any]) -> Iterator[Raw]:
    """Seen, consumed, collected: in order, out of order, too much, twice."""
    name = who["instance"]
    if task.received > task.seen:
        yield f"{name} sees input up to {task.received}", world, cmd.See(**who, upto=task.received)
    if task.received:
        for consumed in range(max(task.consumed - 1, 1), task.received + 2):
            yield f"{name} consumes up to {consumed}", world, cmd.Advance(**who, consumed=consumed)
    for child in task.children:
        yield f"{name} collects {child.child_id}", world, cmd.Advance(**who, collected=(child.child_id,))
    if world.left("documents"):
        yield f"{name} writes its state", world.but(spend="documents"), cmd.Advance(**who, document=NOTE)


def _decision_moves(scope: Scope, world: World, task: Task, tenure: Tenure) -> Iterator[Raw]:
    """Its decision, with and without something left to retire. A second decision is tried while it retires."""
    speaker = (tenure.instance, tenure.epoch)
    helpers = any(not work.booked and work.epoch == tenure.epoch for work in world.running.values())
    for label, after, decision in _decisions(scope, world, task, tenure):
        settled = without_handler(after, task.task_id, tenure.epoch)
        carried = after.constraints
        for quiet in (False,) if helpers or tenure.retiring else (True, False):
            text = f"{tenure.instance} decides to {label}" + (", quiet" if quiet else "")
            consumed = task.seen if task.seen > task.consumed else 0
            for upto in (0, consumed) if consumed else (0,):
                command = make.retire(task.task_id, speaker, decision, quiet=quiet, consumed=upto)
                closed = settled.but(constraints=carried)
                yield text + (f", consuming up to {upto}" if upto else ""), closed, command


def without_handler(world: World, task_id: str, epoch: int) -> World:
    """A decision is what a handler returns: with it, the handler has ended."""
    key = (task_id, f"handler:{epoch}")
    if key not in world.running:
        return world
    return world.but(running={name: work for name, work in world.running.items() if name != key})


def _decisions(scope: Scope, world: World, task: Task, tenure: Tenure) -> Iterator[tuple[str, World, Decision]]:
    known = world.constraints[task.task_id]
    kinds = scope.decisions
    if "complete" in kinds:
        yield "complete", world, make.COMPLETE
    if tenure.pending is not None:
        yield "carry out its turn", world, make.carry_out(task, tenure.pending)
    if "transfer" in kinds and task.task_id == ROOT:
        yield from _transfers(scope, world, task, tenure)
    if world.left("returns"):
        spent = world.but(spend="returns")
        yield "return", spent, make.give_back(task, known)
        if world.left("constraints"):
            more = spent.but(spend="constraints", constraints={**world.constraints, task.task_id: (*known, "returned")})
            yield "return with a new constraint", more, make.give_back(task, (*known, "returned"))
    yield from _further_decisions(scope, world, task)


def _further_decisions(scope: Scope, world: World, task: Task) -> Iterator[tuple[str, World, Decision]]:
    """To wait, to ask a person, to fail, to stop."""
    if world.left("waits"):
        for on in scope.waits:
            if on != "child" or task.children:
                yield f"wait for {on}", world.but(spend="waits"), make.wait(on)
    if world.left("escalations"):
        yield "escalate", world.but(spend="escalations"), make.ESCALATE
    if world.left("failures"):
        yield "fail", world.but(spend="failures"), make.FAIL
    if task.phase is Phase.CANCEL_REQUESTED:
        yield "stop as asked", world, make.STOP


def _transfers(scope: Scope, world: World, task: Task, tenure: Tenure) -> Iterator[tuple[str, World, Decision]]:
    known = world.constraints[task.task_id]
    agents = scope.edges.get(tenure.agent, ())
    if not agents:
        return
    yield f"transfer to {' or '.join(agents)}", world, make.transfer(scope, task, agents, known)
    yield "transfer without a constraint", world, make.transfer(scope, task, agents, known[:-1])
    if world.left("constraints"):
        more = world.but(spend="constraints", constraints={**world.constraints, task.task_id: (*known, "more")})
        yield "transfer with a new constraint", more, make.transfer(scope, task, agents, (*known, "more"))


def _release_moves(scope: Scope, world: World, task: Task, tenure: Tenure, who: dict[str, Any]) -> Iterator[Raw]:
    """The release, with all that was seen to end, or with nothing seen; and one while its routes are open."""
    name = tenure.instance
    # Where a turn has ended the task, the handler has not decided: it has ended all the same before the release.
    world = without_handler(world, task.task_id, tenure.epoch)
    # In a reduced scope, whatever still runs may end just before, or not.
    mine = [(task.task_id, work.work_id) for work in task.works if work.epoch == tenure.epoch]
    over = [key for key in mine if scope.reduced or key not in world.running]
    ended = tuple(cmd.Ended(work_id=work_id, how=WorkEnd.RETURNED) for _, work_id in over)
    unseen = sum(1 for work in world.running.values() if not work.booked and work.epoch == tenure.epoch)
    closed = world.but(routes=world.routes - {(task.task_id, tenure.epoch)}) if world.routes else world
    yield f"{name} releases", closed, cmd.Release(**who, routes_retired=True, unseen=unseen)
    if over:
        left = closed.but(running={key: work for key, work in world.running.items() if key not in over})
        saw = cmd.Release(**who, routes_retired=True, ended=ended, unseen=unseen)
        yield f"{name} releases, {len(over)} seen to end", left, saw
    if tenure.routes:
        yield f"{name} releases with an open route", world, cmd.Release(**who, routes_retired=False, unseen=unseen)
        yield f"{name} closes its route", closed, cmd.CloseRoute(**who, route_id=tenure.routes[0])


def stale_moves(scope: Scope, world: World, task: Task) -> Iterator[Raw]:
    """Commands under tenures that are over, and under the current epoch by somebody else."""
    current = (task.tenure.instance, task.tenure.epoch) if task.tenure else ("", 0)
    held = [(instance, epoch) for name, instance, epoch in world.held if name == task.task_id]
    speakers = [pair for pair in held if pair != current and (scope.late or world.up(pair[0]))]
    if not scope.late:
        speakers = speakers[-1:]
    stranger = next((name for name in scope.instances if name != current[0]), "nobody")
    for instance, epoch in [*speakers, (stranger, task.epoch)]:
        yield from _stale_commands(scope, world, task, instance, epoch)
    if scope.late and task.tenure is not None:
        # A command of an epoch that nobody was ever granted.
        yield from _stale_commands(scope, world, task, task.tenure.instance, task.epoch + 1)


def _stale_commands(scope: Scope, world: World, task: Task, instance: str, epoch: int) -> Iterator[Raw]:
    who: dict[str, Any] = {
        "command_id": "x",
        "root_id": ROOT,
        "task_id": task.task_id,
        "epoch": epoch,
        "instance": instance,
    }
    said = f"{instance}, under epoch {epoch},"
    # A late decision is also the end of its handler. In a reduced scope the handler goes on running instead, which
    # only makes it harder to claim that it has stopped.
    known = not scope.reduced and (task.task_id, instance, epoch) in world.held
    gone = without_handler(world, task.task_id, epoch) if known else world
    yield f"{said} completes", gone, make.retire(task.task_id, (instance, epoch), make.COMPLETE)
    yield f"{said} releases", gone, cmd.Release(**who, routes_retired=True)
    yield f"{said} writes its state", world, cmd.Advance(**who, consumed=task.received, document=NOTE)
    if scope.budget.get("works"):
        work = cmd.StartWork(**who, work_id="late", kind=WorkKind.PROCESS, name="late", policy=scope.work_policy)
        yield f"{said} starts a work", world, work
    if world.left("effects"):
        yield f"{said} intends", world.but(spend="effects"), intend(scope, world, who, scope.outside.intents[0])
    for effect in world.effects.values():
        if effect.task_id == task.task_id:
            again = cmd.AttemptEffect(**who, effect_id=effect.effect_id, version=effect.version, purpose=Purpose.APPLY)
            yield f"{said} calls for {effect.effect_id} again", world, again
    if world.left("routes"):
        yield f"{said} opens a route", world, cmd.OpenRoute(**who, route_id="late")
    if world.left("children"):
        yield f"{said} delegates", world, _delegate(scope, world, task, who, 8)
