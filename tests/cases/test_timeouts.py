"""Reported failures, time-outs and acknowledgements: TA-01 and TA-03."""

import asyncio
import time
from typing import Any

import pytest

from tenure import Complete, Settings, Team, Tenure, Transfer
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import Reason
from tenure.runtime.offered import Offered
from tests.runtime.harness import SHORT_LEASE, Desk, Line, events, names, owned_by, until

# --- TA-01 ----------------------------------------------------------------------------------------------------------


class Cold:
    """B's start-up: busy until it is told, whatever anybody asks it meanwhile."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.asked = asyncio.Event()
        self.over = asyncio.Event()

    async def on_offer(self, offered: Offered) -> str | None:
        self.asked.set()
        await deaf(self.ready)
        self.over.set()
        return None


def with_a_cold_start(ledger: Ledger, cold: Cold, began: list[str], *, ack_ms: int) -> Team:
    team = Team("t", ledger=ledger, settings=Settings(lease_ms=500, ack_ms=ack_ms))

    @team.agent(entry=True, may_transfer={"b": "goes on", "c": "stands in"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        return Transfer(("b", "c"))

    @team.agent(on_offer=cold.on_offer)
    async def b(own: Tenure[Any]) -> Complete[Any]:
        began.append("b")
        return Complete("b")

    @team.agent
    async def c(own: Tenure[Any]) -> Complete[Any]:
        began.append("c")
        return Complete("c")

    return team


async def test_ta_01_a_late_acknowledgement_is_refused_once_the_work_was_offered_to_another(ledger: Ledger) -> None:
    """TA-01: B is busy with its start-up past the deadline; C takes over; B acks and must stop."""
    cold, began = Cold(), list[str]()
    team = with_a_cold_start(ledger, cold, began, ack_ms=200)
    async with team.worker():
        handle = await team.submit(goal="g")
        await asyncio.wait_for(cold.asked.wait(), 5)
        claimed = await handle.state()
        assert (await handle.result(10)).value == "c"
        cold.ready.set()
        await asyncio.wait_for(cold.over.wait(), 5)

        async def refused() -> bool:
            found = await ledger.refusals(task_id=handle.task_id)
            return any(each.command == "acknowledge" and each.epoch == claimed.epoch for each in found)

        await until(refused)
    assert began == ["c"], "never both"
    assert [each.reason for each in await events(ledger, handle.task_id, ev.OfferExpired)] == [Reason.ACK_TIMEOUT]
    assert (await handle.state()).epoch > claimed.epoch, "the offer to C advanced the epoch"


async def test_ta_01_an_adoption_before_the_end_of_the_grace_keeps_the_work(ledger: Ledger) -> None:
    """TA-01, repeat with a longer grace: B adopts in time and C is never started."""
    cold, began = Cold(), list[str]()
    team = with_a_cold_start(ledger, cold, began, ack_ms=20_000)
    async with team.worker():
        handle = await team.submit(goal="g")
        await asyncio.wait_for(cold.asked.wait(), 5)
        found = await names(ledger, handle.task_id)
        assert found[-1] == "OfferClaimed", "picked up is a fact of its own"
        cold.ready.set()
        assert (await handle.result(10)).value == "b"
    assert began == ["b"]
    found = await names(ledger, handle.task_id)
    steps = [found.index(name, found.index("HandoffInitiated")) for name in FACTS]
    assert steps == sorted(steps), "offered, picked up, acknowledged, owned and completed are separate facts"


FACTS = ("OfferIssued", "OfferClaimed", "OfferAcknowledged", "TenureGranted", "TaskCompleted")


async def test_ta_01_an_overdue_acknowledgement_shows_before_anybody_acts_on_it(ledger: Ledger) -> None:
    """TA-01: at the deadline the handoff is overdue, whether or not a watchdog has looked."""
    from tenure.protocol import commands as cmd
    from tenure.runtime.ids import new_id

    team = with_a_cold_start(ledger, Cold(), [], ack_ms=50)
    handle = await team.submit(goal="g")
    task = await handle.state()
    await ledger.execute(
        cmd.Claim(
            command_id=new_id("c"), root_id=task.root_id, task_id=task.task_id, epoch=1, agent="a", instance="i-1"
        )
    )

    async def overdue() -> bool:
        return (await handle.facts()).execution.overdue_ms > 0

    await until(overdue)


def test_ta_01_a_deadline_shorter_than_a_grace_of_the_same_policy_is_a_contradiction() -> None:
    """TA-01: flagged when the team is made, not when it hurts."""
    with pytest.raises(Refused) as caught:
        Team("t", settings=Settings(ack_ms=30_000, transition_ms=5_000))
    assert caught.value.code == "deadline_below_grace"


# --- TA-03 ----------------------------------------------------------------------------------------------------------


@pytest.mark.may_block
async def test_ta_03_a_busy_loop_does_not_stop_the_heartbeat_and_the_completion_is_accepted(ledger: Ledger) -> None:
    """TA-03: the job lasts longer than the visibility, the loop is busy all the time, the worker is healthy."""
    runs: list[int] = []

    async def job(own: Tenure[Any]) -> Complete[Any]:
        runs.append(own.epoch)
        time.sleep(0.9)  # noqa: ASYNC251 - what the test is about: longer than the lease
        return Complete("done")

    team = Team("t", ledger=ledger, settings=SHORT_LEASE)
    team.agent(job)
    async with team.worker(name="w1"):
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "done"
    assert runs == [2]
    assert [each.forced for each in await events(ledger, handle.task_id, ev.TenureEnded)] == [False]


async def deaf(event: asyncio.Event) -> None:
    """Wait for the event, whatever anybody asks meanwhile."""
    while not event.is_set():
        try:
            await event.wait()
        except asyncio.CancelledError:
            continue


async def test_ta_03_a_superseded_completion_is_kept_as_a_duplicate_with_its_effects(ledger: Ledger) -> None:
    """TA-03: W1's heartbeats stop, W2 takes it; W1 finishes late and must not complete or delete W2's claim."""
    line, desk = Line(ledger), Desk()
    began, first_goes, second_goes = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def job(own: Tenure[Any]) -> Complete[Any]:
        if own.epoch == 2:
            await own.effect(desk, {"n": 1}, key="k")
            began.set()
            await deaf(first_goes)
            return Complete("by W1")
        await second_goes.wait()
        again = await own.effect(desk, {"n": 1}, key="k")
        return Complete(["by W2", again.effect_id])

    one, two = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    one.agent(job)
    two.agent(job)
    async with one.worker(name="w1", drain=0):
        handle = await two.submit(goal="g")
        await asyncio.wait_for(began.wait(), 5)
        line.cut()
        async with two.worker(name="w2"):

            async def taken() -> bool:
                task = await handle.state()
                return task.tenure is not None and task.tenure.epoch > 2

            await until(taken)
            claim = (await handle.state()).tenure
            line.mend()
            first_goes.set()

            async def kept() -> Any:
                return await events(ledger, handle.task_id, ev.LateRecorded)

            (late,) = await until(kept)
            assert (await handle.state()).tenure == claim, "W2's claim stands"
            second_goes.set()
            result = await handle.result(10)
    assert result.value[0] == "by W2"
    body = await ledger.body(handle.task_id, late.body)
    assert body is not None
    assert (late.command, late.epoch, body.value()) == ("retire:complete", 2, "by W1")
    (effect,) = await ledger.effects(handle.task_id)
    assert (effect.effect_id, effect.attempt.epoch, len(desk.calls)) == (result.value[1], 2, 1), (
        "listed with its effects"
    )


async def test_ta_03_a_draining_worker_keeps_its_lease_until_it_has_finished(ledger: Ledger) -> None:
    """TA-03, variant: W1 is draining after a soft stop; W2 is there and gets nothing of it."""
    runs: list[int] = []
    began, go = asyncio.Event(), asyncio.Event()

    async def job(own: Tenure[Any]) -> Complete[Any]:
        runs.append(own.epoch)
        began.set()
        await go.wait()
        return Complete("done")

    one, two = (Team("t", ledger=ledger, settings=SHORT_LEASE) for _ in range(2))
    one.agent(job)
    two.agent(job)
    async with two.worker(name="w2", agents=["job"], concurrency=1):
        handle = None
        async with one.worker(name="w1", drain=10):
            blocker = await two.submit(goal="keep W2 or W1 busy")
            handle = await two.submit(goal="g")
            await asyncio.wait_for(began.wait(), 5)
            await owned_by(handle, "job")
            asyncio.get_running_loop().call_later(0.8, go.set)  # longer than the lease
        assert (await handle.result(10)).value == "done"
        assert (await blocker.result(10)).value == "done"
    assert runs == [2, 2]
