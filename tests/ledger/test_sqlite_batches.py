"""Rows of a batch wait for its end, and states are remembered: no command may notice either."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tenure.errors import Fenced, Refused
from tenure.ledger import Beat, Instance
from tenure.ledger.commit import Held
from tenure.ledger.sqlite import SqliteLedger, remembered
from tenure.ledger.sqlite.store import Store
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.commands import Receipt
from tenure.testing.conformance import Driver, VirtualClock
from tenure.testing.conformance.driver import body, candidates, payload

CLOCK = VirtualClock()


async def sound(ledger: SqliteLedger) -> None:
    found = await ledger.verify()
    assert (found.chain, found.replay, found.file, found.missing) == ("verified", "equal", "sound", 0), found.problems


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    async with SqliteLedger(str(tmp_path / "a.db"), clock=CLOCK) as opened:
        yield opened
        await sound(opened)


async def together(ledger: SqliteLedger, *commands: cmd.Command) -> list[Any]:
    """All of them in one batch, in order."""
    before = ledger.commits
    answers = await asyncio.gather(*map(ledger.execute, commands), return_exceptions=True)
    assert ledger.commits == before + 1
    return answers


def submission(driver: Driver, conversation: str) -> cmd.Submit:
    return driver.make(
        cmd.Submit, candidates=candidates("a"), payload=payload(driver.root_id), conversation=conversation
    )


async def completion(driver: Driver) -> cmd.Retire:
    tenure = (await driver.task()).tenure
    assert tenure is not None
    return driver.make(
        cmd.Retire,
        epoch=tenure.epoch,
        instance=tenure.instance,
        decision=dec.CompleteWith(result=body("done", driver.root_id)),
        quiet=True,
    )


async def test_commands_of_one_task_follow_each_other(ledger: SqliteLedger) -> None:
    driver = Driver(ledger)
    await driver.submit()
    sends = [driver.make(cmd.Send, message=body(n, f"{n}")) for n in range(5)]
    receipts = await together(ledger, *sends)
    assert [receipt.revision for receipt in receipts] == [3, 4, 5, 6, 7]
    assert [message.body.value() for message in await ledger.messages("t") if message.body] == [0, 1, 2, 3, 4]


async def test_a_command_that_comes_twice_in_a_batch_is_done_once(ledger: SqliteLedger) -> None:
    driver = Driver(ledger)
    await driver.submit()
    send = driver.make(cmd.Send, message=body("hello"))
    other = driver.make(cmd.Send, message=body("something else"), command_id=send.command_id)
    first, again, conflict = await together(ledger, send, send, other)
    assert first == again
    assert (type(conflict), conflict.code) == (Refused, "command_conflict")
    assert (await driver.task()).received == 1


async def test_two_submissions_for_one_conversation_in_a_batch(ledger: SqliteLedger) -> None:
    first, second = await together(ledger, *(submission(Driver(ledger, name), "c") for name in ("t", "u")))
    assert isinstance(first, Receipt)
    assert (second.code, await ledger.conversation("c")) == ("conversation_open", "t")


async def test_a_conversation_goes_on_in_the_batch_in_which_its_task_ends(ledger: SqliteLedger) -> None:
    old, new = Driver(ledger, "t"), Driver(ledger, "u")
    await ledger.execute(submission(old, "c"))
    await old.acknowledge()
    ended, began = await together(ledger, await completion(old), submission(new, "c"))
    assert (ended.phase, began.task_id, await ledger.conversation("c")) == ("completed", "u", "u")


async def test_a_heartbeat_in_the_batch_of_its_tenure(ledger: SqliteLedger) -> None:
    driver = Driver(ledger)
    await driver.submit()
    offer = (await driver.task()).offer
    assert offer is not None
    owning = driver.make(cmd.Acknowledge, epoch=1, agent="a", instance="w1", digest=offer.payload)

    def later(store: Store) -> Any:
        store.now += 1_000
        return store.heartbeat([Beat(task_id="t", epoch=2, instance="w1")], "")

    receipt, (beaten,) = await asyncio.gather(ledger.execute(owning), ledger._writer.call(later))
    row = await ledger.row("t")
    assert row is not None
    assert row.lease_until == beaten.lease_until == CLOCK.now + 1_000 + row.task.settings.lease_ms
    assert receipt.epoch == 2
    CLOCK.now = row.lease_until - 1
    with pytest.raises(Refused) as caught:
        await driver.do(cmd.Expire)
    assert caught.value.code == "not_due"


async def test_an_erasure_in_the_batch_in_which_the_task_ends(ledger: SqliteLedger) -> None:
    driver = Driver(ledger)
    await driver.owned()
    ending, erasing = await asyncio.gather(
        ledger.execute(await completion(driver)), ledger.erase("t", by="person:operator")
    )
    assert (ending.phase, erasing) == ("completed", 2)


async def test_one_stale_row_of_a_batch_is_decided_again(ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    drivers = [Driver(ledger, f"t{n}") for n in range(5)]
    await asyncio.gather(*(driver.submit() for driver in drivers))
    held, stale = Store.held, ["t2"]

    def older(store: Store, root_id: str, task_id: str) -> Held | None:
        found = held(store, root_id, task_id)
        if found is None or task_id not in stale:
            return found
        stale.clear()
        return Held(replace(found.task, revision=found.task.revision - 1), found.lease_until, found.head)

    monkeypatch.setattr(Store, "held", older)
    before = ledger.commits
    receipts = await asyncio.gather(*(driver.do(cmd.Send, message=body("hello")) for driver in drivers))
    assert [receipt.revision for receipt in receipts] == [3] * 5
    assert (stale, ledger.commits) == ([], before + 5)


async def test_what_another_has_committed_is_not_remembered_otherwise(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    async with SqliteLedger(path, clock=CLOCK) as mine, SqliteLedger(path, clock=CLOCK) as other:
        here, there = Driver(mine), Driver(other)
        await here.owned()
        for n in range(4):
            await here.do(cmd.Send, message=body(n, "here"))
            await there.do(cmd.Send, message=body(n, "there"), command_id=f"there {n}")
        assert (await here.task()).received == 8
        CLOCK.now += 1_000
        beat = Beat(task_id="t", epoch=2, instance="w1")
        (beaten,) = await asyncio.to_thread(other.heartbeat, [beat])
        CLOCK.now = beaten.lease_until - 1
        with pytest.raises(Refused) as caught:  # the lease that was remembered here is over
            await here.do(cmd.Expire)
        assert caught.value.code == "not_due"
        await there.do(cmd.StopTree, command_id="stop", by="person:operator")
        with pytest.raises(Refused) as caught:
            await here.delegate("t.1")
        assert caught.value.code == "tree_stopped"
        await sound(mine)


async def test_an_instance_that_has_ended_owns_nothing_more(ledger: SqliteLedger, tmp_path: Path) -> None:
    first, second, third = (Driver(ledger, name) for name in ("t", "u", "v"))
    worker = Instance(
        instance_id="w1", name="w", host="here", boot="b", pid=1, started=1, lease_ms=1_000, seen_at=CLOCK.now
    )
    await asyncio.to_thread(ledger.register, worker)
    await first.owned()
    await second.owned()  # by now it is remembered that the instance has not ended
    await third.submit()
    await asyncio.to_thread(ledger.retire_instance, "w1")
    with pytest.raises(Fenced) as caught:
        await third.acknowledge()
    assert caught.value.code == "stale_epoch"
    await asyncio.to_thread(ledger.register, worker)
    await third.acknowledge()
    async with SqliteLedger(str(tmp_path / "a.db"), clock=CLOCK) as other:
        await asyncio.to_thread(other.retire_instance, "w1")
    fourth = Driver(ledger, "x")
    await fourth.submit()
    with pytest.raises(Fenced):
        await fourth.acknowledge()


async def test_only_so_many_tasks_are_remembered(ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST", 3)
    drivers = [Driver(ledger, f"t{n}") for n in range(6)]
    await asyncio.gather(*(driver.owned() for driver in drivers))
    known = ledger._desk._store._remembered
    assert (len(known.tasks), len(known.trees)) == (3, 3)
    commands = [command for driver in drivers for command in [driver.make(cmd.Send, message=body("hello"))] * 2]
    receipts = await together(ledger, *commands)
    assert receipts[::2] == receipts[1::2]
    for driver in drivers:
        await driver.complete()
    assert (known.tasks, known.trees) == ({}, {})
