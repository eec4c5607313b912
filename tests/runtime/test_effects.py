"""Effects: the intent is committed first, a doubt is an answer, and nothing is done twice without proof."""

import asyncio
from typing import Any

import pytest

from tenure import (
    Cancelled,
    Complete,
    Confirmed,
    Done,
    Failed,
    InDoubt,
    Policy,
    Provider,
    Sealed,
    Settings,
    Team,
    Tenure,
    Transfer,
)
from tenure import Refused as NotDone
from tenure.errors import Fenced, Refused
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Gate, Purpose, Reason
from tests.runtime.harness import SHORT_LEASE, Desk, Jobs, Line, Vault, Window, events, in_phase, names, until

QUICK = Policy(name="quick", grace_ms=100)


class Remembering(Desk):
    """One that answers a repeated key from its record, for an hour."""

    idempotent_for = 3600


async def outcomes(ledger: Ledger, *asked: Any, settings: Settings | None = None) -> tuple[list[Any], str]:
    """Let one agent perform effects, one after the other; the outcomes and the task's id. Errors are outcomes too."""
    team = Team("t", ledger=ledger, settings=settings)
    found: list[Any] = []

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        for provider, request, options in asked:
            try:
                found.append(await own.effect(provider, request, **{"key": "order-1", "patience": 0.3, **options}))
            except Refused as error:
                found.append(error)
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(20)).outcome == "completed"
    return found, handle.task_id


async def states(ledger: Ledger, task_id: str) -> list[EffectState]:
    return [effect.state for effect in await ledger.effects(task_id)]


# --- the three answers ----------------------------------------------------------------------------------------------


async def test_done_has_the_providers_value_and_reference(ledger: Ledger) -> None:
    desk = Desk()
    (done,), task_id = await outcomes(ledger, (desk, {"cents": 5}, {}))
    assert isinstance(done, Done)
    assert (done.value, done.reference, done.repeated) == ({"request": {"cents": 5}}, "ref-1", False)
    assert await states(ledger, task_id) == [EffectState.CONFIRMED]


async def test_the_intent_is_committed_before_the_call_and_the_outcome_after_it(ledger: Ledger) -> None:
    seen: list[list[str]] = []

    class Watching(Provider):
        name = "watching"
        task_id = ""

        async def apply(self, request: Any, *, key: str) -> Any:
            seen.append(await names(ledger, self.task_id))
            return Confirmed()

    watching = Watching()
    team = Team("t", ledger=ledger)

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        watching.task_id = own.task_id
        await own.effect(watching, 1, key="k")
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(10)
    assert seen[0][-1] == "EffectIntended"
    found = await names(ledger, handle.task_id)
    assert found[found.index("EffectIntended") + 1] == "EffectObserved"


async def test_what_the_provider_declines_is_refused_and_settled(ledger: Ledger) -> None:
    (refused, again), _ = await outcomes(ledger, *[(Desk("refuse"), 1, {})] * 2)
    assert isinstance(refused, NotDone)
    assert (refused.state, refused.reason, refused.next_action) == (EffectState.REFUSED, "above the limit", "stop")
    assert isinstance(again, NotDone)
    assert again.repeated


@pytest.mark.parametrize("word", ["lost", "down"])
async def test_a_time_out_or_an_error_without_a_way_out_is_in_doubt(ledger: Ledger, word: str) -> None:
    desk = Desk(word)
    (doubt, again), task_id = await outcomes(ledger, *[(desk, 1, {})] * 2)
    assert isinstance(doubt, InDoubt)
    assert (doubt.state, doubt.answerable, doubt.next_action) == (EffectState.IN_DOUBT, "clerk", "reconcile")
    assert doubt.next_check > 0
    assert isinstance(again, InDoubt)
    assert len(desk.calls) == 1, "nothing proves that a second call could not act twice"
    assert await states(ledger, task_id) == [EffectState.IN_DOUBT]
    assert (await ledger.row(task_id)).task.answerable == "person:operator"  # type: ignore[union-attr]  # it is there


