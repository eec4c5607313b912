"""What goes wrong while it runs: a full disk, a lock, an I/O error at COMMIT, a job that breaks its batch."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tenure.errors import OutcomeUnknown, Refused, Unavailable
from tenure.ledger.commit import Held
from tenure.ledger.sqlite import SqliteLedger
from tenure.ledger.sqlite.store import Store
from tenure.protocol import commands as cmd
from tenure.protocol.commands import Receipt
from tenure.testing.conformance import Driver, VirtualClock
from tenure.testing.conformance.driver import body


class Fault:
    """Raises from SQLite's own file calls: ``when`` is xWrite or xSync, ``where`` ends the name of the file."""

    def __init__(self) -> None:
        self.when = ""
        self.where = ""
        self.error: type[apsw.Error] = apsw.IOError

    def check(self, when: str, name: str) -> None:
        if when == self.when and name.endswith(self.where):
            raise self.error("as the test wants it")


FAULT = Fault()


class FaultyFile(apsw.VFSFile):
    def __init__(self, inherit: str, name: Any, flags: list[int]) -> None:
        self.path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__(inherit, name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 - the name in SQLite's interface
        FAULT.check("xWrite", self.path)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 - the name in SQLite's interface
        FAULT.check("xSync", self.path)
        super().xSync(flags)


class FaultyVFS(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("tenure-faulty", "")

    def xOpen(self, name: Any, flags: list[int]) -> FaultyFile:  # noqa: N802 - the name in SQLite's interface
        return FaultyFile("", name, flags)


VFS = FaultyVFS()


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    FAULT.when = ""
    async with SqliteLedger(str(tmp_path / "a.db"), clock=VirtualClock(), vfs="tenure-faulty") as opened:
        yield opened
        FAULT.when = ""
        found = await opened.verify()
        assert (found.chain, found.replay, found.file, found.missing) == ("verified", "equal", "sound", 0)


def connection_of(ledger: SqliteLedger) -> apsw.Connection:
    return ledger._desk._store.connection


def families(answers: list[Any]) -> list[str]:
    return ["done" if isinstance(answer, Receipt) else answer.code for answer in answers]


async def test_commits_are_counted_and_shared(ledger: SqliteLedger) -> None:
    before = ledger.commits
    drivers = [Driver(ledger, f"t{n}") for n in range(32)]
    await asyncio.gather(*(driver.submit() for driver in drivers))
    assert ledger.commits == before + 1
    with pytest.raises(Refused):
        await drivers[0].do(cmd.Expire)
    assert ledger.commits == before + 2  # the audit is durable too
    command = drivers[0].make(cmd.Send, message=body("hello"))
    await ledger.execute(command)
    await ledger.execute(command)
    assert ledger.commits == before + 3


async def test_a_batch_is_bounded(ledger: SqliteLedger) -> None:
    before = ledger.commits
    await asyncio.gather(*(Driver(ledger, f"t{n}").submit() for n in range(300)))
    assert ledger.commits == before + 2


async def test_a_full_disk_writes_nothing_and_can_be_tried_again(ledger: SqliteLedger) -> None:
    driver = Driver(ledger)
    await driver.owned()
    connection = connection_of(ledger)
    connection.pragma("max_page_count", connection.pragma("page_count") + 3)
    commands = [driver.make(cmd.Send, message=body("x" * 20_000, f"nonce {n}")) for n in range(8)]
    answers = await asyncio.gather(*(ledger.execute(command) for command in commands), return_exceptions=True)
    assert set(families(answers)) == {"disk_full"}
    with pytest.raises(Unavailable) as caught:
        await asyncio.to_thread(ledger.execute_blocking, commands[0])
    assert caught.value.code == "disk_full"
    assert (await driver.task()).received == 0
    connection.pragma("max_page_count", 1_000_000)
    receipts = await asyncio.gather(*(ledger.execute(command) for command in commands))
    assert len({receipt.revision for receipt in receipts}) == 8


async def test_a_write_error_before_commit_writes_nothing(ledger: SqliteLedger) -> None:
    driver = Driver(ledger)
    await driver.submit()
    connection_of(ledger).execute("PRAGMA cache_size = 5; PRAGMA cache_spill = 5")
    command = driver.make(cmd.Send, message=body("x" * 200_000))
    FAULT.when, FAULT.where, FAULT.error = "xWrite", "-wal", apsw.FullError
    with pytest.raises(Unavailable) as caught:
        await ledger.execute(command)
    assert caught.value.code == "disk_full"
    FAULT.when = ""
    assert (await driver.task()).received == 0
    assert (await ledger.execute(command)).status == "done"


async def test_an_io_error_at_commit_leaves_the_outcome_open(ledger: SqliteLedger) -> None:
    driver = Driver(ledger)
    await driver.submit()
    command = driver.make(cmd.Send, message=body("hello"))
    refused = driver.make(cmd.Expire)
    FAULT.when, FAULT.where, FAULT.error = "xSync", "-wal", apsw.IOError
    answers = await asyncio.gather(ledger.execute(command), ledger.execute(refused), return_exceptions=True)
    assert [type(answer) for answer in answers] == [OutcomeUnknown, OutcomeUnknown]
    with pytest.raises(Refused) as caught:  # its note is lost, its answer is not
        await ledger.execute(refused)
    assert caught.value.code == "not_due"
    FAULT.when = ""
    assert (await ledger.execute(command)).revision == 3
    assert (await ledger.execute(command)).revision == 3
    assert [note.code for note in await ledger.refusals()] == []


async def test_a_busy_commit_writes_nothing(ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(ledger)
    await driver.submit()

    def busy(store: Store) -> None:
        raise apsw.BusyError("as the test wants it")

    command = driver.make(cmd.Send, message=body("hello"))
    with monkeypatch.context() as patch:
        patch.setattr(Store, "commit", busy)
        with pytest.raises(Unavailable) as caught:
            await ledger.execute(command)
    assert caught.value.code == "ledger_busy"
    assert (await driver.task()).received == 0
    assert (await ledger.execute(command)).revision == 3


async def test_a_lock_that_another_holds_too_long_is_said_so(ledger: SqliteLedger, tmp_path: Path) -> None:
    driver = Driver(ledger)
    await driver.submit()
    connection_of(ledger).set_busy_timeout(20)
    other = apsw.Connection(str(tmp_path / "a.db"))
    other.execute("BEGIN IMMEDIATE")
    command = driver.make(cmd.Send, message=body("hello"))
    with pytest.raises(Unavailable) as caught:
        await ledger.execute(command)
    assert caught.value.code == "ledger_busy"
    assert (await driver.task()).received == 0
    other.execute("ROLLBACK")
    other.close()
    assert (await ledger.execute(command)).status == "done"


async def test_a_job_that_breaks_its_batch_fails_alone(ledger: SqliteLedger) -> None:
    drivers = [Driver(ledger, f"t{n}") for n in range(5)]
    await asyncio.gather(*(driver.submit() for driver in drivers))
    connection_of(ledger).limit(apsw.SQLITE_LIMIT_LENGTH, 20_000)
    sends = [driver.do(cmd.Send, message=body("x" * (30_000 if driver is drivers[2] else 3))) for driver in drivers]
    answers = await asyncio.gather(*sends, drivers[0].do(cmd.Expire), return_exceptions=True)
    assert families(answers) == ["done", "done", "ledger_unavailable", "done", "done", "not_due"]
    assert [(await driver.task()).received for driver in drivers] == [1, 1, 0, 1, 1]
    assert [note.code for note in await ledger.refusals()] == ["not_due"]


async def test_a_job_with_a_bug_fails_alone(ledger: SqliteLedger) -> None:
    def buggy(store: Store) -> None:
        raise ZeroDivisionError

    answers = await asyncio.gather(ledger._writer.call(buggy), Driver(ledger).submit(), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ZeroDivisionError, Receipt]


async def test_a_row_that_changed_under_the_decision_is_decided_again(
    ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(ledger)
    await driver.owned()
    held, stale = Store.held, [3]

    def older(store: Store, root_id: str, task_id: str) -> Held | None:
        found = held(store, root_id, task_id)
        if found is None or not stale[0]:
            return found
        stale[0] -= 1
        from msgspec.structs import replace

        return Held(replace(found.task, revision=found.task.revision - 1), found.lease_until, found.head)

    monkeypatch.setattr(Store, "held", older)
    assert (await driver.do(cmd.Send, message=body("hello"))).status == "done"
    assert stale == [0]
    stale[0] = 1_000
    with pytest.raises(Unavailable) as caught:
        await driver.do(cmd.Send, message=body("hello"))
    assert caught.value.code == "ledger_unavailable"
    stale[0] = 0
    assert (await driver.task()).received == 1


async def test_a_damaged_table_is_told_by_its_readers(ledger: SqliteLedger, tmp_path: Path) -> None:
    connection_of(ledger).execute("ALTER TABLE inputs RENAME TO outputs")
    with pytest.raises(Unavailable) as caught:
        await ledger.messages("t")
    assert caught.value.code == "ledger_unavailable"
    connection_of(ledger).execute("ALTER TABLE outputs RENAME TO inputs")


async def test_erased_content_is_in_no_file(ledger: SqliteLedger, tmp_path: Path) -> None:
    driver = Driver(ledger)
    secret = "my name is customer-07"
    await driver.owned()
    await driver.do(cmd.Send, message=body(secret))
    await driver.complete()

    def found() -> bool:
        return any(secret.encode() in file.read_bytes() for file in tmp_path.iterdir())

    assert found()
    await ledger.erase("t", by="person:operator")
    assert not found()


async def test_an_erasure_does_not_wait_for_ever_for_a_reader(ledger: SqliteLedger, tmp_path: Path) -> None:
    driver = Driver(ledger)
    await driver.owned()
    await driver.complete()
    reader = apsw.Connection(str(tmp_path / "a.db"))
    reader.execute("BEGIN; SELECT * FROM tasks").fetchall()
    connection_of(ledger).set_busy_timeout(20)
    assert await ledger.erase("t", by="person:operator") == 2
    reader.close()
