"""``own.turn``: one decision on all of a response, before any of it starts; what the handler and the ledger see."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tenure import Answered, Call, Complete, Delegate, GiveBack, Limits, Nudged, Settings, Team, Tenure, Transfer
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.settings import Policy
from tenure.protocol.vocabulary import Reason, TurnOutcome
from tests.runtime.harness import events, until


async def answer(value: Any, seconds: float = 0) -> Any:
    await asyncio.sleep(seconds)
    return value


def teams(ledger: Ledger, asked: list[Any], seen: list[Any], limits: Limits | None = None, **settings: Any) -> Team:
    """A takes one turn; b, c complete with what they were told."""
    team = Team("t", ledger=ledger, settings=Settings(**settings), limits=limits)

    @team.agent(entry=True, may_transfer={"b": "b answers", "c": "c answers"}, may_delegate=["c"])
    async def a(own: Tenure[Any]) -> Any:
        answered = await own.turn(asked)
        seen.append(answered)
        return answered if isinstance(answered, Transfer) else Complete("a")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        facts = (*own.payload.done, *own.in_flight.ended, *own.in_flight.works)
        return Complete([[fact.what, fact.outcome, fact.origin] for fact in facts])

    @team.agent
    async def c(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.input)

    return team


async def test_calls_and_delegations_of_a_turn_come_back_in_the_order_of_the_response(ledger: Ledger) -> None:
    seen: list[Any] = []

    async def breaks() -> None:
        raise ValueError("no such page")

    slow, quick = Call("slow", lambda: answer(1, 0.05)), Call("n", lambda: answer(3))
    asked = [slow, Delegate("c", {"q": 2}), Call("search", breaks), quick]
    team = teams(ledger, asked, seen)
    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == "a"
    (answered,) = seen
    assert isinstance(answered, Answered)
    assert [(fact.what, fact.outcome) for fact in answered.facts] == [
        ("slow", "done"),
        ("c", "done"),
        ("search", "failed"),
        ("n", "done"),
    ]
    assert answered.facts[1].data == {"q": 2}
    assert "no such page" in answered.facts[2].data["error"]


async def test_a_stream_is_read_to_its_end_before_anything_starts(ledger: Ledger) -> None:
    started: list[str] = []
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "b answers"})
    async def a(own: Tenure[Any]) -> Any:
        async def note() -> None:
            started.append("note")

        async def stream() -> AsyncIterator[Any]:
            yield Call("note", note)
            await asyncio.sleep(0.05)
            assert started == []
            yield Transfer("b")

        return await own.turn(stream())

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete([fact.what for fact in own.payload.done])

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == ["note"]
    assert started == ["note"]


async def test_a_call_that_outlasts_its_time_is_told_as_what_it_is(ledger: Ledger) -> None:
    seen: list[Any] = []
    asked = [Transfer("b"), Call("quick", lambda: answer(1)), Call("endless", lambda: answer(2, 60))]
    team = teams(ledger, asked, seen, calls_ms=100)
    async with team.worker():
        handle = await team.submit(goal="g")
        told = (await handle.result(10)).value
    assert ["quick", "done", "work"] in told
    assert ["endless", "failed", "work"] in told, "it was asked to end, and was seen to"
    assert len(await events(ledger, handle.task_id, ev.HandoffInitiated)) == 1


async def test_nothing_of_a_nudged_turn_starts(ledger: Ledger) -> None:
    started: list[int] = []
    seen: list[Any] = []

    async def note() -> None:
        started.append(1)

    team = teams(ledger, [Call("note", note), Transfer("b"), Transfer("c")], seen)
    async with team.worker():
        await (await team.submit(goal="g")).result(10)
    (nudged,) = seen
    assert isinstance(nudged, Nudged)
    assert (started, nudged.left) == ([], 1)
    assert "Ask again: either for one transfer" in nudged.text


async def test_what_was_decided_is_done_whatever_the_handler_makes_of_it(ledger: Ledger) -> None:
    for after in ("raise", "complete"):
        team = Team("t", ledger=ledger)

        @team.agent(entry=True, may_transfer={"b": "b answers"})
        async def a(own: Tenure[Any], after: str = after) -> Any:
            await own.turn([Transfer("b", 7)])
            if after == "raise":
                raise RuntimeError("changed my mind")
            return Complete("no")

        @team.agent
        async def b(own: Tenure[Any]) -> Complete[Any]:
            return Complete(own.input)

        async with team.worker():
            assert (await (await team.submit(goal="g")).result(10)).value == 7


async def test_a_turn_that_ends_the_task_does_so_whatever_the_handler_does_then(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(nudges=0, on_failure="fail"))

    @team.agent(entry=True)
    async def a(own: Tenure[Any]) -> Any:
        with pytest.raises(Refused, match="ended the task"):
            await own.turn([Transfer("nobody")])
        return Complete("as if nothing had happened")

    async with team.worker():
        result = await (await team.submit(goal="g")).result(10)
    assert (result.outcome, result.reason, result.value["path"]) == ("failed", "route_forbidden", ["a"])


# --- several at once --------------------------------------------------------------------------------------------------


async def test_calls_and_delegations_of_one_turn_run_at_the_same_time(ledger: Ledger) -> None:
    """Two calls and two delegations wait for each other: one after the other they would never end."""
    meeting = asyncio.Barrier(4)
    seen: list[Any] = []

    async def meet() -> str:
        async with asyncio.timeout(5):
            await meeting.wait()
        return "met"

    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_delegate=["c"])
    async def a(own: Tenure[Any]) -> Complete[Any]:
        seen.append(await own.turn([Call("one", meet), Delegate("c", 1), Delegate("c", 2), Call("two", meet)]))
        return Complete()

    @team.agent
    async def c(own: Tenure[Any]) -> Complete[Any]:
        return Complete([await meet(), own.input])

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(10)
    (answered,) = seen
    assert isinstance(answered, Answered)
    assert [(fact.id, fact.outcome, fact.data) for fact in answered.facts] == [
        ("1", "done", "met"),
        ("2", "done", ["met", 1]),
        ("3", "done", ["met", 2]),
        ("4", "done", "met"),
    ]
    (decided,) = await events(ledger, handle.task_id, ev.TurnDecided)
    opened = await events(ledger, handle.task_id, ev.DelegationOpened)
    assert (decided.outcome, len(opened)) == (TurnOutcome.GO, 2), "one decision for all of it"


async def test_a_delegation_that_fails_is_a_fact_and_the_others_go_on(ledger: Ledger) -> None:
    seen: list[Any] = []
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_delegate=["c"])
    async def a(own: Tenure[Any]) -> Complete[Any]:
        seen.append(await own.turn([Delegate("c", "bad"), Delegate("c", "good")]))
        return Complete()

    @team.agent
    async def c(own: Tenure[Any]) -> Complete[Any] | GiveBack:
        return GiveBack(Reason.CAPABILITY, "cannot") if own.input == "bad" else Complete("fine")

    async with team.worker():
        await (await team.submit(goal="g")).result(10)
    bad, good = seen[0].facts
    assert (bad.outcome, bad.data["reason"], bad.by) == ("failed", "capability", "c")
    assert (good.outcome, good.data) == ("done", "fine")


async def test_a_delegation_for_which_nothing_is_left_is_a_refusal_of_its_own(ledger: Ledger) -> None:
    """Without nudges left, what the budget allows goes on; the rest is refused, with its code."""
    seen: list[Any] = []
    asked = [Delegate("c", 1), Delegate("c", 2), Delegate("c", 3)]
    team = teams(ledger, asked, seen, limits=Limits(delegations=2), nudges=0)
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "a"
    assert [fact.outcome for fact in seen[0].facts] == ["done", "done", "refused"]
    assert seen[0].facts[2].data == {
        "code": "delegation_limit_exceeded",
        "detail": "The limit of delegations in the tree is 2.",
    }
    tree = await ledger.tree(handle.task_id)
    assert tree is not None
    assert (tree.delegations, tree.tasks) == (2, 3)


async def test_with_nudges_left_a_turn_beyond_the_budget_starts_nothing(ledger: Ledger) -> None:
    seen: list[Any] = []
    started: list[str] = []

    async def note() -> None:
        started.append("note")

    asked = [Call("note", note), Delegate("c", 1), Delegate("c", 2)]
    team = teams(ledger, asked, seen, limits=Limits(delegations=1), nudges=1)
    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(10)
    (nudged,) = seen
    assert isinstance(nudged, Nudged)
    assert [(one.call_id, one.code) for one in nudged.rejected] == [("3", "delegation_limit_exceeded")]
    assert (nudged.left, started) == (0, [])
    assert await events(ledger, handle.task_id, ev.DelegationOpened, ev.WorkStarted) == []


@pytest.mark.parametrize("delegates", [0, 1])
async def test_a_transfer_beside_delegations_gives_way_to_them(ledger: Ledger, delegates: int) -> None:
    """The documented fallback: delegations win. Without one, the transfer is all there is, and it goes."""
    seen: list[Any] = []
    asked = [Transfer("b", id="move"), *(Delegate("c", n) for n in range(delegates))]
    team = teams(ledger, asked, seen, nudges=0)
    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(10)
    (decided,) = await events(ledger, handle.task_id, ev.TurnDecided)
    assert decided.outcome == (TurnOutcome.GO if delegates else TurnOutcome.TRANSFER)
    assert [one.code for one in decided.rejected] == ["ambiguous_turn"] * delegates
    assert len(await events(ledger, handle.task_id, ev.HandoffInitiated)) == 1 - delegates


@pytest.mark.parametrize(
    ("second", "same"),
    [
        (Transfer("b", {"n": 1}, summary="in other words"), True),
        (Transfer("b", {"n": 2}), False),
        (Transfer(("b", "c"), {"n": 1}), False),
    ],
    ids=["other words", "other data", "other receivers"],
)
async def test_identical_transfers_are_one(ledger: Ledger, second: Transfer[Any], same: bool) -> None:  # noqa: FBT001 - a parameter of the table
    seen: list[Any] = []
    team = teams(ledger, [Transfer("b", {"n": 1}), second], seen)
    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(10)
    if same:
        (decided,) = await events(ledger, handle.task_id, ev.TurnDecided)
        assert (decided.outcome, decided.transfer, decided.merged) == (TurnOutcome.TRANSFER, "1", ("2",))
        assert len(await events(ledger, handle.task_id, ev.HandoffInitiated)) == 1
    else:
        assert isinstance(seen[0], Nudged)
        assert [(one.call_id, one.code) for one in seen[0].rejected] == [
            ("1", "ambiguous_turn"),
            ("2", "ambiguous_turn"),
        ]


async def test_a_call_that_cannot_be_booked_is_a_refusal_of_its_own(ledger: Ledger) -> None:
    """The books take so many open works and no more, which is found out after the decision."""
    seen: list[Any] = []
    gate = asyncio.Event()
    team = teams(ledger, [Call("one", gate.wait), Call("two", gate.wait)], seen, open_items=1)
    async with team.worker():
        handle = await team.submit(goal="g")

        async def one_refused() -> bool:
            return bool(await ledger.refusals(task_id=handle.task_id))

        await until(one_refused)
        gate.set()
        assert (await handle.result(10)).value == "a"
    facts = {fact.outcome: fact.data for fact in seen[0].facts}
    assert facts["done"] is True
    assert facts["refused"]["code"] == "backlog_full"


# --- misuse -----------------------------------------------------------------------------------------------------------

ENDLESS = Policy(name="endless", grace_ms=10**9)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [({"id": "move"}, "misuse"), ({"policy": "none such"}, "misuse"), ({"policy": ENDLESS}, "deadline_below_grace")],
    ids=["two with one id", "no such policy", "a grace that is too long"],
)
async def test_misuse_is_told_before_anything_is_decided(ledger: Ledger, wrong: dict[str, Any], code: str) -> None:
    started: list[str] = []
    told: list[str] = []

    async def note() -> None:
        started.append("note")

    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "b answers"})
    async def a(own: Tenure[Any]) -> Complete[Any]:
        with pytest.raises(Refused) as caught:
            await own.turn([Call("first", note), Transfer("b", id="move"), Call("second", note, **wrong)])
        told.append(caught.value.code)
        return Complete("still a's")

    team.agent(name="b")(a)
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "still a's"
    assert (told, started) == ([code], [])
    assert await events(ledger, handle.task_id, ev.TurnDecided, ev.TurnNudged) == []
