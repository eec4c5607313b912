"""The same commands at the same times give the same answers, events and states on each backend."""

import asyncio
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.errors import TenureError
from tenure.ledger import Beat, Ledger
from tenure.ledger.memory import MemoryLedger
from tenure.ledger.sqlite import SqliteLedger
from tenure.protocol.commands import Command
from tenure.protocol.state import Task
from tenure.testing.conformance import VirtualClock
from tests.ledger.scripts import GRAPHS, next_command

PASSING = [0, 1, 1, 1, 1, 1, 1, 200, 500, 1_000, 3_000, 20_000]
"""Milliseconds between two commands."""


def answer(call: Callable[[], object]) -> object:
    """A receipt, or the error with everything that it says."""
    try:
        return call()
    except TenureError as error:
        return error.as_dict()


async def contents(ledger: Ledger) -> list[object]:
    """Everything that a ledger shows."""
    agents, roots = ["a", "b", "c"], ["t", "u"]
    rows = await ledger.tasks()
    ids = [row.task.task_id for row in rows]
    return [
        rows,
        await ledger.events(limit=10_000),
        await ledger.refusals(limit=10_000),
        [await ledger.tree(root_id) for root_id in roots],
        [await ledger.effects(task_id) for task_id in ids],
        [await ledger.effects(task_id, open_only=True) for task_id in ids],
        [await ledger.messages(task_id) for task_id in ids],
        await ledger.effect_counts(),
        await ledger.offers(agents),
        await ledger.overdue(),
        [await ledger.held_by(instance_id) for instance_id in ("w1", "w2")],
        await ledger.conversation("chat-1"),
        await ledger.graphs(),
        await ledger.verify(),
    ]


def run(command: Command, ledgers: list[Ledger]) -> None:
    first, second = (answer(partial(ledger.execute_blocking, command)) for ledger in ledgers)
    assert first == second


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), length=st.integers(10, 90))
def test_a_script_runs_the_same_on_each(seed: int, length: int) -> None:
    draw = Random(seed)
    clock = VirtualClock()
    memory = MemoryLedger(clock)
    with tempfile.TemporaryDirectory() as folder:
        sqlite = SqliteLedger(str(Path(folder) / "a.db"), clock=clock)
        # Durability is not what is compared here, and a sync per command takes most of the time.
        sqlite._desk._store.connection.pragma("synchronous", "OFF")
        ledgers: list[Ledger] = [memory, sqlite]
        asyncio.run(save_graphs(ledgers))
        commands: list[Command] = []
        for n in range(length):
            clock.now += draw.choice(PASSING)
            tasks: dict[str, Task] = {name: held.task for name, held in memory._shelf.tasks.items()}
            repeated = commands and draw.randint(0, 14) == 0
            commands.append(draw.choice(commands) if repeated else next_command(draw, n, tasks))
            run(commands[-1], ledgers)
            beats = [Beat(task_id=name, epoch=task.epoch, instance="w1") for name, task in tasks.items()]
            if draw.randint(0, 5) == 0:
                assert memory.heartbeat(beats) == sqlite.heartbeat(beats)
        asyncio.run(compare(memory, sqlite))


async def save_graphs(ledgers: list[Ledger]) -> None:
    for ledger in ledgers:
        for graph in GRAPHS:
            await ledger.save_graph(graph)


async def compare(memory: MemoryLedger, sqlite: SqliteLedger) -> None:
    first, second = await contents(memory), await contents(sqlite)
    assert first == second
    found = await memory.verify()
    assert (found.chain, found.replay, found.problems) == ("verified", "equal", ())
    await sqlite.close()
