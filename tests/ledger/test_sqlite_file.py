"""The file: what may be opened, what is upgraded, what is turned away untouched."""

import asyncio
import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from tenure.errors import Refused, TenureError, Unavailable
from tenure.ledger import Beat, Ledger, open_ledger
from tenure.ledger.memory import MemoryLedger
from tenure.ledger.sqlite import SqliteLedger
from tenure.ledger.sqlite.connection import APPLICATION_ID, open_reader, open_writer, translate
from tenure.ledger.sqlite.statements import migrations
from tenure.protocol import commands as cmd
from tenure.testing.conformance import Driver, VirtualClock
from tenure.testing.conformance.driver import body

NOBODY = 65534


def opening(path: Path) -> TenureError:
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(TenureError) as caught:
        SqliteLedger(str(path))
    assert before is None or path.read_bytes() == before
    return caught.value


@contextmanager
def as_a_user(folder: Path) -> Iterator[None]:
    """Without root's rights, which no permission stops."""
    temporary = Path(tempfile.gettempdir())
    for parent in (parent for parent in folder.parents if parent.is_relative_to(temporary) and parent != temporary):
        parent.chmod(0o755)  # so that only the folder itself stands in the way
    mine = os.geteuid()
    os.seteuid(mine or NOBODY)
    try:
        yield
    finally:
        os.seteuid(mine)


