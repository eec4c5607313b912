"""Verification of a ledger's file, on a connection of its own and from one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import apsw
from msgspec import DecodeError

from tenure.errors import Refused
from tenure.ledger.api import Verification
from tenure.ledger.sqlite.connection import open_reader, translate
from tenure.ledger.sqlite.statements import statements
from tenure.ledger.sqlite.store import decode_effect, decode_task, decode_tree
from tenure.ledger.verifying import Stored, Verifier
from tenure.protocol.body import Body

T = TypeVar("T")


def verify_file(path: str, vfs: str = "", progress: Callable[[int, int], None] | None = None) -> Verification:
    """Check file, chain, replay and bodies of a ledger; ``progress`` as in :meth:`tenure.ledger.api.Ledger.verify`.

    Raises:
        Refused: ``corrupt_file`` when it cannot even be read to its end.
        Unavailable: the file cannot be used now.
    """
    connection = open_reader(path, vfs=vfs)
    try:
        connection.execute("BEGIN")
        return _Check(connection, progress).run()
    except apsw.Error as error:
        raise translate(error, path) from None
    except UnicodeDecodeError as error:
        raise Refused("corrupt_file", f"{path}: a text in it is none: {error}. Restore it from a copy.") from None
    finally:
        connection.close(force=True)


class _Rows:
    """A table's rows in the order of the trees and tasks. Each begins with its key; what nobody takes is a stray."""

    def __init__(self, rows: Iterator[Any], width: int, stray: Callable[[Any], None]) -> None:
        self._rows = rows
        self._width = width
        self._stray = stray
        self._next = next(rows, None)

    def of(self, *key: str) -> Iterator[Any]:
        """The rows of a key, which is greater than the one before it."""
        while self._next is not None and self._next[: self._width] <= key:
            row, self._next = self._next, next(self._rows, None)
            if row[: self._width] == key:
                yield row
            else:
                self._stray(row)

    def rest(self) -> None:
        """After the last key: whatever is left belongs to none."""
        while self._next is not None:
            self._stray(self._next)
            self._next = next(self._rows, None)


class _Check:
    def __init__(self, connection: apsw.Connection, progress: Callable[[int, int], None] | None) -> None:
        self._connection = connection
        self._sql = statements("verify")
        (events,) = next(self._rows("count_events"))
        self._verifier = Verifier(events, self._conversing, progress)
        self._tables = {name: self._table(name, 2) for name in ("effects", "inputs", "offers", "holdings")}
        self._tables["commands"] = self._table("commands", 1)

    def _rows(self, name: str, *values: Any) -> Iterator[Any]:
        return iter(self._connection.execute(self._sql[name], values))

    def _table(self, name: str, width: int) -> _Rows:
        def stray(row: Any) -> None:
            self._verifier.stray(f"{row[0]}: a row of {name} belongs to nothing: {row[1]}.")

        return _Rows(self._rows(name), width, stray)

    def _conversing(self, conversation: str) -> tuple[str, int]:
        found: tuple[str, int] = next(self._rows("conversing", conversation), ("", 0))
        return found

    def run(self) -> Verification:
        damage = [text for (text,) in self._rows("integrity") if text != "ok"]
        tasks = sum(self._tree(root_id, state) for root_id, state in self._rows("trees"))
        for table in self._tables.values():
            table.rest()
        (stored,) = next(self._rows("count_tasks"))
        if stored != tasks:
            self._verifier.stray(f"{stored - tasks} tasks belong to no tree.")
        self._verifier.conversations(next(self._rows("count_conversations"))[0])
        self._verifier.graphs(self._rows("graphs"))
        return self._verifier.finding(file="damaged" if damage else "sound", damage=damage)

    def _tree(self, root_id: str, state: bytes) -> int:
        verifier, tables, count = self._verifier, self._tables, 0
        verifier.open_tree(root_id)
        for row in self._rows("tasks_of_tree", root_id):
            task_id: str = row[0]
            events = self._rows("events_of_task", root_id, task_id)
            verifier.task(self._stored(root_id, *row), events, tables["inputs"].of(root_id, task_id))
            count += 1
        bodies = (
            (digest, None if content is None else Body(content, nonce or ""))
            for digest, nonce, content in self._rows("bodies_of_tree", root_id)
        )
        receipts = ((command_id, receipt) for _, command_id, receipt in tables["commands"].of(root_id))
        verifier.close_tree(_read(decode_tree, state), bodies, receipts)
        return count

    def _stored(self, root_id: str, task_id: str, *columns: Any) -> Stored:
        position, revision, phase, due_at, lease_until, residual, head, state = columns
        effects = [
            ((root_id, effect_id, task_id, *key), _read(decode_effect, content))
            for _, _, effect_id, *key, content in self._tables["effects"].of(root_id, task_id)
        ]
        return Stored(
            root_id=root_id,
            task_id=task_id,
            position=position,
            revision=revision,
            phase=phase,
            due_at=due_at,
            lease_until=lease_until,
            residual=residual,
            head=head,
            task=_read(decode_task, state),
            effects=effects,
            offers=list(self._tables["offers"].of(root_id, task_id)),
            holdings=[
                (instance_id, root_id, task_id, source)
                for _, _, instance_id, source in self._tables["holdings"].of(root_id, task_id)
            ],
        )


def _read(decode: Callable[[bytes], T], content: bytes) -> T | None:
    """``None`` for what is not, or no more, what should stand there."""
    try:
        return decode(content)
    except DecodeError:
        return None
