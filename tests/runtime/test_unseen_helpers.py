"""Helpers are counted, not stored: the count stays readable after the handoff that made it."""

import asyncio
from typing import Any

from tenure import Complete, Team, Tenure, Transfer
from tenure.cli.summary import Summary, summarize
from tenure.ledger import Ledger


async def test_what_was_not_seen_to_end_is_counted_in_the_facts_and_in_the_summary(ledger: Ledger) -> None:
    team, release = Team("t", ledger=ledger), asyncio.Event()

    @team.agent(entry=True, may_transfer={"second": "it decides"})
    async def first(own: Tenure[Any]) -> Transfer[Any]:
        async def stubborn() -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        for _ in range(3):
            _ = own.spawn(stubborn(), policy="helper")
        await asyncio.sleep(0.05)
        return Transfer("second")

    @team.agent
    async def second(own: Tenure[Any]) -> Complete[None]:
        return Complete()

    async with team.worker():
        task = await team.submit(goal="g")
        await task.result(10)
        termination = (await task.facts()).termination
        release.set()
    assert (termination.running, termination.residual, termination.unseen) == ((), (), 3)
    summary = await summarize(ledger, [task.task_id], Summary(ledger=ledger.url))
    assert (summary.residual, summary.running, summary.unseen) == (0, 0, 3)
    assert "0 residual, 0 running, 3 no longer watched" in summary.text()
