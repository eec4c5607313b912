"""Effects that wait for a person: held, asked for with request and chain, then made once, or not at all."""

import asyncio
from typing import Any

import pytest

from tenure import Complete, Done, Held, Team, Tenure, Transfer, Wait
from tenure.errors import Refused
from tenure.graph import AgentNode, Deadlines, Edge, EdgeKind, Fallback, Graph, Tool
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import EffectState, Phase
from tenure.runtime.handle import TaskHandle
from tenure.runtime.outcomes import Refused as NotDone
from tests.runtime.harness import Desk, Line, events, in_phase, until

ME = "person:lead"
REQUEST = {"order": "A17", "cents": 4200}


def graph(**deadlines: int) -> Graph:
    return Graph(
        team="t",
        entry="a",
        agents={"a": AgentNode(), "b": AgentNode()},
        edges=(Edge(source="a", target="b", kind=EdgeKind.TRANSFER, because="b answers"), Edge(source="a", target="b")),
        tools={"desk": Tool(approval=True)},
        fallback=Fallback(person=ME),
        deadlines=Deadlines(**deadlines),
    )


async def refund(own: Tenure[Any], desk: Desk, request: Any = None) -> Wait | Complete[Any]:
    """What a handler does with a tool that needs an approval."""
    outcome = await own.effect(desk, request or REQUEST, key="A17")
    match outcome:
        case Held():
            assert (outcome.tool, outcome.effect_id, outcome.next_action) == ("desk", "", "ask")
            return outcome.wait
        case Done():
            return Complete(["done", outcome.value, outcome.repeated])
        case _:
            return Complete([type(outcome).__name__, str(outcome.state), outcome.reason])


def refunding(ledger: Ledger, desk: Desk, began: list[int] | None = None, **deadlines: int) -> Team:
    team = Team("t", ledger=ledger, graph=graph(**deadlines))

    @team.agent
    async def a(own: Tenure[Any]) -> Wait | Complete[Any]:
        if began is not None:
            began.append(own.epoch)
        return await refund(own, desk)

    return team


async def asked_of(handle: TaskHandle) -> Task:
    task = await in_phase(handle, Phase.WAITING)
    assert task.question is not None
    return task


async def answer(handle: TaskHandle, choice: str, by: str = ME) -> None:
    task = await asked_of(handle)
    assert task.question is not None
    await handle.answer(task.question.question_id, by=by, choice=choice)


@pytest.mark.parametrize("choice", ["approve", "refuse"])
async def test_an_effect_is_held_asked_for_and_then_made_once_or_not_at_all(ledger: Ledger, choice: str) -> None:
    desk, began = Desk(), list[int]()
    team = refunding(ledger, desk, began)
    async with team.worker():
        handle = await team.submit(goal="g")
        task = await asked_of(handle)
        assert task.question is not None
        assert (desk.calls, await ledger.effects(handle.task_id)) == ([], []), "nothing is done, nothing is intended"
        assert task.question.allowed == ("approve", "refuse")
        body = await ledger.body(task.root_id, task.question.body)
        assert body is not None
        assert body.value() == {
            "question": "May a use desk?",
            "evidence": {"tool": "desk", "request": REQUEST, "chain": ["a"]},
        }
        await answer(handle, choice)
        value = (await handle.result(10)).value
    (decided,) = await events(ledger, handle.task_id, ev.ApprovalDecided)
    assert (decided.approval.by, decided.approval.granted) == (ME, choice == "approve")
    intended = await events(ledger, handle.task_id, ev.EffectIntended)
    if choice == "approve":
        assert value == ["done", {"request": REQUEST}, False]
        assert [one.approval for one in intended] == [task.question.question_id], "the intent names its question"
    else:
        assert value == ["Refused", str(EffectState.REFUSED), f"{ME} has refused desk."]
        assert intended == []
    assert len(desk.acts) == (1 if choice == "approve" else 0)
    assert len(began) == 2, "it has waited without running"


@pytest.mark.parametrize(("word", "by"), [("yes", ME), ("", ME), ("approve", "person:somebody"), ("approve", "a")])
async def test_only_a_clear_word_of_who_was_asked_is_taken(ledger: Ledger, word: str, by: str) -> None:
    desk = Desk()
    team = refunding(ledger, desk)
    async with team.worker():
        handle = await team.submit(goal="g")
        before = await asked_of(handle)
        with pytest.raises(Refused) as caught:
            await answer(handle, word, by)
        assert (caught.value.code, await handle.state()) == ("not_allowed", before)
        await answer(handle, "refuse")
        await handle.result(10)
    assert desk.calls == []


