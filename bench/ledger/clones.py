"""A large ledger in a short time: bulk inserts of valid rows, cloned from a recorded task.

Every clone is a submitted task of its own: its id stands wherever the recorded one stood, and the digest of its body
and the chain of its events are computed anew, so that a verification of the whole file passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.ledger.recording import Recording, Row, Value, Written, record
from bench.ledger.script import task_id
from tenure.ledger.chain import GENESIS, link, stream
from tenure.ledger.sqlite.connection import open_writer
from tenure.protocol.body import Body

CHUNK = 5_000
"""Tasks per executemany."""
SEPARATOR = b"\0\0\0"
"""Stands in no id and in no JSON."""


def fill(path: Path, count: int, series: str) -> Iterator[int]:
    """Make a ledger of ``count`` submitted tasks; yields how many are there so far."""
    tasks = sorted(task_id(n, series) for n in range(count))
    template = Template(record())
    connection = open_writer(str(path))
    try:
        # No journal: what is half made is thrown away. Ids in order, so that indexes grow at their ends.
        connection.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -400000")
        connection.execute("BEGIN")
        for start in range(0, count, CHUNK):
            chunk = tasks[start : start + CHUNK]
            rows: list[list[Row]] = [[] for _ in template.statements]
            for n, task in enumerate(chunk, start):
                for place, row in template.clone(task, n):
                    rows[place].append(row)
            for written, found in zip(template.statements, rows, strict=True):
                connection.executemany(written.sql, found)
            yield start + len(chunk)
        connection.execute("COMMIT; PRAGMA journal_mode = WAL")
    finally:
        connection.close()


class Template:
    """A recorded submission, taken apart so that a clone costs a few replacements in one long text."""

    def __init__(self, recording: Recording) -> None:
        self.statements: tuple[Written, ...] = recording.steps[0]
        self._old = recording.task_id[2:]
        self._rows = [(place, list(row)) for place, written in enumerate(self.statements) for row in written.rows]
        body = next(n for n, (place, _) in enumerate(self._rows) if self.statements[place].table == "bodies")
        self._content = self._cell(body, "content")
        self._body_digest = str(self._cell(body, "digest"))
        self._positions = self._cells("position")
        self._heads = [*self._cells("head"), *(at for at in self._cells("digest") if self._table(at[0]) == "events")]
        self._texts = [
            (n, column, isinstance(value, str))
            for n, (_, row) in enumerate(self._rows)
            for column, value in enumerate(row)
            if isinstance(value, str | bytes) and not _is_hash(value)
        ]
        self._whole = SEPARATOR.join(_bytes(self._rows[n][1][column]) for n, column, _ in self._texts)

    def _table(self, n: int) -> str:
        return self.statements[self._rows[n][0]].table

    def _cells(self, name: str) -> list[tuple[int, int]]:
        found = ((n, self.statements[place].columns) for n, (place, _) in enumerate(self._rows))
        return [(n, columns.index(name)) for n, columns in found if name in columns]

    def _cell(self, n: int, name: str) -> Value:
        place, row = self._rows[n]
        return row[self.statements[place].columns.index(name)]

    def clone(self, task: str, n: int) -> list[tuple[int, Row]]:
        """The rows of the ``n``-th clone (from 0), each with the place of its statement."""
        rows: list[tuple[int, list[Any]]] = [(place, row.copy()) for place, row in self._rows]
        digest = Body(self._swapped(_bytes(self._content), task), task[2:14] * 2).digest
        texts = self._swapped(self._whole, task).replace(self._body_digest.encode(), digest.encode())
        for (row, column, is_text), text in zip(self._texts, texts.split(SEPARATOR), strict=True):
            rows[row][1][column] = text.decode() if is_text else text
        self._chain(rows, task)
        events = sum(1 for _, column in self._heads) - 1
        for row, column in self._positions:
            rows[row][1][column] += n * events
        return [(place, tuple(row)) for place, row in rows]

    def _swapped(self, content: bytes, task: str) -> bytes:
        """The task's own part stands whole in ids, cut by a digit in ids of commands, and begun in nonces."""
        for length in (20, 19, 12):
            content = content.replace(self._old[:length].encode(), task[2 : 2 + length].encode())
        return content

    def _chain(self, rows: list[tuple[int, list[Any]]], task: str) -> None:
        head, name = GENESIS, stream(task, task)
        (tasks_row, head_column), *events = self._heads
        for row, column in events:
            _, _, _, seq, epoch, _, event = rows[row][1]
            head = link(head, name, seq, epoch, event)
            rows[row][1][column] = head
        rows[tasks_row][1][head_column] = head


def _is_hash(value: Value) -> bool:
    return isinstance(value, bytes) and len(value) == 32


def _bytes(value: Value) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value or b"")
