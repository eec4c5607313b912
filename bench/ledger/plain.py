"""The other side: the best simple program that writes the same rows durably.

One writer thread with a queue. It takes what has come in, runs each prepared statement once for the whole batch with
``executemany``, commits, and only then answers. Schema, pragmas and SQLite are the ledger's own. Left out is what makes
a ledger: no look-up of command ids, no load, no decision, no JSON, no hash chain, no savepoint per command. Its rows
were made before the clock started. Its updates keep the guards of the ledger's statements (key and revision), and it
checks the number of changed rows, of the whole batch at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Iterable, Sequence

import apsw

from bench.ledger.recording import Row
from tenure.ledger.sqlite.connection import open_writer

Rows = list[tuple[str, list[Row]]]
"""One step: each statement with its rows."""
MOST = 256
"""Steps in one commit; as in the ledger."""


class PlainWriter:
    """The batch, without a thread: also what the CPU measure runs."""

    def __init__(self, path: str, schema: Sequence[str] = ()) -> None:
        self.connection: apsw.Connection = open_writer(path, schema=schema)
        self._cursor = self.connection.cursor()

    def write(self, steps: Iterable[Rows]) -> None:
        """Write a batch of steps of different tasks."""
        grouped: dict[str, list[Row]] = {}
        for step in steps:
            for sql, rows in step:
                known = grouped.get(sql)
                if known is None:
                    grouped[sql] = rows.copy()
                else:
                    known += rows
        before, expected = self.connection.total_changes(), 0
        for sql, rows in grouped.items():
            self._cursor.executemany(sql, rows)
            expected += len(rows)
        if self.connection.total_changes() - before != expected:
            raise RuntimeError("A row was not there, or not at the revision that was expected.")

    def begin(self) -> None:
        """Open the transaction."""
        self._cursor.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make it durable."""
        self._cursor.execute("COMMIT")


class Plain:
    """The program: ``await plain.step(rows)`` returns once the rows are durable. ``schema``: tables of its own."""

    def __init__(self, path: str, schema: Sequence[str] = ()) -> None:
        self._path = path
        self._schema = schema
        self._queue: queue.SimpleQueue[tuple[Rows, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="plain-writer")
        self._thread.start()

    async def step(self, rows: Rows) -> None:
        """Hand one step over and wait for its commit."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((rows, future))
        await future

    async def close(self) -> None:
        """Finish and let go of the file."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        writer = PlainWriter(self._path, self._schema)
        while (batch := self._batch()) is not None:
            writer.begin()
            writer.write(rows for rows, _ in batch)
            writer.commit()
            self._loop.call_soon_threadsafe(_answer, [future for _, future in batch])
        writer.connection.close()

    def _batch(self) -> list[tuple[Rows, asyncio.Future[None]]] | None:
        first = self._queue.get()
        if first is None:
            return None
        batch = [first]
        with contextlib.suppress(queue.Empty):
            while len(batch) < MOST:
                more = self._queue.get_nowait()
                if more is None:
                    self._queue.put(None)
                    break
                batch.append(more)
        return batch


def _answer(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
