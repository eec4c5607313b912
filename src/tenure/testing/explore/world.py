"""The modelled world: the books as a ledger would keep them, and beside them what really happened.

The core only ever sees the books. The checks compare them with the truth that is kept here: which works really run,
which requests really landed at the provider, which process is really dead.

A world is treated as a value: every move makes a new one and shares what it did not touch.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.decide import Change, Verdict
from tenure.protocol.evolve import evolve_effect
from tenure.protocol.outside import Effect
from tenure.protocol.state import Books, Task, Tree
from tenure.protocol.vocabulary import DIES_WITH_PROCESS, Purpose, WorkKind

BEGINNING = 1_000
"""When every history begins, in milliseconds."""

FRESH, UP, DOWN = "fresh", "up", "down"
"""A process that nobody has used yet, one that runs (perhaps stalled: it just makes no move), a dead one."""

READY, FLYING, ANSWERED = "ready", "flying", "answered"
"""A provider call: committed but not sent, sent but not landed, landed with its answer on the way."""


class Running(Struct, frozen=True):
    """A piece of execution that really runs. ``booked`` is false for helpers, which the ledger only counts."""

    task_id: str
    epoch: int
    instance: str
    kind: WorkKind
    booked: bool = True


class Call(Struct, frozen=True):
    """A provider call. ``at``: when it was committed, then when it was sent. ``answer``: what the provider said."""

    effect_id: str
    task_id: str
    intent: str
    generation: int
    n: int
    purpose: Purpose
    epoch: int
    instance: str
    at: int
    state: str = READY
    answer: str = ""


class Key(Struct, frozen=True):
    """What the provider knows under one idempotency key.

    Attributes:
        applied_by: the effect of each application that really happened; two of them are one too many.
        result: its first answer. until: end of the window in which it repeats that answer; 0 when it never does.
    """

    applied_by: tuple[str, ...] = ()
    result: str = ""
    until: int = 0
    sealed: bool = False


class World(Struct):
    """One state of the model.

    Attributes:
        tasks, effects, tree, leases: the books.
        processes: state of each instance. held: every tenure that an instance was granted and may still believe in.
        running: what really runs, by task and work. routes: subscriptions that really take input.
        calls, keys: the provider's side. constraints: all texts that an accepted payload ever carried.
        budget: how many moves of each kind are left. ticks: how long the watchdog has slept past a deadline.
    """

    now: int
    tasks: dict[str, Task]
    effects: dict[str, Effect]
    tree: Tree | None
    leases: dict[str, int]
    processes: dict[str, str]
    held: tuple[tuple[str, str, int], ...]
    running: dict[tuple[str, str], Running]
    routes: frozenset[tuple[str, int]]
    calls: tuple[Call, ...]
    keys: dict[tuple[str, int], Key]
    constraints: dict[str, tuple[str, ...]]
    budget: dict[str, int]
    ticks: int = 0

    def left(self, name: str) -> int:
        """How many moves of a kind are left."""
        return self.budget.get(name, 0)

    def but(self, *, spend: str = "", **changes: Any) -> World:
        """The same world with some parts exchanged and one unit of a budget spent."""
        if spend:
            changes["budget"] = {**self.budget, spend: self.budget[spend] - 1}
        return replace(self, **changes)

    def up(self, instance: str) -> bool:
        """Whether a process can still act."""
        return self.processes.get(instance) != DOWN


def empty(budget: dict[str, int], instances: tuple[str, ...]) -> World:
    """The world before anything was submitted."""
    return World(
        now=BEGINNING,
        tasks={},
        effects={},
        tree=None,
        leases={},
        processes=dict.fromkeys(instances, FRESH),
        held=(),
        running={},
        routes=frozenset(),
        calls=(),
        keys={},
        constraints={},
        budget=dict(budget),
    )


def books_for(world: World, command: cmd.Command) -> Books:
    """What a ledger loads for a command, as :class:`tenure.protocol.state.Books` says it."""
    task = world.tasks.get(command.task_id)
    effect_id = getattr(command, "effect_id", "")
    named = world.effects.get(effect_id)
    intent = named.intent if named is not None else getattr(command, "intent", "")
    death = isinstance(command, cmd.ReportDeath)
    effects = [
        effect
        for effect in world.effects.values()
        if effect.effect_id == effect_id
        or effect.intent == intent
        or (death and effect.task_id == command.task_id and not effect.state.settled)
    ]
    return Books(
        tree=world.tree,
        task=task,
        parent=world.tasks.get(task.parent) if task is not None and task.parent else None,
        child=world.tasks.get(getattr(command, "child_id", "")),
        effects=tuple(effects),
        lease_until=world.leases.get(command.task_id, 0),
    )


def commit(world: World, verdict: Verdict, *, direct: bool = False) -> World:
    """The world after an accepted command: the books as decided, the truth as its actors go on to make it.

    Rows of effects that were not loaded follow the events, as a ledger must make them. ``direct``: a request is sent in
    the moment in which it is committed.
    """
    after = replace(world, tasks={**world.tasks, **verdict.tasks}, tree=verdict.tree)
    for change in verdict.changes:
        effect_id = getattr(change.event, "effect_id", "")
        if effect_id:
            row = evolve_effect(after.effects.get(effect_id), change.event, change.after)
            after.effects = {**after.effects, effect_id: row} if row is not None else after.effects
        follow = _FOLLOW.get(type(change.event))
        if follow is not None:
            follow(after, change, change.event, verdict)
    if direct:
        after.calls = tuple(replace(call, state=FLYING) if call.state == READY else call for call in after.calls)
    return after


def crash(world: World, instance: str) -> World:
    """A process dies: its coroutines and threads with it, what it had not sent is never sent, answers meet nobody.

    Processes that it started go on, and so does every request that is on its way.
    """
    running = {
        name: work
        for name, work in world.running.items()
        if work.instance != instance or work.kind not in DIES_WITH_PROCESS
    }
    calls = tuple(call for call in world.calls if call.instance != instance or call.state == FLYING)
    return world.but(spend="crashes", processes={**world.processes, instance: DOWN}, running=running, calls=calls)


def _granted(after: World, change: Change, event: ev.TenureGranted, _verdict: Verdict) -> None:
    task_id, epoch = change.task_id, change.after.epoch
    after.leases = {**after.leases, task_id: after.now + change.after.settings.lease_ms}
    after.held = (*after.held, (task_id, event.instance, epoch))
    if after.up(event.instance):
        handler = Running(task_id, epoch, event.instance, WorkKind.HANDLER)
        after.running = {**after.running, (task_id, f"handler:{epoch}"): handler}
        after.processes = {**after.processes, event.instance: UP}


def _claimed(after: World, _change: Change, event: ev.OfferClaimed, _verdict: Verdict) -> None:
    if after.processes.get(event.instance) == FRESH:
        after.processes = {**after.processes, event.instance: UP}


def _started(after: World, change: Change, event: ev.WorkStarted, _verdict: Verdict) -> None:
    tenure = change.after.tenure
    if tenure is not None:
        work = Running(change.task_id, tenure.epoch, tenure.instance, event.kind)
        after.running = {**after.running, (change.task_id, event.work_id): work}


def _route_opened(after: World, change: Change, _event: ev.RouteOpened, _verdict: Verdict) -> None:
    if change.after.tenure is not None:
        after.routes = after.routes | {(change.task_id, change.after.tenure.epoch)}


def _called(after: World, change: Change, event: ev.EffectIntended | ev.EffectAttempted, verdict: Verdict) -> None:
    effect = verdict.effects[event.effect_id]
    attempt = effect.attempt
    if after.up(attempt.instance):
        call = Call(
            effect_id=event.effect_id,
            task_id=change.task_id,
            intent=effect.intent,
            generation=effect.generation,
            n=attempt.n,
            purpose=attempt.purpose,
            epoch=attempt.epoch,
            instance=attempt.instance,
            at=after.now,
        )
        after.calls = (*after.calls, call)


_FOLLOW: dict[type[ev.EventBase], Any] = {
    ev.TenureGranted: _granted,
    ev.OfferClaimed: _claimed,
    ev.WorkStarted: _started,
    ev.RouteOpened: _route_opened,
    ev.EffectIntended: _called,
    ev.EffectAttempted: _called,
}
