"""Budgets of delegations: per turn, per task and per tree; inherited by nested runs, and the same after a restart."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tenure import Answered, Complete, Delegate, Limits, Settings, Team, Tenure, Transfer
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import Reason
from tests.runtime.harness import SHORT_LEASE, Line, events, until


async def opens(own: Tenure[Any], *keys: object) -> list[str]:
    """Open one delegation for each key, one after the other; what became of each."""
    found = []
    for key in keys:
        try:
            await own.open("d", key, key=str(key))
            found.append("opened")
        except Refused as error:
            found.append(f"{error.code}: {error.detail}")
    return found


def no_more(what: str, limit: int) -> str:
    return f"delegation_limit_exceeded: The limit of {what} is {limit}."


def team_of(ledger: Ledger, a: Any, limits: Limits | None = None, **settings: Any) -> Team:
    team = Team("t", ledger=ledger, settings=Settings(**settings), limits=limits)
    team.agent(name="a", entry=True, may_transfer={"b": "b goes on"})(a)

    @team.agent
    async def d(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.input)

    return team


# --- one turn, one task -----------------------------------------------------------------------------------------------


async def test_the_budget_of_a_turn_holds_until_the_next_commit(ledger: Ledger) -> None:
    async def a(own: Tenure[Any]) -> Complete[Any]:
        first = await opens(own, 1, 2, 3, 2)
        await own.save()
        return Complete([first, await opens(own, 3, 4, 5)])

    team = team_of(ledger, a, turn_delegations=2)
    team.agent(name="b")(a)
    full = no_more("delegations of the turn", 2)
    async with team.worker():
        handle = await team.submit(goal="g")
        first, second = (await handle.result(10)).value
    assert first == ["opened", "opened", full, "opened"], "an opened one is found again, whatever is left"
    assert second == ["opened", "opened", full]
    assert len(await events(ledger, handle.task_id, ev.DelegationOpened)) == 4


async def test_a_decided_turn_has_a_budget_of_its_own(ledger: Ledger) -> None:
    async def a(own: Tenure[Any]) -> Complete[Any]:
        before = await opens(own, 1, 2)
        answered = await own.turn([Delegate("d", 3, key="3"), Delegate("d", 4, key="4")])
        assert isinstance(answered, Answered)
        return Complete([before, [fact.outcome for fact in answered.facts], await opens(own, 5)])

    team = team_of(ledger, a, turn_delegations=2)
    team.agent(name="b")(a)
    async with team.worker():
        value = (await (await team.submit(goal="g")).result(10)).value
    assert value == [["opened"] * 2, ["done"] * 2, [no_more("delegations of the turn", 2)]]


@pytest.mark.parametrize("limit", [0, 1])
async def test_none_at_all_is_a_budget_too(ledger: Ledger, limit: int) -> None:
    async def a(own: Tenure[Any]) -> Complete[Any]:
        return Complete(await opens(own, 1, 2))

    team = team_of(ledger, a, delegations=limit)
    team.agent(name="b")(a)
    async with team.worker():
        handle = await team.submit(goal="g")
        value = (await handle.result(10)).value
    assert value == ["opened"] * limit + [no_more("delegations of the task", limit)] * (2 - limit)
    assert (await handle.state()).delegated == limit


async def test_the_budget_of_a_task_goes_along_with_a_transfer(ledger: Ledger) -> None:
    """Transfers and delegations are counted apart, and neither count begins anew with another owner."""

    async def a(own: Tenure[Any]) -> Transfer[Any]:
        return Transfer("b", await opens(own, 1, 2))

    team = team_of(ledger, a, delegations=3, transfers=1)

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete([own.input, await opens(own, 3, 4)])

    async with team.worker():
        handle = await team.submit(goal="g")
        value = (await handle.result(10)).value
    assert value == [["opened", "opened"], ["opened", no_more("delegations of the task", 3)]]
    task = await handle.state()
    assert (task.delegated, task.transfers) == (3, 1)


@pytest.mark.parametrize("limits", [Limits(delegations=4), Limits(agents=5)])
async def test_of_many_at_once_as_many_are_opened_as_are_left(ledger: Ledger, limits: Limits) -> None:
    go = asyncio.Event()
    codes: Counter[str] = Counter()

    async def a(own: Tenure[Any]) -> Complete[Any]:
        async def one(n: int) -> str:
            (found,) = await opens(own, n)
            return found.split(":")[0]

        codes.update(await asyncio.gather(*(one(n) for n in range(12))))
        go.set()
        return Complete()

    team = Team("t", ledger=ledger, limits=limits, settings=Settings(turn_delegations=99))
    team.agent(entry=True)(a)

    @team.agent
    async def d(own: Tenure[Any]) -> Complete[Any]:
        await go.wait()
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(10)
    assert codes == {"opened": 4, "delegation_limit_exceeded": 8}
    tree = await ledger.tree(handle.task_id)
    assert tree is not None
    assert (tree.delegations, tree.tasks) == (4, 5)


async def test_agents_at_work_are_counted_while_they_are(ledger: Ledger) -> None:
    """Root and one child; when that one has ended there is room for the next."""

    async def a(own: Tenure[Any]) -> Complete[Any]:
        found = await opens(own, 1)
        async with asyncio.timeout(5):
            while (await opens(own, 2)) != ["opened"]:
                found.append("full")
                await own.join(await own.open("d", 1, key="1"))
        return Complete(found)

    team = team_of(ledger, a, Limits(agents=2))
    team.agent(name="b")(a)
    async with team.worker():
        value = (await (await team.submit(goal="g")).result(10)).value
    assert value[0] == "opened"
    assert set(value[1:]) <= {"full"}


# --- nested runs ------------------------------------------------------------------------------------------------------


async def test_a_tree_without_an_end_of_its_own_ends_at_its_budget(ledger: Ledger) -> None:
    """BL-03: every run asks for three more; the tree has what its root allows, and each refusal is typed."""
    refused: Counter[str] = Counter()
    team = Team("t", ledger=ledger, limits=Limits(delegations=7, depth=3))

    @team.agent(entry=True)
    async def d(own: Tenure[Any]) -> Complete[Any]:
        children = 0
        for n in range(3):
            try:
                children += (await own.delegate("e", key=str(n))).value
            except Refused as error:
                refused[error.detail] += 1
        return Complete(children + 1)

    @team.agent
    async def e(own: Tenure[Any]) -> Complete[Any]:
        children = 0
        for n in range(3):
            try:
                children += (await own.delegate("d", key=str(n))).value
            except Refused as error:
                refused[error.detail] += 1
        return Complete(children + 1)

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(20)).value == 8, "the root and seven more, each once"
    tree = await ledger.tree(handle.task_id)
    assert tree is not None
    assert (tree.delegations, tree.unfinished) == (7, 0)
    assert set(refused) == {"The limit of the depth of the tree is 3.", "The limit of delegations in the tree is 7."}


async def test_a_child_has_the_budgets_of_its_caller_and_no_way_round_them(ledger: Ledger) -> None:
    """The child's own turn and task are held to the same numbers, and a turn beyond them ends it with that reason."""

    async def a(own: Tenure[Any]) -> Complete[Any]:
        child = await own.delegate("b", key="child")
        return Complete([child.outcome, child.reason, child.value["path"], child.value["asked"]])

    team = team_of(ledger, a, delegations=2, turn_delegations=1, nudges=0)

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        assert await opens(own, 1, 2) == ["opened", no_more("delegations of the turn", 1)]
        await own.save()
        assert await opens(own, 2, 3) == ["opened", no_more("delegations of the task", 2)]
        await own.turn([Delegate("d", 3)])
        raise AssertionError("it has ended the task")

    async with team.worker():
        handle = await team.submit(goal="g")
        value = (await handle.result(10)).value
    assert value == ["failed", Reason.DELEGATION_LIMIT_EXCEEDED, ["b"], [["d"]]]


