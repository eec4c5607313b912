"""Rules of effects: rows in step with their task, one open intent per tree, death reports."""

from __future__ import annotations

import pytest

from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol.settings import CRITICAL
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Phase, Purpose, WorkEnd
from tenure.testing.conformance.base import Rules, VirtualClock
from tenure.testing.conformance.driver import Driver, body


class EffectRules(Rules):
    """An effect's row says what its task's events say."""

    async def test_an_intent_is_open_once_in_a_tree(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        await driver.delegate("t.1")
        await driver.acknowledge("c", "w2", "t.1")
        await driver.intend("e1", intent="refund A17")
        with pytest.raises(Refused) as caught:
            await driver.intend("e2", "t.1", intent="refund A17")
        assert (caught.value.code, caught.value.facts["effect"].effect_id) == ("effect_open", "e1")
        with pytest.raises(Refused) as caught:
            await driver.intend("e2", "t.1", intent="refund A17", compared="cents=9900")
        assert caught.value.code == "intent_conflict"
        await driver.outcome("e1", EffectState.CONFIRMED, reference="refund-1")
        receipt = await driver.intend("e2", "t.1", intent="refund A17")
        assert (receipt.status, receipt.effect and receipt.effect.effect_id) == ("already", "e1")
        other = Driver(ledger, "u")
        await other.owned()
        assert (await other.intend("e1", intent="refund A17")).status == "done"

    async def test_an_open_effect_hides_behind_no_newer_one(self, driver: Driver) -> None:
        await driver.owned()
        await driver.delegate("t.1")
        await driver.acknowledge("c", "w2", "t.1")
        await driver.intend("e1", intent="refund A17")
        await driver.outcome("e1", EffectState.ABSENT, evidence=EvidenceKind.NOT_SENT)
        await driver.intend("e2", "t.1", intent="refund A17")
        await driver.outcome("e2", EffectState.ABSENT, "t.1", evidence=EvidenceKind.NOT_SENT)
        await driver.outcome("e1", EffectState.CONFIRMED)
        with pytest.raises(Refused) as caught:
            await driver.intend("e3", "t.1", intent="refund A17")
        assert caught.value.facts["effect"].effect_id == "e1"

    async def test_an_absent_effect_is_not_applied_again_once_its_intent_was_taken_up_elsewhere(
        self, driver: Driver, ledger: Ledger
    ) -> None:
        await driver.owned()
        await driver.delegate("t.1")
        await driver.acknowledge("c", "w2", "t.1")
        await driver.intend("e1", intent="refund A17")
        await driver.outcome("e1", EffectState.ABSENT, evidence=EvidenceKind.NOT_SENT)
        await driver.intend("e2", "t.1", intent="refund A17")
        await driver.outcome("e2", EffectState.ABSENT, "t.1", evidence=EvidenceKind.NOT_SENT)
        await driver.intend("e3", intent="refund A17")
        await driver.outcome("e1", EffectState.CONFIRMED)
        child = await driver.task("t.1")
        assert child.tenure is not None
        version = (await ledger.effects("t.1"))[0].version
        with pytest.raises(Refused) as caught:
            await driver.do(
                cmd.AttemptEffect,
                "t.1",
                effect_id="e2",
                version=version,
                purpose=Purpose.APPLY,
                instance=child.tenure.instance,
                epoch=child.tenure.epoch,
            )
        assert caught.value.code == "attempt_unsafe"

    async def test_an_effect_id_is_used_once_in_a_tree(self, driver: Driver) -> None:
        await driver.owned()
        await driver.intend("e1")
        with pytest.raises(Refused) as caught:
            await driver.intend("e1", intent="another")
        assert caught.value.code == "invalid"

    async def test_an_absent_effect_is_attempted_again(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        await driver.intend("e1", intent="i")
        await driver.outcome("e1", EffectState.ABSENT, evidence=EvidenceKind.NOT_SENT)
        receipt = await driver.intend("e9", intent="i")
        assert receipt.effect is not None
        assert (receipt.effect.effect_id, receipt.effect.attempt.n) == ("e1", 2)
        assert [effect.effect_id for effect in await ledger.effects("t", open_only=True)] == ["e1"]

    @pytest.mark.parametrize("named", ["", "e1"])
    async def test_the_end_of_a_tenure_puts_every_unanswered_effect_in_doubt(
        self, driver: Driver, ledger: Ledger, named: str
    ) -> None:
        await driver.owned()
        await driver.intend("e1", policy=CRITICAL)
        await driver.intend("e2")
        await driver.intend("e3")
        await driver.outcome("e3", EffectState.ACCEPTED, reference="refund-3")
        if named:
            await driver.complete()
            await driver.outcome(named, EffectState.CONFIRMED)
        else:
            await driver.transfer("b")
        states = {effect.effect_id: effect.state for effect in await ledger.effects("t")}
        expected = EffectState.CONFIRMED if named else EffectState.IN_DOUBT
        assert states == {"e1": expected, "e2": EffectState.IN_DOUBT, "e3": EffectState.ACCEPTED}
        notes = {note.effect_id: note.state for note in (await driver.task()).effects}
        assert notes == {name: state for name, state in states.items() if not state.settled}

    async def test_effects_are_listed_and_counted(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        for name in ("e1", "e2", "e3"):
            await driver.intend(name)
        await driver.outcome("e2", EffectState.CONFIRMED)
        assert [effect.effect_id for effect in await ledger.effects("t")] == ["e1", "e2", "e3"]
        assert [effect.effect_id for effect in await ledger.effects("t", open_only=True)] == ["e1", "e3"]
        assert await ledger.effect_counts() == {"confirmed": 1, "intended": 2}
        assert await ledger.effects("t.1") == []

    async def test_a_death_report_reaches_every_open_effect(
        self, driver: Driver, ledger: Ledger, clock: VirtualClock
    ) -> None:
        await driver.owned()
        await driver.work("x")
        for name in ("e1", "e2", "e3"):
            await driver.intend(name)
        await driver.outcome("e3", EffectState.CONFIRMED)
        clock.now += 5
        await driver.do(cmd.ReportDeath, instance="w1", by="w2")
        task = await driver.task()
        assert (task.phase, task.tenure, task.works) == (Phase.OFFERED, None, ())
        found = {effect.effect_id: (effect.senders, effect.dead_at) for effect in await ledger.effects("t")}
        assert found == {"e1": ((), clock.now), "e2": ((), clock.now), "e3": (("w1",), 0)}
        assert await ledger.held_by("w1") == []
        with pytest.raises(Refused) as caught:
            await driver.do(cmd.ReportDeath, instance="w1", by="w2")
        assert caught.value.code == "not_due"

    async def test_late_evidence_of_what_is_known_is_kept_and_moves_nothing(
        self, driver: Driver, ledger: Ledger
    ) -> None:
        owned = await driver.owned()
        await driver.intend("e1")
        await driver.outcome("e1", EffectState.CONFIRMED, reference="refund-1")
        await driver.transfer("b")
        before = await ledger.effects("t")
        receipt = await driver.outcome("e1", EffectState.CONFIRMED, epoch=owned.epoch, reference="refund-1")
        assert (receipt.status, await ledger.effects("t")) == ("late", before)

    async def test_an_attempt_is_a_compare_and_set(self, driver: Driver) -> None:
        await driver.owned()
        await driver.intend("e1", idempotent_ms=60_000)
        await driver.outcome("e1", EffectState.IN_DOUBT, evidence=EvidenceKind.NONE)
        call = {"effect_id": "e1", "version": 2, "purpose": Purpose.APPLY}
        receipt = await driver.own(cmd.AttemptEffect, **call)
        assert receipt.effect is not None
        assert (receipt.effect.version, receipt.effect.attempt.n) == (3, 2)
        with pytest.raises(Refused) as caught:
            await driver.own(cmd.AttemptEffect, **call)
        assert caught.value.code == "version_conflict"

    async def test_a_person_attests(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        await driver.intend("e1")
        await driver.transfer("b")
        receipt = await driver.do(cmd.Attest, effect_id="e1", version=2, by="person:operator", body=body("seen"))
        assert receipt.effect is not None
        assert (receipt.effect.state, await ledger.held_by("w1")) == (EffectState.ATTESTED, [])
        with pytest.raises(Refused) as caught:
            await driver.do(cmd.Attest, effect_id="e9", version=2, by="person:operator", body=body("seen"))
        assert caught.value.code == "unknown_effect"

    async def test_effects_are_listed_in_the_order_of_their_intents(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        other = Driver(ledger, "u")
        await other.owned()
        await driver.intend("e1")
        await other.intend("e2")
        await driver.intend("e3")
        await driver.outcome("e1", EffectState.CONFIRMED)
        rows = await ledger.effect_rows()
        assert [(row.effect.task_id, row.effect.effect_id) for row in rows] == [("t", "e1"), ("u", "e2"), ("t", "e3")]
        assert [row.effect.effect_id for row in await ledger.effect_rows(after=rows[0].position, limit=1)] == ["e2"]
        assert [row.effect.effect_id for row in await ledger.effect_rows(open_only=True)] == ["e2", "e3"]
        assert [row.effect.effect_id for row in await ledger.effect_rows(open_only=True, limit=1)] == ["e2"]

    async def test_an_open_effect_is_due_when_somebody_should_look_again(
        self, driver: Driver, ledger: Ledger, clock: VirtualClock
    ) -> None:
        await driver.owned()
        await driver.intend("e1", check_ms=5_000)
        await driver.intend("e2", check_ms=1_000)
        assert await ledger.effects_due() == []
        clock.now += 5_000
        assert [effect.effect_id for effect in await ledger.effects_due()] == ["e2", "e1"]
        assert [effect.effect_id for effect in await ledger.effects_due(limit=1)] == ["e2"]
        await driver.outcome("e2", EffectState.CONFIRMED)
        assert [effect.effect_id for effect in await ledger.effects_due()] == ["e1"]
        await driver.outcome("e1", EffectState.IN_DOUBT, evidence=EvidenceKind.NONE)
        assert await ledger.effects_due() == []

    async def test_one_of_two_reconcilers_takes_an_effect(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        await driver.intend("e1")
        await driver.outcome("e1", EffectState.IN_DOUBT, evidence=EvidenceKind.NONE)
        look = {"effect_id": "e1", "purpose": Purpose.LOOKUP}
        await driver.do(cmd.AttemptEffect, **look, version=2, instance="one")
        for version, code in ((2, "version_conflict"), (3, "attempt_open")):
            with pytest.raises(Refused) as caught:
                await driver.do(cmd.AttemptEffect, **look, version=version, instance="two")
            assert caught.value.code == code
        assert [effect.attempt.instance for effect in await ledger.effects("t")] == ["one"]

    async def test_a_person_is_asked_about_an_effect(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        await driver.intend("e1")
        await driver.outcome("e1", EffectState.IN_DOUBT, evidence=EvidenceKind.NONE)
        receipt = await driver.do(cmd.AskAboutEffect, effect_id="e1", version=2, instance="one")
        assert receipt.effect is not None
        assert receipt.effect.asked == "person:operator"
        assert [effect.asked for effect in await ledger.effects("t")] == ["person:operator"]

    async def test_tasks_with_residual_work_are_listed_until_it_is_seen_to_end(self, ledger: Ledger) -> None:
        speakers = {root_id: Driver(ledger, root_id) for root_id in ("s", "t", "u")}
        for speaker in speakers.values():
            await speaker.owned()
            await speaker.work("x")
        assert await ledger.residual() == []
        for root_id in ("t", "u"):
            speaker = speakers[root_id]
            await speaker.complete()
            await speaker.own(cmd.Release, routes_retired=True)
        rows = await ledger.residual()
        assert [row.task.task_id for row in rows] == ["t", "u"]
        assert [row.task.task_id for row in await ledger.residual(after=rows[0].position)] == ["u"]
        assert [row.task.task_id for row in await ledger.residual(limit=1)] == ["t"]
        await speakers["t"].do(
            cmd.EndWork,
            work_id="x",
            instance="w1",
            how=WorkEnd.ATTESTED,
            evidence=EvidenceKind.ATTESTATION,
            by="person:operator",
            result=body("it is off"),
        )
        assert [row.task.task_id for row in await ledger.residual()] == ["u"]
        assert (await ledger.verify()).problems == ()
