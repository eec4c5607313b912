"""Reconcilers: what nobody settles is looked after, by evidence alone, until it is settled or a person is asked."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tenure import Accepted, Complete, Confirmed, Declined, Failed, NotFound, Sealed, Team, Tenure
from tenure.errors import Unavailable
from tenure.ledger.sqlite import SqliteLedger
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.settings import CRITICAL, LOCAL
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Phase, Purpose, Reason
from tenure.runtime.provider import Provider
from tenure.runtime.swept import Fate, Swept
from tenure.testing.conformance import VirtualClock
from tests.runtime.harness import Line, events, until
from tests.runtime.outside import HOUR, MINUTE, Deaf, Sealing, Seeing, Undoing, World, world

__all__ = ["world"]

E, K = EffectState, EvidenceKind
LOOK = replace(LOCAL, name="looked at", doubt="look")
UNDO = replace(LOCAL, name="undone", orphan="compensate")
DAY = 24 * HOUR


def whole(swept: Swept) -> dict[str, int]:
    """The counts that are not zero. They must add up."""
    counts = {str(fate): getattr(swept, fate) for fate in Fate}
    assert sum(counts.values()) == swept.due == len(swept.looks)
    return {name: count for name, count in counts.items() if count}


# --- finding out ----------------------------------------------------------------------------------------------------


async def test_nothing_is_looked_at_before_it_is_due(world: World) -> None:
    await world.owned()
    await world.in_doubt()
    world.clock.now -= MINUTE
    shop = Seeing(lookup=[Confirmed(reference="R1")])
    assert whole(await world.reconciler(shop).sweep()) == {}
    assert shop.made == []


async def test_what_a_look_up_finds_settles_the_effect_by_evidence(world: World) -> None:
    await world.owned()
    await world.in_doubt()
    shop = Seeing(lookup=[Confirmed({"cents": 5}, "R1")])
    swept = await world.reconciler(shop).sweep()
    assert (whole(swept), swept.calls) == ({"settled": 1}, 1)
    effect = await world.effect()
    assert (effect.state, effect.reference) == (E.CONFIRMED, "R1")
    observed = (await events(world.ledger, "t", ev.EffectObserved))[-1]
    assert (observed.evidence, observed.observer, observed.source) == (K.LOOKUP, "r1", "lookup")


async def test_every_call_is_committed_before_it_is_made(world: World) -> None:
    await world.owned()
    await world.in_doubt()
    seen: list[Any] = []

    class Watching(Seeing):
        async def lookup(self, request: Any, *, key: str) -> Any:
            seen.append((await world.effect()).attempt)
            return await super().lookup(request, key=key)

    await world.reconciler(Watching(lookup=[Confirmed()])).sweep()
    assert [(each.purpose, each.epoch, each.instance, each.in_flight) for each in seen] == [
        (Purpose.LOOKUP, 0, "r1", True)
    ]


async def test_not_found_settles_nothing_while_a_sender_may_live(world: World) -> None:
    await world.owned()
    await world.in_doubt(in_flight_ms=1_000)
    world.later(HOUR)
    shop = Seeing(lookup=[NotFound()])
    assert whole(await world.reconciler(shop).sweep()) == {"open": 1}
    assert await world.state() is E.IN_DOUBT


async def test_not_found_after_the_senders_death_and_the_in_flight_limit_is_absent(world: World) -> None:
    await world.owned()
    await world.in_doubt(in_flight_ms=1_000)
    await world.dies()
    world.later(2_000)
    shop = Seeing(lookup=[NotFound()])
    assert whole(await world.reconciler(shop).sweep()) == {"settled": 1}
    assert await world.state() is E.ABSENT
    assert shop.made == ["lookup"], "what is proven absent is made anew by an owner alone"


async def test_a_job_that_goes_on_is_looked_at_at_the_same_pace_and_nobody_is_asked(world: World) -> None:
    await world.owned(checks=2)
    await world.accepted(idempotent_ms=DAY)
    shop = Sealing(lookup=[Accepted("job-1")], seal=[Sealed()])
    for _ in range(4):
        assert whole(await world.reconciler(shop).sweep()) == {"open": 1}
        world.later()
    assert set(shop.made) == {"lookup"}, "a job that was taken on is neither made again nor sealed"
    effect = await world.effect()
    assert (effect.state, effect.asked, effect.checks) == (E.ACCEPTED, "", 0)


# --- making it happen, or sealing ------------------------------------------------------------------------------------


async def test_what_is_wanted_is_made_to_happen_under_the_same_key_inside_the_window(world: World) -> None:
    await world.owned()
    await world.in_doubt(idempotent_ms=DAY)
    shop = Sealing(lookup=[NotFound()], apply=[Confirmed(reference="R1")], seal=[Sealed()])
    assert whole(await world.reconciler(shop).sweep()) == {"settled": 1}
    assert shop.made == ["lookup", "apply"]
    assert len({key for _, key in shop.calls}) == 1
    assert await world.state() is E.CONFIRMED


async def test_a_retry_that_finds_nothing_out_is_followed_by_no_seal(world: World) -> None:
    await world.owned()
    await world.in_doubt(idempotent_ms=DAY)
    shop = Sealing(lookup=[NotFound()], apply=[TimeoutError()], seal=[Sealed()])
    assert whole(await world.reconciler(shop).sweep()) == {"open": 1}
    assert shop.made == ["lookup", "apply"]


async def test_outside_the_window_the_key_is_sealed(world: World) -> None:
    await world.owned()
    await world.in_doubt(idempotent_ms=MINUTE)
    shop = Sealing(lookup=[NotFound()], seal=[Sealed()])
    assert whole(await world.reconciler(shop).sweep()) == {"settled": 1}
    assert shop.made == ["lookup", "seal"]
    assert await world.state() is E.ABSENT


async def test_a_policy_that_only_looks_is_not_retried(world: World) -> None:
    await world.owned()
    await world.in_doubt(idempotent_ms=DAY, policy=LOOK)
    shop = Seeing(lookup=[NotFound()])
    assert whole(await world.reconciler(shop).sweep()) == {"open": 1}
    assert shop.made == ["lookup"]


@pytest.mark.parametrize("how", ["failed", "to be cancelled"])
async def test_a_task_that_wants_it_no_more_has_it_sealed_and_not_retried(world: World, how: str) -> None:
    await world.owned(on_failure="fail")
    await world.in_doubt(idempotent_ms=DAY)
    if how == "failed":
        await world.fails()
    else:
        await world.driver.do(cmd.RequestCancel, by="person:lead")
    world.later()
    shop = Sealing(lookup=[NotFound()], seal=[Sealed()])
    assert whole(await world.reconciler(shop).sweep()) == {"settled": 1}
    assert shop.made == ["lookup", "seal"]


async def test_a_retry_that_the_ledger_does_not_allow_any_more_is_not_made(world: World) -> None:
    """What was read at the beginning of a look is a guess; each commit judges anew."""
    await world.owned()
    await world.in_doubt(idempotent_ms=DAY)

    class Slow(Sealing):
        async def lookup(self, request: Any, *, key: str) -> Any:
            await world.driver.do(cmd.RequestCancel, by="person:lead")
            return await super().lookup(request, key=key)

    shop = Slow(lookup=[NotFound()], seal=[Sealed()])
    assert whole(await world.reconciler(shop).sweep()) == {"settled": 1}
    assert shop.made == ["lookup", "seal"]
    assert [each.code for each in await world.ledger.refusals()] == ["evidence_insufficient", "owner_needed"]


async def test_a_call_that_was_late_for_its_permission_is_not_made_and_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.owned()
    await world.in_doubt(idempotent_ms=DAY)
    time = iter(range(0, 10**9, 2 * MINUTE))
    monkeypatch.setattr("tenure.runtime.looking.uptime_ms", lambda: next(time))
    shop = Deaf(apply=[Confirmed()])
    assert whole(await world.reconciler(shop).sweep()) == {"open": 1}
    assert shop.made == []
    observed = (await events(world.ledger, "t", ev.EffectObserved))[-1]
    assert (observed.state, observed.evidence, observed.source) == (E.IN_DOUBT, K.NOT_SENT, "apply")


# --- undoing --------------------------------------------------------------------------------------------------------


async def test_an_undoing_in_doubt_is_looked_up_and_then_repeated_inside_its_window(world: World) -> None:
    await world.owned()
    await world.undoing(idempotent_ms=DAY)
    shop = Undoing(lookup_compensation=[NotFound()], compensate=[Confirmed(reference="U1")])
    assert whole(await world.reconciler(shop).sweep()) == {"settled": 1}
    assert shop.made == ["lookup_compensation", "compensate"]
    assert len({key for _, key in shop.calls}) == 1
    effect = await world.effect()
    assert (effect.state, effect.reference, effect.undo_reference) == (E.COMPENSATED, "R1", "U1")


async def test_an_undoing_in_doubt_is_not_repeated_without_a_window(world: World) -> None:
    await world.owned()
    await world.undoing()
    shop = Undoing(lookup_compensation=[NotFound()], compensate=[Confirmed()])
    assert whole(await world.reconciler(shop).sweep()) == {"open": 1}
    assert shop.made == ["lookup_compensation"]


async def test_an_undoing_that_failed_is_tried_again_under_another_key_until_its_budget_ends(world: World) -> None:
    await world.owned(checks=3)
    await world.undoing()
    shop = Undoing(lookup_compensation=[Failed("no funds")], compensate=[Declined("no funds")])
    fates: list[dict[str, int]] = []
    for _ in range(4):
        fates.append(whole(await world.reconciler(shop).sweep()))
        world.later()
    assert fates == [{"open": 1}, {"asked": 1}, {"with_person": 1}, {"with_person": 1}]
    assert shop.made == ["lookup_compensation", "compensate", "compensate"]
    assert len({key for _, key in shop.calls}) == 3
    effect = await world.effect()
    assert (effect.state, effect.undo, effect.asked) == (E.COMPENSATION_FAILED, 3, "person:operator")


async def test_what_turns_out_to_have_happened_after_its_task_failed_is_undone_where_the_policy_says_so(
    world: World,
) -> None:
    await world.owned(on_failure="fail")
    await world.in_doubt(policy=UNDO)
    await world.fails()
    shop = Undoing(lookup=[Confirmed(reference="R1")], compensate=[Confirmed(reference="U1")])
    swept = await world.reconciler(shop).sweep()
    assert whole(swept) == {"settled": 1}
    assert (swept.looks[0].was, swept.looks[0].state) == ("in_doubt", "compensated")
    assert shop.made == ["lookup", "compensate"]


async def test_without_a_way_back_a_person_is_asked_about_it(world: World) -> None:
    await world.owned(on_failure="fail")
    await world.in_doubt(policy=UNDO)
    await world.fails()
    shop = Seeing(lookup=[Confirmed(reference="R1")])
    assert whole(await world.reconciler(shop).sweep()) == {"asked": 1}
    effect = await world.effect()
    assert (effect.state, effect.asked) == (E.CONFIRMED, "person:operator")


async def test_what_happened_is_kept_where_the_policy_does_not_say_otherwise(world: World) -> None:
    await world.owned(on_failure="fail")
    await world.in_doubt()
    await world.fails()
    shop = Undoing(lookup=[Confirmed(reference="R1")], compensate=[Confirmed()])
    assert whole(await world.reconciler(shop).sweep()) == {"settled": 1}
    assert (shop.made, await world.state()) == (["lookup"], E.CONFIRMED)


# --- asking ---------------------------------------------------------------------------------------------------------


async def test_a_person_is_asked_once_the_budget_is_spent_and_others_go_on_looking_an_hour_apart(world: World) -> None:
    await world.owned(checks=3)
    await world.in_doubt()
    shop = Seeing(lookup=[NotFound()])
    fates = []
    for _ in range(10):
        fates.append(whole(await world.reconciler(shop).sweep()))
        world.later((await world.effect()).next_check - world.clock.now)
    assert fates[:4] == [{"open": 1}, {"open": 1}, {"asked": 1}, {"open": 1}]
    (asked,) = await events(world.ledger, "t", ev.EffectAsked)
    assert (asked.who, asked.reason, asked.by) == ("person:operator", Reason.RETRIES_EXHAUSTED, "r1")
    await world.reconciler(shop).sweep()
    assert (await world.effect()).next_check == world.clock.now + HOUR
    shop.answers["lookup"] = [Confirmed(reference="R1")]
    world.later(HOUR)
    assert whole(await world.reconciler(shop).sweep()) == {"settled": 1}


async def test_a_provider_without_any_way_leads_to_a_person_at_once_and_without_a_call(world: World) -> None:
    await world.owned()
    await world.in_doubt()
    reconciler = world.reconciler(shop := Deaf())
    assert whole(await reconciler.sweep()) == {"asked": 1}
    (asked,) = await events(world.ledger, "t", ev.EffectAsked)
    assert (asked.reason, shop.made, await events(world.ledger, "t", ev.EffectAttempted)) == (
        Reason.CAPABILITY,
        [],
        [],
    )
    world.later()
    assert whole(await reconciler.sweep()) == {"with_person": 1}
    assert whole(await reconciler.sweep()) == {}, "it is left alone for an hour, and does not fill every sweep"
    world.later(HOUR + MINUTE)
    assert whole(await reconciler.sweep()) == {"with_person": 1}


@pytest.mark.parametrize(
    ("state", "shop", "reason"),
    [
        ("accepted", Deaf(), Reason.CAPABILITY),
        ("undoing", Seeing(), Reason.CAPABILITY),
        ("in doubt", Deaf(), Reason.RETRIES_EXHAUSTED),
    ],
)
async def test_a_way_that_is_over_is_another_reason_to_ask_than_none_at_all(
    world: World, state: str, shop: Deaf, reason: Reason
) -> None:
    await world.owned()
    if state == "accepted":
        await world.accepted(idempotent_ms=DAY)
    elif state == "undoing":
        await world.undoing(idempotent_ms=DAY)
    else:
        await world.in_doubt(idempotent_ms=MINUTE)
    assert whole(await world.reconciler(shop).sweep()) == {"asked": 1}
    (asked,) = await events(world.ledger, "t", ev.EffectAsked)
    assert (asked.reason, shop.made) == (reason, [])


async def test_a_provider_that_is_not_here_is_no_reason_to_ask_before_others_had_the_time_of_a_whole_budget(
    world: World,
) -> None:
    await world.owned(checks=3)
    await world.in_doubt()
    reconciler = world.reconciler()
    assert whole(await reconciler.sweep()) == {"unknown_provider": 1}
    assert (await world.effect()).checks == 0
    world.later(7 * MINUTE - 10_000)
    assert whole(await reconciler.sweep()) == {"unknown_provider": 1}
    world.later(11_000 + MINUTE)
    assert whole(await reconciler.sweep()) == {"asked": 1}
    (asked,) = await events(world.ledger, "t", ev.EffectAsked)
    assert asked.reason is Reason.CAPABILITY
    world.later(DAY)
    assert whole(await reconciler.sweep()) == {"unknown_provider": 1}
    assert await events(world.ledger, "t", ev.EffectAttempted) == []


async def test_a_provider_whose_keys_count_elsewhere_is_not_asked(world: World) -> None:
    """There the key was never seen: that it is not found would say nothing."""
    await world.owned()
    await world.in_doubt(in_flight_ms=1, key_scope="account 1")
    await world.dies()
    world.later(2_000)
    shop = Seeing(lookup=[NotFound()])
    shop.key_scope = "account 2"
    assert whole(await world.reconciler(shop).sweep()) == {"unknown_provider": 1}
    assert (shop.made, await world.state()) == ([], E.IN_DOUBT)


async def test_contradicting_evidence_is_for_a_person_whatever_the_provider_can_do(world: World) -> None:
    await world.owned()
    await world.confirmed()
    await world.driver.outcome("e1", E.CONFIRMED, reference="R2", evidence=K.RESPONSE)
    assert await world.state() is E.DISPUTED
    world.later()
    shop = Undoing()
    assert whole(await world.reconciler(shop).sweep()) == {"asked": 1}
    assert shop.made == []


async def test_an_effect_whose_request_was_erased_is_for_a_person(world: World) -> None:
    await world.owned(on_failure="fail")
    await world.in_doubt()
    await world.fails()
    await world.ledger.erase("t", by="person:lead")
    shop = Seeing(lookup=[Confirmed()])
    assert whole(await world.reconciler(shop).sweep()) == {"asked": 1}
    assert (shop.made, await events(world.ledger, "t", ev.EffectAttempted)) == ([], [])


async def test_a_first_call_in_flight_is_its_tenures_own(world: World) -> None:
    await world.owned()
    await world.driver.intend("e1")
    world.later()
    shop = Seeing(lookup=[Confirmed()])
    assert whole(await world.reconciler(shop).sweep()) == {"owned": 1}
    assert shop.made == []


# --- beside others --------------------------------------------------------------------------------------------------


async def test_two_sweeps_that_race_make_one_call(world: World) -> None:
    await world.owned()
    for n in range(8):
        await world.in_doubt(f"e{n}")
    shop = Seeing(lookup=[Confirmed(reference="R1")])
    swept = await asyncio.gather(
        *(world.reconciler(shop, instance=name).sweep() for name in ("r1", "r2", "r3")),
    )
    assert len(shop.calls) == len(set(shop.calls)) == 8
    assert sum(each.settled for each in swept) == 8
    assert sum(each.busy for each in swept) == sum(each.due for each in swept) - 8


async def test_two_processes_worth_of_sweeps_on_one_file_make_one_call_for_each_effect(tmp_path: Path) -> None:
    clock = VirtualClock()
    path = str(tmp_path / "ledger.db")
    ledgers = [await asyncio.to_thread(SqliteLedger, path, clock=clock) for _ in range(3)]
    world = World(ledgers[0], clock)
    await world.owned()
    for n in range(8):
        await world.in_doubt(f"e{n}", idempotent_ms=DAY)
    shop = Seeing(lookup=[NotFound()], apply=[Confirmed(reference="R1")])
    sweeps = [World(each, clock).reconciler(shop, instance=f"r{n}").sweep() for n, each in enumerate(ledgers)]
    swept = await asyncio.gather(*sweeps)
    assert sum(each.settled for each in swept) == 8
    assert [shop.made.count("lookup"), shop.made.count("apply")] == [8, 8]
    for each in ledgers:
        assert (await each.verify()).problems == ()
        await each.close()


async def test_a_call_in_flight_keeps_other_reconcilers_away_until_the_next_check(world: World) -> None:
    await world.owned()
    await world.in_doubt()
    shop = Seeing(lookup=[Confirmed(reference="R1")])
    shop.may_go_on.clear()
    first = asyncio.create_task(world.reconciler(shop).sweep())
    await shop.began.wait()
    other = Seeing(lookup=[Confirmed(reference="R1")])
    effect = await world.effect()
    assert whole(await world.reconciler(other, instance="r2").sweep(effects=[effect])) == {"busy": 1}
    assert other.made == []
    shop.may_go_on.set()
    assert whole(await first) == {"settled": 1}


async def test_what_a_killed_reconciler_was_at_is_taken_up_after_the_next_check(world: World) -> None:
    await world.owned()
    await world.in_doubt()
    shop = Seeing(lookup=["hang"])
    killed = asyncio.create_task(world.reconciler(shop).sweep())
    await shop.began.wait()
    killed.cancel()
    await asyncio.gather(killed, return_exceptions=True)
    assert (await world.effect()).attempt.in_flight
    other = world.reconciler(Seeing(lookup=[Confirmed(reference="R1")]), instance="r2")
    assert whole(await other.sweep()) == {}
    world.later()
    assert whole(await other.sweep()) == {"settled": 1}


async def test_the_death_of_a_reconciler_that_had_called_again_has_to_be_seen_too(world: World) -> None:
    await world.owned()
    await world.in_doubt(idempotent_ms=2 * MINUTE, in_flight_ms=1_000)
    await world.reconciler(Deaf(apply=[TimeoutError()])).sweep()
    assert (await world.effect()).senders == ("w1", "r1")
    await world.dies("w1")
    world.later(HOUR)
    shop = Seeing(lookup=[NotFound()])
    await world.reconciler(shop, instance="r2").sweep()
    assert await world.state() is E.IN_DOUBT
    await world.dies("r1")
    world.later(HOUR)
    assert whole(await world.reconciler(shop, instance="r2").sweep()) == {"settled": 1}
    assert await world.state() is E.ABSENT


async def test_an_owner_that_comes_first_makes_the_reconciler_stand_back(world: World) -> None:
    await world.owned()
    before = await world.in_doubt(idempotent_ms=DAY)
    await world.driver.own(cmd.AttemptEffect, effect_id="e1", version=before.version, purpose=Purpose.APPLY)
    shop = Seeing(lookup=[Confirmed()])
    for seen in (before, await world.effect()):
        assert whole(await world.reconciler(shop).sweep(effects=[seen])) == {"busy": 1}
    assert shop.made == []


async def test_a_task_that_waits_for_the_gate_goes_on_when_its_effect_is_settled(world: World) -> None:
    await world.owned(gate_ms=HOUR)
    await world.in_doubt(policy=CRITICAL)
    await world.driver.complete()
    assert (await world.driver.task()).phase is Phase.ACTIVE
    await world.reconciler(Seeing(lookup=[Confirmed(reference="R1")])).sweep()
    assert (await world.driver.task()).phase is Phase.COMPLETED


# --- failing --------------------------------------------------------------------------------------------------------


async def test_a_provider_that_hangs_is_bounded_and_another_one_fails_alone(world: World) -> None:
    await world.owned()
    await world.in_doubt("e1")
    await world.in_doubt("e2", provider="bank")
    await world.in_doubt("e3", provider="post")
    bank, post = Seeing(lookup=[RuntimeError("500")]), Seeing(lookup=[Confirmed()])
    bank.name, post.name = "bank", "post"
    swept = await world.reconciler(Seeing(lookup=["hang"]), bank, post, timeout=0.05).sweep()
    assert whole(swept) == {"open": 2, "settled": 1}
    assert [await world.state(each) for each in ("e1", "e2", "e3")] == [E.IN_DOUBT, E.IN_DOUBT, E.CONFIRMED]


async def test_a_fault_in_one_look_is_counted_and_leaves_the_others_alone(world: World) -> None:
    await world.owned()
    await world.in_doubt("e1")
    await world.in_doubt("e2", provider="bank")
    bank = Seeing(lookup=[Confirmed()])
    bank.name = "bank"

    class Broken(Provider):
        name = "shop"

        @property
        def lookup(self) -> Any:
            raise ZeroDivisionError("in the middle")

    swept = await world.reconciler(Broken(), bank).sweep()
    assert whole(swept) == {"failed": 1, "settled": 1}
    assert [look.why for look in swept.looks if look.fate is Fate.FAILED] == ["ZeroDivisionError: in the middle"]


async def test_a_ledger_that_goes_away_ends_the_sweep_and_what_was_not_begun_is_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.runtime.outsider.SAY_SECONDS", 0)
    await world.owned()
    for n in range(3):
        await world.in_doubt(f"e{n}")
    line = Line(world.ledger)

    class Cutting(Seeing):
        async def lookup(self, request: Any, *, key: str) -> Any:
            answer = await super().lookup(request, key=key)
            line.cut()
            return answer

    monkeypatch.setattr("tenure.runtime.outsider.REPORT_SECONDS", 0)
    reconciler = World(line.ledger, world.clock).reconciler(Cutting(lookup=[Confirmed()]), at_once=1)
    swept = await reconciler.sweep()
    assert whole(swept) == {"failed": 1, "left": 2}
    assert "The line is cut" in swept.error
    assert (await reconciler.sweep()).error == swept.error.replace("execute", "now_blocking")


async def test_a_sweep_that_is_told_to_stop_ends_what_it_has_begun_and_begins_nothing_more(world: World) -> None:
    await world.owned()
    for n in range(3):
        await world.in_doubt(f"e{n}")
    shop = Seeing(lookup=[Confirmed()])
    reconciler = world.reconciler(shop, at_once=1)
    swept = await reconciler.sweep(seen=lambda _: reconciler.stop())
    assert whole(swept) == {"settled": 1, "left": 2}
    assert await reconciler.stopped(0)
    assert not [effect for effect in await world.ledger.effects("t") if effect.attempt.in_flight]


async def test_the_longest_due_come_first_and_the_limit_says_that_there_may_be_more(world: World) -> None:
    await world.owned()
    for n in range(3):
        await world.in_doubt(f"e{n}")
    reconciler = world.reconciler(Seeing(lookup=[Confirmed()]))
    swept = await reconciler.sweep(2)
    assert ([look.effect_id for look in swept.looks], swept.more) == (["e0", "e1"], True)
    swept = await reconciler.sweep(2)
    assert ([look.effect_id for look in swept.looks], swept.more) == (["e2"], False)


async def test_effects_for_which_nothing_can_be_done_here_do_not_keep_others_from_being_looked_at(world: World) -> None:
    await world.owned()
    for n in range(4):
        await world.in_doubt(f"e{n}", provider="elsewhere" if n < 3 else "shop")
    reconciler = world.reconciler(Seeing(lookup=[Confirmed()]))
    found = [whole(await reconciler.sweep(2)) for _ in range(3)]
    assert found == [{"unknown_provider": 2}, {"unknown_provider": 1, "settled": 1}, {}]


async def test_residual_work_is_looked_at_once_in_a_sweep_and_its_faults_stay_its_own(world: World) -> None:
    await world.owned()
    await world.in_doubt()

    async def watch() -> int:
        return 2

    async def broken() -> int:
        raise Unavailable("ledger_unavailable")

    assert (await world.reconciler(watch=watch).sweep()).ended == 2
    assert whole(await world.reconciler(watch=broken).sweep()) == {"unknown_provider": 1}


# --- in a worker ----------------------------------------------------------------------------------------------------


async def test_a_worker_reconciles_with_the_providers_of_its_team(world: World) -> None:
    await world.owned()
    await world.in_doubt()
    shop = Seeing(lookup=[Confirmed(reference="R1")])
    team = Team("t", ledger=world.ledger, providers=[shop])

    @team.agent
    async def other(own: Tenure[Any]) -> Complete[Any]:
        return Complete()

    async with team.worker(reconcile=False) as worker:
        assert worker.reconciler is None
    async with team.worker() as worker:

        async def settled() -> bool:
            return await world.state() is E.CONFIRMED

        await until(settled)
        assert (await world.effect()).attempt.instance == worker.instance
    assert shop.made == ["lookup"]


# --- saying what it would do ----------------------------------------------------------------------------------------


async def test_a_plan_names_the_calls_in_their_order_and_makes_none(world: World) -> None:
    await world.owned(checks=3)
    await world.in_doubt("e1", idempotent_ms=DAY)
    await world.in_doubt("e2", policy=LOOK)
    await world.in_doubt("e3", provider="bank")
    await world.in_doubt("e4", provider="elsewhere")
    bank, shop = Deaf(), Sealing()
    bank.name = "bank"
    revision = (await world.driver.task()).revision
    planned = {each.effect_id: each for each in await world.reconciler(bank, shop).plan()}
    assert {name: each.would for name, each in planned.items()} == {
        "e1": ("lookup", "apply"),
        "e2": ("lookup", "seal"),
        "e3": ("ask",),
        "e4": (),
    }
    assert planned["e3"].why == "its provider has no way to settle it"
    assert planned["e4"].why == "no provider of this name and scope of keys is known here"
    assert (shop.made, bank.made, (await world.driver.task()).revision) == ([], [], revision)
    assert await world.ledger.refusals() == []
