"""One business database of each kind, with a change that can be stopped half-way."""

import asyncio
import sqlite3
import threading
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg

from tenure import Declined
from tenure.providers.postgres import PostgresTransaction
from tenure.providers.sql import SqliteTransaction, SqlTransaction

LIMIT = 1000


class Gate:
    """A place in the change at which it can be held. It is open at first."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        self.open.set()

    async def held(self) -> None:
        """Wait until the change stands there."""
        assert await asyncio.to_thread(self.reached.wait, 10)


class Shop(ABC):
    """Orders in a database. A change adds one; an undoing removes those of a number."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.calls = 0
        self.answers: dict[int, Any] = {}

    def answer(self, cents: int) -> Any:
        """What a change answers."""
        if cents > LIMIT:
            return Declined("above the limit")
        return self.answers.get(cents, {"ordered": cents})

    async def make(self) -> None:
        """Make the table of orders."""
        await self.execute("CREATE TABLE orders (cents INTEGER NOT NULL)")

    @abstractmethod
    def provider(self, *, undoes: bool = False, **options: Any) -> SqlTransaction[Any]:
        """A provider of this database."""

    @abstractmethod
    async def orders(self) -> list[int]:
        """The amounts of all orders that are committed."""

    @abstractmethod
    async def execute(self, statement: str) -> None:
        """Run one statement in a transaction of its own."""


class SqliteShop(Shop):
    def __init__(self, path: Path, *, wal: bool = False) -> None:
        super().__init__()
        self.path = path
        self.wal = wal

    async def make(self) -> None:
        if self.wal:
            await self.execute("PRAGMA journal_mode = WAL")
        await super().make()

    def provider(self, *, undoes: bool = False, **options: Any) -> SqlTransaction[Any]:
        return SqliteTransaction("shop", self.path, self.add, compensate=self.remove if undoes else None, **options)

    def add(self, connection: sqlite3.Connection, request: Any) -> Any:
        self.calls += 1
        connection.execute("INSERT INTO orders VALUES (?)", (request["cents"],))
        if statement := request.get("statement"):
            connection.execute(statement)
        self.gate.reached.set()
        assert self.gate.open.wait(10)
        return self.answer(request["cents"])

    def remove(self, connection: sqlite3.Connection, request: Any) -> Any:
        gone = connection.execute("DELETE FROM orders WHERE cents = ?", (request["cents"],)).rowcount
        return {"removed": gone} if gone else Declined("no such order")

    async def orders(self) -> list[int]:
        def read() -> list[int]:
            with closing(sqlite3.connect(self.path)) as connection:
                return [cents for (cents,) in connection.execute("SELECT cents FROM orders ORDER BY cents")]

        return await asyncio.to_thread(read)

    async def execute(self, statement: str) -> None:
        def write() -> None:
            with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
                connection.execute(statement)

        await asyncio.to_thread(write)


class PostgresShop(Shop):
    def __init__(self, dsn: str) -> None:
        super().__init__()
        self.dsn = dsn

    def provider(self, *, undoes: bool = False, **options: Any) -> SqlTransaction[Any]:
        dsn = options.pop("dsn", self.dsn)
        return PostgresTransaction("shop", dsn, self.add, compensate=self.remove if undoes else None, **options)

    async def add(self, connection: Any, request: Any) -> Any:
        self.calls += 1
        await connection.execute("INSERT INTO orders VALUES ($1)", request["cents"])
        if statement := request.get("statement"):
            await connection.execute(statement)
        self.gate.reached.set()
        assert await asyncio.to_thread(self.gate.open.wait, 10)
        return self.answer(request["cents"])

    async def remove(self, connection: Any, request: Any) -> Any:
        gone = await connection.execute("DELETE FROM orders WHERE cents = $1", request["cents"])
        return {"removed": int(gone.split()[-1])} if gone != "DELETE 0" else Declined("no such order")

    async def orders(self) -> list[int]:
        connection = await asyncpg.connect(self.dsn)
        try:
            return [row["cents"] for row in await connection.fetch("SELECT cents FROM orders ORDER BY cents")]
        finally:
            await connection.close()

    async def execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()
