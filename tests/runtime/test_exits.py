"""Code of the user that exits ends itself, and not the worker with everybody else's tenures."""

from typing import Any

from tenure import Complete, InDoubt, Provider, Settings, Team, Tenure
from tenure.ledger import Ledger
from tenure.protocol.vocabulary import EffectState, Phase, Reason


class Exiting(Provider):
    """A client that was written for a command line."""

    name = "exiting"

    async def apply(self, request: Any, *, key: str) -> Any:
        raise SystemExit(3)

    async def lookup(self, request: Any, *, key: str) -> Any:
        raise SystemExit(4)


async def test_a_provider_that_exits_leaves_its_effect_in_doubt(ledger: Ledger) -> None:
    team, seen = Team("t", ledger=ledger), []

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[str]:
        seen.append(await own.effect(Exiting(), {}, key="k", patience=0))
        return Complete("still here")

    async with team.worker():
        task = await team.submit(goal="g")
        assert (await task.result(10)).value == "still here"
    assert isinstance(seen[0], InDoubt)
    assert [effect.state for effect in await ledger.effects(task.task_id)] == [EffectState.IN_DOUBT]


async def test_a_hook_that_exits_has_not_started_its_agent(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(attempts=2))

    async def hook(_: Any) -> str | None:
        raise SystemExit(5)

    @team.agent(on_offer=hook)
    async def clerk(own: Tenure[Any]) -> Complete[None]:
        return Complete()

    async with team.worker():
        task = await team.submit(goal="g")
        state = await task.reached({Phase.ESCALATED}, timeout=10)
    assert state.question is not None
    assert state.question.reason is Reason.START_FAILED


async def test_facts_of_an_ended_task_name_the_delegations_that_go_on(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True)
    async def caller(own: Tenure[Any]) -> Complete[str]:
        return Complete(await own.open("child", goal="g"))

    @team.agent
    async def child(own: Tenure[Any]) -> Complete[None]:
        await own.receive(timeout=10)
        return Complete()

    async with team.worker():
        task = await team.submit(goal="g")
        child_id = (await task.result(10)).value
        assert [each.child_id for each in (await task.facts()).delegations] == [child_id]
        await team.task(child_id).send("go on")
        await team.task(child_id).result(10)
        assert (await task.facts()).delegations == ()
