"""Rules of budgets: checked and counted in the commit of what they limit, however many ask at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol.commands import Receipt
from tenure.protocol.graph import Budgets
from tenure.protocol.settings import Limits, Settings
from tenure.testing.conformance.base import Rules
from tenure.testing.conformance.crowd import Crowd, tight
from tenure.testing.conformance.driver import Driver, edge, team
from tenure.testing.conformance.tally import LIMITS, Tally, tally

SEEDS = range(5)


async def crowded(ledger: Ledger, seed: int, steps: int = 6) -> tuple[Tally, Counter[str]]:
    """Let a crowd loose on a tree of its own. Returns what was accepted, and what was refused."""
    graph, root_id = tight(Random(seed)), f"t{seed}"
    await ledger.save_graph(graph)
    crowd = Crowd(ledger, root_id, "crowd", seed)
    await asyncio.to_thread(crowd.gather, graph)
    await asyncio.to_thread(crowd.run, steps)
    return await tally(ledger, root_id), crowd.refused


class BudgetRules(Rules):
    """Many at once, from threads."""

    async def test_no_budget_is_overshot_by_64_tenures_of_one_tree(self, ledger: Ledger) -> None:
        reached: set[str] = set()
        refused: Counter[str] = Counter()
        for seed in SEEDS:
            found, answers = await crowded(ledger, seed)
            assert found.problems == []
            reached |= found.reached
            refused += answers
        assert reached == LIMITS  # a limit that nobody meets shows nothing
        assert refused["delegation_limit_exceeded"] > 0
        assert refused["transfer_limit_exceeded"] > 0

    async def test_of_64_delegations_at_once_as_many_are_opened_as_may_be(self, driver: Driver, ledger: Ledger) -> None:
        graph = team(budgets=Budgets(delegations=7, turn_delegations=5, tree_delegations=64))
        settings, limits = graph.settings(Settings()), graph.limits(Limits())
        await driver.owned("a", graph=await ledger.save_graph(graph), settings=settings, limits=limits)
        opened = []
        for name in ("first", "second"):
            await driver.turn("call")  # a new turn: five more, of the task's seven
            asked = [driver.delegate(f"t.{name}-{n}") for n in range(64)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            refused = {answer.code for answer in answers if isinstance(answer, Refused)}
            opened.append((sum(isinstance(answer, Receipt) for answer in answers), refused))
        assert opened == [(5, {"delegation_limit_exceeded"}), (2, {"delegation_limit_exceeded"})]
        found = await tally(ledger, "t")
        assert (found.problems, found.opened) == ([], 7)

    async def test_of_64_transfers_at_once_one_is_made(self, driver: Driver, ledger: Ledger) -> None:
        graph = team(edge("a", "b"), edge("a", "c"))
        await driver.owned("a", graph=await ledger.save_graph(graph))
        asked = [driver.transfer("bc"[n % 2], quiet=False) for n in range(64)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(answer, Receipt) for answer in answers) == 1
        assert {answer.code for answer in answers if isinstance(answer, Refused)} == {"retiring"}
        found = await tally(ledger, "t")
        assert (found.problems, found.tasks, (await driver.task()).transfers) == ([], {}, 1)

    async def test_of_64_turns_at_once_one_decides_on_a_transfer(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned("a", graph=await ledger.save_graph(team(edge("a", "b"), edge("a", "c"))))
        answers = await asyncio.gather(*(driver.turn(">b") for _ in range(64)), return_exceptions=True)
        assert sum(isinstance(answer, Receipt) for answer in answers) == 1
        assert {answer.code for answer in answers if isinstance(answer, Refused)} == {"transfer_decided"}
