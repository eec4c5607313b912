"""Checks a ledger against itself: chain, replay, bodies. Pure; a backend streams its rows in, tree by tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tenure.errors import Refused
from tenure.ledger.api import Verification
from tenure.ledger.bodies import bodies_in
from tenure.ledger.chain import GENESIS, link, stream
from tenure.ledger.commit import EventRow, Held
from tenure.protocol.body import Body
from tenure.protocol.decide import next_deadline
from tenure.protocol.events import Event, decode_event
from tenure.protocol.evolve import evolve, evolve_effect, evolve_tree
from tenure.protocol.state import Effect, Task, Tree

MOST_PROBLEMS = 1_000
"""How many findings are told one by one."""
STRIDE = 1_000
"""Events between two words on the progress."""


class Verifier:
    """Takes every tree: ``open_tree``, its tasks with the root's first, ``close_tree``. Keeps one tree's digests.

    Args:
        expected: number of rows in the feed. progress: told how many of them were checked.
    """

    def __init__(self, expected: int, progress: Callable[[int, int], None] | None = None) -> None:
        self._expected = expected
        self._progress = progress or (lambda _done, _all: None)
        self._progress(0, expected)
        self._chain = "verified"
        self._replay = "equal"
        self._events = 0
        self._erased = 0
        self._missing = 0
        self._heads: dict[str, str] = {}
        self._problems: list[str] = []
        self._root_id = ""
        self._tree: Tree | None = None
        self._named: dict[str, str] = {}

    def open_tree(self, root_id: str) -> None:
        """Begin a tree."""
        self._root_id, self._tree, self._named = root_id, None, {}

    def task(self, held: Held, due_at: int | None, rows: Iterable[EventRow], effects: Iterable[Effect]) -> None:
        """Check one task: its chain, its state, its deadline and its effects."""
        task_id = held.task.task_id
        head, seq, replayed = GENESIS, 0, None
        folded: dict[str, Effect] = {}
        for row in rows:
            seq += 1
            self._count()
            head = self._link(row, head, task_id, seq)
            replayed = self._replayed(row, replayed, folded)
        self._heads[task_id] = head.hex()
        if head != held.head:
            self._broken(f"{task_id}: the newest digest in its row is not that of event {seq}.")
        if replayed != held.task:
            self._different(f"{task_id}: its events give another state than the stored one.")
        elif due_at != next_deadline(held.task, held.lease_until):
            self._different(f"{task_id}: its deadline is stored as {due_at}.")
        stored = {effect.effect_id: effect for effect in effects}
        for effect_id in sorted(stored.keys() | folded.keys()):
            if stored.get(effect_id) != folded.get(effect_id):
                self._different(f"{task_id}: its events give another state of effect {effect_id}.")

    def close_tree(self, tree: Tree | None, bodies: Iterable[tuple[str, Body | None]]) -> None:
        """End a tree with its stored counters and its bodies; an erased body is ``None``."""
        if tree != self._tree:
            self._different(f"{self._root_id}: its events give other counters of the tree.")
        for digest, body in bodies:
            where = self._named.pop(digest, None)
            if body is not None and body.digest != digest:
                self._broken(f"{self._root_id}: the body {digest} has been changed.")
            elif body is None and where is not None:
                self._erased += 1
        for digest, where in self._named.items():
            self._missing += 1
            self._problem(f"{where}: the body {digest} is missing, and was not erased.")

    def stray(self, message: str) -> None:
        """Note rows that belong to nothing."""
        self._different(message)

    def finding(self, *, file: str = "sound", damage: Iterable[str] = ()) -> Verification:
        """The result. ``damage`` is what the file's own check says."""
        if self._expected != self._events:
            self._broken(f"The feed has {self._expected} events, the tasks have {self._events}.")
        self._progress(self._events, self._expected)
        return Verification(
            chain=self._chain,
            replay=self._replay,
            file=file,
            events=self._events,
            tasks=len(self._heads),
            erased=self._erased,
            missing=self._missing,
            heads=self._heads,
            problems=(*self._problems, *damage),
        )

    def _count(self) -> None:
        self._events += 1
        if self._events % STRIDE == 0:
            self._progress(self._events, self._expected)

    def _link(self, row: EventRow, head: bytes, task_id: str, seq: int) -> bytes:
        _, root_id, _, stored_seq, epoch, digest, event = row
        expected = link(head, stream(root_id, task_id), seq, epoch, event)
        if stored_seq != seq or digest != expected:
            self._broken(f"{task_id}: event {stored_seq} does not continue the chain.")
        return digest

    def _replayed(self, row: EventRow, task: Task | None, effects: dict[str, Effect]) -> Task | None:
        try:
            event = decode_event(row[6])
            after = evolve(task, event)
        except Refused as error:
            self._different(f"{row[2]}: event {row[3]} cannot be replayed: {error}")
            return task
        if after.epoch != row[4]:
            self._different(f"{row[2]}: event {row[3]} is recorded under epoch {row[4]}, not {after.epoch}.")
        self._effect(event, after, effects)
        self._tree = evolve_tree(self._tree, event)
        for digest in bodies_in(event):
            self._named.setdefault(digest, f"{row[2]}: event {row[3]}")
        return after

    @staticmethod
    def _effect(event: Event, task: Task, effects: dict[str, Effect]) -> None:
        effect_id = getattr(event, "effect_id", "")
        if effect_id:
            changed = evolve_effect(effects.get(effect_id), event, task)
            if changed is not None:
                effects[effect_id] = changed

    def _broken(self, problem: str) -> None:
        self._chain = "broken"
        self._problem(problem)

    def _different(self, problem: str) -> None:
        self._replay = "different"
        self._problem(problem)

    def _problem(self, problem: str) -> None:
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(problem)
