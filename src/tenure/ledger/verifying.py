"""Checks a ledger against itself: chain, replay, bodies. Pure; a backend streams its rows in, tree by tree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

from msgspec import DecodeError, Struct

from tenure.ledger.api import Verification
from tenure.ledger.bodies import bodies_in
from tenure.ledger.chain import link, stream
from tenure.ledger.commit import (
    EffectColumns,
    EventRow,
    HoldingRow,
    InputRow,
    OfferRow,
    decode_receipt,
    effect_columns,
    residual_of,
)
from tenure.ledger.folding import Folded
from tenure.protocol.body import Body
from tenure.protocol.decide import next_deadline
from tenure.protocol.events import decode_event
from tenure.protocol.evolve import evolve_tree
from tenure.protocol.graph import read_graph
from tenure.protocol.outside import Effect
from tenure.protocol.state import Task, Tree

MOST_PROBLEMS = 1_000
"""How many findings are told one by one."""
STRIDE = 1_000
"""Events between two words on the progress."""


class Stored(Struct):
    """What a backend has of one task besides its events and messages; a state that cannot be read is ``None``."""

    root_id: str
    task_id: str
    position: int
    revision: int
    phase: str
    due_at: int | None
    lease_until: int
    residual: int
    head: bytes
    task: Task | None
    effects: list[tuple[EffectColumns, Effect | None]]
    offers: list[OfferRow]
    holdings: list[HoldingRow]


class Verifier:
    """Takes every tree: ``open_tree``, its tasks with the root's first, ``close_tree``. Keeps one tree's digests.

    Args:
        expected: number of rows in the feed. progress: told how many of them were checked.
        conversing: to which task the row of a conversation points, and that task's position (0: no such task).
    """

    def __init__(
        self,
        expected: int,
        conversing: Callable[[str], tuple[str, int]],
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._expected = expected
        self._progress = progress or (lambda _done, _all: None)
        self._progress(0, expected)
        self._conversing = conversing
        self._chain = "verified"
        self._replay = "equal"
        self._events = 0
        self._erased = 0
        self._missing = 0
        self._conversations = 0
        self._heads: dict[str, str] = {}
        self._problems: list[str] = []
        self._root_id = ""
        self._tree: Tree | None = None
        self._named: dict[str, str] = {}
        self._graphs: dict[str, str] = {}

    def open_tree(self, root_id: str) -> None:
        """Begin a tree."""
        self._root_id, self._tree, self._named = root_id, None, {}

    def task(self, stored: Stored, rows: Iterable[EventRow], inputs: Iterator[InputRow]) -> None:
        """Check one task: its chain, its state, and every row that is derived from its events."""
        task_id = stored.task_id
        folded = Folded(stored.root_id, task_id)
        same = True
        for row in rows:
            message = self._event(folded, row)
            if message is not None:
                same = next(inputs, None) == message and same
        self._heads[task_id] = folded.head.hex()
        if folded.head != stored.head:
            self._broken(f"{task_id}: the newest digest in its row is not that of event {folded.seq}.")
        if not same or list(inputs):
            self._different(f"{task_id}: its events give other rows of messages.")
        self._state(folded, stored)
        self._effects(folded, stored)
        if sorted(folded.offers()) != sorted(stored.offers):
            self._different(f"{task_id}: its events give other rows of open offers.")
        if set(folded.holdings()) != set(stored.holdings):
            self._different(f"{task_id}: its events give other rows of the instances that it mentions.")
        if folded.task is not None and folded.task.conversation:
            self._conversation(folded.task, folded.position)

    def close_tree(
        self, tree: Tree | None, bodies: Iterable[tuple[str, Body | None]], receipts: Iterable[tuple[str, bytes]]
    ) -> None:
        """End a tree with its stored counters, its bodies and its commands' receipts; an erased body is ``None``."""
        if tree is None:
            self._different(f"{self._root_id}: its stored tree cannot be read.")
        elif tree != self._tree:
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
        for command_id, receipt in receipts:
            try:
                decode_receipt(receipt)
            except DecodeError as error:
                self._different(f"{self._root_id}: the receipt of command {command_id} cannot be read: {error}.")

    def conversations(self, stored: int) -> None:
        """Take the number of conversations, after the last tree."""
        if stored != self._conversations:
            self._different(f"{stored - self._conversations} conversations point to a task of which they are none.")

    def graphs(self, stored: Iterable[tuple[str, str, bytes]]) -> None:
        """Take the saved versions of routing graphs (digest, team, content), after the last tree."""
        missing = dict(self._graphs)
        for digest, team, content in stored:
            missing.pop(digest, None)
            self._graph(digest, team, content)
        for digest, where in missing.items():
            self._different(f"{where}: the graph {digest} is missing.")

    def _graph(self, digest: str, team: str, content: bytes) -> None:
        if hashlib.sha256(content).hexdigest() != digest:
            self._different(f"The graph {digest} has been changed.")
            return
        try:
            graph = read_graph(content)
        except DecodeError as error:
            self._different(f"The graph {digest} cannot be read: {error}.")
            return
        if graph.team != team:
            self._different(f"The graph {digest} is listed for team {team!r}.")

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

    # --- one task -----------------------------------------------------------------------------------------------

    def _event(self, folded: Folded, row: EventRow) -> InputRow | None:
        """Check one event's place in the chain, and fold it. Returns the row of the message that it brought."""
        position, root_id, task_id, seq, epoch, digest, content = row
        self._events += 1
        if self._events % STRIDE == 0:
            self._progress(self._events, self._expected)
        folded.seq += 1
        folded.position = folded.position or position
        if seq != folded.seq or digest != link(folded.head, stream(root_id, task_id), folded.seq, epoch, content):
            self._broken(f"{task_id}: event {seq} does not continue the chain.")
        folded.head = digest
        try:
            event = decode_event(content)
            after = folded.apply(event, row)
            self._tree = evolve_tree(self._tree, event)
        except Exception as error:  # noqa: BLE001 - a changed event may break any rule in any way; that is the finding
            self._different(f"{task_id}: event {seq} cannot be replayed: {error}")
            return None
        if after.epoch != epoch:
            self._different(f"{task_id}: event {seq} is recorded under epoch {epoch}, not {after.epoch}.")
        for name in bodies_in(event):
            self._named.setdefault(name, f"{task_id}: event {seq}")
        if after.graph:
            self._graphs.setdefault(after.graph, f"{task_id}: event {seq}")
        return folded.input(event)

    def _state(self, folded: Folded, stored: Stored) -> None:
        task_id, task = stored.task_id, folded.task
        if stored.task is None:
            self._different(f"{task_id}: its stored state cannot be read.")
        elif task != stored.task:
            self._different(f"{task_id}: its events give another state than the stored one.")
        if task is None:
            return
        if stored.due_at != next_deadline(task, stored.lease_until):
            self._different(f"{task_id}: its deadline is stored as {stored.due_at}.")
        said = (stored.revision, stored.phase, stored.residual)
        if said != (task.revision, task.phase.value, residual_of(task)):
            row = f"revision {stored.revision}, {stored.phase}, {stored.residual} residual"
            self._different(f"{task_id}: its row says {row}; its state does not.")
        if stored.position != folded.position:
            self._different(f"{task_id}: its row says position {stored.position}; its first event does not.")

    def _effects(self, folded: Folded, stored: Stored) -> None:
        found = {columns[1]: (columns, effect) for columns, effect in stored.effects}
        for effect_id in sorted(found.keys() | folded.effects.keys()):
            columns, effect = found.get(effect_id, (None, None))
            replayed = folded.effects.get(effect_id)
            if columns is not None and effect is None:
                self._different(f"{stored.task_id}: the stored state of effect {effect_id} cannot be read.")
            elif effect is None or effect != replayed:
                self._different(f"{stored.task_id}: its events give another state of effect {effect_id}.")
            elif columns != effect_columns(effect):
                self._different(f"{stored.task_id}: the row of effect {effect_id} says what its state does not.")

    def _conversation(self, task: Task, position: int) -> None:
        """A conversation's row points to its newest task: while one is unfinished, there cannot be a newer one."""
        points_to, at = self._conversing(task.conversation)
        if points_to == task.task_id:
            self._conversations += 1
        elif at <= position or not task.phase.ended:
            self._different(f"{task.task_id}: its conversation points to {points_to or 'nothing'}.")

    def _broken(self, problem: str) -> None:
        self._chain = "broken"
        self._problem(problem)

    def _different(self, problem: str) -> None:
        self._replay = "different"
        self._problem(problem)

    def _problem(self, problem: str) -> None:
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(problem)