async def test_other_arguments_than_the_approved_ones_are_asked_for_again(ledger: Ledger) -> None:
    """The key is the same business intent; the approval is of every argument of the request."""
    desk = Desk()
    team = Team("t", ledger=ledger, graph=graph())
    amounts = [100, 999, 999]

    @team.agent
    async def a(own: Tenure[Any]) -> Wait | Complete[Any]:
        return await refund(own, desk, {"order": "A17", "cents": amounts.pop(0)})

    async with team.worker():
        handle = await team.submit(goal="g")
        first = await asked_of(handle)
        await answer(handle, "approve")

        async def asked_anew() -> bool:
            task = await handle.state()
            return task.phase == Phase.WAITING and task.question != first.question

        await until(asked_anew)
        assert desk.calls == []
        await answer(handle, "approve")
        assert (await handle.result(10)).value[0] == "done"
    assert len(desk.acts) == 1
    approvals = [one.approval for one in await events(ledger, handle.task_id, ev.ApprovalDecided)]
    assert approvals[0].intent == approvals[1].intent
    assert approvals[0].arguments != approvals[1].arguments


async def test_an_approval_lapses(ledger: Ledger) -> None:
    """Approved, and used too late: it is asked for again."""
    desk = Desk()
    team = Team("t", ledger=ledger, graph=graph(approval_ms=150))
    late = [0.4, 0.0]

    @team.agent
    async def a(own: Tenure[Any]) -> Wait | Complete[Any]:
        if (await own.receive(timeout=0)) is not None:
            await asyncio.sleep(late.pop(0))
        return await refund(own, desk)

    async with team.worker():
        handle = await team.submit(goal="g")
        first = await asked_of(handle)
        await answer(handle, "approve")

        async def asked_anew() -> bool:
            task = await handle.state()
            return task.phase == Phase.WAITING and task.question != first.question

        await until(asked_anew)
        assert desk.calls == []
        await answer(handle, "approve")
        assert (await handle.result(10)).value[0] == "done"
    assert len(desk.acts) == 1


async def test_a_question_that_nobody_answers_approves_nothing(ledger: Ledger) -> None:
    """Its time ends the wait, not the need for an approval: the handler is held again and decides what to do."""
    desk = Desk()
    team = Team("t", ledger=ledger, graph=graph(question_ms=100))
    held: list[Held] = []

    @team.agent
    async def a(own: Tenure[Any]) -> Wait | Complete[Any]:
        outcome = await own.effect(desk, REQUEST, key="A17")
        assert isinstance(outcome, Held)
        held.append(outcome)
        return outcome.wait if len(held) == 1 else Complete("nobody was there")

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "nobody was there"
    assert [one.within for one in held] == [0.1, 0.1]
    assert desk.calls == []


async def test_an_approval_outlives_the_workers(ledger: Ledger) -> None:
    """Asked under one worker, approved while none runs, made by another: once."""
    desk = Desk()
    one, two = refunding(ledger, desk), refunding(ledger, desk)
    async with one.worker(name="w1"):
        handle = await one.submit(goal="g")
        await asked_of(handle)
    await answer(handle, "approve")
    async with two.worker(name="w2"):
        assert (await handle.result(10)).value[0] == "done"
    assert len(desk.acts) == 1


async def test_an_approved_effect_is_not_made_twice_when_its_maker_is_lost(ledger: Ledger) -> None:
    desk, line = Desk(), Line(ledger)
    made = asyncio.Event()

    def team_on(way: Ledger) -> Team:
        team = Team("t", ledger=way, graph=graph(lease_ms=600))

        @team.agent
        async def a(own: Tenure[Any]) -> Wait | Complete[Any]:
            decided = await refund(own, desk)
            if isinstance(decided, Complete) and not made.is_set():
                made.set()
                await asyncio.Event().wait()
            return decided

        return team

    one, two = team_on(line.ledger), team_on(ledger)
    async with one.worker(name="w1", drain=0):
        handle = await two.submit(goal="g")
        await answer(handle, "approve")
        await asyncio.wait_for(made.wait(), 5)
        line.cut()
        async with two.worker(name="w2"):
            assert (await handle.result(10)).value == ["done", {"request": REQUEST}, True]
        line.mend()
    assert len(desk.acts) == 1


