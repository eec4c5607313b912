"""What runs beside a decided transfer: its facts go along, nothing of it is lost, and nothing changes the decision."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from tenure import Answered, Call, Complete, Done, Settings, Team, Tenure, Transfer, Wait
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.settings import Policy
from tenure.protocol.vocabulary import Phase, Reason, WorkEnd
from tests.runtime.harness import BRIEF, SHORT_LEASE, Desk, Line, Vault, events, in_phase, names, owned_by, until

EDGES = {"b": "b answers from here on", "c": "c does too"}


class Tool:
    """A tool that counts: how often it began and ended, and how often it was asked to end before its gate opened."""

    def __init__(self, *, raises: str = "", gate: asyncio.Event | None = None, stubborn: bool = False) -> None:
        self.raises, self.gate, self.stubborn = raises, gate, stubborn
        self.began = self.ended = self.asked = 0

    async def __call__(self) -> str:
        self.began += 1
        while self.gate is not None and not self.gate.is_set():
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.asked += 1
                if not self.stubborn:
                    raise
        self.ended += 1
        if self.raises:
            raise ValueError(self.raises)
        return "answer"


def handing_over(ledger: Ledger, asked: list[Any], **settings: Any) -> Team:
    """A takes one turn and returns what it gave; B and C tell what they were told."""
    team = Team("t", ledger=ledger, settings=Settings(**settings))

    @team.agent(entry=True, may_transfer=EDGES)
    async def a(own: Tenure[Any]) -> Any:
        return await own.turn(asked)

    async def receiver(own: Tenure[Any]) -> Complete[Any]:
        done = [[fact.what, fact.outcome, fact.data] for fact in own.payload.done]
        return Complete([own.agent, own.input, done, [[fact.what, fact.outcome] for fact in own.in_flight.works]])

    for name in EDGES:
        team.agent(name=name)(receiver)
    return team


async def result_of(team: Team) -> tuple[Any, str]:
    async with team.worker():
        handle = await team.submit(goal="g")
        return (await handle.result(10)).value, handle.task_id


async def test_facts_of_the_calls_arrive_with_how_each_came_out(ledger: Ledger) -> None:
    good, bad = Tool(), Tool(raises="no such page")

    async def slow() -> str:
        await asyncio.sleep(0.05)
        return await good()

    value, task_id = await result_of(handing_over(ledger, [Call("bad", bad), Transfer("b"), Call("slow", slow)]))
    told = [["bad", "failed", {"error": "ValueError: no such page"}], ["slow", "done", "answer"]]
    assert value == ["b", None, told, []]
    assert (good.began, bad.began) == (1, 1), "each ran once"
    kinds = await names(ledger, task_id)
    assert kinds.index("TurnDecided") < kinds.index("WorkStarted") < kinds.index("HandoffInitiated")
    assert (kinds.count("WorkStarted"), kinds.count("HandoffInitiated")) == (2, 1)


async def test_a_call_that_ends_in_its_grace_is_seen_to_end_and_one_that_does_not_is_residual(ledger: Ledger) -> None:
    """RT-03: B reads what runs on as unknown, and its end later as news."""
    gate = asyncio.Event()
    obedient, stubborn = Tool(gate=gate), Tool(gate=gate, stubborn=True)
    team = Team("t", ledger=ledger, settings=Settings(calls_ms=50))

    @team.agent(entry=True, may_transfer={"b": "b answers"})
    async def a(own: Tenure[Any]) -> Any:
        calls = [Call("obedient", obedient, policy=BRIEF), Call("stubborn", stubborn, policy=BRIEF)]
        return await own.turn([*calls, Transfer("b")])

    @team.agent
    async def b(own: Tenure[Any]) -> Wait | Complete[Any]:
        works = [[fact.what, fact.outcome, fact.by] for fact in own.in_flight.works]
        ended = sorted([fact.what, fact.outcome, fact.data] for fact in own.in_flight.ended)
        if own.state is None:
            await own.save([works, ended])
            gate.set()
            return Wait("time", within=0.3)
        return Complete([own.state, works, ended])

    async with team.worker():
        handle = await team.submit(goal="g")
        (works, ended), works_then, ended_then = (await handle.result(10)).value
    assert works == [["stubborn", "unknown", "a"]]
    ((what, outcome, data),) = ended
    assert (what, outcome, "CancelledError" in data["error"]) == ("obedient", "failed", True)
    assert works_then == [], "it has left the books"
    assert [one[:2] for one in ended_then] == [["obedient", "failed"], ["stubborn", "done"]]
    assert ended_then[1][2] == "answer"
    assert obedient.asked == 1
    assert stubborn.asked >= 1
    assert (obedient.began, stubborn.began) == (1, 1)
    (declared,) = [one for one in await events(ledger, handle.task_id, ev.ResidualDeclared) if one.works]
    stopped = {one.work_id: one for one in await events(ledger, handle.task_id, ev.WorkStopped)}
    (left,) = declared.works
    assert (stopped[left].how, stopped[left].late) == (WorkEnd.RETURNED, True)


@pytest.mark.parametrize("note", ["", "late", "raises", "late, raises"])
@pytest.mark.parametrize("response", ["whole", "streamed"])
async def test_the_next_message_reaches_the_receiver_only(ledger: Ledger, note: str, response: str) -> None:
    """RT-01: whatever ends first and however the response comes, the sender does not answer again."""
    answered: list[Any] = []

    async def streamed(parts: list[Any]) -> AsyncIterator[Any]:
        for part in parts:
            await asyncio.sleep(0)
            yield part

    async def save_note() -> str:
        if "late" in note:
            await asyncio.sleep(0.05)
        if "raises" in note:
            raise OSError("no room")
        return "noted"

    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "b answers"})
    async def a(own: Tenure[Any]) -> Any:
        answered.append("a")
        parts: list[Any] = [Call("note", save_note), Transfer[Any]("b")]
        return await own.turn(streamed(parts) if response == "streamed" else parts)

    @team.agent
    async def b(own: Tenure[Any]) -> Wait | Complete[Any]:
        message = await own.receive(timeout=0)
        if message is None:
            return Wait("input", within=60)
        answered.append(("b", message.value))
        return Complete([fact.outcome for fact in own.payload.done])

    async with team.worker():
        handle = await team.submit(goal="g", conversation="chat")
        await in_phase(handle, "waiting")
        await team.send("chat", "and now?")
        assert (await handle.result(10)).value == ["failed" if "raises" in note else "done"]
    assert answered == ["a", ("b", "and now?")]


async def test_an_effect_made_inside_a_call_is_recorded_and_settled_before_the_handoff(ledger: Ledger) -> None:
    desk = Desk()
    outcomes: list[Any] = []
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "b answers"})
    async def a(own: Tenure[Any]) -> Any:
        async def book() -> str:
            outcomes.append(await own.effect(desk, {"table": 4}, key="booking"))
            return "booked"

        return await own.turn([Transfer("b"), Call("book", book)])

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        repeated = await own.effect(desk, {"table": 4}, key="booking")
        facts = sorted([fact.what, fact.outcome, fact.origin] for fact in own.payload.done)
        return Complete([facts, isinstance(repeated, Done) and repeated.repeated])

    async with team.worker():
        handle = await team.submit(goal="g")
        facts, repeated = (await handle.result(10)).value
    assert facts == [["book", "done", "work"], ["desk", "done", "effect"]]
    assert repeated is True
    assert (len(desk.acts), [type(one) for one in outcomes]) == (1, [Done])
    kinds = await names(ledger, handle.task_id)
    order = [kinds.index(name) for name in ("TurnDecided", "EffectIntended", "EffectObserved", "HandoffInitiated")]
    assert order == sorted(order)


async def test_an_effect_of_a_call_that_outlasts_its_time_goes_along_in_doubt(ledger: Ledger) -> None:
    vault, mine = Vault("acted"), Policy(name="mine", grace_ms=50)
    team = Team("t", ledger=ledger, settings=Settings(calls_ms=50))

    @team.agent(entry=True, may_transfer={"b": "b answers"})
    async def a(own: Tenure[Any]) -> Any:
        async def pay() -> None:
            await own.effect(vault, {"cents": 5}, key="k", policy=mine)

        return await own.turn([Transfer("b"), Call("pay", pay, policy=BRIEF)])

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        known = [[fact.what, fact.outcome] for fact in own.in_flight.effects]
        return Complete([known, type(await own.effect(vault, {"cents": 5}, key="k", policy=mine)).__name__])

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == [[["desk", "unknown"]], "Done"]
    assert len(vault.acts) == 1, "it was looked up, and not done again"


ANOTHER_END: dict[str, BaseException] = {
    "raises": RuntimeError("changed my mind"),
    "cancels itself": asyncio.CancelledError(),
    "exits": SystemExit(3),
}


@pytest.mark.parametrize("after", [*ANOTHER_END, "transfers to another", "returns nonsense"])
async def test_after_the_decision_the_handler_changes_nothing_any_more(ledger: Ledger, after: str) -> None:
    note = Tool()
    team = Team("t", ledger=ledger, settings=Settings(lease_ms=60_000))

    @team.agent(entry=True, may_transfer=EDGES)
    async def a(own: Tenure[Any]) -> Any:
        await own.turn([Transfer("b", "kept"), Call("note", note)])
        match after:
            case "raises":
                raise RuntimeError("changed my mind")
            case "cancels itself":
                raise asyncio.CancelledError
            case "exits":
                raise SystemExit(3)
            case "transfers to another":
                return Transfer("c", "another")
            case _:
                return 42

    async def receiver(own: Tenure[Any]) -> Complete[Any]:
        return Complete([own.agent, own.input, [fact.outcome for fact in own.payload.done]])

    for name in EDGES:
        team.agent(name=name)(receiver)
    value, task_id = await result_of(team)
    assert value == ["b", "kept", ["done"]]
    assert note.began == 1
    assert len(await events(ledger, task_id, ev.HandoffInitiated)) == 1
    ended = (await events(ledger, task_id, ev.TenureEnded))[0]
    assert not ended.forced, "it was handed over, and not taken away"


FOUND: dict[str, Any] = {
    "a long text": "x" * 70_000,
    "a transcript": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
    "no JSON": object(),
}


@pytest.mark.parametrize("brings", FOUND)
async def test_what_a_call_brings_never_stands_in_the_way_of_the_transfer(ledger: Ledger, brings: str) -> None:
    """The call has run: its fact goes along, and when its content cannot, the fact says so."""
    calls: list[int] = []

    async def search() -> Any:
        calls.append(1)
        return FOUND[brings]

    (agent, _, done, works), task_id = await result_of(
        handing_over(ledger, [Call("search", search), Transfer("b")], lease_ms=60_000)
    )
    assert (agent, works, calls) == ("b", [], [1])
    ((what, outcome, data),) = done
    assert (what, outcome) == ("search", "done")
    if brings == "a transcript":
        assert data == FOUND[brings], "a fact's data is data"
    else:
        assert data["error"], "it says why the content is not here"
    assert not (await events(ledger, task_id, ev.TenureEnded))[0].forced


async def test_a_call_that_cannot_be_booked_does_not_hide_the_others(ledger: Ledger) -> None:
    """The books take so many open works and no more, which is found out after the decision."""
    gate = asyncio.Event()
    tools = Tool(gate=gate), Tool(gate=gate)
    team = handing_over(ledger, [Call("tool", tools[0]), Call("tool", tools[1]), Transfer("b")], open_items=1)
    async with team.worker():
        handle = await team.submit(goal="g")
        await owned_by(handle, "a")

        async def one_refused() -> bool:
            return bool(await ledger.refusals(task_id=handle.task_id))

        await until(one_refused)
        gate.set()
        agent, _, done, works = (await handle.result(10)).value
    assert (agent, works, sum(tool.began for tool in tools)) == ("b", [], 1)
    assert sorted(outcome for _, outcome, _ in done) == ["done", "refused"]
    (code,) = [data["code"] for _, outcome, data in done if outcome == "refused"]
    assert code == "backlog_full"


async def test_a_cancellation_while_calls_run_beside_a_decided_transfer_wins(ledger: Ledger) -> None:
    note = Tool(gate=asyncio.Event())
    team = handing_over(ledger, [Transfer("b"), Call("note", note)])
    async with team.worker():
        handle = await team.submit(goal="g")

        async def pending() -> bool:
            task = await handle.state()
            return bool(note.began and task.tenure and task.tenure.pending)

        await until(pending)
        await handle.cancel(by="person:lead")
        task = await in_phase(handle, Phase.CANCELLED)
    assert (task.hop_count, task.transfers, note.asked) == (0, 0, 1)
    assert await events(ledger, handle.task_id, ev.HandoffInitiated) == []


@pytest.mark.parametrize("policy", ["helper", "local", "external", "critical"])
async def test_what_a_call_of_any_class_brings_goes_along(ledger: Ledger, policy: str) -> None:
    """Also of a helper, which has no row on the books."""
    note = Tool()
    (agent, _, done, works), task_id = await result_of(
        handing_over(ledger, [Call("note", note, policy=policy), Transfer("b")])
    )
    assert (agent, done, works, note.began) == ("b", [["note", "done", "answer"]], [], 1)
    assert len(await events(ledger, task_id, ev.WorkStarted)) == (policy != "helper")


async def test_calls_that_ran_before_are_facts_of_their_own_turn_and_go_along_only_if_stated(ledger: Ledger) -> None:
    """What an earlier turn brought was answered to the handler; the payload carries what the handler states of it."""
    first, second = Tool(), Tool()
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "b answers"})
    async def a(own: Tenure[Any]) -> Any:
        answered = await own.turn([Call("first", first)])
        assert isinstance(answered, Answered)
        stated = tuple(replace(fact, id=f"a:{fact.id}") for fact in answered.facts)
        return await own.turn([Call("second", second), Transfer("b", done=stated)])

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete(sorted([fact.what, fact.origin] for fact in own.payload.done))

    value, _ = await result_of(team)
    assert value == [["first", "claimed"], ["second", "work"]], "what is handed on is a claim of the sender"
    assert (first.began, second.began) == (1, 1)


async def test_a_sender_that_is_lost_while_its_calls_run_has_handed_over(ledger: Ledger) -> None:
    """Its lease ends, not its process: the ledger hands over what was frozen, and the late end of the call is kept."""
    line, note = Line(ledger), Tool(gate=asyncio.Event(), stubborn=True)
    began: list[str] = []

    def team_on(way: Ledger) -> Team:
        team = Team("t", ledger=way, settings=SHORT_LEASE)

        @team.agent(entry=True, may_transfer={"b": "b answers"})
        async def a(own: Tenure[Any]) -> Any:
            began.append("a")
            return await own.turn([Call("note", note, policy=BRIEF), Transfer("b", "frozen")])

        @team.agent
        async def b(own: Tenure[Any]) -> Complete[Any]:
            began.append("b")
            message = await own.receive(timeout=10)
            return Complete([own.input, [[fact.what, fact.outcome] for fact in own.in_flight.works], message is None])

        return team

    one, two = team_on(line.ledger), team_on(ledger)
    async with one.worker(name="w1", drain=0):
        handle = await two.submit(goal="g")

        async def noting() -> bool:
            return bool(note.began)

        await until(noting)
        line.cut()
        async with two.worker(name="w2"):
            await owned_by(handle, "b")
            line.mend()
            assert note.gate is not None
            note.gate.set()

            async def told() -> bool:
                return not (await handle.state()).works

            await until(told)
            await handle.send("and now?")
            data, works, alone = (await handle.result(10)).value
    assert (data, alone, began, note.began) == ("frozen", False, ["a", "b"], 1)
    assert sorted(works) == [["a", "unknown"], ["note", "unknown"]], "the handler and its call, not seen to end by then"
    (moved,) = await events(ledger, handle.task_id, ev.HandoffInitiated)
    (decided,) = await events(ledger, handle.task_id, ev.TurnDecided)
    assert moved.handoff_id == decided.pending.handoff_id
    assert (await events(ledger, handle.task_id, ev.TenureEnded))[0].reason == Reason.LEASE_LOST
    late = {one.work_id: one.how for one in await events(ledger, handle.task_id, ev.WorkStopped) if one.late}
    assert set(late.values()) <= {WorkEnd.RETURNED, WorkEnd.CANCELLED}
    assert len(late) == 2