async def test_a_lost_answer_is_found_by_a_look_up_without_a_second_call(ledger: Ledger) -> None:
    window = Window("lost")
    (done,), task_id = await outcomes(ledger, (window, 1, {}))
    assert isinstance(done, Done)
    assert (done.reference, len(window.calls), window.looks) == ("ref-1", 1, 1)
    observed = await events(ledger, task_id, ev.EffectObserved)
    assert [(each.state, each.evidence) for each in observed] == [
        (EffectState.IN_DOUBT, EvidenceKind.NONE),
        (EffectState.CONFIRMED, EvidenceKind.LOOKUP),
    ]


async def test_the_timeout_of_a_call_leaves_it_in_doubt(ledger: Ledger) -> None:
    window = Window("acted")
    (done,), task_id = await outcomes(ledger, (window, 1, {"timeout": 0.1}))
    assert isinstance(done, Done)
    assert len(window.calls) == 1
    first = (await events(ledger, task_id, ev.EffectObserved))[0]
    body = await ledger.body(task_id, first.body)
    assert body is not None
    assert (first.state, body.value()) == (EffectState.IN_DOUBT, {"error": "TimeoutError: "})


async def test_not_found_is_not_absent(ledger: Ledger) -> None:
    window = Window("hang")
    (doubt,), task_id = await outcomes(ledger, (window, 1, {"timeout": 0.05}))
    assert isinstance(doubt, InDoubt)
    assert window.looks > 1
    assert len(window.calls) == 1, "the request may still be on its way"
    assert any(each.not_found for each in await events(ledger, task_id, ev.EffectObserved))


async def test_an_idempotent_provider_is_called_again_with_the_same_key(ledger: Ledger) -> None:
    desk = Remembering("lost", "ok")
    (done,), _ = await outcomes(ledger, (desk, 1, {}))
    assert isinstance(done, Done)
    assert (len(desk.calls), len(set(desk.calls)), len(desk.acts)) == (2, 1, 1)


async def test_a_request_that_was_provably_not_sent_is_sent_again(ledger: Ledger) -> None:
    desk = Desk("unsent", "ok")
    (done,), task_id = await outcomes(ledger, (desk, 1, {}))
    assert isinstance(done, Done)
    assert (len(desk.calls), len(desk.acts)) == (2, 1)
    observed = await events(ledger, task_id, ev.EffectObserved)
    assert [each.state for each in observed] == [EffectState.IN_DOUBT, EffectState.ABSENT, EffectState.CONFIRMED]


async def test_a_request_that_never_leaves_is_settled_as_absent(ledger: Ledger) -> None:
    (absent,), task_id = await outcomes(ledger, (Desk("unsent"), 1, {}))
    assert isinstance(absent, NotDone)
    assert absent.state == EffectState.ABSENT
    assert await states(ledger, task_id) == [EffectState.ABSENT]


async def test_a_sealed_key_proves_absence_and_the_next_call_has_another_key(ledger: Ledger) -> None:
    vault = Vault("down", "ok")
    (done,), task_id = await outcomes(ledger, (vault, 1, {}))
    assert isinstance(done, Done)
    assert len(set(vault.calls)) == 2, "a sealed key is never used again"
    assert vault.sealed == {vault.calls[0]}
    assert len(vault.acts) == 1
    attempts = [each.purpose for each in await events(ledger, task_id, ev.EffectAttempted)]
    assert attempts == [Purpose.LOOKUP, Purpose.SEAL, Purpose.APPLY]


async def test_a_seal_whose_answer_was_lost_is_found_by_the_next_look(ledger: Ledger) -> None:
    class Forgetful(Vault):
        async def lookup(self, request: Any, *, key: str) -> Any:
            return Sealed() if key in self.sealed else await super().lookup(request, key=key)

        async def seal(self, request: Any, *, key: str) -> Any:
            await super().seal(request, key=key)
            raise TimeoutError("the answer was lost")

    vault = Forgetful("down", "ok")
    (done,), _ = await outcomes(ledger, (vault, 1, {}))
    assert isinstance(done, Done)
    assert (len(set(vault.calls)), len(vault.acts)) == (2, 1)


