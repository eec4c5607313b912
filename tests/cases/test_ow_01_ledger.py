"""Reported failure OW-01, the ledger's part: a stalled attempt of a worker whose name was used again."""

import asyncio
from pathlib import Path

import pytest

from tenure.errors import Fenced, Refused, Unavailable
from tenure.ledger import Beat, Instance, Ledger
from tenure.ledger.memory import MemoryLedger
from tenure.ledger.sqlite import SqliteLedger
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.events import LateRecorded
from tenure.protocol.vocabulary import Phase, WorkEnd, WorkState
from tenure.testing.conformance import Driver, VirtualClock
from tenure.testing.conformance.driver import body

NAME, FIRST, SECOND = "worker-1", "worker-1/a", "worker-1/b"


def instance(instance_id: str) -> Instance:
    return Instance(instance_id=instance_id, name=NAME, host="h", boot="b", pid=7, started=8, lease_ms=15_000)


@pytest.fixture(params=["memory", "sqlite"])
def clock_and_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[VirtualClock, Ledger]:
    clock = VirtualClock()
    if request.param == "memory":
        return clock, MemoryLedger(clock)
    return clock, SqliteLedger(str(tmp_path / "a.db"), clock=clock)


async def test_ow_01_a_stalled_attempt_cannot_touch_the_one_that_replaced_it(
    clock_and_ledger: tuple[VirtualClock, Ledger],
) -> None:
    clock, ledger = clock_and_ledger
    driver = Driver(ledger)
    await asyncio.to_thread(ledger.register, instance(FIRST))
    stalled = await driver.owned("a", FIRST)
    with pytest.raises(Refused):  # the name is taken while its holder may be alive
        await asyncio.to_thread(ledger.register, instance(SECOND))
    clock.now += 15_001
    await driver.do(cmd.Expire)
    await asyncio.to_thread(ledger.register, instance(SECOND))
    await driver.acknowledge("a", SECOND)
    current = await driver.task()
    assert current.epoch > stalled.epoch

    row = await ledger.row("t")
    old = {"epoch": stalled.epoch, "instance": FIRST}
    (beaten,) = await asyncio.to_thread(
        ledger.heartbeat, [Beat(task_id="t", epoch=stalled.epoch, instance=FIRST)], FIRST
    )
    assert (beaten.error, beaten.lease_until) == ("stale_epoch", 0)
    with pytest.raises(Fenced):
        await driver.do(cmd.Advance, **old, document=body({"late": True}))
    released = await driver.do(cmd.Release, **old, routes_retired=True)
    result = dec.CompleteWith(result=body("late result"))
    finished = await driver.do(cmd.Retire, **old, decision=result, quiet=True)
    assert (released.status, finished.status) == ("late", "late")

    after = await driver.task()
    assert (after.tenure, after.epoch, after.phase) == (current.tenure, current.epoch, Phase.ACTIVE)
    assert (after.result, after.document) == ("", "")
    assert row is not None
    again = await ledger.row("t")
    assert again is not None
    assert again.lease_until == row.lease_until
    kept = [record.event for record in await ledger.events() if isinstance(record.event, LateRecorded)]
    assert [(event.command, event.epoch, event.instance) for event in kept] == [
        ("release", stalled.epoch, FIRST),
        ("retire:complete", stalled.epoch, FIRST),
    ]
    assert await ledger.body("t", kept[1].body) == body("late result")

    # Its end was not observed: its handler stays on the books as residual work until it is.
    (handler,) = after.works
    assert (handler.state, handler.instance, handler.epoch) == (WorkState.RESIDUAL, FIRST, stalled.epoch)
    assert await ledger.held_by(FIRST) == ["t"]
    await driver.do(cmd.EndWork, work_id=handler.work_id, instance=FIRST, how=WorkEnd.RETURNED)
    assert await ledger.held_by(FIRST) == []
    assert (await driver.complete()).phase is Phase.COMPLETED
    assert (await ledger.verify()).replay == "equal"
    await ledger.close()


async def test_ow_01_a_heartbeat_that_meets_a_database_error_prolongs_nothing(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with SqliteLedger(str(tmp_path / "a.db"), clock=clock) as ledger:
        driver = Driver(ledger)
        task = await driver.owned("a", FIRST)
        before = await ledger.row("t")
        clock.now += 5_000
        connection = ledger._desk._store.connection
        connection.execute("PRAGMA query_only = ON")
        beat = Beat(task_id="t", epoch=task.epoch, instance=FIRST)
        with pytest.raises(Unavailable):
            await asyncio.to_thread(ledger.heartbeat, [beat])
        connection.execute("PRAGMA query_only = OFF")
        after = await ledger.row("t")
        assert before is not None
        assert after is not None
        assert after.lease_until == before.lease_until
