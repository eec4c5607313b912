"""A task may have a shorter lease than its worker: it is kept all the same."""

import asyncio
from typing import Any

from tenure import Complete, Settings, Team, Tenure
from tenure.ledger import Ledger


async def test_a_lease_that_is_shorter_than_the_workers_own_is_kept(ledger: Ledger) -> None:
    team = Team("desk", ledger=ledger, settings=Settings(lease_ms=15_000))
    epochs: list[int] = []

    @team.agent
    async def desk(own: Tenure[Any]) -> Complete[str]:
        epochs.append(own.epoch)
        await asyncio.sleep(1.5)
        return Complete("done")

    async with team.worker():
        await asyncio.sleep(0.2)  # the housekeeper rests, for as long as the worker's own lease allows
        task = await team.submit(goal="answer", settings=Settings(lease_ms=600))
        result = await task.result(timeout=10)
    assert result.value == "done"
    assert epochs == [2], "it was never lost"
