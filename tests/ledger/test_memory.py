"""What only the ledger in memory has to show."""

import asyncio
import threading
from functools import partial

import pytest
from msgspec.structs import replace

from tenure.errors import Unavailable
from tenure.ledger.commit import Held
from tenure.ledger.memory import MemoryLedger
from tenure.ledger.memory_shelf import MemoryShelf
from tenure.protocol import commands as cmd
from tenure.testing.conformance import Driver
from tenure.testing.conformance.base import Rules
from tenure.testing.conformance.driver import body


async def test_a_row_that_changed_under_the_decision_is_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = MemoryLedger()
    driver = Driver(ledger)
    await driver.submit()
    held, stale = MemoryShelf.held, [3]

    def older(shelf: MemoryShelf, root_id: str, task_id: str) -> Held | None:
        found = held(shelf, root_id, task_id)
        if found is None or not stale[0]:
            return found
        stale[0] -= 1
        return Held(replace(found.task, revision=found.task.revision - 1), found.lease_until, found.head)

    monkeypatch.setattr(MemoryShelf, "held", older)
    assert (await driver.do(cmd.Send, message=body("hello"))).revision == 3
    stale[0] = 1_000
    with pytest.raises(Unavailable) as caught:
        await driver.do(cmd.Send, message=body("hello"))
    assert caught.value.code == "ledger_unavailable"
    assert (await driver.task()).received == 1


async def test_a_waiter_on_another_loop_is_woken() -> None:
    ledger = MemoryLedger()

    def elsewhere() -> int:
        return asyncio.run(ledger.wait(0, 30))

    listed, wait = threading.Event(), ledger._wakeups.wait
    ledger._wakeups.wait = partial(wait, listed=listed.set)  # type: ignore[method-assign]  # to know when it waits
    waiter = asyncio.ensure_future(asyncio.to_thread(elsewhere))
    assert await asyncio.to_thread(listed.wait, 30)
    await Driver(ledger).submit()
    assert await waiter == 2


async def test_a_loop_that_has_ended_is_not_woken() -> None:
    ledger = MemoryLedger()
    loop = asyncio.new_event_loop()
    loop.close()
    ledger._wakeups._waiting[loop] = set()
    await Driver(ledger).submit()
    assert ledger._wakeups.newest == 2


def test_a_suite_opens_no_ledger_by_itself() -> None:
    with pytest.raises(NotImplementedError):
        Rules().open(None, None)  # type: ignore[arg-type]  # it looks at neither
