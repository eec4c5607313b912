"""What a transaction says when its database fails: nothing that was not seen."""

import asyncio
import contextlib
import socket
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from tenure import Confirmed, Inconclusive, NotFound, NotSent, Sealed
from tenure.errors import Refused
from tenure.providers.postgres import PostgresTransaction
from tests import postgres as pg
from tests.providers.shops import PostgresShop, SqliteShop

FIVE = {"cents": 5}


class Wire:
    """A line to a server that goes dead when the client says COMMIT: before the server hears it, or after."""

    def __init__(self, dsn: str, *, heard: bool) -> None:
        self.far = urlsplit(dsn)
        self.heard = heard
        self.cut = asyncio.Event()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection both ways."""
        there, back = await asyncio.open_connection(self.far.hostname, self.far.port)
        answers = asyncio.create_task(self.pass_on(there, writer))
        while sent := await reader.read(65536):
            committing = b"COMMIT;" in sent
            if committing:
                answers.cancel()
                await asyncio.wait([answers])
            if not committing or self.heard:
                back.write(sent)
                await back.drain()
            if committing and self.heard:
                await there.read(65536)  # the server's answer: it did commit
            if committing:
                self.cut.set()
                break
        answers.cancel()
        await asyncio.wait([answers])
        for each in (back, writer):
            each.close()
            with contextlib.suppress(OSError):
                await each.wait_closed()

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry the answers."""
        while got := await reader.read(65536):
            writer.write(got)
            await writer.drain()

    @contextlib.asynccontextmanager
    async def dsn(self) -> AsyncIterator[str]:
        """The address of this end."""
        server = await asyncio.start_server(self.carry, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            user = self.far.netloc.rpartition("@")[0]
            yield self.far._replace(netloc=f"{user}@127.0.0.1:{port}").geturl()


@pytest.fixture
async def shop(postgres: str) -> PostgresShop:
    """A PostgreSQL database with an empty table of orders."""
    made = PostgresShop(postgres)
    await made.make()
    return made


@pytest.fixture
async def file_shop(tmp_path: Path) -> SqliteShop:
    """A SQLite database with an empty table of orders, and a journal that readers hold up."""
    made = SqliteShop(tmp_path / "shop.db")
    await made.make()
    return made


@pytest.mark.parametrize("landed", [None, Confirmed({"ordered": 5})], ids=["unheard", "heard"])
async def test_a_connection_lost_during_commit_is_a_doubt_that_a_look_up_or_a_seal_ends(
    shop: PostgresShop, landed: Confirmed | None
) -> None:
    await shop.provider().seal(FIVE, key="another")  # the key table is there: the next COMMIT is the change's
    wire = Wire(shop.dsn, heard=landed is not None)
    async with wire.dsn() as dsn:
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            await shop.provider(dsn=dsn).apply(FIVE, key="k")
        assert wire.cut.is_set()
    direct = shop.provider()
    assert await direct.lookup(FIVE, key="k") == (landed or NotFound())
    assert await direct.seal(FIVE, key="k") == (landed or Sealed())
    assert await shop.orders() == ([5] if landed else [])


async def test_a_server_that_cannot_be_reached_has_heard_nothing() -> None:
    shop = PostgresShop("postgresql://tenure:x@127.0.0.1:1/nowhere?sslmode=disable")
    provider = shop.provider()
    with pytest.raises(NotSent):
        await provider.apply(FIVE, key="k")
    with pytest.raises(OSError, match=r"(?i)connect"):
        await provider.lookup(FIVE, key="k")
    assert shop.calls == 0


async def test_a_commit_that_the_server_refuses_raises_and_nothing_was_done(shop: PostgresShop) -> None:
    await shop.execute("ALTER TABLE orders ADD CONSTRAINT once UNIQUE (cents) DEFERRABLE INITIALLY DEFERRED")
    provider = shop.provider()
    await provider.apply(FIVE, key="a")
    with pytest.raises(asyncpg.UniqueViolationError):
        await provider.apply(FIVE, key="b")
    assert await provider.lookup(FIVE, key="b") == NotFound()
    assert await shop.orders() == [5]


async def test_commits_are_durable_where_the_database_says_that_they_need_not_be(shop: PostgresShop) -> None:
    name = urlsplit(shop.dsn).path[1:]
    await shop.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")

    async def ask(connection: Any, request: object) -> object:
        return await connection.fetchval("SHOW synchronous_commit")

    assert await PostgresTransaction("ask", shop.dsn, ask).apply(1, key="k") == Confirmed("on")


async def test_a_cancelled_call_leaves_nothing_behind(shop: PostgresShop) -> None:
    provider = shop.provider()
    shop.gate.open.clear()
    applying = asyncio.create_task(provider.apply(FIVE, key="k"))
    await shop.gate.held()
    applying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await applying
    shop.gate.open.set()
    assert await provider.seal(FIVE, key="k") == Sealed()
    assert await shop.orders() == []


def test_a_scope_has_no_password_and_must_be_named_where_the_address_has_no_database(postgres: str) -> None:
    shop = PostgresShop("postgresql://me:word@db.example:5433/shop")
    assert shop.provider().key_scope == "db.example:5433/shop/tenure_keys"
    with pytest.raises(Refused, match="scope"):
        shop.provider(dsn="postgresql://")
    assert shop.provider(dsn="postgresql://", scope="here").key_scope == "here/tenure_keys"
    with pytest.raises(Refused, match="scope"):
        shop.provider(dsn="postgresql://a.example:1,b.example:2/shop")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_a_local_address_counts_on_this_host_alone(host: str) -> None:
    scope = PostgresShop(f"postgresql://me@{host}:5433/shop").provider().key_scope
    assert scope == f"{socket.gethostname()}:{host.strip('[]')}:5433/shop/tenure_keys"
    in_query = PostgresShop("postgresql:///shop?host=/run/postgresql").provider().key_scope
    assert in_query == f"{socket.gethostname()}:/run/postgresql:5432/shop/tenure_keys"


def test_a_file_counts_on_this_host_alone_unless_its_scope_is_named(tmp_path: Path) -> None:
    shop = SqliteShop(tmp_path / "shop.db")
    assert shop.provider().key_scope == f"{socket.gethostname()}:{tmp_path}/shop.db/tenure_keys"
    assert shop.provider(scope="shop").key_scope == "shop/tenure_keys"
    with pytest.raises(Refused, match="no schemas"):
        shop.provider(table="main.keys")


async def test_a_script_that_commits_before_it_fails_is_never_confirmed(file_shop: SqliteShop) -> None:
    def script(connection: sqlite3.Connection, request: object) -> None:
        connection.executescript("INSERT INTO nothing_of_the_kind VALUES (1)")  # commits what is open first

    file_shop.add = script  # type: ignore[method-assign]
    provider = file_shop.provider()
    with pytest.raises(sqlite3.OperationalError, match="nothing_of_the_kind"):
        await provider.apply(FIVE, key="k")
    assert isinstance(await provider.lookup(FIVE, key="k"), Inconclusive)
    assert isinstance(await provider.seal(FIVE, key="k"), Inconclusive)


async def test_a_commit_that_sqlite_refuses_raises_and_nothing_was_done(file_shop: SqliteShop) -> None:
    provider = file_shop.provider(patience=0.05)
    with contextlib.closing(sqlite3.connect(file_shop.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM orders").fetchall()  # holds up every commit
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await provider.apply(FIVE, key="k")
    assert file_shop.calls == 1
    assert await provider.lookup(FIVE, key="k") == NotFound()
    assert await provider.seal(FIVE, key="k") == Sealed()


async def test_a_sqlite_file_that_is_not_there_is_not_made_and_proves_nothing(tmp_path: Path) -> None:
    provider = SqliteShop(tmp_path / "no.db").provider()
    with pytest.raises(NotSent):
        await provider.apply(FIVE, key="k")
    for asking in (provider.lookup, provider.seal):
        with pytest.raises(sqlite3.OperationalError):
            await asking(FIVE, key="k")
    assert not (tmp_path / "no.db").exists()


async def test_each_sqlite_connection_can_be_prepared_but_not_made_forgetful(file_shop: SqliteShop) -> None:
    found: list[int] = []

    def prepare(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.row_factory = sqlite3.Row

    def ask(connection: sqlite3.Connection, request: object) -> None:
        found.extend(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "foreign_keys"))

    file_shop.add = ask  # type: ignore[method-assign]
    provider = file_shop.provider(prepare=prepare)
    assert await provider.apply(FIVE, key="k") == await provider.lookup(FIVE, key="k") == Confirmed()
    assert found == [2, 1]


@pytest.mark.may_block
async def test_tests_find_a_postgres_without_one_of_the_system() -> None:
    """The wheel's server runs, and is gone at the end."""
    assert ["pginstall" in str(each) for each in pg.candidates(path="")] == [True]
    with pg.server(path="") as url:
        connection = await asyncpg.connect(pg.database(url, "postgres"))
        version = await connection.fetchval("SHOW server_version_num")
        await connection.close()
    assert int(version) >= 160_000
    with pytest.raises(OSError, match=r"(?i)connect"):
        await asyncpg.connect(pg.database(url, "postgres"))
