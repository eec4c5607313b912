"""The right to act: kept by a heartbeat of its own, given up by the holder's clock, fenced by the ledger."""

import asyncio
import time
from typing import Any

import pytest

from tenure import Complete, Settings, Team, Tenure, Transfer
from tenure.errors import Fenced, Unavailable
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import OfferKind, Reason, WorkEnd
from tests.runtime.harness import BRIEF, SHORT_LEASE, Line, events, in_phase, names, owned_by, until

# --- the heartbeat --------------------------------------------------------------------------------------------------


async def test_a_long_handler_keeps_its_lease_without_doing_anything(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(lease_ms=300))

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        await asyncio.sleep(0.7)
        return Complete("done")

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "done"
    assert len(await events(ledger, handle.task_id, ev.TenureGranted)) == 1


async def test_heartbeats_are_no_events(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(lease_ms=200))
    go = asyncio.Event()

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        await go.wait()
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        await owned_by(handle, "a")
        first = (await handle.facts()).execution.lease_until
        before = await names(ledger, handle.task_id)

        async def prolonged() -> bool:
            return (await handle.facts()).execution.lease_until > first

        await until(prolonged)
        assert await names(ledger, handle.task_id) == before
        go.set()
        await handle.result(10)


# --- a ledger that is away ------------------------------------------------------------------------------------------


async def test_a_blink_of_the_ledger_is_no_failure_of_the_handler(ledger: Ledger) -> None:
    line = Line(ledger)
    team = Team("t", ledger=line.ledger, settings=Settings(lease_ms=5_000))
    began = asyncio.Event()

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        began.set()
        assert await own.receive(timeout=0.4) is None
        await own.save({"step": 1})
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.state)

    async with team.worker():
        handle = await team.submit(goal="g")
        await asyncio.wait_for(began.wait(), 5)
        line.cut()
        await asyncio.sleep(0.5)
        line.mend()
        assert (await handle.result(10)).value == {"step": 1}
    assert [each.reason for each in await events(ledger, handle.task_id, ev.TenureEnded)] == [Reason.NONE] * 2


