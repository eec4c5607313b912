"""Verification finds graphs that are gone or were changed, and nothing is decided by them."""

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.ledger.memory import MemoryLedger
from tenure.ledger.sqlite import SqliteLedger
from tenure.protocol import commands as cmd
from tenure.testing.conformance import Driver, VirtualClock
from tenure.testing.conformance.driver import body, edge, team
from tests.ledger.test_verifying import after

GRAPH = team(edge("a", "b"), edge("b", "a"))
OTHER = team(edge("b", "a"))
NONE = hashlib.sha256(b"{}").hexdigest()
GRAPHS = {
    "a graph that is gone": ("DELETE FROM graphs WHERE n = 1", f"t: event 1: the graph {GRAPH.digest} is missing."),
    "a graph that was adopted and is gone": (
        "DELETE FROM graphs WHERE n = 2",
        f"t: event 9: the graph {OTHER.digest} is missing.",
    ),
    "a graph that is another one": (
        "UPDATE graphs SET content = (SELECT content FROM graphs WHERE n = 2) WHERE n = 1",
        f"The graph {GRAPH.digest} has been changed.",
    ),
    "a graph with another budget": (
        """UPDATE graphs SET content = CAST(replace(CAST(content AS TEXT), 'shop', 'shop","entry":"b') AS BLOB)
        WHERE n = 1""",
        f"The graph {GRAPH.digest} has been changed.",
    ),
    "a graph that is none": (
        "UPDATE graphs SET content = x'ff' WHERE n = 2",
        f"The graph {OTHER.digest} has been changed.",
    ),
    "a graph of another team": (
        "UPDATE graphs SET team = 'desk' WHERE n = 1",
        f"The graph {GRAPH.digest} is listed for team 'desk'.",
    ),
    "a graph that this code cannot read": (
        f"INSERT INTO graphs VALUES (9, '{NONE}', 'shop', 1, CAST('{{}}' AS BLOB))",
        f"The graph {NONE} cannot be read: ",
    ),
}


async def routed(ledger: Ledger) -> None:
    """A task that began under one version and goes on under another."""
    driver = Driver(ledger)
    await ledger.save_graph(GRAPH)
    await driver.owned(graph=GRAPH.digest)
    await driver.turn("call")
    await driver.turn(">mallory")
    await driver.do(cmd.Send, message=body("hello"))
    await driver.adopt(await ledger.save_graph(OTHER))


@pytest.mark.parametrize("what", GRAPHS)
async def test_a_change_of_a_graph_is_found(tmp_path: Path, what: str) -> None:
    path, (sql, problem) = tmp_path / "b.db", GRAPHS[what]
    async with SqliteLedger(str(path), clock=VirtualClock()) as ledger:
        await routed(ledger)
        assert (await ledger.verify()).problems == ()
    found = await after(path, sql)
    assert (found.chain, found.replay, found.file) == ("verified", "different", "sound")
    assert [text for text in found.problems if text.startswith(problem)] != []
    assert len(found.problems) == 1


async def test_a_change_of_a_graph_in_memory_is_found() -> None:
    async with MemoryLedger(VirtualClock()) as ledger:
        await routed(ledger)
        graphs = ledger._shelf.graphs
        first, second = graphs[GRAPH.digest], graphs[OTHER.digest]
        del graphs[GRAPH.digest]
        graphs[OTHER.digest] = replace(second, graph=first.graph)
        found = await ledger.verify()
    assert (found.chain, found.replay) == ("verified", "different")
    assert found.problems == (
        f"The graph {OTHER.digest} has been changed.",
        f"t: event 1: the graph {GRAPH.digest} is missing.",
    )


async def test_nothing_is_decided_by_a_graph_that_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    async with SqliteLedger(str(path), clock=VirtualClock()) as ledger:
        await routed(ledger)
    await after(path, "UPDATE graphs SET content = (SELECT content FROM graphs WHERE n = 1) WHERE n = 2")
    async with SqliteLedger(str(path), clock=VirtualClock()) as ledger:
        with pytest.raises(Refused) as caught:
            await Driver(ledger).transfer("b", command_id="another")
        assert caught.value.code == "unknown_graph"
