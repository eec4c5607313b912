"""Delegation: a child task whose result comes to the caller; found again after a crash; within the tree's budgets."""

import asyncio
from typing import Any

import pytest

from tenure import Complete, GiveBack, Limits, Settings, Team, Tenure
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import Reason
from tests.runtime.harness import SHORT_LEASE, Line, events, until


async def test_the_caller_keeps_its_task_and_gets_the_result(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True)
    async def parent(own: Tenure[Any]) -> Complete[Any]:
        result = await own.delegate("child", 20, goal="half of it", summary="please", constraints=("no fractions",))
        return Complete([result.outcome, result.value])

    @team.agent
    async def child(own: Tenure[Any]) -> Complete[Any]:
        assert (own.goal, own.payload.summary) == ("half of it", "please")
        assert own.payload.constraints == ("be kind", "no fractions")
        return Complete(own.input // 2)

    async with team.worker():
        handle = await team.submit(goal="g", constraints=("be kind",))
        assert (await handle.result(10)).value == ["completed", 10]
    task = await handle.state()
    assert (task.owner, task.transfers, task.children) == ("parent", 0, ())
    tree = await ledger.tree(handle.task_id)
    assert tree is not None
    assert (tree.tasks, tree.delegations, tree.unfinished) == (2, 1, 0)


async def test_a_failure_of_the_child_is_a_result_not_an_exception(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(on_failure="fail"))

    @team.agent(entry=True)
    async def parent(own: Tenure[Any]) -> Complete[Any]:
        result = await own.delegate("child")
        return Complete([result.outcome, result.reason, result.value])

    @team.agent
    async def child(own: Tenure[Any]) -> GiveBack:
        return GiveBack(Reason.CAPABILITY, "cannot read that")

    async with team.worker():
        value = (await (await team.submit(goal="g")).result(10)).value
    assert value == ["failed", "capability", {"error": "cannot read that"}]


async def test_several_children_run_at_once(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    meeting = asyncio.Barrier(3)

    @team.agent(entry=True)
    async def parent(own: Tenure[Any]) -> Complete[Any]:
        results = await asyncio.gather(*(own.delegate("child", n, key=str(n)) for n in range(3)))
        return Complete([result.value for result in results])

    @team.agent
    async def child(own: Tenure[Any]) -> Complete[Any]:
        async with asyncio.timeout(5):
            await meeting.wait()
        return Complete(own.input * 2)

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == [0, 2, 4]


async def test_after_a_crash_the_same_key_finds_the_same_child_also_with_the_budget_used_up(ledger: Ledger) -> None:
    line = Line(ledger)
    runs: list[int] = []
    go = asyncio.Event()

    async def parent(own: Tenure[Any]) -> Complete[Any]:
        return Complete((await own.delegate("child", 1, key="the one")).value)

    async def child(own: Tenure[Any]) -> Complete[Any]:
        runs.append(own.epoch)
        await go.wait()
        return Complete("once")

    one, two = (
        Team("t", ledger=way, settings=SHORT_LEASE, limits=Limits(delegations=1)) for way in (line.ledger, ledger)
    )
    for team in (one, two):
        team.agent(entry=True)(parent)
        team.agent(child)
    async with one.worker(name="w1", agents=["parent"], drain=0.1), two.worker(name="w3", agents=["child"]):
        handle = await two.submit(goal="g")

        async def running() -> bool:
            return bool(runs)

        await until(running)
        line.cut()
        async with two.worker(name="w2", agents=["parent"]):

            async def taken_over() -> bool:
                return len(await events(ledger, handle.task_id, ev.TenureGranted)) == 2

            await until(taken_over)
            go.set()
            assert (await handle.result(10)).value == "once"
        line.mend()
    assert len(runs) == 1
    assert len(await events(ledger, handle.task_id, ev.DelegationOpened)) == 1


async def test_without_a_key_the_place_in_the_handler_names_the_child(ledger: Ledger) -> None:
    line = Line(ledger)
    runs: list[Any] = []
    second = asyncio.Event()

    async def parent(own: Tenure[Any]) -> Complete[Any]:
        first = await own.delegate("child", 1)
        if own.epoch == 2:
            second.set()
            await asyncio.Event().wait()
        return Complete([first.value, (await own.delegate("child", 2)).value])

    async def child(own: Tenure[Any]) -> Complete[Any]:
        runs.append(own.input)
        return Complete(own.input)

    one, two = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    for team in (one, two):
        team.agent(entry=True)(parent)
        team.agent(child)
    async with one.worker(name="w1", drain=0.1):
        handle = await two.submit(goal="g")
        await asyncio.wait_for(second.wait(), 5)
        line.cut()
        async with two.worker(name="w2"):
            assert (await handle.result(10)).value == [1, 2]
        line.mend()
    assert runs == [1, 2]


@pytest.mark.parametrize(
    ("limits", "settings"),
    [(Limits(depth=1), Settings()), (Limits(delegations=1), Settings())],
)
async def test_a_used_up_budget_is_a_typed_refusal_to_the_caller(
    ledger: Ledger, limits: Limits, settings: Settings
) -> None:
    team = Team("t", ledger=ledger, limits=limits, settings=settings)

    @team.agent(entry=True)
    async def parent(own: Tenure[Any]) -> Complete[Any]:
        return Complete((await own.delegate("child")).value)

    @team.agent
    async def child(own: Tenure[Any]) -> Complete[Any]:
        with pytest.raises(Refused) as caught:
            await own.delegate("child")
        return Complete([caught.value.code, caught.value.facts["limit"], str(caught.value.next_action)])

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == ["delegation_limit_exceeded", 1, "ask"]
    tree = await ledger.tree(handle.task_id)
    assert tree is not None
    assert tree.delegations == 1


async def test_a_child_has_no_more_authority_than_its_caller(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, tools=["read"])
    async def parent(own: Tenure[Any]) -> Complete[Any]:
        return Complete((await own.delegate("child")).value)

    @team.agent(tools=["read", "pay"])
    async def child(own: Tenure[Any]) -> Complete[Any]:
        task = await ledger.task(own.task_id)
        assert task is not None
        assert task.tenure is not None
        return Complete(list(task.tenure.authority))

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == ["read"]


async def test_a_result_that_nobody_collected_is_handed_on(ledger: Ledger) -> None:
    from tenure import Transfer

    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"next_one": "goes on"})
    async def parent(own: Tenure[Any]) -> Transfer[Any]:
        child_id = await own.open("child")
        await team.task(child_id).result(5)
        return Transfer("next_one")

    @team.agent
    async def next_one(own: Tenure[Any]) -> Complete[Any]:
        (found,) = own.in_flight.delegations
        return Complete([found.agent, found.outcome, (await own.join(found.child_id)).value])

    @team.agent
    async def child(own: Tenure[Any]) -> Complete[Any]:
        return Complete("here")

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == ["child", "completed", "here"]
    assert (await handle.state()).children == ()


async def test_a_child_that_fails_fails_to_its_caller_and_not_to_a_person(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(on_failure="escalate"))

    @team.agent(entry=True)
    async def caller(own: Tenure[Any]) -> Complete[Any]:
        child = await own.delegate("child", {}, key="k")
        return Complete([child.outcome, child.reason])

    @team.agent
    async def child(own: Tenure[Any]) -> Complete[Any]:
        raise ValueError("no such topic")

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(15)).value == ["failed", "raised"]


async def test_a_key_of_another_agents_delegation_is_a_conflict(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True)
    async def caller(own: Tenure[Any]) -> Complete[Any]:
        await own.delegate("one", {}, key="k")
        try:
            await own.delegate("two", {}, key="k")
        except Refused as error:
            return Complete(error.code)
        return Complete("none")

    @team.agent
    async def one(own: Tenure[Any]) -> Complete[Any]:
        return Complete(1)

    @team.agent
    async def two(own: Tenure[Any]) -> Complete[Any]:
        return Complete(2)

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(15)).value == "intent_conflict"
