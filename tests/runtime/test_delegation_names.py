"""Names of children that got no key: one owner's are never another's, and never those that got one."""

from typing import Any

from tenure import Complete, Team, Tenure, Transfer
from tenure.ledger import Ledger


async def test_the_next_owner_is_not_answered_with_what_the_one_before_has_asked_for(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"second": "it decides"})
    async def first(own: Tenure[Any]) -> Transfer[Any]:
        answer = await own.delegate("echo", "first asks", goal="g")
        return Transfer("second", answer.value)

    @team.agent
    async def second(own: Tenure[Any]) -> Complete[Any]:
        answer = await own.delegate("echo", "second asks", goal="g")
        return Complete([own.input, answer.value])

    @team.agent
    async def echo(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.input)

    async with team.worker():
        task = await team.submit(goal="g")
        assert (await task.result(10)).value == ["first asks", "second asks"]


async def test_a_key_never_names_a_child_that_got_none(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True)
    async def caller(own: Tenure[Any]) -> Complete[Any]:
        one = await own.delegate("echo", "without", goal="g")
        other = await own.delegate("echo", "with", goal="g", key="echo:1")
        return Complete([one.value, other.value])

    @team.agent
    async def echo(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.input)

    async with team.worker():
        task = await team.submit(goal="g")
        assert (await task.result(10)).value == ["without", "with"]
