"""Rules of the feed: in order, nothing skipped, resumable, and its waiters are woken."""

from __future__ import annotations

import asyncio

import pytest

from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.testing.conformance.base import Rules
from tenure.testing.conformance.driver import Driver, body


class FeedRules(Rules):
    """Followers see every event once."""

    async def test_a_follower_misses_nothing_while_others_write(self, ledger: Ledger) -> None:
        drivers = [Driver(ledger, f"t{n}") for n in range(8)]

        async def write(driver: Driver) -> None:
            await driver.owned()
            for n in range(10):
                await driver.do(cmd.Send, message=body(n))
            await driver.complete()

        writers = asyncio.gather(*(write(driver) for driver in drivers))
        seen, cursor = [], 0
        while not writers.done() or cursor < (await ledger.wait(cursor, 0)):
            await ledger.wait(cursor, 0.05)
            for record in await ledger.events(after=cursor, limit=7):
                seen.append(record)
                cursor = record.position
        await writers
        positions = [record.position for record in seen]
        assert positions == sorted(set(positions))
        assert seen == await ledger.events(limit=10_000)
        for driver in drivers:
            mine = [record for record in seen if record.task_id == driver.root_id]
            assert [record.seq for record in mine] == list(range(1, len(mine) + 1))
            assert mine == await ledger.events(task_id=driver.root_id)
        assert len(seen) == 8 * 21

    async def test_events_of_one_task_resume_at_any_position(self, driver: Driver, ledger: Ledger) -> None:
        other = Driver(ledger, "u")
        await driver.submit()
        await other.submit()
        await driver.do(cmd.Send, message=body("hello"))
        mine = await ledger.events(task_id="t")
        assert [record.seq for record in mine] == [1, 2, 3]
        assert await ledger.events(task_id="t", after=mine[0].position, limit=1) == mine[1:2]
        assert await ledger.events(task_id="t", after=mine[1].position + 1) == mine[2:]
        assert await ledger.events(task_id="t", after=mine[2].position) == []

    async def test_a_waiter_is_woken_by_a_commit(self, driver: Driver, ledger: Ledger) -> None:
        waiters = [asyncio.ensure_future(ledger.wait(0, 30)) for _ in range(3)]
        await asyncio.sleep(0.01)
        await driver.submit()
        async with asyncio.timeout(5):
            woken = await asyncio.gather(*waiters)
        assert woken == [(await ledger.events())[-1].position] * 3

    async def test_a_waiter_with_news_behind_it_does_not_wait(self, driver: Driver, ledger: Ledger) -> None:
        await driver.submit()
        async with asyncio.timeout(5):
            assert await ledger.wait(0, 30) == 2

    async def test_a_waiter_gives_up_in_time(self, driver: Driver, ledger: Ledger) -> None:
        await driver.submit()
        assert await ledger.wait(2, 0.01) == 2

    async def test_a_waiter_that_goes_away_leaves_nothing(self, driver: Driver, ledger: Ledger) -> None:
        waiter = asyncio.ensure_future(ledger.wait(0, 30))
        await asyncio.sleep(0.01)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        await driver.submit()
        assert await ledger.wait(0, 1) == 2

    async def test_refusals_and_heartbeats_wake_nobody(self, driver: Driver, ledger: Ledger) -> None:
        await driver.submit()
        waiter = asyncio.ensure_future(ledger.wait(2, 0.1))
        await asyncio.sleep(0.01)
        await asyncio.to_thread(ledger.heartbeat, [])
        assert await waiter == 2
