"""A requested cancellation: asked, heard, stopped and cancelled are different things."""

import asyncio
from typing import Any

import pytest

from tenure import Complete, Policy, Settings, Team, Tenure, Transfer
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import Gate, Reason
from tests.runtime.harness import events, in_phase, names, owned_by, until

QUICK = Settings(lease_ms=500)


async def test_a_task_that_nobody_owns_is_cancelled_at_once(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        return Complete()

    handle = await team.submit(goal="g")
    assert await handle.cancel(by="person-1", reason="not needed") == "cancelled"
    assert (await handle.result(1)).outcome == "cancelled"


async def test_an_owner_that_stops_makes_it_cancelled(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=QUICK)
    stopped: list[str] = []

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        _ = own.spawn(asyncio.Event().wait(), name="patient")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("handler")
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        await owned_by(handle, "a")
        assert await handle.cancel(by="person-1") == "cancel_requested"
        assert (await handle.result(10)).outcome == "cancelled"
    assert stopped == ["handler"]
    found = await names(ledger, handle.task_id)
    assert found.index("CancelRequested") < found.index("ExecutionStopped") < found.index("TaskCancelled")


async def test_an_owner_that_refuses_to_stop_is_never_shown_as_cancelled(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(lease_ms=500, cancel_ms=400))
    go = asyncio.Event()

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        return Complete("after all")

    async with team.worker():
        handle = await team.submit(goal="g")
        await owned_by(handle, "a")
        await handle.cancel(by="person-1")
        task = await in_phase(handle, "escalated")
        assert task.question is not None
        assert task.question.reason == Reason.CANCEL_TIMEOUT
        assert [(work.work_id, work.state) for work in task.works] == [("handler:2", "residual")]
        assert "TaskCancelled" not in await names(ledger, handle.task_id)
        go.set()

        async def off_the_books() -> bool:
            return not (await handle.state()).works

        await until(off_the_books)
    assert (await handle.state()).phase == "escalated"


@pytest.mark.parametrize("late", [0.0, 1.1])
async def test_a_result_that_comes_in_the_meantime_is_not_discarded(ledger: Ledger, late: float) -> None:
    """Also when the handler takes longer over it than any grace, as long as the cancellation's deadline lasts."""
    team = Team("t", ledger=ledger, settings=QUICK)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(late)
        return Complete("finished what it began")

    async with team.worker():
        handle = await team.submit(goal="g")
        await owned_by(handle, "a")
        await handle.cancel(by="person-1")
        result = await handle.result(10)
    assert (result.outcome, result.value) == ("completed", "finished what it began")
    found = await names(ledger, handle.task_id)
    assert "TaskCancelled" not in found


async def test_a_transfer_after_the_request_goes_nowhere(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=QUICK)

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Transfer("b")
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete("never")

    async with team.worker():
        handle = await team.submit(goal="g")
        await owned_by(handle, "a")
        await handle.cancel(by="person-1")
        assert (await handle.result(10)).outcome == "cancelled"
    assert [each.agent for each in await events(ledger, handle.task_id, ev.TenureGranted)] == ["a"]


async def test_a_cancellation_waits_for_critical_work_and_then_asks_a_person(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(lease_ms=500, gate_ms=200))
    go = asyncio.Event()
    strict = Policy(name="strict", grace_ms=100, gate=Gate.STOPPED)

    async def deaf() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        _ = own.spawn(deaf(), policy=strict)
        await asyncio.Event().wait()
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")

        async def booked() -> bool:
            return bool((await handle.state()).works)

        await until(booked)
        await handle.cancel(by="person-1")
        await in_phase(handle, "escalated")
        assert "TaskCancelled" not in await names(ledger, handle.task_id)
        go.set()


async def test_a_stopped_task_cannot_be_stopped_again(ledger: Ledger) -> None:
    from tenure.errors import Refused

    team = Team("t", ledger=ledger)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        return Complete(1)

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(10)
    with pytest.raises(Refused) as caught:
        await handle.cancel(by="person-1")
    assert (caught.value.code, caught.value.next_action) == ("task_ended", "use_result")
