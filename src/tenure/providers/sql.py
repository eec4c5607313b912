"""A change of the user's own database, and the record of its key, in one transaction: SQLite, and what all SQL shares.

The table of keys (:data:`COLUMNS`) stands in the database that is changed, and its unique key is the whole proof: the
change and its row are committed together or not at all, a tombstone in the row's place keeps everything with that key
from being committed, and of two transactions with one key the database lets one through.
"""

from __future__ import annotations

import contextlib
import re
import socket
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from tenure.errors import Refused
from tenure.protocol.body import text_digest
from tenure.runtime.content import canonical, encoded, to_plain, words_of
from tenure.runtime.jobs.aside import aside
from tenure.runtime.provider import Answer, Confirmed, Declined, Inconclusive, NotFound, NotSent, Provider, Sealed

C = TypeVar("C")

TEN_YEARS = 10 * 365 * 24 * 3600.0
"""Seconds for which a key counts, unless the user deletes rows earlier and says so."""

APPLY, UNDO, SEAL, OPEN = "apply", "undo", "seal", "open"

COLUMNS = "key TEXT NOT NULL PRIMARY KEY, purpose TEXT NOT NULL, request TEXT NOT NULL, value TEXT NOT NULL"
"""A row of the key table. ``request``: digest. ``value``: JSON. ``purpose``: ``apply``, ``undo``, ``seal``, or ``open``
until the change has ended: nobody sees that one, unless the change broke the rules and committed half-way."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


class Row(Struct, frozen=True):
    """What is on record under a key. ``value`` is JSON."""

    purpose: str
    request: str
    value: str


class SqlTransaction(Provider, Generic[C]):
    """What the transactions of all databases share; use :class:`SqliteTransaction` or ``PostgresTransaction``.

    Declares: *idempotent* while the rows are kept, *queryable*, *sealable*; *reversible* when ``compensate`` is given;
    not cancellable, as nothing of it outlives its transaction.

    Attributes:
        table: name of the key table. patience: longest wait in seconds for somebody else's lock.
        compensate, lookup_compensation: ``None`` unless the user can undo.
    """

    compensate: Callable[..., Awaitable[Answer]] | None = None
    lookup_compensation: Callable[..., Awaitable[Answer]] | None = None

    def __init__(self, name: str, *, table: str, scope: str, undoes: bool, kept_for: float, patience: float) -> None:
        if not NAME.fullmatch(table):
            raise Refused("misuse", f"{table!r} is no plain name of a table.")
        self.name = name
        self.table = table
        self.key_scope = f"{scope}/{table}"
        self.idempotent_for = kept_for
        self.patience = patience
        if undoes:
            self.undo_idempotent_for = kept_for
            self.compensate = self._compensate
            self.lookup_compensation = self._lookup_compensation

    async def apply(self, request: Any, *, key: str, repeat: bool = False) -> Answer:
        """Make the change and its row in one transaction, or answer from the row that is there.

        Raises:
            NotSent: the change was not begun.
            Exception: whatever the change raises, and whatever is raised by COMMIT: that one may have happened.
        """
        return await self._closed(await self._change(APPLY, request, key), request, key, repeat=repeat)

    async def lookup(self, request: Any, *, key: str) -> Answer:
        """Read the row. ``NotFound`` is never final: a transaction may be open beside this one; ``seal`` settles it."""
        return await self._look(APPLY, request, key)

    async def seal(self, request: Any, *, key: str) -> Answer:
        """Write a tombstone where no row is, waiting for a transaction that is about to write one."""
        raise NotImplementedError

    async def _compensate(self, request: Any, *, key: str, repeat: bool = False) -> Answer:
        """Undo in one transaction, with a row of its own."""
        return await self._closed(await self._change(UNDO, request, key), request, key, repeat=repeat)

    async def _closed(self, answer: Answer, request: Any, key: str, *, repeat: bool) -> Answer:
        """A refusal of a repeat, once the request before it finds the key taken: it may still wait for its lock."""
        if not (repeat and isinstance(answer, Declined)):
            return answer
        sealed = await self.seal(request, key=key)
        return answer if isinstance(sealed, Sealed) else sealed

    async def _lookup_compensation(self, request: Any, *, key: str) -> Answer:
        """Read the row of the undoing."""
        return await self._look(UNDO, request, key)

    async def _change(self, purpose: str, request: Any, key: str) -> Answer:
        raise NotImplementedError

    async def _look(self, purpose: str, request: Any, key: str) -> Answer:
        raise NotImplementedError


class SqliteTransaction(SqlTransaction[sqlite3.Connection]):
    """A change of a SQLite database, and the record of its key, in one transaction (``BEGIN IMMEDIATE``).

    Declares: *idempotent* while the rows are kept (``kept_for``), *queryable* (exact: what is on record was committed),
    *sealable*; *reversible* when ``compensate`` is given; not cancellable.

    Evidence: ``Confirmed`` from ``apply`` and ``lookup`` is a committed row. ``Sealed`` is a committed tombstone.
    ``Declined`` is the change's own answer, after which it was rolled back. An error of COMMIT proves nothing.

    It runs on a thread and through the standard library's ``sqlite3``, as two copies of SQLite in one process that have
    the same file open can damage it, and the user's own code uses that one. Do not use the ledger's own file.

    Args:
        name: name of the provider. database: path of the file; a file that does not exist is not made.
        change: called with the connection, inside of the transaction, and the request. Returns plain data, or a
            ``Declined`` to roll back. It must not commit, and must do nothing outside of this database.
        compensate: the same, to undo what a request did.
        table: name of the key table; made when there is none.
        prepare: called with each new connection before its transaction, for instance to set ``PRAGMA foreign_keys``.
        scope: where a key counts; by default this host and the path. Name it where one file is reached under several
            names of hosts or paths, for instance by containers one after the other.
        kept_for: seconds for which no row of the key table is deleted. patience: seconds to wait for a lock.
    """

    def __init__(
        self,
        name: str,
        database: str | Path,
        change: Callable[[sqlite3.Connection, Any], Any],
        *,
        compensate: Callable[[sqlite3.Connection, Any], Any] | None = None,
        table: str = "tenure_keys",
        prepare: Callable[[sqlite3.Connection], None] | None = None,
        scope: str = "",
        kept_for: float = TEN_YEARS,
        patience: float = 5,
    ) -> None:
        if "." in table:
            raise Refused("misuse", f"{table!r}: a database of SQLite has no schemas.")
        path = Path(database).absolute()
        # A file of the same path on another host is another database.
        super().__init__(
            name,
            table=table,
            scope=scope or f"{socket.gethostname()}:{path}",
            undoes=compensate is not None,
            kept_for=kept_for,
            patience=patience,
        )
        self._uri = f"{path.as_uri()}?mode=rw"
        self._functions = {APPLY: change, UNDO: compensate}
        self._prepare = prepare

    async def seal(self, request: Any, *, key: str) -> Answer:
        """Write a tombstone where no row is; otherwise say what is on record."""
        return await aside(lambda: self._sealed(digest(request), key))

    async def _change(self, purpose: str, request: Any, key: str) -> Answer:
        return await aside(lambda: self._changed(purpose, request, key))

    async def _look(self, purpose: str, request: Any, key: str) -> Answer:
        return await aside(lambda: self._looked(purpose, digest(request), key))

    def _changed(self, purpose: str, request: Any, key: str) -> Answer:
        mark = digest(request)
        try:
            connection = self._begun()
        except Exception as error:
            raise NotSent(words_of(error)) from error
        # Closing a connection rolls back what was not committed.
        with contextlib.closing(connection):
            found = self._row(connection, key)
            if found is not None:
                return answer_of(found, purpose, mark)
            self._write(connection, key, Row(OPEN, mark, "null"))
            function = self._functions[purpose]
            answer = function(connection, request) if function is not None else None
            if not connection.in_transaction:
                raise RuntimeError("The change ended the transaction in which it was called.")
            if isinstance(answer, Declined):
                return answer
            value = kept(answer)
            statement = f"UPDATE {self.table} SET purpose = ?, value = ? WHERE key = ?"  # noqa: S608 - a plain name
            if connection.execute(statement, (purpose, value, key)).rowcount != 1:
                raise RuntimeError("The change took back the row of its key.")
            connection.execute("COMMIT")
            return Confirmed(msgspec.json.decode(value))

    def _sealed(self, mark: str, key: str) -> Answer:
        with contextlib.closing(self._begun()) as connection:
            found = self._row(connection, key)
            if found is not None:
                return answer_of(found, APPLY, mark)
            self._write(connection, key, Row(SEAL, mark, "null"))
            connection.execute("COMMIT")
            return Sealed()

    def _looked(self, purpose: str, mark: str, key: str) -> Answer:
        with contextlib.closing(self._opened()) as connection:
            found = self._row(connection, key) if self._there(connection) else None
            return NotFound() if found is None else answer_of(found, purpose, mark)

    def _there(self, connection: sqlite3.Connection) -> bool:
        # Names of tables differ by more than the case of their letters.
        statement = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE"
        return connection.execute(statement, (self.table,)).fetchone() is not None

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._uri, uri=True, timeout=self.patience, isolation_level=None)
        try:
            if self._prepare is not None:
                self._prepare(connection)
            if connection.execute("PRAGMA synchronous").fetchone()[0] < 2:  # noqa: PLR2004 - FULL: commits are kept
                connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _begun(self) -> sqlite3.Connection:
        """A connection with a transaction that holds the database's one lock for writers, and a key table."""
        connection = self._opened()
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self.table} ({COLUMNS}) WITHOUT ROWID")
        except BaseException:
            connection.close()
            raise
        return connection

    def _row(self, connection: sqlite3.Connection, key: str) -> Row | None:
        statement = f"SELECT purpose, request, value FROM {self.table} WHERE key = ?"  # noqa: S608 - a plain name
        # A user's row factory shall not matter here.
        cursor = connection.cursor()
        cursor.row_factory = None
        found = cursor.execute(statement, (key,)).fetchone()
        return None if found is None else Row(*found)

    def _write(self, connection: sqlite3.Connection, key: str, row: Row) -> None:
        statement = f"INSERT INTO {self.table} (key, purpose, request, value) VALUES (?, ?, ?, ?)"  # noqa: S608 - a name
        connection.execute(statement, (key, row.purpose, row.request, row.value))


def digest(request: Any) -> str:
    """What tells one request from another."""
    return text_digest(canonical(request).decode())


def kept(value: Any) -> str:
    """A change's answer as it is kept.

    Raises:
        Refused: ``invalid`` for what has no JSON form.
    """
    return encoded(to_plain(value)).decode()


def answer_of(row: Row, purpose: str, mark: str) -> Answer:
    """What the row of a key says to somebody who asks with a request."""
    if row.request != mark:
        return Inconclusive("Another request is on record under this key.")
    if row.purpose == SEAL:
        return Sealed()
    if row.purpose == OPEN:
        return Inconclusive("The change ended its transaction half-way: what is there of it is not known.")
    if row.purpose != purpose:
        return Inconclusive(f"The row of this key is one of {row.purpose!r}.")
    return Confirmed(msgspec.json.decode(row.value))
