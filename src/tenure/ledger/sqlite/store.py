"""The shelf of the SQLite backend: one connection, inside the writer's transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from tenure.errors import Fenced, Refused
from tenure.ledger import rows
from tenure.ledger.api import Beat, Beaten, Instance, Refusal, root_of
from tenure.ledger.clock import Clock
from tenure.ledger.commit import Held, Plan
from tenure.ledger.erasing import check_erasable, digests_of
from tenure.ledger.shelf import refusal, run
from tenure.ledger.sqlite.remembered import Remembered
from tenure.ledger.sqlite.statements import statements
from tenure.ledger.sqlite.waiting import Waiting, encode
from tenure.protocol.commands import Command, Receipt
from tenure.protocol.decide import next_deadline
from tenure.protocol.graph import Graph, read_graph
from tenure.protocol.outside import Effect
from tenure.protocol.state import Task, Tree

decode_task = msgspec.json.Decoder(Task).decode
decode_tree = msgspec.json.Decoder(Tree).decode
decode_effect = msgspec.json.Decoder(Effect).decode
decode_note = msgspec.json.Decoder(Refusal).decode


class Store:
    """Rows by key. ``begin``, any number of the other calls, ``flush``, ``commit`` or ``rollback``.

    Attributes:
        last: the feed's newest position. now: the time of the transaction. dirty: something was written in it.
        changed: a state was written in it, not only the audit. erasing: content was erased in it.
    """

    def __init__(self, connection: apsw.Connection, clock: Clock | None = None) -> None:
        self.connection = connection
        self.last = 0
        self.now = 0
        self.dirty = False
        self.changed = False
        self.erasing = False
        self._clock = clock
        self._sql = statements("write")
        self._execute = connection.cursor().execute
        self._waiting = Waiting(connection)
        self._remembered = Remembered()
        self._graphs: dict[str, Graph] = {}
        self._version: int | None = None

    # --- transactions -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Take the write lock; time and newest position are read under it."""
        self._execute("BEGIN IMMEDIATE")
        self.dirty = self.changed = False
        version = self._one("data_version")[0]
        if version != self._version:
            self._remembered.forget()
            self._version = version
            self.last = self._one("last_position")[0]
        self.now = self._clock() if self._clock else self._one("now")[0]

    def flush(self) -> None:
        """Write what waits, so that nothing is left to go wrong but COMMIT.

        Raises:
            Conflict: a guard of any command since the last flush did not match; nothing of it may be committed.
        """
        self._waiting.flush()

    def commit(self) -> None:
        """Make it durable."""
        self.flush()
        self._execute("COMMIT")

    def scrub(self) -> None:
        """After an erasure: empty the log, in which the erased content still stands."""
        self.erasing = False
        self.connection.pragma("secure_delete", 0)
        with contextlib.suppress(apsw.BusyError):  # somebody reads from the log; the next checkpoint gets it
            self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def rollback(self) -> None:
        """Undo everything since ``begin``. SQLite may have done so itself."""
        if self.dirty:
            self._waiting.forget()
            self._graphs.clear()
            self._version = None  # what is remembered was never written, or nobody knows
        if self.connection.in_transaction:
            self._execute("ROLLBACK")

    def _one(self, name: str, *values: Any) -> Any:
        return self._execute(self._sql[name], values).fetchone()

    def _up_to_date(self, root_id: str) -> None:
        """Let the file have what waits of a tree, before its rows are read or written by key."""
        if root_id in self._waiting.roots:
            self.flush()

    def _write(self, name: str, *values: Any) -> None:
        self._execute(self._sql[name], values)
        self.dirty = True

    # --- commands -----------------------------------------------------------------------------------------------

    def execute(self, command: Command) -> Receipt:
        """One command; a refusal is noted in the audit before it is raised."""
        try:
            return run(self, command, self.now)
        except (Refused, Fenced) as error:
            self._note(refusal(command, error, self.now))
            raise

    def recorded(self, root_id: str, command_id: str) -> tuple[bytes, bytes] | None:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        self._up_to_date(root_id)
        found: tuple[bytes, bytes] | None = self._one("recorded", root_id, command_id)
        return found

    def held(self, root_id: str, task_id: str) -> Held | None:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        known = self._remembered.tasks.get(task_id)
        if known is not None:
            return known
        self._up_to_date(root_id)
        row = self._one("held", root_id, task_id)
        if row is None:
            return None
        held = Held(decode_task(row[0]), row[1], row[2])
        self._remembered.task(held)
        return held

    def tree(self, root_id: str) -> Tree | None:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        known = self._remembered.trees.get(root_id)
        if known is not None:
            return known
        row = self._one("tree", root_id)
        if row is None:
            return None
        tree = decode_tree(row[0])
        self._remembered.tree(tree)
        return tree

    def effect(self, root_id: str, effect_id: str) -> Effect | None:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        row = self._one("effect", root_id, effect_id)
        return None if row is None else decode_effect(row[0])

    def intended(self, root_id: str, intent: str) -> list[Effect]:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        return [decode_effect(row[0]) for row in self._execute(self._sql["intended"], (root_id, intent))]

    def open_effects(self, root_id: str, task_id: str) -> list[Effect]:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        return [decode_effect(row[0]) for row in self._execute(self._sql["open_effects"], (root_id, task_id))]

    def conversing(self, conversation: str) -> str:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        if conversation in self._waiting.conversations:
            self.flush()
        row = self._one("conversing", conversation)
        return row[0] if row else ""

    def graph(self, digest: str) -> Graph | None:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        known = self._graphs.get(digest)
        if known is None and (row := self._one("graph", digest)) is not None:
            known = self._graphs[digest] = read_graph(row[0])
        return known

    def ended(self, instance_id: str) -> bool:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        alive = self._remembered.alive
        if instance_id in alive:
            return False
        ended = self._one("ended", instance_id) is not None
        if not ended:
            alive.add(instance_id)
        return ended

    def write(self, plan: Plan) -> None:
        """See :class:`tenure.ledger.shelf.Shelf`. The guards are looked at by ``flush``."""
        self.dirty = self.changed = True
        self._waiting.add(plan)
        self._remembered.plan(plan)
        self.last += len(plan.events)

    # --- what is not a command ----------------------------------------------------------------------------------

    def heartbeat(self, beats: Sequence[Beat], instance_id: str) -> list[Beaten]:
        """See :meth:`tenure.ledger.api.Ledger.heartbeat`."""
        answers = [self._beat(beat) for beat in beats]
        if instance_id:
            self._write("seen", self.now, instance_id)
        return answers

    def _beat(self, beat: Beat) -> Beaten:
        root_id = root_of(beat.task_id)
        self._up_to_date(root_id)
        held = self.held(root_id, beat.task_id)
        answer = rows.beat(held, beat, self.now)
        if answer.error or held is None:
            self._note(rows.beat_refusal(beat, answer, root_id, self.now))
        else:
            due_at = next_deadline(held.task, answer.lease_until)
            self._write("prolong", answer.lease_until, due_at, root_id, beat.task_id)
            self._remembered.task(Held(held.task, answer.lease_until, held.head))
            self.changed = True
        return answer

    def register(self, instance: Instance) -> None:
        """See :meth:`tenure.ledger.api.Ledger.register`."""
        other = self._one("namesake", instance.name, self.now, instance.instance_id)
        if other is not None:
            raise rows.name_taken(instance_of(other), self.now)
        self._write(
            "register",
            instance.instance_id,
            instance.name,
            instance.host,
            instance.boot,
            instance.pid,
            instance.started,
            instance.lease_ms,
            self.now,
        )
        self.changed = True

    def retire_instance(self, instance_id: str) -> None:
        """See :meth:`tenure.ledger.api.Ledger.retire_instance`."""
        self._write("retire_instance", self.now, instance_id)
        self._remembered.alive.discard(instance_id)
        self.changed = True

    def save_graph(self, graph: Graph) -> str:
        """See :meth:`tenure.ledger.api.Ledger.save_graph`."""
        if self.graph(graph.digest) is None:
            self._write("save_graph", graph.digest, graph.team, self.now, graph.content)
            self.changed = True
        return graph.digest

    def erase(self, task_id: str, by: str, reason: str) -> int:
        """See :meth:`tenure.ledger.api.Ledger.erase`."""
        root_id = root_of(task_id)
        self._up_to_date(root_id)
        held = self.held(root_id, task_id)
        check_erasable(held.task if held else None, task_id)
        # Rows that are overwritten must not stay readable in free space of the file.
        self.connection.pragma("secure_delete", 1)
        self.erasing = True
        others = self._execute(self._sql["others_unfinished"], (root_id, task_id)).fetchall()
        kept: set[str] = set()
        for (other,) in others:
            kept |= self._digests(root_id, str(other))
        count = 0
        for digest in sorted(self._digests(root_id, task_id) - kept):
            self._write("erase_body", self.now, root_id, digest)
            count += self.connection.changes()
        self._note(rows.erasure(task_id, root_id, count, by, reason, self.now))
        self.changed = True
        return count

    def _digests(self, root_id: str, task_id: str) -> set[str]:
        return digests_of(row[0] for row in self._execute(self._sql["stored_events"], (root_id, task_id)))

    def _note(self, note: Refusal) -> None:
        position = self._one("last_note")[0] + 1
        self._write("note", position, note.root_id, note.task_id, encode(note))


def instance_of(row: Sequence[Any]) -> Instance:
    """A row of the instances' table."""
    instance_id, name, host, boot, pid, started, lease_ms, seen_at, ended_at = row
    return Instance(
        instance_id=instance_id,
        name=name,
        host=host,
        boot=boot,
        pid=pid,
        started=started,
        lease_ms=lease_ms,
        seen_at=seen_at,
        ended_at=ended_at,
    )
