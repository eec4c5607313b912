"""Verification finds what was changed behind the ledger's back, and names it."""

import asyncio
from pathlib import Path

import apsw
import pytest

from tenure.errors import Refused
from tenure.ledger import Ledger, Verification, verifying
from tenure.ledger.memory import MemoryLedger
from tenure.ledger.sqlite import SqliteLedger
from tenure.ledger.sqlite.checking import verify_file
from tenure.protocol import commands as cmd
from tenure.protocol.vocabulary import EffectState
from tenure.testing.conformance import Driver, VirtualClock
from tenure.testing.conformance.driver import body


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A ledger with a tree of two tasks, an effect and a message, closed."""
    path = tmp_path / "a.db"
    async with SqliteLedger(str(path), clock=VirtualClock()) as ledger:
        driver = Driver(ledger)
        await driver.owned()
        await driver.intend("e1")
        await driver.delegate("t.1")
        await driver.do(cmd.Send, message=body("hello"))
    return path


async def after(path: Path, sql: str) -> Verification:
    def change() -> Verification:
        connection = apsw.Connection(str(path))
        connection.execute(sql)
        connection.close()
        return verify_file(str(path))

    return await asyncio.to_thread(change)


CHANGES = {
    "an event's content": (
        """UPDATE events SET event = CAST(replace(CAST(event AS TEXT), '"sender":""', '"sender":"x"') AS BLOB)
        WHERE seq = 8""",
        "broken",
        "equal",
        "t: event 8 does not continue the chain.",
    ),
    "an event's digest": (
        "UPDATE events SET digest = zeroblob(32) WHERE task_id = 't' AND seq = 8",
        "broken",
        "equal",
        "t: the newest digest in its row is not that of event 8.",
    ),
    "an event's epoch": (
        "UPDATE events SET epoch = 7 WHERE task_id = 't' AND seq = 5",
        "broken",
        "different",
        "t: event 5 is recorded under epoch 7, not 2.",
    ),
    "an event that is gone": (
        "DELETE FROM events WHERE task_id = 't' AND seq = 7",
        "broken",
        "different",
        "t: event 8 does not continue the chain.",
    ),
    "a tail that is cut": (
        "DELETE FROM events WHERE task_id = 't' AND seq = 8",
        "broken",
        "different",
        "t: the newest digest in its row is not that of event 7.",
    ),
    "an event that is none": (
        "UPDATE events SET event = CAST('{}' AS BLOB) WHERE task_id = 't' AND seq = 8",
        "broken",
        "different",
        "t: event 8 cannot be replayed: ",
    ),
    "an event of a newer version": (
        """UPDATE events SET event = CAST(replace(CAST(event AS TEXT), '"v":1', '"v":9') AS BLOB)
        WHERE task_id = 't' AND seq = 8""",
        "broken",
        "different",
        "t: event 8 cannot be replayed: ",
    ),
    "an event of nowhere": (
        "UPDATE events SET task_id = 'u' WHERE task_id = 't' AND seq = 8",
        "broken",
        "different",
        "The feed has 10 events, the tasks have 9.",
    ),
    "a task's state": (
        """UPDATE tasks SET state = CAST(replace(CAST(state AS TEXT), '"received":1', '"received":0') AS BLOB)
        WHERE task_id = 't'""",
        "verified",
        "different",
        "t: its events give another state than the stored one.",
    ),
    "a deadline": (
        "UPDATE tasks SET due_at = 1 WHERE task_id = 't'",
        "verified",
        "different",
        "t: its deadline is stored as 1.",
    ),
    "a task's phase": (
        "UPDATE tasks SET phase = 'failed' WHERE task_id = 't'",
        "verified",
        "different",
        "t: its row says revision 8, failed; its state does not.",
    ),
    "an effect's state": (
        """UPDATE effects SET state = CAST(replace(CAST(state AS TEXT), '"sends":1', '"sends":2') AS BLOB)""",
        "verified",
        "different",
        "t: its events give another state of effect e1.",
    ),
    "an effect that is gone": (
        "DELETE FROM effects",
        "verified",
        "different",
        "t: its events give another state of effect e1.",
    ),
    "a tree's counters": (
        """UPDATE trees SET state = CAST(replace(CAST(state AS TEXT), '"tasks":2', '"tasks":9') AS BLOB)""",
        "verified",
        "different",
        "t: its events give other counters of the tree.",
    ),
    "a tree that is gone": ("DELETE FROM trees", "broken", "different", "2 tasks belong to no tree."),
    "a body's content": (
        "UPDATE bodies SET content = CAST('\"goodbye\"' AS BLOB) WHERE content = CAST('\"hello\"' AS BLOB)",
        "broken",
        "equal",
        f"t: the body {body('hello').digest} has been changed.",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_a_change_is_found(path: Path, what: str) -> None:
    sql, chain, replay, problem = CHANGES[what]
    found = await after(path, sql)
    assert (found.chain, found.replay, found.file) == (chain, replay, "sound")
    assert [text for text in found.problems if text.startswith(problem)] != []


async def test_a_body_that_is_gone_is_missing_unless_it_was_erased(path: Path) -> None:
    gone = await after(path, "DELETE FROM bodies WHERE content = CAST('\"hello\"' AS BLOB)")
    assert (gone.chain, gone.replay, gone.missing, gone.erased) == ("verified", "equal", 1, 0)
    assert gone.problems == (f"t: event 8: the body {body('hello').digest} is missing, and was not erased.",)


async def test_an_intent_that_is_gone_leaves_no_effect(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    async with SqliteLedger(str(path), clock=VirtualClock()) as ledger:
        driver = Driver(ledger)
        await driver.owned()
        await driver.intend("e1")
        await driver.outcome("e1", EffectState.CONFIRMED)
    found = await after(path, "DELETE FROM events WHERE CAST(event AS TEXT) LIKE '%effect.intended%'")
    assert "t: its events give another state of effect e1." in found.problems


async def test_findings_are_told_up_to_a_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenure.ledger import verifying

    monkeypatch.setattr(verifying, "MOST_PROBLEMS", 2)
    found = await after(path, "UPDATE events SET epoch = 99")
    assert len(found.problems) == 2


async def test_a_damaged_index_is_damage_of_the_file(path: Path) -> None:
    found = await after(
        path,
        """PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'effects_by_phase')
        WHERE name = 'audit_of_task'""",
    )
    assert found.file == "damaged"
    assert found.problems != ()


async def test_a_file_that_cannot_be_read_is_corrupt(path: Path) -> None:
    def damage() -> Verification:
        content = bytearray(path.read_bytes())
        content[4096 * 2 :] = b"\xff" * (len(content) - 4096 * 2)
        path.write_bytes(content)
        return verify_file(str(path))

    with pytest.raises(Refused) as caught:
        await asyncio.to_thread(damage)
    assert caught.value.code == "corrupt_file"


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
async def test_progress_is_told_up_to_the_last_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setattr(verifying, "STRIDE", 2)
    told: list[tuple[int, int]] = []
    ledger: Ledger = MemoryLedger() if backend == "memory" else SqliteLedger(str(tmp_path / "b.db"))
    async with ledger:
        await Driver(ledger).owned()
        found = await ledger.verify(lambda checked, events: told.append((checked, events)))
    assert found.events == 5
    assert told == [(0, 5), (2, 5), (4, 5), (5, 5)]
