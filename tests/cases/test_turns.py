"""Reported failures, turns: RT-01. A scripted list of responses stands for the model."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tenure import Answered, Call, Complete, Delegate, Fact, Nudged, Settings, Team, Tenure, Transfer, Wait
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import TurnOutcome, WorkEnd
from tenure.runtime.turns import Asked
from tests.runtime.harness import BRIEF, events, in_phase, names, until

Response = list[Asked]

NOTES: dict[str, tuple[float, bool]] = {
    "finishes later": (0.3, False),
    "finishes at once": (-1, False),
    "finishes in the same tick": (0, False),
    "raises at once": (-1, True),
    "raises later": (0.2, True),
}
"""How the note goes: seconds until it ends (below zero: without an await), whether it raises then."""

ENTRIES = ("whole", "streamed")
ORDERS = ("transfer first", "note first")


class Notes:
    """The ordinary tool beside the transfer."""

    def __init__(self, seconds: float, *, raises: bool) -> None:
        self.seconds = seconds
        self.raises = raises
        self.calls = 0

    async def save(self) -> str:
        self.calls += 1
        if self.seconds >= 0:
            await asyncio.sleep(self.seconds)
        if self.raises:
            raise OSError("the disk is full")
        return "note-7"


async def streamed(response: Response, running: Callable[[], int]) -> AsyncIterator[Asked]:
    """The parts of a response one by one, with time in between in which anything started too early would run."""
    for part in response:
        await asyncio.sleep(0.02)
        assert running() == 0, "nothing starts before the response has been read to its end"
        yield part


def chat(ledger: Ledger, response: Response, notes: Notes, entry: str, seen: dict[str, Any]) -> Team:
    """A's model answers once, with ``response``. B takes messages of the conversation, one per round."""
    team = Team("t", ledger=ledger)
    seen.update(answered=[], done=None, books=None)

    @team.agent(entry=True, may_transfer={"b": "answers from here on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        seen["answered"].append("a")
        outcome = await own.turn(streamed(response, lambda: notes.calls) if entry == "streamed" else response)
        assert isinstance(outcome, Transfer)
        return outcome

    @team.agent
    async def b(own: Tenure[Any]) -> Wait | Complete[Any]:
        seen["done"], seen["books"] = own.payload.done, own.in_flight
        message = await own.receive(timeout=0)
        if message is None:
            return Wait("input", within=3600)
        seen["answered"].append(("b", message.value))
        return Complete(message.value)

    return team


@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("order", ORDERS)
async def test_rt_01_one_transfer_whatever_ends_first_and_the_note_goes_along(
    ledger: Ledger, note: str, entry: str, order: str
) -> None:
    """RT-01, all its variants: transfer(to=B) and save_note() in one response; then one new user message.

    Variants: the note ends later, at once, in the same tick, or raises; the response comes whole or streamed; either
    stands first in it.
    """
    seconds, raises = NOTES[note]
    notes = Notes(seconds, raises=raises)
    call = Call("save_note", notes.save, id="call-note")
    move = Transfer[Any]("b", summary="a question about an invoice", id="call-transfer")
    seen: dict[str, Any] = {}
    team = chat(ledger, [move, call] if order == "transfer first" else [call, move], notes, entry, seen)
    async with team.worker():
        handle = await team.submit(goal="g", conversation="chat-1")
        await in_phase(handle, "waiting")
        again = await team.send("chat-1", "and now?")
        assert again.task_id == handle.task_id
        assert (await again.result(10)).value == "and now?"
    assert seen["answered"] == ["a", ("b", "and now?")], "the next message is not A's to answer"
    assert notes.calls == 1
    (decided,) = await events(ledger, handle.task_id, ev.TurnDecided)
    assert (decided.outcome, decided.transfer, decided.rejected) == (TurnOutcome.TRANSFER, "call-transfer", ())
    assert set(decided.asked) == {"call-note", "call-transfer"}
    (moved,) = await events(ledger, handle.task_id, ev.HandoffInitiated)
    assert [entry.agent for entry in moved.candidates] == ["b"], "routing moves with one event"
    (fact,) = seen["done"]
    assert (fact.what, fact.by, fact.origin) == ("save_note", "a", "work")
    if raises:
        assert (fact.outcome, fact.data) == ("failed", {"error": "OSError: the disk is full"})
    else:
        assert (fact.outcome, fact.data) == ("done", "note-7")
    assert seen["books"].works == ()


async def test_rt_01_a_note_that_outlasts_its_time_is_residual_and_b_is_told(ledger: Ledger) -> None:
    """RT-01: the note's result is delivered in the payload *or listed as residual work*; it is not lost and not redone.

    The note is told to end and does not: B starts, knows of it, and its end is recorded when it is seen.
    """
    go, calls = asyncio.Event(), []
    team = Team("t", ledger=ledger, settings=Settings(calls_ms=50))

    async def save_note() -> str:
        calls.append("save_note")
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        return "note-7"

    @team.agent(entry=True, may_transfer={"b": "answers from here on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        outcome = await own.turn([Call("save_note", save_note, policy=BRIEF), Transfer("b")])
        assert isinstance(outcome, Transfer)
        return outcome

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        (known,) = own.in_flight.works
        assert own.payload.done == ()
        go.set()

        async def off_the_books() -> bool:
            task = await ledger.task(own.task_id)
            return task is not None and not task.works

        await until(off_the_books)
        return Complete([known.what, known.outcome, known.by])

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == ["save_note", "unknown", "a"]
    assert calls == ["save_note"]
    (stopped,) = await events(ledger, handle.task_id, ev.WorkStopped)
    assert (stopped.how, stopped.late) == (WorkEnd.RETURNED, True)
    assert "ResidualDeclared" in await names(ledger, handle.task_id)


# --- transfers that are not applied -----------------------------------------------------------------------------------


def scripted(ledger: Ledger, responses: list[Response], said: list[Any], **settings: Any) -> Team:
    """A's model gives one response after the other; what a turn gives back is kept. B and C say who they are."""
    team = Team("t", ledger=ledger, settings=Settings(**settings))

    @team.agent(entry=True, may_transfer={"b": "answers from here on", "c": "does too"}, may_delegate=["d"])
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        for response in responses:
            outcome = await own.turn(response)
            if isinstance(outcome, Transfer):
                return outcome
            said.append(outcome)
        return Complete("kept by a")

    async def receiver(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.agent)

    for name in ("b", "c", "d"):
        team.agent(name=name)(receiver)
    return team


@pytest.mark.parametrize("targets", [("b", "c"), ("c", "b")])
async def test_rt_01_of_two_transfers_none_vanishes_in_silence(ledger: Ledger, targets: tuple[str, str]) -> None:
    """RT-01: a transfer that is not applied is a recorded rejection with its reason.

    Two transfers and a note: handed back twice, with words; then the first in the graph's order wins, in whatever
    order they were asked for, and the other one is rejected on the record. The note runs once, with the turn that goes.
    """
    notes = Notes(0, raises=False)
    response: Response = [*(Transfer[Any](to, id=f"to-{to}") for to in targets), Call("save_note", notes.save, id="n")]
    said: list[Any] = []
    team = scripted(ledger, [response] * 3, said, nudges=2)
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "b"
    assert [type(each) for each in said] == [Nudged, Nudged]
    assert [each.left for each in said] == [1, 0]
    assert all("to-b" in each.text and "to-c" in each.text for each in said)
    nudged = await events(ledger, handle.task_id, ev.TurnNudged)
    assert [[(one.call_id, one.code) for one in each.rejected] for each in nudged] == [
        [(f"to-{to}", "ambiguous_turn") for to in targets]
    ] * 2
    (decided,) = await events(ledger, handle.task_id, ev.TurnDecided)
    assert (decided.transfer, [(one.call_id, one.code) for one in decided.rejected]) == (
        "to-b",
        [("to-c", "ambiguous_turn")],
    )
    assert len(await events(ledger, handle.task_id, ev.HandoffInitiated)) == 1
    assert notes.calls == 1, "nothing of a turn that was handed back has run"


async def test_rt_01_beside_delegations_a_transfer_is_rejected_on_the_record(ledger: Ledger) -> None:
    """RT-01: the same for a transfer beside a delegation; without nudges left, delegations win."""
    said: list[Any] = []
    team = scripted(ledger, [[Transfer("b", id="move"), Delegate("d", id="ask")]], said, nudges=0)
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "kept by a"
    (answered,) = said
    assert isinstance(answered, Answered)
    assert [(fact.id, fact.outcome) for fact in answered.facts] == [("move", "refused"), ("ask", "done")]
    (decided,) = await events(ledger, handle.task_id, ev.TurnDecided)
    assert decided.outcome == TurnOutcome.GO
    assert [(one.call_id, one.code) for one in decided.rejected] == [("move", "ambiguous_turn")]
    assert await events(ledger, handle.task_id, ev.HandoffInitiated) == []


async def test_rt_01_identical_transfers_are_one(ledger: Ledger) -> None:
    """RT-01: exactly one accepted transfer, also when a response asks twice for the same one."""
    said: list[Any] = []
    twice: Response = [Transfer("b", {"n": 1}, id="one"), Transfer("b", {"n": 1}, summary="again", id="two")]
    team = scripted(ledger, [twice], said)
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "b"
    (decided,) = await events(ledger, handle.task_id, ev.TurnDecided)
    assert (decided.transfer, decided.merged, decided.rejected) == ("one", ("two",), ())


async def test_rt_01_a_transfer_to_somebody_else_is_refused_with_its_reason(ledger: Ledger) -> None:
    """RT-01: a transfer where there is no edge is a rejection that names what may be done; A goes on, and is told."""
    said: list[Any] = []
    team = scripted(ledger, [[Transfer("d", id="move")], [Transfer("nobody", id="move")], [Transfer("c")]], said)
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "c"
    nudged = await events(ledger, handle.task_id, ev.TurnNudged)
    assert [each.rejected[0].code for each in nudged] == ["route_forbidden", "unknown_agent"]
    assert "it may to b, c" in said[0].text


async def test_rt_01_after_the_decision_no_second_turn_and_no_other_answer_changes_it(ledger: Ledger) -> None:
    """RT-01: once a turn has decided, a later turn is refused and audited, and what the handler returns counts no more.

    In the reports a later, empty result overwrote the target. Here the handler itself tries.
    """
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "answers from here on", "c": "does too"})
    async def a(own: Tenure[Any]) -> Complete[Any]:
        await own.turn([Transfer("b", done=(Fact(id="f", what="asked", outcome="done"),))])
        with pytest.raises(Refused) as caught:
            await own.turn([Transfer("c")])
        assert caught.value.code == "transfer_decided"
        return Complete("overwritten")

    async def receiver(own: Tenure[Any]) -> Complete[Any]:
        return Complete([own.agent, [fact.id for fact in own.payload.done]])

    for name in ("b", "c"):
        team.agent(name=name)(receiver)
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == ["b", ["f"]]
    assert [each.code for each in await ledger.refusals(task_id=handle.task_id)] == ["transfer_decided"]
