"""The search: breadth first, so that the first counter-example of a scope is a shortest one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenure.errors import TenureError
from tenure.protocol.decide import decide, decide_heartbeat
from tenure.protocol.evolve import evolve_tree
from tenure.testing.explore.checks import check_refusal, check_state, check_step, expiries_to_end
from tenure.testing.explore.keys import digest_of, task_key
from tenure.testing.explore.moves import Move, moves
from tenure.testing.explore.scope import Scope
from tenure.testing.explore.shadow import Violation, must
from tenure.testing.explore.world import BEGINNING, World, books_for, commit, empty


class Found(Struct, frozen=True):
    """A violation, and the shortest way to it: one line per move."""

    invariant: str
    what: str
    timeline: tuple[str, ...]


class Result(Struct, frozen=True, kw_only=True):
    """What the search of one scope has seen.

    Attributes:
        complete: every reachable state within the bounds was visited; false when stopped at ``most`` or by hand.
        states, transitions, depth: of the search. refused: commands that were refused, transitions not counted.
        patience: most expiries that any unattended task needed to its end.
    """

    scope: str
    bounds: str
    complete: bool
    states: int
    transitions: int
    refused: int
    depth: int
    patience: int
    seconds: float
    found: Found | None = None


class Step(Struct, frozen=True):
    """A step that was possible: the world after it, and what a timeline says about it."""

    after: World
    note: str


def take(scope: Scope, move: Move) -> Step | None:
    """Make a move. ``None``: the core refused it.

    Raises:
        Violation: the step broke an invariant.
    """
    before, command = move.world, move.command
    if command is None:
        return Step(before, "")
    books = books_for(before, command)
    try:
        verdict = decide(books, command, before.now)
    except TenureError as error:
        check_refusal(before, books, error)
        return None
    except Exception as error:  # the core raises nothing but its own errors: anything else is a finding
        raise Violation("total", f"{type(command).__name__} raised {error!r}") from error
    after = commit(before, verdict, direct=scope.outside.direct)
    check_step(scope, before, command, verdict, after)
    tree = before.tree
    for change in verdict.changes:
        tree = evolve_tree(tree, change.event)
    must(tree == verdict.tree, "replay", "folding the events does not give the stored tree")
    return Step(after, ", ".join(str(change.event.__struct_config__.tag) for change in verdict.changes))


def heartbeats(world: World) -> Iterator[Move]:
    """Whoever owns a task and runs may prolong its lease."""
    for task_id, task in world.tasks.items():
        tenure = task.tenure
        if tenure is None or not world.up(tenure.instance):
            continue
        until = decide_heartbeat(task, tenure.epoch, tenure.instance, world.now)
        if until != world.leases.get(task_id):
            leases = {**world.leases, task_id: until}
            yield Move(f"{tenure.instance} sends a heartbeat [{task_id}]", replace(world, leases=leases))


def all_moves(scope: Scope, world: World) -> Iterator[Move]:
    """Every open move of a world."""
    yield from moves(scope, world)
    yield from heartbeats(world)


Tell = Callable[[str, int], bool]
"""Called now and then with the scope's name and its number of states; true stops the search."""


class Search:
    """One run over one scope."""

    def __init__(self, scope: Scope) -> None:
        """Start at the empty world."""
        self.scope = scope
        self.parents: dict[bytes, tuple[bytes, str]] = {}
        self.attended: dict[bytes, int] = {}
        self.transitions = self.refused = self.depth = 0

    def run(self, tell: Tell | None = None) -> Result:
        """Visit every state, or stop at the first violation."""
        scope, began = self.scope, time.perf_counter()
        world = empty(scope.budget, scope.instances)
        start = digest_of(scope, world)
        self.parents[start] = (b"", "")
        layer, complete, found = [(start, world)], True, None
        try:
            while layer and complete:
                layer, complete = self._next_layer(layer, tell)
                self.depth += bool(layer)
        except _Caught as caught:
            found = self._explain(caught)
        return Result(
            scope=scope.name,
            bounds=scope.bounds(),
            complete=complete and found is None,
            states=len(self.parents),
            transitions=self.transitions,
            refused=self.refused,
            depth=self.depth,
            patience=max(self.attended.values(), default=0),
            seconds=time.perf_counter() - began,
            found=found,
        )

    def _next_layer(
        self, layer: list[tuple[bytes, World]], tell: Tell | None
    ) -> tuple[list[tuple[bytes, World]], bool]:
        found: list[tuple[bytes, World]] = []
        for place, (name, world) in enumerate(layer):
            if place % 256 == 0 and tell is not None and tell(self.scope.name, len(self.parents)):
                return [], False
            if self.scope.most and len(self.parents) >= self.scope.most:
                return [], False
            for move in all_moves(self.scope, world):
                self._visit(name, move, found)
        return found, True

    def _visit(self, origin: bytes, move: Move, found: list[tuple[bytes, World]]) -> None:
        try:
            step = take(self.scope, move)
            if step is None:
                self.refused += 1
                return
            self.transitions += 1
            name = digest_of(self.scope, step.after)
            if name in self.parents:
                return
            self.parents[name] = (origin, move.label)
            self._judge(step.after)
        except Violation as violation:
            raise _Caught(origin, move.label, violation) from None
        found.append((name, step.after))

    def _judge(self, world: World) -> None:
        """Check a new state; whether it can stall is asked once for each state of a task."""
        check_state(self.scope, world)
        for task_id, task in world.tasks.items():
            if task.phase.ended:
                continue
            lease = world.leases.get(task_id, 0)
            key = msgspec.msgpack.encode(task_key(task, world.now, int, lease))
            if key not in self.attended:
                effects = tuple(e for e in world.effects.values() if e.task_id == task_id and not e.state.settled)
                self.attended[key] = expiries_to_end(task, lease, world.now, effects)

    def _explain(self, caught: _Caught) -> Found:
        """The way to a violation, walked once more so that each line can say what it led to."""
        labels = [caught.label]
        name = caught.origin
        while self.parents[name][1]:
            name, label = self.parents[name][0], self.parents[name][1]
            labels.append(label)
        labels.reverse()
        lines, _ = follow(self.scope, labels[:-1])
        return Found(caught.violation.invariant, caught.violation.what, (*lines, f"{labels[-1]}  → VIOLATION"))


def follow(scope: Scope, labels: Sequence[str]) -> tuple[list[str], World]:
    """Make the moves with these labels, one after the other; return a timeline and the world after it.

    Raises:
        LookupError: no such move is open. ValueError: the core refused it.
        Violation: the step broke an invariant.
    """
    lines: list[str] = []
    world = empty(scope.budget, scope.instances)
    for label in labels:
        move = next((move for move in all_moves(scope, world) if move.label == label), None)
        if move is None:
            raise LookupError(f"{label} is not open.")
        step = take(scope, move)
        if step is None:
            raise ValueError(f"{label} was refused.")
        lines.append(f"{world.now - BEGINNING:>4} ms  {label}" + (f"  → {step.note}" if step.note else ""))
        world = step.after
    return lines, world


class _Caught(Exception):
    """Carries a violation to the end of the search."""

    def __init__(self, origin: bytes, label: str, violation: Violation) -> None:
        super().__init__(label)
        self.origin, self.label, self.violation = origin, label, violation


def explore(scope: Scope, tell: Tell | None = None) -> Result:
    """Visit every reachable state of a scope and check the invariants in each."""
    return Search(scope).run(tell)
