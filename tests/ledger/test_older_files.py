"""A file that an older version has written opens, is upgraded, verifies, and goes on.

``data/version-1.json`` has the rows of a ledger as the code before routing graphs left them (schema 1, events of
version 1), with the chain's heads as that code has published them.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import apsw
import pytest

from tenure.errors import Refused
from tenure.ledger.sqlite import SqliteLedger
from tenure.ledger.sqlite.connection import open_writer
from tenure.ledger.sqlite.statements import migrations
from tenure.protocol import commands as cmd
from tenure.protocol.graph import Tool
from tenure.protocol.vocabulary import EffectState, Phase, TurnOutcome, WorkEnd
from tenure.testing.conformance import Driver, VirtualClock
from tenure.testing.conformance.driver import body, edge, team

CONTENT = Path(__file__).parent / "data" / "version-1.json"
FRESH = 1_000
"""Commands that the file has seen have ids below it."""


def cell(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return bytes.fromhex(value["hex"]) if "hex" in value else value["text"].encode()


@pytest.fixture
def older(tmp_path: Path) -> dict[str, Any]:
    """The file as it was, at ``path``, with the ``heads`` of its tasks and the time of its last event."""
    content: dict[str, Any] = json.loads(CONTENT.read_text(encoding="utf-8"))
    path = str(tmp_path / "a.db")
    connection = open_writer(path, schema=migrations()[:1])
    with connection:
        for name, rows in content["tables"].items():
            for row in rows:
                marks = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {name} VALUES ({marks})", [cell(value) for value in row])
    assert connection.pragma("user_version") == 1
    connection.close()
    return {"path": path, "heads": content["heads"], "now": content["now"]}


def opened(older: dict[str, Any]) -> SqliteLedger:
    return SqliteLedger(older["path"], clock=VirtualClock(older["now"]))


def driver(ledger: SqliteLedger, root_id: str) -> Driver:
    speaker = Driver(ledger, root_id)
    for _ in range(FRESH):
        next(speaker._ids)
    return speaker


async def sound(ledger: SqliteLedger) -> None:
    found = await ledger.verify()
    assert (found.chain, found.replay, found.file, found.missing, found.problems) == (
        "verified", "equal", "sound", 0, (),
    )  # fmt: skip


async def test_it_is_upgraded_and_verifies_with_the_heads_that_were_published(older: dict[str, Any]) -> None:
    async with opened(older) as ledger:
        await sound(ledger)
        assert (await ledger.verify()).heads == older["heads"]
        assert (await ledger.graphs(), len(await ledger.tasks())) == ([], 11)

    def version() -> Any:
        connection = apsw.Connection(older["path"])
        found = connection.pragma("user_version")
        connection.close()
        return found

    assert await asyncio.to_thread(version) == len(migrations()) == 3


async def test_its_tasks_go_on_and_are_counted_from_now_on(older: dict[str, Any]) -> None:
    async with opened(older) as ledger:
        speaker = driver(ledger, "t")
        before = await speaker.task()
        assert (before.transfers, before.delegated, before.trail, before.graph) == (1, 0, (), "")
        assert len(before.children) == 3
        await speaker.delegate("t.9")
        await speaker.own(cmd.Advance, document=body({"step": 2}))
        await speaker.outcome("e2", EffectState.CONFIRMED)
        await speaker.do(cmd.EndWork, work_id="x", instance="w3", how=WorkEnd.RETURNED)
        assert (await speaker.turn(">a")).ruling is not None
        await speaker.transfer("a")
        await speaker.acknowledge("a", "w1")
        after = await speaker.task()
        assert (after.transfers, after.delegated, [(step.sender, step.receiver) for step in after.trail]) == (
            2, 1, [("b", "a")],
        )  # fmt: skip
        await speaker.complete()
        await sound(ledger)


async def test_what_it_waited_for_arrives(older: dict[str, Any]) -> None:
    async with opened(older) as ledger:
        transit, waiting, asking = (driver(ledger, name) for name in "vwx")
        await transit.acknowledge("b", "w3")
        await waiting.acknowledge("c", "w2", "w.1")
        await waiting.complete("w.1")
        await asking.do(cmd.Answer, question_id="q", by="person:operator", choice="yes")
        for speaker, phase in ((transit, Phase.ACTIVE), (waiting, Phase.OFFERED), (asking, Phase.OFFERED)):
            assert (await speaker.task()).phase is phase
        await waiting.acknowledge("a", "w1")
        await waiting.own(cmd.Advance, collected=("w.1",))
        assert (await waiting.task()).collected == 1
        await sound(ledger)


async def test_a_task_without_a_graph_adopts_one(older: dict[str, Any]) -> None:
    graph = team(edge("b", "a"), tools={"refund": Tool(approval=True)})
    async with opened(older) as ledger:
        speaker = driver(ledger, "t")
        await speaker.adopt(await ledger.save_graph(graph))
        with pytest.raises(Refused) as caught:
            await speaker.transfer("c")
        assert caught.value.code == "route_forbidden"
        ruling = (await speaker.turn(">c")).ruling
        assert ruling is not None
        assert ruling.outcome is TurnOutcome.NUDGE
        await speaker.do(cmd.EndWork, work_id="x", instance="w3", how=WorkEnd.RETURNED)
        await speaker.word("approve", intent="order A18", arguments="cents 100")
        await speaker.intend("e3", intent="order A18", arguments="cents 100")
        await speaker.outcome("e3", EffectState.CONFIRMED)
        await speaker.transfer("a")
        await sound(ledger)
    async with opened(older) as ledger:
        assert (await driver(ledger, "t").task()).graph == graph.digest
        await sound(ledger)


async def test_a_repeated_command_of_it_gets_its_recorded_answer(older: dict[str, Any]) -> None:
    async with opened(older) as ledger:
        message = {"command_id": "command-3", "root_id": "t", "task_id": "t", "sender": "customer-07"}
        position = (await ledger.events(limit=10_000))[-1].position
        receipt = await ledger.execute(cmd.Send(**message, message=body("hello")))
        assert (receipt.status, receipt.revision, receipt.ruling) == ("done", 6, None)
        assert await ledger.events(after=position) == []