async def test_a_delegated_child_asks_for_itself_and_names_its_caller(ledger: Ledger) -> None:
    """An approval of the child's call is none of its caller's, and the other way round."""
    desk = Desk()
    team = Team("t", ledger=ledger, graph=graph())

    @team.agent
    async def a(own: Tenure[Any]) -> Wait | Complete[Any]:
        child = await own.open("b", key="refund")
        task = await ledger.task(child)
        if task is not None and not task.phase.ended:
            return Wait("child", within=60, child=child)
        ended = await own.join(child)
        mine = await own.effect(desk, {"order": "B18"}, key="B18")
        return mine.wait if isinstance(mine, Held) else Complete([ended.value[0], type(mine).__name__])

    @team.agent
    async def b(own: Tenure[Any]) -> Wait | Complete[Any]:
        return await refund(own, desk)

    async with team.worker():
        handle = await team.submit(goal="g")

        async def opened() -> tuple[str, ...]:
            return tuple(child.child_id for child in (await handle.state()).children)

        (child_id,) = await until(opened)
        child = team.task(child_id)
        asked = await asked_of(child)
        assert asked.question is not None
        body = await ledger.body(asked.root_id, asked.question.body)
        assert body is not None
        assert body.value()["question"] == "May b use desk?"
        assert body.value()["evidence"]["chain"] == ["a", "b"]
        await answer(child, "approve")

        async def asked_itself() -> bool:
            return (await handle.state()).question is not None

        await until(asked_itself)
        assert (await handle.state()).approvals == ()
        assert len(desk.acts) == 1
        await answer(handle, "refuse")
        assert (await handle.result(10)).value == ["done", NotDone.__name__]
    assert len(desk.acts) == 1


async def test_an_approval_that_comes_with_another_owner_binds_that_one(ledger: Ledger) -> None:
    """A person approves and reassigns in one answer; a second answer finds no question."""
    desk = Desk()
    team = Team("t", ledger=ledger, graph=graph())

    @team.agent
    async def a(own: Tenure[Any]) -> Wait:
        held = await own.effect(desk, REQUEST, key="A17")
        assert isinstance(held, Held)
        if (await own.receive(timeout=0)) is None:
            return held.wait
        raise AssertionError("nobody has answered")

    @team.agent
    async def b(own: Tenure[Any]) -> Wait | Complete[Any]:
        return await refund(own, desk)

    async with team.worker():
        handle = await team.submit(goal="g")
        first = await asked_of(handle)
        assert first.question is not None
        await handle.answer(first.question.question_id, by=ME, action="reassign", agent="b", choice="approve")
        with pytest.raises(Refused) as caught:
            await handle.answer(first.question.question_id, by=ME, choice="refuse")
        assert caught.value.code in {"already_answered", "task_ended"}
        assert (await handle.result(10)).value[0] == "done", "a person's word binds whoever owns the task by then"
    assert len(desk.acts) == 1


async def test_an_open_question_ends_with_the_transfer_of_its_task(ledger: Ledger) -> None:
    """A asks, its wait ends without an answer, and it hands over; only B's own question can be answered then."""
    desk = Desk()
    team = Team("t", ledger=ledger, graph=graph())
    rounds: list[int] = []

    @team.agent
    async def a(own: Tenure[Any]) -> Wait | Transfer[Any]:
        rounds.append(own.epoch)
        held = await own.effect(desk, REQUEST, key="A17")
        assert isinstance(held, Held)
        return Transfer("b") if len(rounds) > 1 else Wait("answer", within=0.05, question=held.question)

    @team.agent
    async def b(own: Tenure[Any]) -> Wait | Complete[Any]:
        return await refund(own, desk)

    async with team.worker():
        handle = await team.submit(goal="g")
        first = await asked_of(handle)

        async def with_b() -> bool:
            task = await handle.state()
            return task.owner == "b" and task.question is not None

        await until(with_b)
        assert first.question is not None
        with pytest.raises(Refused) as caught:
            await handle.answer(first.question.question_id, by=ME, choice="approve")
        assert caught.value.code == "unknown_question"
        assert desk.calls == []
        second = await asked_of(handle)
        assert second.question is not None
        body = await ledger.body(second.root_id, second.question.body)
        assert body is not None
        assert body.value()["evidence"]["chain"] == ["b"]
        await answer(handle, "approve")
        assert (await handle.result(10)).value[0] == "done"
    assert len(desk.acts) == 1
