"""The rows of a complete handoff, recorded from a real run of the SQLite ledger.

The plain program writes exactly these rows: the ledger's own statements with the values that it bound to them, traced
while one handoff ran. Nothing about tables, columns or sizes is written down a second time, so nothing can drift.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
from msgspec import Struct

from bench.ledger.script import COMMANDS, STEPS, command_id, ready, task_id
from tenure.ledger.sqlite.connection import open_writer
from tenure.ledger.sqlite.store import Store

Value = int | str | bytes | None
Row = tuple[Value, ...]

_WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
_INTO = re.compile(r"INSERT INTO (\w+) \(([^)]*)\)")


class Written(Struct, frozen=True):
    """One statement of a step with the rows that it wrote. ``table`` and ``columns`` only for an INSERT."""

    sql: str
    table: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class Recording(Struct, frozen=True):
    """A recorded handoff: by step the statements that wrote, and the events that they wrote."""

    task_id: str
    steps: tuple[tuple[Written, ...], ...]

    @property
    def sizes(self) -> dict[str, dict[str, int]]:
        """Rows and bytes that each step writes."""
        found = {}
        for name, step in zip(STEPS, self.steps, strict=True):
            rows = [row for written in step for row in written.rows]
            found[name] = {"rows": len(rows), "bytes": sum(_size(value) for row in rows for value in row)}
        return found


def _size(value: Value) -> int:
    return len(value) if isinstance(value, str | bytes) else 8


@cache
def record() -> Recording:
    """Run one handoff on a new ledger and keep what it wrote."""
    task = task_id(0, "recorded")
    with TemporaryDirectory(prefix="tenure-bench-") as folder:
        connection = open_writer(str(Path(folder) / "recorded.db"))
        try:
            return Recording(task, tuple(_steps(Store(connection), task)))
        finally:
            connection.close()


def _steps(store: Store, task: str) -> list[tuple[Written, ...]]:
    traced: list[tuple[str, Row]] = []

    def trace(_: apsw.Cursor, sql: str, bindings: Any) -> bool:
        if _WRITES.match(sql):
            traced.append((sql, tuple(bindings or ())))
        return True

    steps, epoch, job = [], 0, ready(task)
    for command in COMMANDS:
        store.begin()
        store.connection.exec_trace = trace
        epoch = store.execute(command(job, epoch)).epoch
        store.flush()
        store.connection.exec_trace = None
        store.commit()
        steps.append(_grouped(traced))
        traced.clear()
    return steps


def _grouped(traced: list[tuple[str, Row]]) -> tuple[Written, ...]:
    """Rows of one statement together, statements in the order of their first use."""
    rows: dict[str, list[Row]] = {}
    for sql, row in traced:
        rows.setdefault(sql, []).append(row)
    return tuple(_written(sql, tuple(found)) for sql, found in rows.items())


def _written(sql: str, rows: tuple[Row, ...]) -> Written:
    match = _INTO.match(sql)
    if match is None:
        return Written(sql, "", (), rows)
    return Written(sql, match[1], tuple(name.strip() for name in match[2].split(",")), rows)


def keyed(recording: Recording, task: str) -> list[list[tuple[str, list[Row]]]]:
    """The rows of another task: its ids where the recorded task's stood as keys, positions left to SQLite.

    Contents (states, events, bodies) keep the recorded bytes: the same size, and nothing to compute.
    """
    ids: dict[Value, str] = {recording.task_id: task}
    ids.update({command_id(recording.task_id, n): command_id(task, n) for n in range(len(STEPS))})
    return [[(written.sql, _rekeyed(written, ids)) for written in step] for step in recording.steps]


def _rekeyed(written: Written, ids: dict[Value, str]) -> list[Row]:
    own = "position" if written.table in ("events", "tasks") else ""
    free = written.columns.index(own) if own else -1
    rows = []
    for row in written.rows:
        cells = [ids.get(value, value) for value in row]
        if free >= 0:
            cells[free] = None
        rows.append(tuple(cells))
    return rows
