"""Rules of fencing: what a former owner says moves no ownership, whatever it says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenure.errors import Fenced
from tenure.ledger import Beat, Ledger
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.events import LateRecorded
from tenure.protocol.settings import LOCAL
from tenure.protocol.state import Locator
from tenure.protocol.vocabulary import EffectState, Purpose, WorkKind
from tenure.testing.conformance.base import Rules, VirtualClock
from tenure.testing.conformance.driver import Driver, body, candidates, payload

OWNER_COMMANDS: list[tuple[type[cmd.OwnerCommand], dict[str, Any]]] = [
    (cmd.Advance, {"document": body({"step": 1})}),
    (cmd.See, {"upto": 0}),
    (cmd.StartWork, {"work_id": "x", "kind": WorkKind.COROUTINE, "name": "x", "policy": LOCAL}),
    (cmd.LocateWork, {"work_id": "x", "locator": Locator(pid=7)}),
    (cmd.OpenRoute, {"route_id": "r"}),
    (cmd.CloseRoute, {"route_id": "r"}),
    (
        cmd.Intend,
        {
            "effect_id": "e",
            "provider": "shop",
            "tool": "refund",
            "intent": "i",
            "request": body({}),
            "compared": "c",
            "policy": LOCAL,
        },
    ),
    (cmd.Delegate, {"child_id": "t.9", "candidates": candidates("c"), "payload": payload("t.9")}),
]
"""Every command of an owner that is refused as a whole when it comes late."""


class FencingRules(Rules):
    """One worker name, two tenures: the first stalled past its lease and wakes after the second was granted."""

    async def taken_over(self, driver: Driver, clock: VirtualClock) -> tuple[int, int]:
        """Epochs of the tenure that was lost and of the one that is current, both of instance ``w1``."""
        lost = (await driver.owned("a", "w1")).epoch
        clock.now += 15_000
        await driver.do(cmd.Expire)
        await driver.acknowledge("a", "w1")
        return lost, (await driver.task()).epoch

    @pytest.mark.parametrize(("kind", "fields"), OWNER_COMMANDS, ids=lambda value: getattr(value, "__name__", ""))
    async def test_an_owner_command_under_another_epoch_or_instance_is_fenced(
        self,
        driver: Driver,
        ledger: Ledger,
        clock: VirtualClock,
        kind: type[cmd.OwnerCommand],
        fields: dict[str, Any],
    ) -> None:
        lost, current = await self.taken_over(driver, clock)
        before, position = await driver.task(), (await ledger.events())[-1].position
        for epoch, instance in ((lost, "w1"), (current, "w0"), (current + 1, "w1"), (0, "w1")):
            with pytest.raises(Fenced) as caught:
                await driver.do(kind, epoch=epoch, instance=instance, **fields)
            assert caught.value.code == "stale_epoch"
        assert await driver.task() == before
        assert await ledger.events(after=position) == []
        notes = await ledger.refusals()
        assert [(note.family, note.epoch, note.instance) for note in notes] == [
            ("fenced", lost, "w1"),
            ("fenced", current, "w0"),
            ("fenced", current + 1, "w1"),
            ("fenced", 0, "w1"),
        ]

    async def test_late_decisions_are_kept_as_evidence_and_answered_as_late(
        self, driver: Driver, ledger: Ledger, clock: VirtualClock
    ) -> None:
        lost, _ = await self.taken_over(driver, clock)
        before = await driver.task()
        retire = driver.make(
            cmd.Retire, epoch=lost, instance="w1", decision=dec.CompleteWith(result=body("late")), quiet=True
        )
        release = driver.make(cmd.Release, epoch=lost, instance="w1", routes_retired=True)
        receipts = [await ledger.execute(command) for command in (retire, release, retire, release)]
        assert [receipt.status for receipt in receipts] == ["late"] * 4
        assert receipts[:2] == receipts[2:]
        after = await driver.task()
        assert (after.tenure, after.phase, after.epoch, after.result) == (
            before.tenure,
            before.phase,
            before.epoch,
            "",
        )
        kept = [record.event for record in await ledger.events() if isinstance(record.event, LateRecorded)]
        assert [(event.command, event.epoch) for event in kept] == [("retire:complete", lost), ("release", lost)]
        assert await ledger.body("t", kept[0].body) == body("late")

    async def test_late_outcomes_settle_and_move_no_ownership(self, driver: Driver, ledger: Ledger) -> None:
        owned = await driver.owned("a", "w1")
        await driver.intend("e1")
        await driver.transfer("b")
        await driver.acknowledge("b", "w2")
        before = await driver.task()
        receipt = await driver.outcome("e1", EffectState.CONFIRMED, epoch=owned.epoch, reference="refund-1")
        after = await driver.task()
        assert receipt.status == "late"
        assert (after.epoch, after.owner, after.effects) == (before.epoch, "b", ())
        (effect,) = await ledger.effects("t")
        assert (effect.state, effect.reference) == (EffectState.CONFIRMED, "refund-1")

    async def test_provider_calls_belong_to_the_owner(self, driver: Driver, ledger: Ledger) -> None:
        owned = await driver.owned("a", "w1")
        await driver.intend("e1", idempotent_ms=60_000)
        await driver.transfer("b")
        (effect,) = await ledger.effects("t")
        call = {"effect_id": "e1", "version": effect.version, "instance": "w1"}
        with pytest.raises(Fenced):
            await driver.do(cmd.AttemptEffect, purpose=Purpose.APPLY, epoch=owned.epoch, **call)
        receipt = await driver.do(cmd.AttemptEffect, purpose=Purpose.LOOKUP, **call)
        assert receipt.effect is not None
        assert receipt.effect.attempt.purpose is Purpose.LOOKUP

    async def test_an_offer_that_was_issued_again_cannot_be_acknowledged(
        self, driver: Driver, clock: VirtualClock
    ) -> None:
        await driver.submit("a")
        before = await driver.task()
        assert before.offer is not None
        clock.now = before.offer.deadline
        await driver.do(cmd.Expire)
        for kind, fields in ((cmd.Acknowledge, {"digest": before.offer.payload}), (cmd.Claim, {}), (cmd.Decline, {})):
            with pytest.raises(Fenced):
                await driver.do(kind, epoch=before.epoch, agent="a", instance="w1", **fields)

    async def test_heartbeats_prolong_only_the_current_tenure(
        self, driver: Driver, ledger: Ledger, clock: VirtualClock
    ) -> None:
        lost, current = await self.taken_over(driver, clock)
        position = (await ledger.events())[-1].position
        clock.now += 4_000
        beats = [
            Beat(task_id="t", epoch=lost, instance="w1"),
            Beat(task_id="t", epoch=current, instance="w1"),
            Beat(task_id="t", epoch=current, instance="w0"),
            Beat(task_id="nowhere", epoch=1, instance="w1"),
        ]
        answers = await asyncio.to_thread(ledger.heartbeat, beats)
        assert [answer.error for answer in answers] == ["stale_epoch", "", "stale_epoch", "unknown_task"]
        assert [answer.lease_until for answer in answers] == [0, clock.now + 15_000, 0, 0]
        row = await ledger.row("t")
        assert row is not None
        assert row.lease_until == clock.now + 15_000
        assert await ledger.events(after=position) == []
        notes = await ledger.refusals()
        assert [(note.command, note.family, note.code) for note in notes] == [
            ("heartbeat", "fenced", "stale_epoch"),
            ("heartbeat", "fenced", "stale_epoch"),
            ("heartbeat", "refused", "unknown_task"),
        ]

    async def test_heartbeats_bring_back_what_the_owner_must_know(self, driver: Driver, ledger: Ledger) -> None:
        task = await driver.owned()
        beat = Beat(task_id="t", epoch=task.epoch, instance="w1")
        (quiet,) = await asyncio.to_thread(ledger.heartbeat, [beat])
        await driver.do(cmd.Send, message=body("hello"))
        await driver.do(cmd.RequestCancel, by="customer-07")
        (told,) = await asyncio.to_thread(ledger.heartbeat, [beat])
        assert (quiet.received, quiet.cancel, quiet.asked) == (0, False, False)
        assert (told.received, told.cancel, told.asked) == (1, True, False)

    async def test_a_heartbeat_is_no_progress(self, driver: Driver, ledger: Ledger, clock: VirtualClock) -> None:
        task = await driver.owned()
        beat = Beat(task_id="t", epoch=task.epoch, instance="w1")
        for _ in range(60):
            clock.now += 10_000
            await asyncio.to_thread(ledger.heartbeat, [beat])
        assert await ledger.overdue() == ["t"]
        await driver.do(cmd.Expire)
        (told,) = await asyncio.to_thread(ledger.heartbeat, [beat])
        assert told.asked
