"""A change of the user's PostgreSQL database, and the record of its key, in one transaction. Extra: ``postgres``."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

import asyncpg
import msgspec

from tenure.errors import Refused
from tenure.providers.sql import (
    APPLY,
    COLUMNS,
    OPEN,
    SEAL,
    TEN_YEARS,
    UNDO,
    Row,
    SqlTransaction,
    answer_of,
    digest,
    kept,
)
from tenure.runtime.content import words_of
from tenure.runtime.provider import Answer, Confirmed, Declined, Inconclusive, NotFound, NotSent, Sealed

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Change: TypeAlias = Callable[[Connection, Any], Awaitable[Any]]

GOODBYE = 1.0
"""Seconds for a polite end of a connection; what it was opened for is over by then."""

LOCAL = frozenset({"localhost", "::1"})

DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit', true) = 'off'"
)
"""A commit that a crash of the server can undo proves nothing."""


class PostgresTransaction(SqlTransaction[Connection]):
    """A change of a PostgreSQL database, and the record of its key, in one transaction.

    Declares: *idempotent* while the rows are kept (``kept_for``), *queryable* (exact: what is on record was committed),
    *sealable*; *reversible* when ``compensate`` is given; not cancellable.

    Evidence: ``Confirmed`` from ``apply`` and ``lookup`` is a committed row. ``Sealed`` is a committed tombstone: a
    transaction with that key can no more commit, whoever began it and when. ``Declined`` is the change's own answer,
    after which it was rolled back. A connection lost during COMMIT proves nothing and raises.

    The key's row is written first. So a second transaction with the same key waits until the first has ended, and a
    seal waits as long as ``patience`` allows.

    Args:
        name: name of the provider. dsn: ``postgresql://user@host:port/database``.
        change: a coroutine function, called with the connection, inside of the transaction (isolation: read
            committed), and the request. Returns plain data, or a ``Declined`` to roll back. It must not commit, and
            must do nothing outside of this database.
        compensate: the same, to undo what a request did.
        table: name of the key table, with its schema if that is not on the search path; made when there is none.
        scope: where a key counts; by default host, port and database of ``dsn``, and this host too where that one is
            local. Needed for a ``dsn`` without them, or with several hosts, and to be named where one database is
            reached under several addresses.
        kept_for: seconds for which no row of the key table is deleted.
        patience: seconds to wait for a connection, and for a lock.

    Raises:
        Refused: ``misuse`` for a ``dsn`` that names not exactly one host and database, without a scope.
    """

    def __init__(
        self,
        name: str,
        dsn: str,
        change: Change,
        *,
        compensate: Change | None = None,
        table: str = "tenure_keys",
        scope: str = "",
        kept_for: float = TEN_YEARS,
        patience: float = 5,
    ) -> None:
        super().__init__(
            name,
            table=table,
            scope=scope or _place(dsn),
            undoes=compensate is not None,
            kept_for=kept_for,
            patience=patience,
        )
        self._dsn = dsn
        self._functions = {APPLY: change, UNDO: compensate}

    async def seal(self, request: Any, *, key: str) -> Answer:
        """Write a tombstone where no row is, after waiting for whoever is writing one; else say what is on record."""
        mark = digest(request)
        async with self._connected() as connection:
            await self._make_table(connection)
            async with connection.transaction(isolation="read_committed"):
                await connection.execute(DURABLE)
                claimed = await self._claim(connection, key, Row(SEAL, mark, "null"))
            found = None if claimed else await self._row(connection, key)
            if found is not None:
                return answer_of(found, APPLY, mark)
            return Sealed() if claimed else Inconclusive("The row of this key was deleted meanwhile.")

    async def _change(self, purpose: str, request: Any, key: str) -> Answer:
        mark = digest(request)
        async with contextlib.AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(self._connected())
                await self._make_table(connection)
                transaction = connection.transaction(isolation="read_committed")
                await transaction.start()
                await connection.execute(DURABLE)
                claimed = await self._claim(connection, key, Row(OPEN, mark, "null"))
            except Exception as error:
                # No COMMIT was sent, so whatever was begun is rolled back.
                raise NotSent(words_of(error)) from error
            if not claimed:
                found = await self._row(connection, key)
                return answer_of(found, purpose, mark) if found else Inconclusive("The row was deleted meanwhile.")
            return await self._make(connection, transaction, purpose, request, key)

    async def _make(self, connection: Connection, transaction: Any, purpose: str, request: Any, key: str) -> Answer:
        """Call the user's function and commit. Whatever is raised ends the connection, and with it the transaction."""
        function = self._functions[purpose]
        answer = await function(connection, request) if function is not None else None
        if not connection.is_in_transaction():
            if connection.is_closed():
                raise ConnectionError("The connection was lost in the change.")
            raise RuntimeError("The change ended the transaction in which it was called.")
        if isinstance(answer, Declined):
            return answer
        value = kept(answer)
        statement = f"UPDATE {self.table} SET purpose = $1, value = $2 WHERE key = $3"  # noqa: S608 - a plain name
        if await connection.execute(statement, purpose, value, key) != "UPDATE 1":
            raise RuntimeError("The change took back the row of its key.")
        await transaction.commit()
        return Confirmed(msgspec.json.decode(value))

    async def _look(self, purpose: str, request: Any, key: str) -> Answer:
        async with self._connected() as connection:
            found = await self._row(connection, key) if await self._there(connection) else None
            return NotFound() if found is None else answer_of(found, purpose, digest(request))

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """A connection of its own for each call: what is not committed when it ends is rolled back."""
        waits = {"lock_timeout": str(int(self.patience * 1000))}
        connection: Connection = await asyncpg.connect(self._dsn, timeout=self.patience, server_settings=waits)
        try:
            yield connection
        except BaseException:
            connection.terminate()
            raise
        try:
            await connection.close(timeout=GOODBYE)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            connection.terminate()

    async def _there(self, connection: Connection) -> bool:
        return await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", self.table) is True

    async def _make_table(self, connection: Connection) -> None:
        if await self._there(connection):
            return
        # Two that create one table at once disturb each other, in spite of IF NOT EXISTS.
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", self.table)
            await connection.execute(f"CREATE TABLE IF NOT EXISTS {self.table} ({COLUMNS})")

    async def _claim(self, connection: Connection, key: str, row: Row) -> bool:
        """Write the row unless there is one; waits for a transaction that has written one and is not over."""
        statement = (
            f"INSERT INTO {self.table} (key, purpose, request, value) VALUES ($1, $2, $3, $4) "  # noqa: S608 - a name
            "ON CONFLICT (key) DO NOTHING RETURNING TRUE"
        )
        return await connection.fetchval(statement, key, row.purpose, row.request, row.value) is True

    async def _row(self, connection: Connection, key: str) -> Row | None:
        statement = f"SELECT purpose, request, value FROM {self.table} WHERE key = $1"  # noqa: S608 - a plain name
        found = await connection.fetchrow(statement, key)
        return None if found is None else Row(found["purpose"], found["request"], found["value"])


def _place(dsn: str) -> str:
    """Host, port and database, without the user or a password.

    Raises:
        Refused: ``misuse`` for what does not name exactly one of each, for everybody.
    """
    parts = urlsplit(dsn)
    more = parse_qs(parts.query)
    host = parts.hostname or more.get("host", [""])[0]
    if "," in parts.netloc + host or not host or len(parts.path) < 2:  # noqa: PLR2004 - a slash and a name
        raise Refused("misuse", "The dsn names not exactly one host and database: say what the scope of a key is.")
    port = parts.port or more.get("port", ["5432"])[0]
    if host in LOCAL or host.startswith(("/", "@", "127.")):
        # Another host has another server at this address.
        host = f"{socket.gethostname()}:{host}"
    return f"{host}:{port}{parts.path}"
