"""The watch over deadlines: each is applied by whoever watches, whatever the owner does; a dead watch is visible."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tenure import Settings, Team
from tenure.ledger import Beat, Ledger
from tenure.ledger.memory import MemoryLedger
from tenure.ledger.sqlite import SqliteLedger
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol import events as ev
from tenure.protocol.settings import CRITICAL
from tenure.protocol.state import Candidate, Task
from tenure.protocol.vocabulary import Gate, HandoffState, OfferKind, Phase, Reason, WaitOn, WorkKind
from tenure.runtime.content import to_body
from tenure.runtime.housekeeper import Housekeeper
from tenure.runtime.ids import new_id
from tenure.runtime.payloads import decode_payload, encode_payload
from tests.runtime.harness import events

SETTINGS = Settings(
    lease_ms=1_000,
    pickup_ms=2_000,
    ack_ms=3_000,
    gate_ms=4_000,
    retire_ms=60_000,
    progress_ms=5_000,
    progress_grace_ms=600,
    cancel_ms=800,
    question_ms=7_000,
    attempts=1,
)


class Stage:
    """A ledger with a clock of its own, one task in it, and a watchdog that is told when to look."""

    def __init__(self, ledger: Ledger, clock: list[int]) -> None:
        self.ledger = ledger
        self.clock = clock
        self.watch = Housekeeper(ledger, "watch-1", lease_ms=1_000)
        self.task_id = "t-1"

    async def submit(self, **settings: Any) -> None:
        team = Team("t", ledger=self.ledger, settings=SETTINGS if not settings else Settings(**settings))

        @team.agent(may_transfer={"b": "b answers for it"})
        async def a(own: Any) -> Any:
            raise AssertionError("no worker runs here")

        team.agent(name="b")(a)

        await team.submit({"x": 1}, goal="g", task_id=self.task_id)

    async def task(self) -> Task:
        task = await self.ledger.task(self.task_id)
        assert task is not None
        return task

    async def say(self, kind: Any, /, **fields: Any) -> cmd.Receipt:
        command = kind(command_id=new_id("c"), root_id=self.task_id, task_id=self.task_id, **fields)
        return await self.ledger.execute(command)

    async def own(self, kind: Any, /, **fields: Any) -> cmd.Receipt:
        """Speak as the tenure."""
        tenure = (await self.task()).tenure
        assert tenure is not None
        return await self.say(kind, epoch=tenure.epoch, instance=tenure.instance, **fields)

    async def grant(self, agent: str = "a", instance: str = "i-1") -> cmd.Receipt:
        task = await self.task()
        return await self.say(cmd.Acknowledge, epoch=task.epoch, agent=agent, instance=instance, digest=task.payload)

    async def transfer(self, *, gate: Gate = Gate.ROUTING_RETIRED, quiet: bool = True) -> None:
        task = await self.task()
        body = await self.ledger.body(task.root_id, task.payload)
        assert body is not None
        payload = replace(decode_payload(body), handoff_id="h-1", hop=task.hop_count + 1)
        decision = dec.TransferTo(
            handoff_id="h-1", candidates=(Candidate(agent="b"),), payload=encode_payload(payload), gate=gate
        )
        await self.own(cmd.Retire, decision=decision, quiet=quiet)

    async def late_by(self, ms: int) -> None:
        """Let time pass. Before anybody looks, the delay is visible to every reader; then the watchdog looks."""
        self.clock[0] += ms + 1
        row = await self.ledger.row(self.task_id)
        assert row is not None
        assert row.overdue_ms > 0, "what is overdue shows without a watchdog"
        assert await self.ledger.overdue() == [self.task_id]
        await self.look()

    async def look(self) -> None:
        await asyncio.to_thread(self.watch._sweep)

    async def quiet(self, ms: int) -> None:
        """Let time pass in which nothing becomes overdue."""
        self.clock[0] += ms
        before = (await self.task()).revision
        await self.look()
        assert (await self.task()).revision == before
        row = await self.ledger.row(self.task_id)
        assert row is not None
        assert row.overdue_ms == 0

    async def beat(self, ms: int) -> None:
        """Let time pass in which the owner beats and does nothing else."""
        tenure = (await self.task()).tenure
        assert tenure is not None
        end = self.clock[0] + ms
        while self.clock[0] < end:
            self.clock[0] = min(end, self.clock[0] + 500)
            beat = Beat(task_id=self.task_id, epoch=tenure.epoch, instance=tenure.instance)
            (answer,) = await asyncio.to_thread(self.ledger.heartbeat, [beat])
            assert not answer.error
            await self.look()

    async def reasons(self, kind: type[Any]) -> list[Reason]:
        return [event.reason for event in await events(self.ledger, self.task_id, kind)]


@pytest.fixture(params=["memory", "sqlite"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    clock = [1_800_000_000_000]

    def open_it() -> Ledger:
        if request.param == "memory":
            return MemoryLedger(clock=lambda: clock[0])
        return SqliteLedger(f"{tmp_path}/ledger.db", clock=lambda: clock[0])

    ledger = await asyncio.to_thread(open_it)
    yield Stage(ledger, clock)
    found = await ledger.verify()
    await ledger.close()
    assert (found.chain, found.replay) == ("verified", "equal")


async def test_a_pick_up_that_nobody_makes(stage: Stage) -> None:
    await stage.submit()
    await stage.quiet(1_999)
    await stage.late_by(1)
    assert await stage.reasons(ev.OfferExpired) == [Reason.PICKUP_TIMEOUT]
    assert (await stage.task()).phase == Phase.ESCALATED


async def test_a_claim_that_is_not_acknowledged(stage: Stage) -> None:
    await stage.submit()
    task = await stage.task()
    await stage.say(cmd.Claim, epoch=task.epoch, agent="a", instance="i-1")
    await stage.quiet(2_999)
    await stage.late_by(1)
    assert await stage.reasons(ev.OfferExpired) == [Reason.ACK_TIMEOUT]


async def test_an_offer_is_sent_again_before_its_fallback(stage: Stage) -> None:
    await stage.submit(pickup_ms=1_000, attempts=2)
    await stage.late_by(1_000)
    task = await stage.task()
    assert (task.phase, task.offer and task.offer.attempt) == (Phase.OFFERED, 2)
    await stage.late_by(1_000)
    assert (await stage.task()).phase == Phase.ESCALATED


async def test_a_transfer_that_nobody_picks_up_returns_to_its_sender(stage: Stage) -> None:
    await stage.submit()
    await stage.grant()
    await stage.transfer()
    await stage.late_by(2_000)
    task = await stage.task()
    assert task.offer is not None
    assert (task.offer.kind, task.offer.candidates[0].agent) == (OfferKind.RETURN, "a")
    ended = (await events(stage.ledger, stage.task_id, ev.HandoffEnded))[0]
    assert ended.state == HandoffState.TIMED_OUT


async def test_a_gate_that_is_not_met(stage: Stage) -> None:
    await stage.submit()
    await stage.grant()
    await stage.own(cmd.StartWork, work_id="w-1", kind=WorkKind.COROUTINE, name="w", policy=CRITICAL)
    await stage.transfer(quiet=False)
    await stage.own(cmd.Release, routes_retired=True)
    receipt = await stage.grant("b", "i-2")
    assert (receipt.status, receipt.blocked_by) == ("gate", ("w-1",))
    await stage.quiet(3_999)
    await stage.late_by(1)
    task = await stage.task()
    assert task.offer is not None
    assert (task.offer.kind, task.offer.gate) == (OfferKind.RETURN, None)


async def test_a_gate_before_the_end_of_the_task(stage: Stage) -> None:
    await stage.submit()
    await stage.grant()
    await stage.own(cmd.StartWork, work_id="w-1", kind=WorkKind.COROUTINE, name="w", policy=CRITICAL)
    await stage.own(cmd.Retire, decision=dec.CompleteWith(result=to_body(1)))
    receipt = await stage.own(cmd.Release, routes_retired=True)
    assert receipt.status == "gate"
    await stage.beat(3_900)
    await stage.late_by(100)
    assert (await stage.task()).phase == Phase.ESCALATED


async def test_a_lease(stage: Stage) -> None:
    await stage.submit()
    await stage.grant()
    await stage.quiet(999)
    await stage.late_by(1)
    task = await stage.task()
    assert task.offer is not None
    assert (task.offer.kind, task.offer.reason) == (OfferKind.TAKEOVER, Reason.LEASE_LOST)
    ended = (await events(stage.ledger, stage.task_id, ev.TenureEnded))[0]
    assert (ended.forced, [work.work_id for work in task.works]) == (True, ["handler:2"])


async def test_a_tenure_that_beats_and_makes_no_progress_is_asked_and_then_taken_over(stage: Stage) -> None:
    await stage.submit()
    await stage.grant()
    await stage.beat(4_900)
    await stage.late_by(100)
    task = await stage.task()
    assert task.tenure is not None
    assert task.tenure.asked_at > 0
    await stage.beat(500)
    await stage.late_by(100)
    assert await stage.reasons(ev.TenureEnded) == [Reason.NO_PROGRESS]


async def test_a_step_that_the_ledger_sees_answers_the_question_for_progress(stage: Stage) -> None:
    await stage.submit()
    await stage.grant()
    await stage.beat(4_900)
    await stage.late_by(100)
    await stage.own(cmd.Advance, document=to_body({"step": 1}))
    await stage.beat(4_900)
    assert await stage.reasons(ev.TenureEnded) == []


async def test_a_retirement_that_does_not_end(stage: Stage) -> None:
    await stage.submit(lease_ms=1_000, retire_ms=2_000)
    await stage.grant()
    await stage.transfer(quiet=False)
    await stage.beat(1_900)
    await stage.late_by(100)
    task = await stage.task()
    assert task.offer is not None
    assert (task.offer.kind, task.hops[0].state) == (OfferKind.TRANSFER, HandoffState.TRANSFERRED)
    assert await stage.reasons(ev.TenureEnded) == [Reason.RETIRE_TIMEOUT]


async def test_a_lease_that_ends_while_its_tenure_retires_finishes_the_switch(stage: Stage) -> None:
    await stage.submit()
    await stage.grant()
    await stage.transfer(quiet=False)
    await stage.late_by(1_000)
    task = await stage.task()
    assert task.offer is not None
    assert task.offer.kind == OfferKind.TRANSFER
    assert await stage.reasons(ev.TenureEnded) == [Reason.LEASE_LOST]


async def test_a_requested_cancellation(stage: Stage) -> None:
    await stage.submit()
    await stage.grant()
    await stage.say(cmd.RequestCancel, by="person-1")
    await stage.beat(700)
    await stage.late_by(100)
    task = await stage.task()
    assert (task.phase, [work.work_id for work in task.works]) == (Phase.ESCALATED, ["handler:2"])


@pytest.mark.parametrize("on", [WaitOn.INPUT, WaitOn.TIME])
async def test_a_wait(stage: Stage, on: WaitOn) -> None:
    await stage.submit()
    await stage.grant()
    await stage.own(cmd.Retire, decision=dec.WaitFor(on=on, within_ms=900), quiet=True)
    await stage.quiet(899)
    await stage.late_by(1)
    task = await stage.task()
    assert task.offer is not None
    assert (task.offer.kind, task.offer.reason) == (OfferKind.RESUME, Reason.WAKE_TIME)


@pytest.mark.parametrize(("fallback", "phase"), [("fail", Phase.FAILED), ("cancel", Phase.CANCELLED)])
async def test_a_question(stage: Stage, fallback: Any, phase: Phase) -> None:
    await stage.submit(question_ms=7_000, on_unanswered=fallback)
    await stage.grant()
    await stage.own(cmd.Retire, decision=dec.EscalateTo(question_id="q-1", body=to_body("?")), quiet=True)
    await stage.quiet(6_999)
    await stage.late_by(1)
    assert (await stage.task()).phase == phase


async def test_the_transition_window_has_an_upper_bound(stage: Stage) -> None:
    await stage.submit(pickup_ms=60_000, ack_ms=500, transition_ms=1_000, attempts=5)
    await stage.grant()
    await stage.transfer()
    await stage.late_by(1_000)
    assert await stage.reasons(ev.OfferExpired) == [Reason.TRANSITION_LIMIT]


async def test_several_watchdogs_apply_a_deadline_once(stage: Stage) -> None:
    await stage.submit()
    await stage.grant()
    stage.clock[0] += 1_000
    others = [Housekeeper(stage.ledger, f"watch-{n}", lease_ms=1_000) for n in range(4)]
    await asyncio.gather(*(asyncio.to_thread(other._sweep) for other in others))
    assert await stage.reasons(ev.TenureEnded) == [Reason.LEASE_LOST]
