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
    """A ledger with a tree of two tasks, an effect, a message, an open offer and a conversation, closed."""
    path = tmp_path / "a.db"
    async with SqliteLedger(str(path), clock=VirtualClock()) as ledger:
        driver = Driver(ledger)
        await driver.owned(conversation="talk")
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
        "different",
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
        """UPDATE events SET event = CAST(replace(CAST(event AS TEXT), '"v":2', '"v":9') AS BLOB)
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
        "t: its row says revision 8, failed, 0 residual; its state does not.",
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


EFFECT = "t: the row of effect e1 says what its state does not."
MESSAGES = "t: its events give other rows of messages."
OFFERS = "t.1: its events give other rows of open offers."
HOLDINGS = "t: its events give other rows of the instances that it mentions."

DERIVED = {
    "an effect's intent": ("UPDATE effects SET intent = 'another'", EFFECT),
    "an effect's phase": ("UPDATE effects SET phase = 'confirmed'", EFFECT),
    "an effect's settlement": ("UPDATE effects SET settled = 1", EFFECT),
    "an effect's version": ("UPDATE effects SET version = 9", EFFECT),
    "an effect's task": ("UPDATE effects SET task_id = 't.1'", "t.1: its events give another state of effect e1."),
    "an effect of nowhere": ("UPDATE effects SET task_id = 's'", "t: a row of effects belongs to nothing: s."),
    "an effect that is none": (
        "UPDATE effects SET state = CAST('{}' AS BLOB)",
        "t: the stored state of effect e1 cannot be read.",
    ),
    "a message's number": ("UPDATE inputs SET n = 2", MESSAGES),
    "a message's time": ("UPDATE inputs SET at = 1", MESSAGES),
    "a message's sender": ("UPDATE inputs SET sender = 'customer-07'", MESSAGES),
    "a message's question": ("UPDATE inputs SET question_id = 'q1'", MESSAGES),
    "a message's body": ("UPDATE inputs SET digest = 'another'", MESSAGES),
    "a message that is gone": ("DELETE FROM inputs", MESSAGES),
    "a message too many": ("INSERT INTO inputs VALUES ('t', 't', 2, 1, '', '', '')", MESSAGES),
    "a message to nobody": (
        "INSERT INTO inputs VALUES ('u', 'u.1', 2, 1, '', '', '')",
        "u: a row of inputs belongs to nothing: u.1.",
    ),
    "an offer's agent": ("UPDATE offers SET agent = 'b'", OFFERS),
    "an offer's position": ("UPDATE offers SET position = 1", OFFERS),
    "an offer's epoch": ("UPDATE offers SET epoch = 9", OFFERS),
    "an offer's kind": ("UPDATE offers SET kind = 'claim'", OFFERS),
    "an offer's payload": ("UPDATE offers SET payload = 'another'", OFFERS),
    "an offer's time": ("UPDATE offers SET issued_at = 1", OFFERS),
    "an offer's deadline": ("UPDATE offers SET deadline = 1", OFFERS),
    "an offer that is gone": ("DELETE FROM offers", OFFERS),
    "an offer that is over": (
        "INSERT INTO offers VALUES ('t', 't', 'a', 2, 1, 'start', '', 1, 1)",
        "t: its events give other rows of open offers.",
    ),
    "an instance that is not mentioned": ("INSERT INTO holdings VALUES ('w2', 't', 't', '')", HOLDINGS),
    "an owner that is gone": ("DELETE FROM holdings WHERE source = ''", HOLDINGS),
    "a sender that is gone": ("DELETE FROM holdings WHERE source = 'e1'", HOLDINGS),
    "a conversation's task": (
        "UPDATE conversations SET task_id = 't.1'",
        "t: its conversation points to t.1.",
    ),
    "a conversation that is gone": ("DELETE FROM conversations", "t: its conversation points to nothing."),
    "a conversation of nobody": (
        "INSERT INTO conversations VALUES ('another', 't')",
        "1 conversations point to a task of which they are none.",
    ),
    "a task's revision": (
        "UPDATE tasks SET revision = 7 WHERE task_id = 't'",
        "t: its row says revision 7, active, 0 residual; its state does not.",
    ),
    "a task's position": (
        "UPDATE tasks SET position = 99 WHERE task_id = 't'",
        "t: its row says position 99; its first event does not.",
    ),
    "a task that is none": (
        "UPDATE tasks SET state = CAST('{}' AS BLOB) WHERE task_id = 't'",
        "t: its stored state cannot be read.",
    ),
    "a tree that is none": ("UPDATE trees SET state = x'ff'", "t: its stored tree cannot be read."),
    "a receipt that is none": (
        "UPDATE commands SET receipt = CAST('{}' AS BLOB) WHERE command_id = 'command-1'",
        "t: the receipt of command command-1 cannot be read: ",
    ),
    "a command of nowhere": (
        "INSERT INTO commands VALUES ('s', 'command-1', x'', x'')",
        "s: a row of commands belongs to nothing: command-1.",
    ),
}


@pytest.mark.parametrize("what", DERIVED)
async def test_a_change_of_what_the_events_give_is_found(path: Path, what: str) -> None:
    sql, problem = DERIVED[what]
    found = await after(path, sql)
    assert (found.chain, found.replay, found.file) == ("verified", "different", "sound")
    assert [text for text in found.problems if text.startswith(problem)] != []


async def test_what_was_not_changed_is_not_reported(path: Path) -> None:
    found = await after(path, "SELECT 1")
    assert (found.chain, found.replay, found.file, found.problems) == ("verified", "equal", "sound", ())


async def test_a_changed_head_breaks_the_chain(path: Path) -> None:
    found = await after(path, "UPDATE tasks SET head = zeroblob(32) WHERE task_id = 't'")
    assert (found.chain, found.problems) == (
        "broken",
        ("t: the newest digest in its row is not that of event 8.",),
    )


RULES = {
    "a candidate that is none": ('"index":0', '"index":7', "task_id = 't' AND seq = 2", "t: event 2"),
    "another task": ('"task_id":"t"', '"task_id":"s"', "task_id = 't' AND seq = 1", "t: event 1"),
    "an outcome that is none": ("effect.intended", "effect.observed", "seq > 0", "t: event 6"),
}


@pytest.mark.parametrize("what", RULES)
async def test_an_event_that_breaks_the_rules_is_reported(path: Path, what: str) -> None:
    old, new, where, problem = RULES[what]
    change = f"UPDATE events SET event = CAST(replace(CAST(event AS TEXT), '{old}', '{new}') AS BLOB) WHERE {where}"
    found = await after(path, change)
    assert (found.chain, found.replay) == ("broken", "different")
    assert [text for text in found.problems if text.startswith(f"{problem} cannot be replayed: ")] != []


async def test_a_text_that_is_none_is_a_corrupt_file(path: Path) -> None:
    with pytest.raises(Refused) as caught:
        await after(path, "UPDATE inputs SET sender = CAST(x'ff' AS TEXT)")
    assert caught.value.code == "corrupt_file"


async def converse(ledger: Ledger) -> None:
    """A conversation with a task that has ended, and another one."""
    first = Driver(ledger)
    await first.owned(conversation="talk")
    await first.complete()
    await Driver(ledger, "a").submit(conversation="talk")


async def test_a_conversation_points_to_its_newest_task(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    async with MemoryLedger(VirtualClock()) as memory, SqliteLedger(str(path), clock=VirtualClock()) as file:
        for ledger in (memory, file):
            await converse(ledger)
            assert (await ledger.verify()).problems == ()
    found = await after(path, "UPDATE conversations SET task_id = 't'")
    assert found.problems == ("a: its conversation points to t.",)
    found = await after(path, "DELETE FROM conversations")
    assert found.problems == ("a: its conversation points to nothing.", "t: its conversation points to nothing.")


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
