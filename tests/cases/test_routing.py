"""Reported failures, routing: RT-03 and RT-05."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenure import Complete, Confirmed, Done, Provider, Settings, Team, Tenure, Transfer, Wait
from tenure.ledger import Ledger, open_ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import OfferKind, Reason, WorkEnd
from tests.runtime.harness import BRIEF, events, in_phase, names, until


class Search(Provider):
    """Takes its time, and is counted."""

    name = "search"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.calls = 0

    async def apply(self, request: Any, *, key: str) -> Any:
        self.calls += 1
        await asyncio.sleep(self.seconds)
        return Confirmed(["a hit"], "search-1")


async def test_rt_03_a_transfer_waits_for_the_call_beside_it_and_its_outcome_goes_on(ledger: Ledger) -> None:
    """RT-03: search(x) and transfer(to=B) in one turn; the transfer is ready at once, search succeeds later."""
    search = Search(0.3)
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "knows what to do with hits"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        _ = own.spawn(own.effect(search, "x", key="x"), policy=BRIEF, name="tool call")

        async def called() -> bool:
            return search.calls == 1

        await until(called)
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        known = {fact.what: fact.outcome for fact in own.in_flight.ended}
        again = await own.effect(search, "x", key="x")
        assert isinstance(again, Done)
        return Complete([known["search"], again.value, again.repeated])

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == ["done", ["a hit"], True]
    assert search.calls == 1, "B did not repeat it because its result was lost"
    found = await names(ledger, handle.task_id)
    assert found.index("EffectObserved") < found.index("TenureEnded"), "it waited, within the grace of the policy"


@pytest.mark.parametrize(("fails", "how"), [(True, WorkEnd.RAISED), (False, WorkEnd.RETURNED)])
async def test_rt_03_a_call_that_outlasts_the_deadline_is_residual_and_its_end_is_recorded_later(
    ledger: Ledger, *, fails: bool, how: WorkEnd
) -> None:
    """RT-03, variant: search fails (or succeeds) after B has started."""
    go = asyncio.Event()
    team = Team("t", ledger=ledger)

    async def search() -> list[str]:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        if fails:
            raise ConnectionError("search is down")
        return ["a hit"]

    @team.agent(entry=True, may_transfer={"b": "knows what to do with hits"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        _ = own.spawn(search(), policy=BRIEF, name="search")
        await own.save()
        return Transfer("b")

    @team.agent(may_transfer={"c": "goes on"})
    async def b(own: Tenure[Any]) -> Transfer[Any]:
        (known,) = own.in_flight.works
        go.set()

        async def ended() -> bool:
            task = await ledger.task(own.task_id)
            return task is not None and not task.works

        await until(ended)
        return Transfer("c", [known.what, known.outcome])

    @team.agent
    async def c(own: Tenure[Any]) -> Complete[Any]:
        return Complete([*own.input, *[[fact.what, fact.outcome] for fact in own.payload.done]])

    async with team.worker():
        handle = await team.submit(goal="g")
        value = (await handle.result(10)).value
    assert value == ["search", "unknown", ["search", "failed" if fails else "done"]]
    (stopped,) = await events(ledger, handle.task_id, ev.WorkStopped)
    assert (stopped.how, stopped.late) == (how, True)
    assert "ResidualDeclared" in await names(ledger, handle.task_id)


# --- RT-05 ----------------------------------------------------------------------------------------------------------


def shop(ledger: Ledger | str, answered: list[Any], *, with_b: bool = True) -> Team:
    """T hands over to B, which asks for a size and waits; B may not transfer up."""
    team = Team("shop", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "fits shoes"} if with_b else None)
    async def t(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        answered.append(("t", own.payload.summary))
        return Transfer("b") if with_b else Complete("t answered")

    if with_b:

        @team.agent
        async def b(own: Tenure[Any]) -> Wait | Complete[Any]:
            message = await own.receive(timeout=0)
            if message is None:
                return Wait("input", within=3600)
            answered.append(("b", message.value))
            return Complete(f"size {message.value}")

    return team


async def test_rt_05_the_second_turn_goes_to_the_specialist_that_asked(ledger: Ledger) -> None:
    """RT-05: the application knows only the id of the conversation; B may not transfer up."""
    answered: list[Any] = []
    team = shop(ledger, answered)
    async with team.worker():
        handle = await team.submit(goal="buy shoes", conversation="chat-7")
        await in_phase(handle, "waiting")
        again = await team.send("chat-7", "42")
        assert again.task_id == handle.task_id
        assert (await again.result(10)).value == "size 42"
    assert answered == [("t", ""), ("b", "42")]


async def test_rt_05_routing_is_durable_through_a_restart_between_the_turns(tmp_path: Path) -> None:
    """RT-05, variant: the process restarts between the turns."""
    url = f"sqlite:///{tmp_path}/shop.db"
    answered: list[Any] = []
    team = shop(url, answered)
    async with team.worker():
        handle = await team.submit(goal="buy shoes", conversation="chat-7")
        await in_phase(handle, "waiting")
    after = shop(url, answered)
    async with after.worker():
        again = await after.send("chat-7", "42")
        assert (await again.result(10)).value == "size 42"
    assert answered == [("t", ""), ("b", "42")]
    ledger = await asyncio.to_thread(open_ledger, url)
    offers = await events(ledger, handle.task_id, ev.OfferIssued)
    assert (offers[-1].kind, offers[-1].candidates[0].agent) == (OfferKind.RESUME, "b")
    await ledger.close()


async def test_rt_05_a_message_after_the_end_goes_to_the_last_owner_and_a_fallback_states_its_reason(
    ledger: Ledger,
) -> None:
    """RT-05: B keeps the conversation until it completes; a fallback to T is recorded with its reason."""
    answered: list[Any] = []
    team = shop(ledger, answered)
    async with team.worker():
        handle = await team.submit(goal="buy shoes", conversation="chat-7", message="42")
        await handle.result(10)
        follow_up = await team.send("chat-7", "43")
        assert follow_up.task_id != handle.task_id
        assert (await follow_up.result(10)).value == "size 43"
    assert answered == [("t", ""), ("b", "42"), ("b", "43")]
    without = shop(ledger, answered, with_b=False)
    async with without.worker():
        assert (await (await without.send("chat-7", "44")).result(10)).value == "t answered"
    assert answered[-1] == ("t", "b owned the conversation and is not in this team.")


async def test_rt_05_ownership_that_expires_comes_back_to_the_specialist_not_to_the_entry(ledger: Ledger) -> None:
    """RT-05: B's wait ends by its own deadline; even then the task is B's."""
    team = Team("shop", ledger=ledger, settings=Settings(lease_ms=500))
    rounds: list[str] = []

    @team.agent(entry=True, may_transfer={"b": "fits shoes"})
    async def t(own: Tenure[Any]) -> Transfer[Any]:
        rounds.append("t")
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Wait | Complete[Any]:
        rounds.append("b")
        return Wait("input", within=0.05) if len(rounds) == 2 else Complete("closed")

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "closed"
    assert rounds == ["t", "b", "b"]
    assert (await events(ledger, handle.task_id, ev.OfferIssued))[-1].reason == Reason.WAKE_TIME