async def test_urls(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with open_ledger("memory://", clock=clock) as memory, open_ledger(f"sqlite:///{tmp_path}/a.db") as file:
        assert isinstance(memory, MemoryLedger)
        assert isinstance(file, SqliteLedger)
        assert (memory.url, file.url) == ("memory://", f"sqlite:///{tmp_path}/a.db")
        assert memory.now_blocking() == clock.now
    for url in ("memory", "sqlite:shop.db", "mysql://host/shop", ""):
        with pytest.raises(Refused) as caught:
            open_ledger(url)
        assert caught.value.code == "invalid"


async def test_the_databases_own_clock_is_the_default(tmp_path: Path) -> None:
    async with SqliteLedger(str(tmp_path / "a.db")) as ledger:
        await Driver(ledger).submit()
        (submitted, *_) = await ledger.events()
        now = await asyncio.to_thread(ledger.now_blocking)
        assert 0 <= now - submitted.event.at < 60_000
    memory = MemoryLedger()
    assert abs(memory.now_blocking() - now) < 60_000


async def test_a_new_file_is_a_durable_ledger(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SqliteLedger(str(path)) as ledger:
        connection = ledger._desk._store.connection
        pragmas = {name: connection.pragma(name) for name in ("journal_mode", "synchronous", "application_id")}
        assert pragmas == {"journal_mode": "wal", "synchronous": 2, "application_id": APPLICATION_ID}
        assert connection.pragma("user_version") == len(migrations())
        await Driver(ledger).submit()
    async with SqliteLedger(str(path)) as ledger:
        assert (await Driver(ledger).task()).revision == 2


@pytest.mark.parametrize("path", ["", ":memory:", "missing/a.db", "folder"])
def test_what_is_no_file_in_a_folder_is_said_so(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(Refused) as caught:
        SqliteLedger(str(tmp_path / path) if path.isidentifier() or "/" in path else path)
    assert caught.value.code == "invalid"


def test_garbage_is_turned_away_untouched(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"this is no database" * 1_000)
    error = opening(path)
    assert (error.family, error.code) == ("refused", "corrupt_file")


@pytest.mark.parametrize("sql", ["CREATE TABLE mine (x)", "PRAGMA user_version = 3", "PRAGMA application_id = 7"])
def test_another_programs_database_is_turned_away_untouched(tmp_path: Path, sql: str) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute(sql)
    connection.commit()
    connection.close()
    assert opening(path).code == "foreign_file"


def test_a_newer_file_is_turned_away_untouched(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    newer = (*migrations(), "CREATE TABLE hovercraft (eels INTEGER)")
    open_writer(str(path), schema=newer).close()
    error = opening(path)
    assert (error.family, error.code) == ("refused", "newer_file")


async def make(path: str) -> None:
    async with SqliteLedger(path) as ledger:
        await Driver(ledger).submit()


def test_an_older_file_is_upgraded_with_everything_in_it(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    asyncio.run(make(path))
    added = "ALTER TABLE tasks ADD COLUMN note TEXT; CREATE INDEX tasks_by_note ON tasks (note);"
    connection = open_writer(path, schema=(*migrations(), added))
    assert connection.pragma("user_version") == len(migrations()) + 1
    assert connection.execute("SELECT task_id, note FROM tasks").fetchall() == [("t", None)]
    connection.close()


def test_a_migration_that_fails_leaves_the_older_file(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    open_writer(path).close()
    with pytest.raises(Unavailable) as caught:
        open_writer(path, schema=(*migrations(), "CREATE TABLE extra (x); CREATE TABLE extra (x)"))
    assert caught.value.code == "ledger_unavailable"
    connection = open_writer(path)
    assert connection.execute("SELECT name FROM sqlite_schema WHERE name = 'extra'").fetchall() == []
    connection.close()


def test_two_that_upgrade_at_once_upgrade_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenure.ledger.sqlite import connection as module

    path = str(tmp_path / "a.db")
    read = module._version

    def slow(connection: apsw.Connection, name: str, known: int) -> int:
        version = read(connection, name, known)
        monkeypatch.undo()
        open_writer(path).close()  # the other one is faster
        return version

    monkeypatch.setattr(module, "_version", slow)
    connection = open_writer(path)
    assert connection.pragma("user_version") == len(migrations())
    connection.close()


async def test_a_file_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    folder = tmp_path / "readable"
    folder.mkdir()
    path = folder / "a.db"
    async with SqliteLedger(str(path)) as ledger:
        await Driver(ledger).submit()
    path.chmod(0o444)
    folder.chmod(0o555)
    with as_a_user(folder), pytest.raises(Unavailable) as caught:
        SqliteLedger(str(path))
    assert caught.value.code == "ledger_read_only"
    with as_a_user(folder), pytest.raises(Unavailable) as caught:
        SqliteLedger(str(folder / "new.db"))
    assert caught.value.code == "ledger_read_only"
    folder.chmod(0o755)


def test_an_opening_that_fails_half_way_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenure.ledger import sqlite as module

    def fail(path: str, **_: str) -> apsw.Connection:
        return open_reader(f"{path}.missing")

    monkeypatch.setattr(module, "open_reader", fail)
    before = {thread.name for thread in threading.enumerate()}
    with pytest.raises(Unavailable) as caught:
        SqliteLedger(str(tmp_path / "a.db"))
    assert caught.value.code == "ledger_read_only"
    for thread in threading.enumerate():
        if thread.name == "tenure-ledger-writer":
            thread.join(5)
    assert {thread.name for thread in threading.enumerate()} == before


@pytest.mark.parametrize(
    ("error", "committing", "family", "code"),
    [
        (apsw.FullError("full"), True, "unavailable", "disk_full"),
        (apsw.BusyError("busy"), True, "unavailable", "ledger_busy"),
        (apsw.LockedError("locked"), False, "unavailable", "ledger_busy"),
        (apsw.ReadOnlyError("read only"), False, "unavailable", "ledger_read_only"),
        (apsw.CorruptError("malformed"), False, "refused", "corrupt_file"),
        (apsw.IOError("sync"), False, "unavailable", "ledger_unavailable"),
        (apsw.IOError("sync"), True, "outcome_unknown", "commit_unknown"),
        (apsw.SQLError("no such table"), True, "unavailable", "ledger_unavailable"),
    ],
)
def test_every_error_of_sqlite_has_its_family(error: apsw.Error, *, committing: bool, family: str, code: str) -> None:
    translated = translate(error, "a.db", committing=committing)
    assert (translated.family, translated.code) == (family, code)
    assert "a.db" in str(translated)


async def test_a_closed_ledger_is_one_complete_file(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    folder.mkdir()
    first, second = (SqliteLedger(str(folder / "a.db")) for _ in range(2))
    await Driver(first).submit()
    await Driver(second, "u").submit()
    waiter = asyncio.ensure_future(first.wait(100, 30))
    await first.verify()
    await first.close()
    assert await waiter == 4
    await second.close()
    assert [file.name for file in folder.iterdir()] == ["a.db"]
    (tmp_path / "copy.db").write_bytes((folder / "a.db").read_bytes())
    async with SqliteLedger(str(tmp_path / "copy.db")) as copy:
        found = await copy.verify()
        assert (found.chain, found.replay, found.events, found.tasks) == ("verified", "equal", 4, 2)


async def refused(ledger: Ledger, driver: Driver) -> str:
    """Nothing is written and no lease prolonged; returns what the caller is told."""
    before = await ledger.row("t")
    with pytest.raises(Unavailable) as beaten:
        await asyncio.to_thread(ledger.heartbeat, [Beat(task_id="t", epoch=2, instance="w1")], "w1")
    with pytest.raises(Unavailable) as sent:
        await driver.do(cmd.Send, message=body("hello"))
    assert (beaten.value.code, sent.value.code) == ("ledger_unavailable", "ledger_unavailable")
    assert await ledger.row("t") == before
    return str(sent.value)


@pytest.mark.parametrize("names", [("a.db", "a.db-wal", "a.db-shm"), ("a.db",), ("a.db-wal",)])
async def test_a_file_that_was_removed_is_written_no_more(tmp_path: Path, names: tuple[str, ...]) -> None:
    async with SqliteLedger(str(tmp_path / "a.db"), clock=VirtualClock()) as ledger:
        driver = Driver(ledger)
        await driver.owned()
        for name in names:
            (tmp_path / name).unlink()
        assert f"The file {tmp_path / names[0]} was removed or replaced" in await refused(ledger, driver)
        await make(str(tmp_path / "a.db") if len(names) == 3 else str(tmp_path / "b.db"))
        await refused(ledger, driver)  # the path has a file again, but another one


async def test_a_file_that_was_replaced_is_written_no_more_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, aside, other = (tmp_path / name for name in ("a.db", "aside.db", "b.db"))
    await make(str(other))
    monkeypatch.chdir(tmp_path)
    async with SqliteLedger("a.db", clock=VirtualClock()) as ledger:
        monkeypatch.chdir("/")  # the ledger stays where it was
        driver = Driver(ledger)
        await driver.owned()
        path.rename(aside)
        other.rename(path)
        await refused(ledger, driver)
        aside.rename(path)
        assert (await driver.do(cmd.Send, message=body("hello"))).status == "done"
        (beaten,) = await asyncio.to_thread(ledger.heartbeat, [Beat(task_id="t", epoch=2, instance="w1")])
        assert beaten.error == ""
    async with SqliteLedger(str(path)) as ledger:
        assert (await Driver(ledger).task()).received == 1


async def test_a_file_that_left_its_log_mode_is_brought_back_to_it(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    await make(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    async with SqliteLedger(path) as ledger:
        assert (await Driver(ledger, "u").submit()).status == "done"
