"""Nudges: a route that is not there is told, a bounded number of times; then the fallback, with its reason."""

import asyncio
from typing import Any

import pytest

from tenure import Answered, Complete, Done, Nudged, Settings, Team, Tenure, Transfer, Wait
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import OfferKind, Phase, Reason, TurnOutcome
from tests.runtime.harness import SHORT_LEASE, Desk, Line, events, in_phase, until


def insisting(ledger: Ledger, told: list[str], to: str = "c", **settings: Any) -> Team:
    """A returns the same transfer again and again; B exists and has an edge, C exists and has none."""
    team = Team("t", ledger=ledger, settings=Settings(**settings))

    @team.agent(entry=True, may_transfer={"b": "b answers"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        told.append(own.nudge)
        return Transfer(to, own.input)

    async def receiver(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.agent)

    for name in "bc":
        team.agent(name=name)(receiver)
    return team


@pytest.mark.parametrize("nudges", [0, 2])
async def test_the_number_of_nudges_is_bounded_and_the_end_has_its_reason_and_path(ledger: Ledger, nudges: int) -> None:
    told: list[str] = []
    team = insisting(ledger, told, nudges=nudges, on_failure="fail")
    async with team.worker():
        handle = await team.submit({"n": 1}, goal="g")
        result = await handle.result(10)
    assert (result.outcome, result.reason) == ("failed", Reason.ROUTE_FORBIDDEN)
    assert (result.value["path"], result.value["asked"]) == (["a"], [["c"]])
    assert len(told) == nudges + 1
    assert told[0] == ""
    for text in told[1:]:
        assert "a may not transfer to c; it may to b." in text
        assert text.endswith("Ask again for something that is allowed, or give the task back.")
    nudged = await events(ledger, handle.task_id, ev.TurnNudged)
    assert [one.nudges for one in nudged] == list(range(1, nudges + 1))
    (decided,) = await events(ledger, handle.task_id, ev.TurnDecided)
    assert (decided.outcome, decided.reason) == (TurnOutcome.END, Reason.ROUTE_FORBIDDEN)
    task = await handle.state()
    assert (task.hop_count, task.transfers) == (0, 0)


async def test_a_handler_that_heeds_its_nudge_goes_on_with_its_input_and_its_state(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(nudges=1))

    @team.agent(entry=True, may_transfer={"b": "b answers"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        if own.nudge:
            return Transfer("b", [own.input, own.state])
        await own.save("half done")
        return Transfer("c")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete([own.input, own.nudge])

    team.agent(name="c")(b)
    async with team.worker():
        handle = await team.submit("the order", goal="g")
        assert (await handle.result(10)).value == [["the order", "half done"], ""], "the next owner is not nudged"
    kinds = [one.kind for one in await events(ledger, handle.task_id, ev.OfferIssued)]
    assert kinds == [OfferKind.START, OfferKind.RESUME, OfferKind.TRANSFER]
    assert (await handle.state()).nudges == 0, "a handoff begins to count anew"


async def test_input_that_a_nudged_handler_was_shown_is_shown_again(ledger: Ledger) -> None:
    """Nothing of the turn was done, so nothing of it is consumed."""
    got: list[Any] = []
    team = Team("t", ledger=ledger, settings=Settings(nudges=1))

    @team.agent(entry=True, may_transfer={"b": "b answers"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        message = await own.receive(timeout=5)
        assert message is not None
        got.append((message.value, message.redelivered))
        return Transfer("b" if own.nudge else "c", message.value)

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete([own.input, (await own.receive(timeout=0)) is None])

    team.agent(name="c")(b)
    async with team.worker():
        handle = await team.submit(goal="g", message="refund A17")
        assert (await handle.result(15)).value == ["refund A17", True], "consumed once, by the turn that went"
    assert got == [("refund A17", False), ("refund A17", True)]


async def test_a_result_that_a_nudged_handler_has_joined_is_there_again(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(nudges=1))
    runs: list[int] = []

    @team.agent(entry=True, may_transfer={"b": "b answers"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        found = await own.delegate("d", 1, key="ask")
        return Transfer("b" if own.nudge else "nobody", found.value)

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.input)

    @team.agent
    async def d(own: Tenure[Any]) -> Complete[Any]:
        runs.append(own.epoch)
        return Complete("found")

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "found"
    assert len(runs) == 1
    assert (await handle.state()).children == ()


async def test_an_effect_made_before_the_nudge_answers_from_the_record(ledger: Ledger) -> None:
    desk = Desk()
    team = Team("t", ledger=ledger, settings=Settings(nudges=2))
    repeated: list[bool] = []

    @team.agent(entry=True, may_transfer={"b": "b answers"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        outcome = await own.effect(desk, {"n": 1}, key="k")
        assert isinstance(outcome, Done)
        repeated.append(outcome.repeated)
        return Transfer("b" if len(repeated) == 3 else "c")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete([[fact.what, fact.outcome] for fact in own.payload.done])

    team.agent(name="c")(b)
    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == [["desk", "done"]]
    assert (repeated, len(desk.acts)) == ([False, True, True], 1)


async def test_a_nudge_outlives_the_loss_of_the_instance_that_earned_it(ledger: Ledger) -> None:
    """The number and the words are in the ledger: a lost worker neither forgets them nor is given more."""
    line = Line(ledger)
    told: list[tuple[str, str]] = []
    stuck = asyncio.Event()

    def team_on(way: Ledger, worker: str) -> Team:
        settings = Settings(lease_ms=SHORT_LEASE.lease_ms, nudges=1, on_failure="fail")
        team = Team("t", ledger=way, settings=settings)

        @team.agent(entry=True)
        async def a(own: Tenure[Any]) -> Transfer[Any]:
            told.append((worker, own.nudge))
            if own.nudge and worker == "w1":
                stuck.set()
                await asyncio.Event().wait()
            return Transfer("nobody")

        return team

    one, two = team_on(line.ledger, "w1"), team_on(ledger, "w2")
    async with one.worker(name="w1", drain=0):
        handle = await two.submit(goal="g")
        await asyncio.wait_for(stuck.wait(), 5)
        line.cut()
        async with two.worker(name="w2"):
            result = await handle.result(10)
        line.mend()
    assert result.reason == Reason.ROUTE_FORBIDDEN
    assert [worker for worker, _ in told] == ["w1", "w1", "w2"]
    assert told[1][1] == told[2][1] != ""
    assert len(await events(ledger, handle.task_id, ev.TurnNudged)) == 1


async def test_a_forbidden_return_and_forbidden_turns_share_one_count(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(nudges=2, on_failure="fail"))
    left: list[Any] = []

    @team.agent(entry=True)
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        if not own.nudge:
            nudged = await own.turn([Transfer("nobody")])
            assert isinstance(nudged, Nudged)
            left.append(nudged.left)
        return Transfer("nobody")

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).reason == Reason.ROUTE_FORBIDDEN
    assert left == [1]
    assert len(await events(ledger, handle.task_id, ev.TurnNudged)) == 2


@pytest.mark.parametrize("then", ["completes", "raises", "asks for another turn", "transfers", "waits for ever"])
async def test_an_end_by_a_turn_is_the_end_whatever_the_handler_does_then(ledger: Ledger, then: str) -> None:
    desk = Desk()
    retire_ms = 1_000 if then == "waits for ever" else 60_000
    team = Team("t", ledger=ledger, settings=Settings(nudges=0, on_failure="fail", retire_ms=retire_ms))
    codes: list[str] = []

    @team.agent(entry=True, may_transfer={"b": "b answers"})
    async def a(own: Tenure[Any]) -> Any:
        with pytest.raises(Refused) as caught:
            await own.turn([Transfer("c")])
        codes.append(caught.value.code)
        with pytest.raises(Refused) as caught:
            await own.effect(desk, {"n": 1}, key="k")
        codes.append(caught.value.code)
        match then:
            case "raises":
                raise RuntimeError("no")
            case "asks for another turn":
                return await own.turn([Transfer("b")])
            case "transfers":
                return Transfer("b")
            case "waits for ever":
                await asyncio.Event().wait()
            case _:
                pass
        return Complete("as if nothing had happened")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete()

    team.agent(name="c")(b)
    async with team.worker(drain=0.1):
        handle = await team.submit(goal="g")
        result = await handle.result(10)
    assert (result.outcome, result.reason) == ("failed", Reason.ROUTE_FORBIDDEN)
    assert codes == ["route_forbidden", "retiring"]
    assert desk.calls == []
    assert (await handle.state()).hop_count == 0


async def test_with_a_person_as_the_policy_the_task_is_escalated_with_path_and_state(ledger: Ledger) -> None:
    told: list[str] = []
    team = insisting(ledger, told, nudges=1, on_failure="escalate", fallback="person:lead")
    async with team.worker():
        handle = await team.submit(goal="g")
        task = await in_phase(handle, Phase.ESCALATED)
        assert task.question is not None
        assert (task.question.reason, task.question.who) == (Reason.ROUTE_FORBIDDEN, ("person:lead",))
        assert (task.answerable, task.owner) == ("person:lead", "a")
        body = await ledger.body(task.root_id, task.question.body)
        assert body is not None
        assert body.value()["path"] == ["a"]
        await handle.answer(task.question.question_id, by="person:lead", action="reassign", agent="b")
        assert (await handle.result(10)).value == "b"
    assert len(told) == 2


async def test_used_up_transfers_are_told_and_then_end_the_task(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(transfers=1, nudges=1, repeats=9, on_failure="fail"))
    told: list[str] = []

    async def player(own: Tenure[Any]) -> Transfer[Any]:
        told.append(own.nudge)
        return Transfer("b" if own.agent == "a" else "a", len(told))

    for name, other in {"a": "b", "b": "a"}.items():
        team.agent(name=name, may_transfer={other: "it goes on"})(player)
    async with team.worker():
        handle = await team.submit(goal="g")
        result = await handle.result(10)
    assert (result.outcome, result.reason) == ("failed", Reason.TRANSFER_LIMIT_EXCEEDED)
    assert result.value["path"] == ["a", "b"]
    assert [bool(text) for text in told] == [False, False, True]
    assert (await handle.state()).transfers == 1


@pytest.mark.parametrize("nudges", [0, 2])
async def test_a_cancellation_goes_before_a_nudge_and_before_the_end_by_a_turn(ledger: Ledger, nudges: int) -> None:
    team = Team("t", ledger=ledger, settings=Settings(nudges=nudges, on_failure="fail"))
    began, go = asyncio.Event(), asyncio.Event()

    @team.agent(entry=True)
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        began.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            return Transfer("nobody")
        raise AssertionError("it was not asked to stop")

    async with team.worker():
        handle = await team.submit(goal="g")
        await asyncio.wait_for(began.wait(), 5)
        await handle.cancel(by="person:lead")
        await in_phase(handle, Phase.CANCELLED)


async def test_a_wait_that_a_nudge_makes_does_not_hide_a_message_that_comes_meanwhile(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(nudges=1))
    asked = asyncio.Event()

    @team.agent(entry=True)
    async def a(own: Tenure[Any]) -> Any:
        if not own.nudge:
            asked.set()
            return Transfer("nobody")
        message = await own.receive(timeout=0)
        return Wait("input", within=60) if message is None else Complete(message.value)

    async with team.worker():
        handle = await team.submit(goal="g")
        await asyncio.wait_for(asked.wait(), 5)
        await handle.send("still there?")
        assert (await handle.result(10)).value == "still there?"

    async def at_rest() -> bool:
        return (await handle.state()).tenure is None

    await until(at_rest)


async def test_a_nudge_that_was_heeded_is_not_told_again(ledger: Ledger) -> None:
    """A decided turn clears the words, not the count: an agent that starts again and again comes to an end."""
    told: list[str] = []
    team = Team("t", ledger=ledger, settings=Settings(nudges=1, on_failure="fail"))

    @team.agent(entry=True)
    async def a(own: Tenure[Any]) -> Wait | Transfer[Any]:
        told.append(own.nudge)
        if len(told) > 1:
            return Transfer("nobody")
        assert isinstance(await own.turn([Transfer("nobody")]), Nudged)
        assert isinstance(await own.turn([]), Answered)
        return Wait("time", within=0.01)

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).reason == Reason.ROUTE_FORBIDDEN
    assert told == ["", ""]