async def test_what_had_landed_before_the_seal_is_done(ledger: Ledger) -> None:
    class Blind(Vault):
        lookup = None  # type: ignore[assignment]  # it cannot be asked, only sealed

    vault = Blind("lost")
    (done,), _ = await outcomes(ledger, (vault, 1, {}))
    assert isinstance(done, Done)
    assert (len(vault.calls), vault.sealed) == (1, set())


@pytest.mark.parametrize("answer", ["yes", None, Failed("no"), Cancelled(), Sealed(), 7])
async def test_an_answer_that_a_call_cannot_give_is_no_evidence(ledger: Ledger, answer: Any) -> None:
    class Odd(Provider):
        name = "odd"

        async def apply(self, request: Any, *, key: str) -> Any:
            return answer

    (doubt,), task_id = await outcomes(ledger, (Odd(), 1, {}))
    assert isinstance(doubt, InDoubt)
    assert await states(ledger, task_id) == [EffectState.IN_DOUBT]


# --- keys -----------------------------------------------------------------------------------------------------------


async def test_a_repeat_is_answered_from_the_record(ledger: Ledger) -> None:
    desk = Desk()
    (first, again), _ = await outcomes(ledger, *[(desk, {"cents": 5}, {})] * 2)
    assert (first.effect_id, first.value, again.repeated) == (again.effect_id, again.value, True)
    assert len(desk.calls) == 1


async def test_the_same_key_with_another_request_is_a_conflict(ledger: Ledger) -> None:
    desk = Desk()
    (_, conflict), _ = await outcomes(ledger, (desk, {"cents": 5}, {}), (desk, {"cents": 6}, {}))
    assert isinstance(conflict, Refused)
    assert (conflict.code, conflict.next_action) == ("intent_conflict", "ask")
    assert len(desk.calls) == 1


async def test_only_the_compared_fields_make_a_conflict(ledger: Ledger) -> None:
    desk = Desk()
    compare = {"compare": ("cents",)}
    (_, same, other), _ = await outcomes(
        ledger,
        (desk, {"cents": 5, "text": "please"}, compare),
        (desk, {"cents": 5, "text": "kindly"}, compare),
        (desk, {"cents": 6, "text": "please"}, compare),
    )
    assert isinstance(same, Done)
    assert same.repeated
    assert isinstance(other, Refused)
    assert other.code == "intent_conflict"


async def test_a_second_one_on_purpose_is_another_effect(ledger: Ledger) -> None:
    desk = Desk()
    (first, second), _ = await outcomes(ledger, (desk, 1, {}), (desk, 1, {"another": "the second parcel"}))
    assert first.effect_id != second.effect_id
    assert len(desk.acts) == 2


async def test_the_same_key_at_another_provider_or_tool_is_another_effect(ledger: Ledger) -> None:
    class Other(Desk):
        name = "other desk"

    one, other = Desk(), Other()
    found, _ = await outcomes(ledger, (one, 1, {}), (other, 1, {}), (one, 1, {"tool": "special"}))
    assert len({each.effect_id for each in found}) == 3


async def test_an_external_effect_names_its_key_and_a_local_one_may_leave_it_to_its_request(ledger: Ledger) -> None:
    desk = Desk()
    (misuse, first, again), _ = await outcomes(
        ledger, (desk, 1, {"key": None}), *[(desk, {"a": 1, "b": 2}, {"key": None, "policy": "local"})] * 2
    )
    assert isinstance(misuse, Refused)
    assert misuse.code == "misuse"
    assert isinstance(first, Done)
    assert again.repeated


@pytest.mark.parametrize(
    ("provider", "options", "words"),
    [
        (type("Nameless", (Desk,), {"name": ""})(), {}, "has no name"),
        (Desk(), {"compare": ("cents",)}, "not in the request"),
        (Desk(), {"policy": "imagined"}, "not a policy"),
    ],
)
async def test_misuse_is_refused_before_anything_is_written(
    ledger: Ledger, provider: Any, options: Any, words: str
) -> None:
    (misuse,), task_id = await outcomes(ledger, (provider, {"a": 1}, options))
    assert isinstance(misuse, Refused)
    assert words in str(misuse)
    assert await ledger.effects(task_id) == []


