"""Real processes on one file: together, and killed with SIGKILL in the middle."""

import asyncio
import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tenure.errors import Refused
from tenure.ledger.sqlite import SqliteLedger
from tenure.protocol.commands import Command
from tenure.protocol.events import TenureGranted
from tenure.testing.conformance import Driver
from tenure.testing.conformance.crowd import Crowd, tight
from tenure.testing.conformance.tally import tally
from tests.ledger.processes import send, submit

ROOT = Path(__file__).parents[2]


async def processes(what: str, path: Path, first: int, second: int) -> dict[str, list[str]]:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.ledger.processes", what, str(path), str(first), str(second),
        cwd=ROOT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await program.communicate()
    assert program.returncode == 0
    found: dict[str, list[str]] = json.loads(output)
    return found


async def verified(ledger: SqliteLedger) -> None:
    found = await ledger.verify()
    assert (found.chain, found.replay, found.file, found.missing) == ("verified", "equal", "sound", 0)


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    acknowledged = await processes("kills", path, 24, 1)
    assert len(acknowledged) == 24
    assert sum(len(names) for names in acknowledged.values()) > 48
    async with SqliteLedger(str(path)) as ledger:
        for task_id, names in acknowledged.items():
            kept = {message.body.value() for message in await ledger.messages(task_id, limit=10**6) if message.body}
            assert set(names) - {f"submit {task_id}"} <= kept
            assert len(kept) <= len(names)  # at most one more: committed, and killed before it could say so
            position = (await ledger.events(limit=10**6))[-1].position
            again: list[Command] = [submit(task_id), *(send(task_id, name) for name in names[1:])]
            receipts = await asyncio.gather(*(ledger.execute(command) for command in again))
            assert [receipt.revision for receipt in receipts] == list(range(2, len(names) + 2))
            assert await ledger.events(after=position) == []
        await verified(ledger)


async def test_processes_share_a_task_and_see_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SqliteLedger(str(path)) as ledger:
        await ledger.execute(submit("shared"))
        waiter: asyncio.Future[Any] = asyncio.ensure_future(ledger.wait(2, 30))
        running = asyncio.ensure_future(processes("together", path, 3, 25))
        assert await waiter > 2  # woken by the commit of another process
        await asyncio.gather(*(ledger.execute(send("shared", f"here/{n}")) for n in range(25)))
        acknowledged = await running
        assert {name: len(names) for name, names in acknowledged.items()} == {"p0": 25, "p1": 25, "p2": 25}
        messages = await ledger.messages("shared", limit=1_000)
        assert [message.n for message in messages] == list(range(1, 101))
        told = {name for names in acknowledged.values() for name in names} | {f"here/{n}" for n in range(25)}
        assert {message.body.value() for message in messages if message.body} == told
        await verified(ledger)


async def test_no_budget_is_overshot_by_processes_that_share_a_tree(tmp_path: Path) -> None:
    path, graph = tmp_path / "a.db", tight(Random(0))
    async with SqliteLedger(str(path)) as ledger:
        await ledger.save_graph(graph)
        await asyncio.to_thread(Crowd(ledger, "t", "crowd", 0).gather, graph)
        before = (await ledger.events(limit=10**6))[-1].position
        refused = await processes("crowd", path, 4, 0)
        assert "delegation_limit_exceeded" in {code for codes in refused.values() for code in codes}
        later = await ledger.events(after=before, limit=10**6)
        speakers = {
            event.instance.partition("/")[0]
            for event in (one.event for one in later)
            if isinstance(event, TenureGranted)
        }
        assert speakers == {"p0", "p1", "p2", "p3"}
        found = await tally(ledger, "t")
        assert (found.problems, found.reached >= {"agents", "depth", "turn"}) == ([], True)
        await verified(ledger)


async def test_a_version_that_another_process_saved_is_in_force_at_once(tmp_path: Path) -> None:
    path, graph = str(tmp_path / "a.db"), tight(Random(0))
    async with SqliteLedger(path) as mine, SqliteLedger(path) as other:
        with pytest.raises(Refused):
            await Driver(mine).submit(graph=graph.digest)
        await other.save_graph(graph)
        assert (await Driver(mine).submit(graph=graph.digest)).status == "done"
        assert await mine.save_graph(graph) == graph.digest
        assert await mine.graphs() == await other.graphs()


async def test_a_waiter_sees_another_objects_commits_beside_reads(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    async with SqliteLedger(path) as mine, SqliteLedger(path) as other:
        await Driver(mine).submit()
        waiter = asyncio.ensure_future(mine.wait(2, 30))
        await asyncio.sleep(0.01)
        await Driver(other, "u").submit()
        while not waiter.done():  # reads keep the reader's thread from ever pausing
            await mine.task("t")
        assert await waiter == 4
        assert await mine.wait(4, 0.12) == 4  # nothing has changed: looking for it finds nothing
