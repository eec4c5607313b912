"""Budgets under many at once: the long form, and that the count would find what it looks for."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tenure.ledger import Ledger, Recorded
from tenure.ledger.memory import MemoryLedger
from tenure.ledger.sqlite import SqliteLedger
from tenure.protocol.decide import routing
from tenure.protocol.events import DelegationOpened, HandoffInitiated, TurnDecided
from tenure.protocol.graph import Budgets
from tenure.protocol.settings import Settings
from tenure.protocol.state import Task, Tree
from tenure.testing.conformance import Driver, VirtualClock
from tenure.testing.conformance.budgets import crowded
from tenure.testing.conformance.driver import edge, team
from tenure.testing.conformance.tally import LIMITS, Tally, tally

BACKENDS: dict[str, Callable[[Path], Ledger]] = {
    "memory": lambda _: MemoryLedger(VirtualClock()),
    "sqlite": lambda path: SqliteLedger(str(path), clock=VirtualClock()),
}


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("backend", BACKENDS)
async def test_no_budget_is_overshot_for_many_seeds(tmp_path: Path, backend: str) -> None:
    reached: Counter[str] = Counter()
    for seed in range(100, 200):
        async with BACKENDS[backend](tmp_path / f"{seed}.db") as ledger:
            found, _ = await crowded(ledger, seed, steps=10)
            assert found.problems == [], seed
            verified = await ledger.verify()
            assert (verified.chain, verified.replay, verified.problems) == ("verified", "equal", ()), seed
        reached.update(found.reached)
    assert min(reached[name] for name in LIMITS) > 10


def unlimited(task: Task, tree: Tree | None, ahead: int = 0, *, in_turn: int | None = None) -> Tree:
    del task, ahead, in_turn
    assert tree is not None
    return tree


async def test_the_count_finds_delegations_that_nobody_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "within_tree", unlimited)
    async with MemoryLedger(VirtualClock()) as ledger:
        found, _ = await crowded(ledger, 0)
    overshot = {problem.split(": ")[1].split(" is ")[0] for problem in found.problems}
    assert overshot >= LIMITS - {"transfers"}


def counted(records: list[Recorded]) -> str:
    found = Tally()
    found.take(records)
    return "; ".join(found.problems)


async def test_the_count_finds_what_a_turn_may_not_do() -> None:
    graph = team(edge("a", "b"), budgets=Budgets(transfers=1))
    async with MemoryLedger(VirtualClock()) as ledger:
        driver = Driver(ledger)
        await driver.owned("a", graph=await ledger.save_graph(graph), settings=graph.settings(Settings()))
        await driver.delegate("t.1")
        await driver.turn(">b")
        await driver.transfer("b")
        records = [record for record in await ledger.events() if record.task_id == "t"]
        tree, task = await ledger.tree("t"), await driver.task()
        assert (await tally(ledger, "t")).problems == []
    (opened,) = (record for record in records if isinstance(record.event, DelegationOpened))
    (decided,) = (record for record in records if isinstance(record.event, TurnDecided))
    (moved,) = (record for record in records if isinstance(record.event, HandoffInitiated))
    assert counted(records) == ""
    assert counted([*records, moved]) == "t: transfers is 2, the limit is 1; t: h1 is a second transfer of one tenure"
    assert counted([*records, opened]) == "t: something began after its transfer was decided"
    assert counted([*records, decided]) == "t: something began after its transfer was decided"
    other = [record for record in records if record is not decided]
    assert counted([*other[:-1], decided, replace(moved, event=replace(moved.event, handoff_id="h9"))]) != ""
    found = Tally()
    found.take(records)
    found.compare(tree, [replace(task, transfers=7)])
    assert [problem.partition(" says ")[0] for problem in found.problems] == ["the tree", "t: its state"]