async def test_two_at_the_same_time_with_one_key_are_one_call(ledger: Ledger) -> None:
    desk = Desk()
    team = Team("t", ledger=ledger)
    found: list[Any] = []

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        found.extend(await asyncio.gather(*(own.effect(desk, {"cents": 5}, key="k") for _ in range(5))))
        conflict = await asyncio.gather(
            own.effect(desk, {"cents": 1}, key="l"), own.effect(desk, {"cents": 2}, key="l"), return_exceptions=True
        )
        assert isinstance(conflict[1], Refused)
        assert conflict[1].code == "intent_conflict"
        return Complete()

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).outcome == "completed"
    assert len({each.effect_id for each in found}) == 1
    assert len(desk.calls) == 2


async def test_an_intent_that_is_open_elsewhere_in_the_tree_is_in_doubt_and_not_called(ledger: Ledger) -> None:
    desk = Desk("lost")
    team = Team("t", ledger=ledger)

    @team.agent(entry=True)
    async def parent(own: Tenure[Any]) -> Complete[Any]:
        first = await own.effect(desk, 1, key="k", patience=0.1)
        assert isinstance(first, InDoubt)
        return Complete((await own.delegate("child")).value)

    @team.agent
    async def child(own: Tenure[Any]) -> Complete[Any]:
        second = await own.effect(desk, 1, key="k", patience=0.1)
        return Complete([type(second).__name__, getattr(second, "answerable", "")])

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == ["InDoubt", "parent"]
    assert len(desk.calls) == 1


# --- across a change of owner ---------------------------------------------------------------------------------------


async def test_the_next_owner_is_told_and_a_repeat_of_its_own_is_answered_from_the_record(ledger: Ledger) -> None:
    desk = Desk()
    team = Team("t", ledger=ledger)
    told: list[Any] = []

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        await own.effect(desk, 1, key="k")
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        told.extend(own.payload.done)
        done = await own.effect(desk, 1, key="k")
        assert isinstance(done, Done)
        return Complete([done.repeated, done.reference])

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == [True, "ref-1"]
    assert [(fact.what, fact.outcome, fact.reference, fact.by) for fact in told] == [("desk", "done", "ref-1", "a")]
    assert len(desk.calls) == 1


async def test_an_effect_that_nobody_can_look_up_is_not_called_again_by_a_later_owner(ledger: Ledger) -> None:
    desk = Desk("lost")
    team = Team("t", ledger=ledger)
    told: list[Any] = []

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        assert isinstance(await own.effect(desk, 1, key="k", patience=0.1), InDoubt)
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        told.extend(own.in_flight.effects)
        doubt = await own.effect(desk, 1, key="k", patience=0.1)
        assert isinstance(doubt, InDoubt)
        return Complete(doubt.answerable)

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == "b", "who answers moves with the task"
    assert [(fact.what, fact.outcome) for fact in told] == [("desk", "unknown")]
    assert len(desk.calls) == 1


async def test_what_is_settled_while_its_sender_retires_reaches_the_next_owner(ledger: Ledger) -> None:
    gate = asyncio.Event()

    class Slow(Desk):
        async def apply(self, request: Any, *, key: str) -> Any:
            await gate.wait()
            return await super().apply(request, key=key)

    desk = Slow()
    team = Team("t", ledger=ledger)
    told: list[Any] = []

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        _ = own.spawn(own.effect(desk, 1, key="k"), policy=QUICK)

        async def intended() -> bool:
            return bool(await ledger.effects(own.task_id))

        await until(intended)
        asyncio.get_running_loop().call_later(0.1, gate.set)
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        told.extend(own.in_flight.ended)
        return Complete()

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).outcome == "completed"
    assert ("desk", "done", "ref-1") in [(fact.what, fact.outcome, fact.reference) for fact in told]


