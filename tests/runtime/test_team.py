"""A team: what is not well formed is refused before anything runs; what is handed over is checked by its type."""

import asyncio
from dataclasses import dataclass
from typing import Any, TypedDict

import pydantic
import pytest
from msgspec import Struct

from tenure import Complete, Settings, Team, Tenure, Transfer
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import HandoffState, OfferKind, Phase, Reason
from tenure.runtime.offered import Offered
from tests.runtime.harness import events, in_phase, names


async def done(own: Tenure[Any]) -> Complete[Any]:
    return Complete(own.input)


# --- a team that cannot run -----------------------------------------------------------------------------------------


def refused(code: str) -> Any:
    return pytest.raises(Refused, match=None, check=lambda error: error.code == code)


def test_a_team_without_agents_says_how_to_get_one() -> None:
    with pytest.raises(Refused, match="decorate a handler") as caught:
        Team("t").check()
    assert (caught.value.code, caught.value.next_action) == ("invalid_team", "fix")


def test_two_entries_are_one_too_many() -> None:
    team = Team("t")
    team.agent(name="a", entry=True)(done)
    team.agent(name="b", entry=True)(done)
    with refused("invalid_team"):
        team.check()


def test_a_name_is_given_once() -> None:
    team = Team("t")
    team.agent(name="a")(done)
    with refused("invalid_team"):
        team.agent(name="a")(done)


def test_a_handler_is_a_coroutine_function() -> None:
    def not_one(own: Tenure[Any]) -> Any:
        return Complete()

    with refused("invalid_team"):
        Team("t").agent(not_one)


def test_a_transfer_edge_says_because() -> None:
    with pytest.raises(Refused, match="needs a because"):
        Team("t").agent(name="a", may_transfer={"b": ""})(done)


@pytest.mark.parametrize("edges", [{"may_transfer": {"b": "knows more"}}, {"may_delegate": ["b"]}])
def test_an_edge_to_nobody_is_an_unknown_agent(edges: Any) -> None:
    team = Team("t")
    team.agent(name="a", **edges)(done)
    with pytest.raises(Refused, match="a → b leads to 'b', which is no agent") as caught:
        team.check()
    assert caught.value.code == "unknown_agent"


def test_an_edge_to_oneself_is_refused() -> None:
    team = Team("t")
    team.agent(name="a", may_transfer={"a": "never"})(done)
    with refused("self_transfer"):
        team.check()


def test_settings_that_contradict_each_other_are_refused_when_the_team_is_made() -> None:
    with refused("deadline_below_grace"):
        Team("t", settings=Settings(ack_ms=1000, transition_ms=500))
    with refused("invalid"):
        Team("t", settings=Settings(lease_ms=0))


def test_the_entry_is_the_marked_one_or_the_first() -> None:
    team = Team("t")
    team.agent(name="a")(done)
    assert team.entry == "a"
    team.agent(name="b", entry=True)(done)
    assert team.entry == "b"


async def test_a_task_for_an_unknown_agent_is_refused_and_leaves_nothing(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    team.agent(name="a")(done)
    with refused("unknown_agent"):
        await team.submit(goal="g", to="nobody")
    with refused("unknown_agent"):
        async with team.worker(agents=["nobody"]):
            pass
    assert await ledger.tasks() == []


async def test_a_ledger_cannot_be_changed_once_it_is_open() -> None:
    team = Team("t")
    await team.ledger.tasks()
    with refused("misuse"):
        team.use_ledger("memory://")


# --- accepts --------------------------------------------------------------------------------------------------------


class Ticket(Struct):
    order: str
    cents: int


@dataclass
class TicketData:
    order: str
    cents: int


class TicketDict(TypedDict):
    order: str
    cents: int


class TicketModel(pydantic.BaseModel):
    order: str
    cents: int


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Ticket, Ticket("A1", 5)),
        (TicketData, TicketData("A1", 5)),
        (TicketDict, {"order": "A1", "cents": 5}),
        (TicketModel, TicketModel(order="A1", cents=5)),
        (Any, {"order": "A1", "cents": 5}),
        (None, {"order": "A1", "cents": 5}),
    ],
)
async def test_the_receiver_gets_the_type_that_it_accepts(ledger: Ledger, kind: Any, value: Any) -> None:
    seen: list[Any] = []

    async def handler(own: Tenure[Any]) -> Complete[Any]:
        seen.append(own.input)
        return Complete(own.input)

    team = Team("t", ledger=ledger)
    team.agent(name="a", accepts=kind)(handler)
    async with team.worker():
        handle = await team.submit(value, goal="g")
        result = await handle.result(10)
    assert seen == [value]
    assert type(seen[0]) is type(value)
    assert result.value == {"order": "A1", "cents": 5}


