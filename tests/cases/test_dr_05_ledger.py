"""Reported failure DR-05, the ledger's part: the database fails for a while in the middle of a recovery."""

import asyncio
from pathlib import Path

import pytest

from tenure.errors import Fenced, TenureError
from tenure.ledger import Instance
from tenure.ledger.sqlite import SqliteLedger
from tenure.protocol import commands as cmd
from tenure.protocol.vocabulary import Phase
from tenure.testing.conformance import Driver, VirtualClock

DEAD, ALIVE, COUNT = "worker-1/a", "worker-2/a", 100


async def handoffs(ledger: SqliteLedger) -> dict[str, Driver]:
    """Open handoffs, all of them picked up by the instance that dies."""
    drivers = {f"t{n:03}": Driver(ledger, f"t{n:03}") for n in range(COUNT)}

    async def hand_over(driver: Driver) -> None:
        await driver.owned("a", ALIVE)
        await driver.transfer("b")
        await driver.acknowledge("b", DEAD)

    await asyncio.gather(*(hand_over(driver) for driver in drivers.values()))
    return drivers


async def recover(drivers: dict[str, Driver], items: list[str]) -> dict[str, TenureError | None]:
    """Report the death to every item; ``None`` where it was taken."""
    reports = [drivers[name].do(cmd.ReportDeath, instance=DEAD, by=ALIVE) for name in items]
    answers = await asyncio.gather(*reports, return_exceptions=True)
    return {
        name: answer if isinstance(answer, TenureError) else None for name, answer in zip(items, answers, strict=True)
    }


async def test_dr_05_every_item_is_recovered_or_listed_while_the_store_fails(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with SqliteLedger(str(tmp_path / "a.db"), clock=clock) as ledger:
        drivers = await handoffs(ledger)
        listed = await ledger.held_by(DEAD)
        assert listed == sorted(drivers)
        connection = ledger._desk._store.connection

        done = await recover(drivers, listed[:30])
        assert set(done.values()) == {None}
        connection.execute("PRAGMA query_only = ON")  # the store fails: nothing can be written
        failed = await recover(drivers, listed[30:60])
        assert {error.family for error in failed.values() if error} == {"unavailable"}
        assert None not in failed.values()
        assert await ledger.held_by(DEAD) == listed[30:]  # nothing half written, nothing lost from the list
        connection.execute("PRAGMA query_only = OFF")

        left = await ledger.held_by(DEAD)
        again = await recover(drivers, left)
        assert set(again.values()) == {None}
        recovered = len(done) + len(again)
        assert (recovered, await ledger.held_by(DEAD)) == (COUNT, [])
        rows = await ledger.tasks(limit=COUNT)
        assert {row.task.phase for row in rows} == {Phase.OFFERED}
        assert {row.task.offer.pickup for row in rows if row.task.offer} == {None}
        assert len(await ledger.offers(["b"], limit=COUNT)) == COUNT
        clock.now += 10**9
        assert len(await ledger.overdue(limit=COUNT)) == COUNT  # each of them has a deadline
        found = await ledger.verify()
        assert (found.chain, found.replay) == ("verified", "equal")


async def test_dr_05_a_draining_process_cannot_take_an_item_back(tmp_path: Path) -> None:
    async with SqliteLedger(str(tmp_path / "a.db"), clock=VirtualClock()) as ledger:
        driver = Driver(ledger)
        seen = Instance(instance_id=DEAD, name="worker-1", host="h", boot="b", pid=7, started=8, lease_ms=15_000)
        await asyncio.to_thread(ledger.register, seen)
        await driver.owned("b", DEAD)
        await asyncio.to_thread(ledger.retire_instance, DEAD)
        await driver.do(cmd.ReportDeath, instance=DEAD, by=ALIVE)
        with pytest.raises(Fenced):
            await driver.acknowledge("b", DEAD)
        await driver.acknowledge("b", ALIVE)
        tenure = (await driver.task()).tenure
        assert tenure is not None
        assert (tenure.instance, await ledger.held_by(DEAD)) == (ALIVE, [])