async def test_a_call_that_does_not_answer_in_its_grace_is_cancelled_and_in_doubt(ledger: Ledger) -> None:
    desk = Desk("acted")
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        _ = own.spawn(own.effect(desk, 1, key="k", policy=QUICK), policy=QUICK)

        async def called() -> bool:
            return bool(desk.calls)

        await until(called)
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete([fact.outcome for fact in own.in_flight.effects])

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == ["unknown"]
    observed = (await events(ledger, handle.task_id, ev.EffectObserved))[0]
    body = await ledger.body(handle.task_id, observed.body)
    assert body is not None
    assert (observed.state, body.value()) == (EffectState.IN_DOUBT, {"error": "the call was cancelled"})


async def test_a_call_that_swallows_its_cancellation_is_no_hostage_and_not_called_stopped(ledger: Ledger) -> None:
    go = asyncio.Event()

    class Deaf(Desk):
        async def apply(self, request: Any, *, key: str) -> Any:
            while not go.is_set():
                try:
                    await asyncio.wait_for(go.wait(), 5)
                except asyncio.CancelledError:
                    continue
            return await super().apply(request, key=key)

    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        _ = own.spawn(own.effect(Deaf(), 1, key="k", policy=QUICK), policy=QUICK)

        async def intended() -> bool:
            return bool(await ledger.effects(own.task_id))

        await until(intended)
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete()

    loop = asyncio.get_running_loop()
    began = loop.time()
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).outcome == "completed"
        assert loop.time() - began < 6
        declared = (await events(ledger, handle.task_id, ev.ResidualDeclared))[0]
        assert declared.unseen == 1
        go.set()

        async def settled() -> bool:
            return await states(ledger, handle.task_id) == [EffectState.CONFIRMED]

        await until(settled)
    assert (await names(ledger, handle.task_id))[-2:] == ["LateRecorded", "EffectObserved"], "late evidence counts"


async def test_the_outcome_of_a_lost_tenure_is_kept_and_settles_the_effect(ledger: Ledger) -> None:
    line = Line(ledger)
    go = asyncio.Event()

    class Slow(Desk):
        async def apply(self, request: Any, *, key: str) -> Any:
            try:
                await go.wait()
            except asyncio.CancelledError:
                await go.wait()
            return await super().apply(request, key=key)

    desk = Slow()
    met: list[Any] = []

    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        if own.in_flight.effects:
            return Complete("left it alone")
        try:
            await own.effect(desk, 1, key="k")
        except (Fenced, asyncio.CancelledError) as error:
            met.append(error)
            raise
        return Complete("never")

    one, two = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    one.agent(clerk)
    two.agent(clerk)
    async with one.worker(name="w1", drain=0.1):
        handle = await two.submit(goal="g")

        async def intended() -> bool:
            return bool(await ledger.effects(handle.task_id))

        await until(intended)
        line.cut()
        async with two.worker(name="w2"):
            assert (await handle.result(10)).value == "left it alone"
        assert await states(ledger, handle.task_id) == [EffectState.IN_DOUBT]
        line.mend()
        go.set()

        async def settled() -> bool:
            return await states(ledger, handle.task_id) == [EffectState.CONFIRMED]

        await until(settled)
    assert len(met) == 1
    late = await events(ledger, handle.task_id, ev.LateRecorded)
    assert "outcome:confirmed" in [each.command for each in late]


async def test_a_caller_that_is_cancelled_loses_the_answer_and_not_the_record(ledger: Ledger) -> None:
    gate = asyncio.Event()

    class Slow(Desk):
        async def apply(self, request: Any, *, key: str) -> Any:
            await gate.wait()
            return await super().apply(request, key=key)

    desk = Slow()
    team = Team("t", ledger=ledger)

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        work = own.spawn(own.effect(desk, 1, key="k"), policy=QUICK)

        async def intended() -> bool:
            return bool(await ledger.effects(own.task_id))

        await until(intended)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        gate.set()
        again = await own.effect(desk, 1, key="k")
        assert isinstance(again, Done)
        return Complete(again.reference)

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == "ref-1"
    assert len(desk.calls) == 1