async def test_the_type_is_read_from_the_handler(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent
    async def clerk(own: Tenure[Ticket]) -> Complete[Any]:
        return Complete(own.input.cents)

    assert team.agents["clerk"].accepts is Ticket
    async with team.worker():
        handle = await team.submit({"order": "A1", "cents": 7}, goal="g")
        assert (await handle.result(10)).value == 7


@pytest.mark.parametrize("kind", [Ticket, TicketData, TicketDict, TicketModel])
async def test_what_the_receiver_does_not_accept_goes_back_to_its_sender(ledger: Ledger, kind: Any) -> None:
    team = Team("t", ledger=ledger)
    given: list[Any] = []

    @team.agent(entry=True, may_transfer={"clerk": "decides"})
    async def triage(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        given.append(own.input)
        if len(given) == 1:
            return Transfer("clerk", {"order": "A1", "cents": "many"})
        return Complete("did it myself")

    team.agent(name="clerk", accepts=kind)(done)
    async with team.worker():
        handle = await team.submit({"first": 1}, goal="g")
        assert (await handle.result(10)).value == "did it myself"
    assert given == [{"first": 1}, {"first": 1}], "a return gives the sender its own input again"
    declined = (await events(ledger, handle.task_id, ev.OfferDeclined))[0]
    ended = (await events(ledger, handle.task_id, ev.HandoffEnded))[0]
    assert (declined.agent, declined.reason) == ("clerk", Reason.CAPABILITY)
    assert ended.state == HandoffState.FAILED_RETURNED
    detail = await ledger.body(handle.task_id, declined.detail)
    assert detail is not None
    assert "does not accept" in detail.value()["reason"]


async def test_what_has_no_json_form_is_refused_before_anything_is_written(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    team.agent(name="a")(done)
    with refused("invalid"):
        await team.submit(object(), goal="g")
    assert await ledger.tasks() == []


# --- on_offer -------------------------------------------------------------------------------------------------------


async def test_a_hook_is_asked_with_the_typed_input_and_accepts(ledger: Ledger) -> None:
    asked: list[Offered] = []

    async def hook(offered: Offered) -> str | None:
        asked.append(offered)
        return None

    team = Team("t", ledger=ledger)
    team.agent(name="a", accepts=Ticket, on_offer=hook)(done)
    async with team.worker():
        handle = await team.submit(Ticket("A1", 5), goal="g")
        assert (await handle.result(10)).outcome == "completed"
    assert [(each.agent, each.kind, each.given) for each in asked] == [("a", OfferKind.START, Ticket("A1", 5))]
    found = await names(ledger, handle.task_id)
    assert found.index("OfferClaimed") < found.index("OfferAcknowledged") < found.index("TenureGranted")


async def test_a_declined_transfer_returns_with_the_reason(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    async def hook(offered: Offered) -> str | None:
        return "on holiday"

    @team.agent(entry=True, may_transfer={"b": "decides"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        return Complete("alone") if own.epoch > 2 else Transfer("b")

    team.agent(name="b", on_offer=hook)(done)
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "alone"
    declined = (await events(ledger, handle.task_id, ev.OfferDeclined))[0]
    body = await ledger.body(handle.task_id, declined.detail)
    assert body is not None
    assert (declined.reason, body.value()) == (Reason.DECLINED, {"reason": "on holiday"})
    returned = [each for each in await events(ledger, handle.task_id, ev.OfferIssued) if each.kind == OfferKind.RETURN]
    assert [each.reason for each in returned] == [Reason.DECLINED]


async def test_a_declined_offer_goes_to_the_next_candidate(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    async def hook(offered: Offered) -> str | None:
        return "too much to do"

    @team.agent(entry=True, may_transfer={"b": "decides", "c": "decides too"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        return Transfer(("b", "c"), {"x": 1})

    team.agent(name="b", on_offer=hook)(done)
    team.agent(name="c")(done)
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == {"x": 1}
    assert (await handle.state()).owner == "c"


async def test_a_hook_that_raises_has_not_started_and_may_be_asked_again(ledger: Ledger) -> None:
    asked = 0

    async def hook(offered: Offered) -> str | None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise RuntimeError("cold cache")
        return None

    team = Team("t", ledger=ledger)
    team.agent(name="a", on_offer=hook)(done)
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).outcome == "completed"
    declined = await events(ledger, handle.task_id, ev.OfferDeclined)
    assert [each.reason for each in declined] == [Reason.START_FAILED]
    assert asked == 2


async def test_a_hook_that_never_answers_holds_the_offer_no_longer_than_its_claim(ledger: Ledger) -> None:
    asked = 0

    async def hook(offered: Offered) -> str | None:
        nonlocal asked
        asked += 1
        if asked == 1:
            await asyncio.Event().wait()
        return None

    team = Team("t", ledger=ledger, settings=Settings(ack_ms=200, lease_ms=2_000))
    team.agent(name="a", on_offer=hook)(done)
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).outcome == "completed"
    assert asked == 2


async def test_an_offer_that_everybody_declines_ends_with_a_person(ledger: Ledger) -> None:
    async def hook(offered: Offered) -> str | None:
        return "no"

    team = Team("t", ledger=ledger)
    team.agent(name="a", on_offer=hook)(done)
    async with team.worker():
        handle = await team.submit(goal="g")
        task = await in_phase(handle, "escalated")
    assert task.question is not None
    assert (task.question.reason, task.question.who) == (Reason.DECLINED, ("person:operator",))


# --- edges at run time ----------------------------------------------------------------------------------------------


async def test_a_transfer_without_an_edge_is_a_structured_failure(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(on_failure="fail", nudges=0))

    @team.agent(entry=True)
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        return Transfer("b")

    team.agent(name="b")(done)
    async with team.worker():
        result = await (await team.submit(goal="g")).result(10)
    assert (result.outcome, result.reason) == ("failed", Reason.ROUTE_FORBIDDEN)
    assert "a may not transfer to b" in result.value["error"]


async def test_a_delegation_without_an_edge_is_refused_to_the_caller(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_delegate=["c"])
    async def a(own: Tenure[Any]) -> Complete[Any]:
        with refused("route_forbidden"):
            await own.delegate("b")
        return Complete((await own.delegate("c", 5)).value)

    team.agent(name="b")(done)
    team.agent(name="c")(done)
    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == 5


# --- workers of a team ----------------------------------------------------------------------------------------------


async def test_what_surrounds_a_worker_is_there_before_it_and_gone_after_it(ledger: Ledger) -> None:
    from collections.abc import AsyncIterator
    from contextlib import asynccontextmanager

    log: list[str] = []
    team = Team("t", ledger=ledger)

    @team.lifespan
    @asynccontextmanager
    async def around() -> AsyncIterator[None]:
        log.append("up")
        yield
        log.append("down")

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        log.append("work")
        return Complete()

    async with team.worker():
        await (await team.submit(goal="g")).result(10)
    assert log == ["up", "work", "down"]


async def test_two_live_workers_cannot_have_one_name(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    team.agent(name="a")(done)
    async with team.worker(name="w"):
        with refused("worker_name_taken"):
            async with team.worker(name="w"):
                pass
    async with team.worker(name="w"):
        pass


async def test_the_ledger_of_a_team_is_open_until_its_last_worker_has_ended() -> None:
    team = Team("t", ledger="memory://")
    team.agent(name="a")(done)
    async with team.worker(name="w1"):
        async with team.worker(name="w2"):
            pass
        handle = await team.submit("still there", goal="g")
        assert (await handle.result(10)).value == "still there"


async def test_a_worker_serves_only_its_agents(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    team.agent(name="a", entry=True)(done)
    team.agent(name="b")(done)
    async with team.worker(agents=["b"]):
        left = await team.submit("x", goal="g")
        taken = await team.submit("y", goal="g", to="b")
        assert (await taken.result(10)).value == "y"
        assert (await left.state()).phase == "offered"


async def test_a_worker_runs_no_more_at_once_than_it_was_told(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    now = most = 0

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        return Complete()

    async with team.worker(concurrency=2):
        handles = [await team.submit(goal="g") for _ in range(8)]
        for handle in handles:
            assert (await handle.result(10)).outcome == "completed"
    assert most == 2


async def test_a_task_submitted_twice_under_its_own_id_is_one_task(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    team.agent(name="a")(done)
    first = await team.submit(1, goal="g", task_id="ticket-1")
    second = await team.submit(1, goal="g", task_id="ticket-1")
    assert first.task_id == second.task_id
    assert len(await ledger.tasks()) == 1


async def test_who_waits_for_a_result_in_vain_is_told_where_the_task_stands(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    team.agent(name="a")(done)
    task = await team.submit(1, goal="g", task_id="ticket-1")
    with pytest.raises(TimeoutError, match=r"Task ticket-1 is offered after 0\.05 s\."):
        await task.result(timeout=0.05)


async def test_what_a_handler_raises_is_logged_with_its_traceback(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(name="a")
    async def broken(own: Tenure[Any]) -> Complete[Any]:
        raise LookupError("no such order")

    async with team.worker():
        task = await team.submit(1, goal="g", task_id="ticket-1")
        await in_phase(task, Phase.ESCALATED)
    (told,) = [record for record in caplog.records if record.exc_info]
    assert told.getMessage() == "a raised on ticket-1"
    assert told.exc_info is not None
    assert isinstance(told.exc_info[1], LookupError)