# --- after a restart --------------------------------------------------------------------------------------------------


async def test_a_restart_gives_no_run_more_than_it_had(ledger: Ledger) -> None:
    """BL-03: lost after two of three; what is opened already is found, one more is left, then none."""
    line, opened, found = Line(ledger), asyncio.Event(), list[list[str]]()

    async def a(own: Tenure[Any]) -> Complete[Any]:
        if not opened.is_set():
            await opens(own, 1, 2)
            opened.set()
            await asyncio.Event().wait()
        found.append(await opens(own, 1, 2, 3, 4))
        return Complete()

    one, two = (team_of(way, a, delegations=3, lease_ms=SHORT_LEASE.lease_ms) for way in (line.ledger, ledger))
    for team in (one, two):
        team.agent(name="b")(a)
    async with one.worker(name="w1", drain=0):
        handle = await two.submit(goal="g")
        await asyncio.wait_for(opened.wait(), 5)
        line.cut()
        async with two.worker(name="w2"):
            await handle.result(10)
        line.mend()
    assert found == [["opened", "opened", "opened", no_more("delegations of the task", 3)]]
    assert (await handle.state()).delegated == 3
    assert len(await events(ledger, handle.task_id, ev.DelegationOpened)) == 3


async def test_a_turn_that_is_taken_again_after_a_restart_opens_nothing_twice(ledger: Ledger) -> None:
    """The same response names the same children by their keys; none of them is counted again."""
    line, runs = Line(ledger), list[Any]()
    lost = asyncio.Event()

    async def a(own: Tenure[Any]) -> Complete[Any]:
        asked = [Delegate("d", n, key=str(n)) for n in range(3)]
        answered = await own.turn(asked)
        assert isinstance(answered, Answered)
        return Complete([(fact.outcome, fact.data) for fact in answered.facts])

    one, two = (
        Team("t", ledger=way, limits=Limits(delegations=6), settings=SHORT_LEASE) for way in (line.ledger, ledger)
    )
    for team in (one, two):
        team.agent(name="a", entry=True)(a)

        @team.agent
        async def d(own: Tenure[Any]) -> Complete[Any]:
            runs.append(own.input)
            lost.set()
            await until_cut(line)
            return Complete(own.input * 10)

    async with one.worker(name="w1", agents=["a"], drain=0), two.worker(name="w3", agents=["d"]):
        handle = await two.submit(goal="g")
        await asyncio.wait_for(lost.wait(), 5)
        line.cut()
        async with two.worker(name="w2", agents=["a"]):
            result = await handle.result(10)
        line.mend()
    assert sorted(runs) == [0, 1, 2], "each ran once"
    assert len(await events(ledger, handle.task_id, ev.DelegationOpened)) == 3
    assert (await handle.state()).delegated == 3
    assert result.value == [["done", 0], ["done", 10], ["done", 20]]


async def until_cut(line: Line) -> None:
    async def cut() -> bool:
        return line.is_cut

    await until(cut)