async def test_the_holder_stops_itself_before_its_lease_can_end_elsewhere(ledger: Ledger) -> None:
    line = Line(ledger)
    team = Team("t", ledger=line.ledger, settings=SHORT_LEASE)
    stopped: list[int] = []
    began = asyncio.Event()

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(time.time_ns() // 1_000_000)
        return Complete("never")

    async with team.worker(drain=0.1):
        handle = await team.submit(goal="g")
        await asyncio.wait_for(began.wait(), 5)
        line.cut()

        async def has_stopped() -> bool:
            return bool(stopped)

        await until(has_stopped)
        row = await ledger.row(handle.task_id)
        assert row is not None
        assert row.task.tenure is not None, "the ledger has taken nothing away yet"
        assert stopped[0] < row.lease_until
        line.mend()


async def test_whatever_keeps_a_heartbeat_from_returning_the_holder_stops_by_its_own_clock(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat does not even fail: it hangs, as a file on a stuck disk does."""
    import threading

    go = threading.Event()
    team = Team("t", ledger=ledger, settings=SHORT_LEASE)
    met: list[str] = []
    began = asyncio.Event()

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            met.append("stopped")
        return Complete("never")

    async with team.worker(drain=0.1):
        handle = await team.submit(goal="g")
        await asyncio.wait_for(began.wait(), 5)
        real = ledger.heartbeat
        monkeypatch.setattr(ledger, "heartbeat", lambda *args: (go.wait(20), real(*args))[1])

        async def has_stopped() -> bool:
            return bool(met)

        await until(has_stopped, 3)
        assert (await handle.state()).tenure is not None
        go.set()


async def test_nothing_is_done_outside_once_the_lease_may_be_over(ledger: Ledger) -> None:
    from tests.runtime.harness import Desk

    line = Line(ledger)
    desk = Desk()
    codes: list[str] = []
    began = asyncio.Event()

    async def a(own: Tenure[Any]) -> Complete[Any]:
        began.set()
        if own.epoch > 2:
            return Complete("the second")
        while not codes:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                for act in (
                    lambda: own.effect(desk, 1, key="k"),
                    own.save,
                    lambda: own.delegate("a"),
                    lambda: own.receive(timeout=0),
                ):
                    with pytest.raises(Fenced) as caught:
                        await act()
                    codes.append(caught.value.code)
                with pytest.raises(Fenced):
                    own.spawn(asyncio.sleep(0))  # type: ignore[unused-awaitable]  # refused before there is a work
        return Complete("too late")

    one, two = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    one.agent(a)
    two.agent(a)
    async with one.worker(name="w1", drain=0.1):
        handle = await two.submit(goal="g")
        await asyncio.wait_for(began.wait(), 5)
        line.cut()
        async with two.worker(name="w2"):
            assert (await handle.result(10)).value == "the second"
        line.mend()
    assert codes == ["lease_lost"] * 4
    assert desk.calls == []


async def test_a_write_that_the_ledger_does_not_take_in_time_is_a_loss_not_a_failure(ledger: Ledger) -> None:
    line = Line(ledger)
    began = asyncio.Event()
    met: list[Any] = []

    async def a(own: Tenure[Any]) -> Complete[Any]:
        if own.epoch > 2:
            return Complete("the second")
        began.set()
        await asyncio.sleep(0.05)
        try:
            await own.save({"x": 1})
        except (Fenced, Unavailable, asyncio.CancelledError) as error:
            met.append(error)
            raise
        return Complete("never")

    one, two = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    one.agent(a)
    two.agent(a)
    async with one.worker(name="w1", drain=0.1):
        handle = await two.submit(goal="g")
        await asyncio.wait_for(began.wait(), 5)
        line.cut()
        async with two.worker(name="w2"):
            assert (await handle.result(10)).value == "the second"
        line.mend()
    assert isinstance(met[0], Fenced | asyncio.CancelledError)
    kinds = [each.kind for each in await events(ledger, handle.task_id, ev.OfferIssued)]
    assert kinds == [OfferKind.START, OfferKind.TAKEOVER], "no failure was stated"


# --- after the loss -------------------------------------------------------------------------------------------------


async def test_the_end_of_a_lost_handler_is_reported_however_late(ledger: Ledger) -> None:
    line = Line(ledger)
    go = asyncio.Event()
    began = asyncio.Event()

    async def a(own: Tenure[Any]) -> Complete[Any]:
        began.set()
        if own.epoch > 2:
            return Complete("the second")
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        return Complete("the first, late")

    one, two = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    one.agent(a)
    two.agent(a)
    async with one.worker(name="w1", drain=0.1):
        handle = await two.submit(goal="g")
        await asyncio.wait_for(began.wait(), 5)
        line.cut()
        async with two.worker(name="w2"):
            assert (await handle.result(10)).value == "the second"
        (residual,) = (await handle.facts()).termination.residual
        assert (residual.work_id, residual.state, residual.seen_now) == ("handler:2", "residual", "not determinable")
        line.mend()
        go.set()

        async def off_the_books() -> bool:
            return not (await handle.state()).works

        await until(off_the_books)

        async def kept() -> bool:
            return bool(await events(ledger, handle.task_id, ev.LateRecorded))

        await until(kept)
    (late,) = await events(ledger, handle.task_id, ev.LateRecorded)
    body = await ledger.body(handle.task_id, late.body)
    assert body is not None
    assert (late.command, late.epoch, body.value()) == ("retire:complete", 2, "the first, late")
    assert (await handle.result(1)).value == "the second"


async def test_a_handler_that_ended_before_the_takeover_leaves_no_residual_behind(ledger: Ledger) -> None:
    line = Line(ledger)
    began = asyncio.Event()

    async def a(own: Tenure[Any]) -> Complete[Any]:
        began.set()
        if own.epoch > 2:
            return Complete("the second")
        await asyncio.Event().wait()
        return Complete("never")

    one, two = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    one.agent(a)
    two.agent(a)
    async with one.worker(name="w1", drain=0.1):
        handle = await two.submit(goal="g")
        await asyncio.wait_for(began.wait(), 5)
        line.cut()
        async with two.worker(name="w2"):
            assert (await handle.result(10)).value == "the second"
            line.mend()

            async def off_the_books() -> bool:
                return not (await handle.state()).works

            await until(off_the_books)
    stopped = await events(ledger, handle.task_id, ev.WorkStopped)
    assert [(each.work_id, each.how, each.late) for each in stopped] == [("handler:2", WorkEnd.CANCELLED, True)]


async def test_works_of_a_lost_tenure_are_asked_to_end_at_once_and_their_ends_reported(ledger: Ledger) -> None:
    line = Line(ledger)
    ended: list[str] = []

    async def patient() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    async def a(own: Tenure[Any]) -> Complete[Any]:
        if own.epoch > 2:
            return Complete([fact.what for fact in own.in_flight.works])
        _ = own.spawn(patient(), policy=BRIEF, name="patient")
        await asyncio.Event().wait()
        return Complete("never")

    one, two = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    one.agent(a)
    two.agent(a)
    async with one.worker(name="w1", drain=0.1):
        handle = await two.submit(goal="g")

        async def booked() -> bool:
            return bool((await handle.state()).works)

        await until(booked)
        line.cut()

        async def asked() -> bool:
            return bool(ended)

        await until(asked)
        async with two.worker(name="w2"):
            assert sorted((await handle.result(10)).value) == ["a", "patient"]
            line.mend()

            async def off_the_books() -> bool:
                return not (await handle.state()).works

            await until(off_the_books)


async def test_a_lost_tenure_is_taken_over_by_policy(ledger: Ledger) -> None:
    line = Line(ledger)
    settings = Settings(lease_ms=600, on_lost="return")

    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        return Complete("back with a") if own.epoch > 2 else Transfer("b")

    async def b(own: Tenure[Any]) -> Complete[Any]:
        await asyncio.Event().wait()
        return Complete("never")

    one, two = (Team("t", ledger=way, settings=settings) for way in (line.ledger, ledger))
    for team in (one, two):
        team.agent(entry=True, may_transfer={"b": "goes on"})(a)
        team.agent(b)
    async with one.worker(name="w1", agents=["b"], drain=0.1), two.worker(name="w2", agents=["a"]):
        handle = await two.submit(goal="g")
        await owned_by(handle, "b")
        line.cut()
        assert (await handle.result(10)).value == "back with a"
        line.mend()


async def test_lost_tenures_are_not_offered_again_for_ever(ledger: Ledger) -> None:
    began = 0

    async def a(own: Tenure[Any]) -> Complete[Any]:
        nonlocal began
        began += 1
        await asyncio.Event().wait()
        return Complete("never")

    settings = Settings(lease_ms=400, progress_ms=100, progress_grace_ms=50, takeovers=2)
    team = Team("t", ledger=ledger, settings=settings)
    team.agent(a)
    async with team.worker(drain=0.1):
        handle = await team.submit(goal="g")
        task = await in_phase(handle, "escalated", within=15)
    assert task.question is not None
    assert (task.question.reason, began) == (Reason.RETRIES_EXHAUSTED, 3)


# --- progress -------------------------------------------------------------------------------------------------------


async def test_a_hung_handler_is_asked_and_taken_over_although_it_beats(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(lease_ms=500, progress_ms=100, progress_grace_ms=50))

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        if own.epoch == 2:
            await asyncio.Event().wait()
        return Complete("the second")

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(15)).value == "the second"
    assert [each.reason for each in await events(ledger, handle.task_id, ev.TenureEnded)] == [
        Reason.NO_PROGRESS,
        Reason.NONE,
    ]
    assert "ProgressAsked" in await names(ledger, handle.task_id)


async def test_a_handler_that_is_asked_for_progress_may_answer_with_a_step(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(lease_ms=500, progress_ms=100, progress_grace_ms=10_000))

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        async def asked() -> bool:
            return own.asked

        async def answered() -> bool:
            return not own.asked

        await until(asked)
        await own.save({"step": 1})
        await until(answered)
        return Complete(own.epoch)

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(15)).value == 2, "the tenure that was asked has finished"


async def test_a_hung_handler_that_does_not_hear_does_not_keep_its_worker_from_going_on(ledger: Ledger) -> None:
    go = asyncio.Event()
    team = Team("t", ledger=ledger, settings=Settings(lease_ms=500, progress_ms=100, progress_grace_ms=50))

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        while own.epoch == 2 and not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        return Complete(own.epoch)

    async with team.worker(concurrency=1):
        handle = await team.submit(goal="g")
        assert (await handle.result(15)).value > 2
        assert [work.work_id for work in (await handle.state()).works] == ["handler:2"]
        go.set()

        async def off_the_books() -> bool:
            return not (await handle.state()).works

        await until(off_the_books)


# --- the end of a worker --------------------------------------------------------------------------------------------


async def test_a_worker_that_ends_drains_first(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    began = asyncio.Event()

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        began.set()
        await asyncio.sleep(0.2)
        return Complete("drained")

    async with team.worker():
        handle = await team.submit(goal="g")
        await asyncio.wait_for(began.wait(), 5)
    assert (await handle.result(1)).value == "drained"


async def test_what_outlasts_the_drain_is_asked_to_end_and_its_lease_lapses(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(lease_ms=800))
    ended: list[str] = []

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        if own.epoch > 2:
            return Complete("another worker's")
        _ = own.spawn(asyncio.Event().wait(), policy=BRIEF)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("handler")
        return Complete("never")

    async with team.worker(name="w1", drain=0.05) as worker:
        handle = await team.submit(goal="g")
        await owned_by(handle, "a")
    assert (worker.left, ended) == (1, ["handler"])
    assert (await handle.state()).tenure is not None, "its lease lapses: nothing is claimed in the meantime"
    async with team.worker(name="w2"):
        assert (await handle.result(10)).value == "another worker's"