async def test_an_unsettled_critical_effect_keeps_the_next_owner_out(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(gate_ms=200, lease_ms=1_000))
    strict = Policy(name="strict", grace_ms=100, gate=Gate.SETTLED)

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        if own.epoch > 2:
            return Transfer("b")
        await own.effect(Desk("lost"), 1, key="k", policy=strict, patience=0.1)
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete("never")

    async with team.worker():
        handle = await team.submit(goal="g", settings=Settings(gate_ms=100, lease_ms=1_000, transfers=2))
        task = await in_phase(handle, "escalated")
    assert "b" not in [each.agent for each in await events(ledger, handle.task_id, ev.TenureGranted)]
    assert task.effects


# --- tools ----------------------------------------------------------------------------------------------------------


async def test_a_tool_outside_the_agents_own_is_refused_and_not_called(ledger: Ledger) -> None:
    desk = Desk()
    team = Team("t", ledger=ledger)

    @team.agent(tools=["mail"])
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        with pytest.raises(Refused) as caught:
            await own.effect(desk, 1, key="k")
        assert (caught.value.code, caught.value.facts["tool"]) == ("tool_not_allowed", "desk")
        done = await own.effect(desk, 1, key="k", tool="mail")
        return Complete(type(done).__name__)

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == "Done"
    assert len(desk.calls) == 1


async def test_whoever_keeps_asking_for_a_tool_that_it_lacks_is_given_back(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    asked = 0

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        return Complete(own.payload.summary) if own.payload.trigger == "return" else Transfer("b")

    @team.agent(tools=[])
    async def b(own: Tenure[Any]) -> Complete[Any]:
        nonlocal asked
        while True:  # a model that does not understand the refusal
            asked += 1
            try:
                await own.effect(Desk(), 1, key="k")
            except Refused:
                await asyncio.sleep(0)

    async with team.worker():
        handle = await team.submit(goal="g")
        result = await handle.result(10)
    assert result.value.startswith("capability: ")
    assert 3 <= asked < 10
    ended = (await events(ledger, handle.task_id, ev.HandoffEnded))[0]
    assert ended.reason == Reason.CAPABILITY


# --- remote jobs ----------------------------------------------------------------------------------------------------


async def test_a_job_is_polled_until_it_ends_or_patience_does(ledger: Ledger) -> None:
    jobs = Jobs()
    team = Team("t", ledger=ledger)

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        first = await own.effect(jobs, 1, key="k", patience=0.2)
        assert isinstance(first, InDoubt)
        assert (first.state, first.reference) == (EffectState.ACCEPTED, "job-1")
        jobs.state["job-1"] = "done"
        second = await own.effect(jobs, 1, key="k")
        assert isinstance(second, Done)
        return Complete(second.value)

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == "finished"
    assert len(jobs.started) == 1


@pytest.mark.parametrize(("ends", "answer"), [("ends", NotDone), ("dropped", InDoubt), ("runs on", InDoubt)])
async def test_only_an_observed_end_of_a_job_is_called_cancelled(ledger: Ledger, ends: str, answer: type[Any]) -> None:
    jobs = Jobs(ends)
    team = Team("t", ledger=ledger)
    found: list[Any] = []

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        await own.effect(jobs, 1, key="k", patience=0)
        found.append(await own.cancel_effect(jobs, 1, key="k"))
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(10)
    assert isinstance(found[0], answer)
    assert jobs.asked == ["job-1"]
    expected = EffectState.CANCELLED if ends == "ends" else EffectState.ACCEPTED
    assert await states(ledger, handle.task_id) == [expected]
    assert Purpose.CANCEL in [each.purpose for each in await events(ledger, handle.task_id, ev.EffectAttempted)]


async def test_what_is_not_open_cannot_be_cancelled(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        with pytest.raises(Refused) as caught:
            await own.cancel_effect(Jobs(), 1, key="k")
        return Complete(caught.value.code)

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "unknown_effect"
        assert (await owned_by_nobody(handle)) is None


async def owned_by_nobody(handle: Any) -> Any:
    return (await handle.state()).tenure
