"""Reported failures, several speakers at once: TA-05."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tenure import Answered, Complete, Delegate, Settings, Team, Tenure
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import Reason, WorkEnd
from tenure.runtime.delegation import Result
from tenure.runtime.handle import TaskHandle
from tests.runtime.harness import BRIEF, events, in_phase, names, until

DEADLINE = 0.3
LATER = "C, late"


class Speakers:
    """B answers at once, C when it is let, D at once and in C's place."""

    def __init__(self, ledger: Ledger, **settings: Any) -> None:
        self.go = asyncio.Event()
        self.heard: list[str] = []
        self.team = Team("t", ledger=ledger, settings=Settings(**settings))
        self.team.agent(self.b)
        self.team.agent(self.c)
        self.team.agent(self.d)

    async def b(self, own: Tenure[Any]) -> Complete[Any]:
        self.heard.append(own.agent)
        return Complete("B")

    async def c(self, own: Tenure[Any]) -> Complete[Any]:
        self.heard.append(own.agent)
        await self.go.wait()
        return Complete(LATER)

    async def d(self, own: Tenure[Any]) -> Complete[Any]:
        self.heard.append(own.agent)
        return Complete("D")


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """No task, and so no timer of one, survives what is run inside."""
    before = asyncio.all_tasks()
    yield

    async def over() -> bool:
        return not asyncio.all_tasks() - before

    await until(over, 5)


async def within(own: Tenure[Any], child: str, seconds: float = DEADLINE) -> Result | None:
    """The result of a child; ``None`` when it did not answer in time."""
    try:
        async with asyncio.timeout(seconds):
            return await own.join(child)
    except TimeoutError:
        return None


async def open_children(ledger: Ledger, handle: TaskHandle) -> list[tuple[str, str]]:
    """What the books say of the children that are not known to have ended: agent and phase."""
    found = []
    for child in (await handle.facts()).delegations:
        task = await ledger.task(child.child_id)
        assert task is not None
        found.append((child.agent, str(task.phase)))
    return found


async def let_end(speakers: Speakers, handle: TaskHandle) -> None:
    """C answers at last; wait until the books have it."""
    speakers.go.set()

    async def heard_of() -> bool:
        return not (await handle.facts()).delegations

    await until(heard_of)


@pytest.mark.parametrize("policy", ["go on partially", "retry once", "reassign"])
async def test_ta_05_a_speaker_that_never_answers_does_not_hold_up_the_others(ledger: Ledger, policy: str) -> None:
    """TA-05: at the deadline C is timed out and not taken for ended; B's result is kept, and a policy applies once."""
    speakers = Speakers(ledger)
    second_turn, asked = asyncio.Event(), asyncio.Event()

    @speakers.team.agent(entry=True)
    async def s(own: Tenure[Any]) -> Complete[Any]:
        children = {name: await own.open(name, key=name) for name in ("b", "c")}
        answers = await asyncio.gather(*(within(own, child) for child in children.values()))
        heard = {name: found.value if found else None for name, found in zip(children, answers, strict=True)}
        instead = {"retry once": ("c", "c:2"), "reassign": ("d", "c:2")}.get(policy)
        if instead is not None:
            found = await within(own, await own.open(instead[0], key=instead[1]))
            heard["c"] = found.value if found else None
        await own.save(heard)  # the turn is closed
        asked.set()
        await second_turn.wait()
        return Complete([heard, [entry.outcome for entry in (await own.hold.books.task(own.task_id)).children]])  # type: ignore[union-attr]  # its own task

    async with nothing_left(), speakers.team.worker():
        handle = await speakers.team.submit(goal="g")
        await asyncio.wait_for(asked.wait(), 10)
        silent = 2 if policy == "retry once" else 1
        assert await open_children(ledger, handle) == [("c", "active")] * silent, "not observed to have ended"
        closed = await handle.state()
        assert closed.collected == (2 if policy == "reassign" else 1), "B's result, and D's"

        await let_end(speakers, handle)  # C answers after the turn was closed
        assert (await handle.state()).document == closed.document, "nothing is mixed into the closed turn"
        second_turn.set()
        heard, late = (await handle.result(10)).value
    assert heard == {"b": "B", "c": "D" if policy == "reassign" else None}
    assert late == ["completed"] * silent, "C's answer is on the books, for whoever wants it, and was not collected"
    ended = await events(ledger, handle.task_id, ev.DelegationEnded)
    assert [each.unclaimed for each in ended].count(True) == 0
    assert len(await events(ledger, handle.task_id, ev.DelegationOpened)) == 3 - (policy == "go on partially")


async def test_ta_05_an_answer_after_the_end_is_kept_as_late(ledger: Ledger) -> None:
    """TA-05: S goes on with what it has; C answers when the task has ended already."""
    speakers = Speakers(ledger)

    @speakers.team.agent(entry=True)
    async def s(own: Tenure[Any]) -> Complete[Any]:
        children = [await own.open(name) for name in ("b", "c")]
        answers = await asyncio.gather(*(within(own, child) for child in children))
        return Complete([found.value if found else None for found in answers])

    async with nothing_left(), speakers.team.worker():
        handle = await speakers.team.submit(goal="g")
        result = await handle.result(10)
        ended = (await handle.state()).result
        assert await open_children(ledger, handle) == [("c", "active")]
        assert (await handle.facts()).answerable == "person:operator", "somebody answers for what still runs"
        speakers.go.set()

        async def late() -> Any:
            return [each for each in await events(ledger, handle.task_id, ev.DelegationEnded) if each.unclaimed]

        (kept,) = await until(late)
    assert result.value == ["B", None]
    assert (await handle.state()).result == ended, "the result of the task is as it was"
    body = await ledger.body(handle.task_id, kept.result)
    assert body is not None
    assert (kept.outcome, body.value()) == ("completed", LATER)


async def test_ta_05_a_silent_speaker_is_not_asked_again_and_again(ledger: Ledger) -> None:
    """TA-05: whoever always tries again comes to the end of its budget, which is the ledger's."""
    speakers = Speakers(ledger, delegations=3)
    codes: list[str] = []

    @speakers.team.agent(entry=True)
    async def s(own: Tenure[Any]) -> Complete[Any]:
        for attempt in range(1_000):
            try:
                child = await own.open("c", key=f"c:{attempt}")
            except Refused as error:
                codes.append(error.code)
                return Complete(attempt)
            assert await within(own, child, 0.02) is None
        raise AssertionError("no end")

    async with nothing_left(), speakers.team.worker():
        handle = await speakers.team.submit(goal="g")
        assert (await handle.result(10)).value == 3
        assert len((await handle.facts()).delegations) == 3, "each of them is still told"
        await let_end(speakers, handle)
    assert codes == ["delegation_limit_exceeded"]


@pytest.mark.parametrize("way", ["delegated", "in a turn", "spawned"])
async def test_ta_05_an_exception_is_a_failure_at_once(ledger: Ledger, way: str) -> None:
    """TA-05, variant: C raises. S learns of it long before the deadline, and nothing swallows it."""
    team = Team("t", ledger=ledger)

    @team.agent(entry=True)
    async def s(own: Tenure[Any]) -> Complete[Any]:
        async with asyncio.timeout(30):
            if way == "delegated":
                result = await own.delegate("c")
                return Complete([result.outcome, result.reason, result.value])
            if way == "in a turn":
                outcome = await own.turn([Delegate("c")])
                assert isinstance(outcome, Answered)
                (fact,) = outcome.facts
                return Complete([fact.outcome, fact.data["reason"], fact.data["detail"]])
            work = own.spawn(speak())
            with pytest.raises(OSError, match="lost for words"):
                await work
        assert work.outcome is not None
        return Complete(["failed", work.outcome.how, None])

    async def speak() -> None:
        raise OSError("lost for words")

    @team.agent
    async def c(own: Tenure[Any]) -> Complete[Any]:
        await speak()
        return Complete()

    loop = asyncio.get_running_loop()
    async with nothing_left(), team.worker():
        began = loop.time()
        handle = await team.submit(goal="g")
        outcome, reason, words = (await handle.result(10)).value
        assert loop.time() - began < 8, "not at a deadline"
    assert (outcome, reason) == ("failed", WorkEnd.RAISED if way == "spawned" else Reason.RAISED)
    assert way == "spawned" or "lost for words" in words["error"]


async def test_ta_05_a_turn_that_is_given_up_keeps_what_was_answered(ledger: Ledger) -> None:
    """TA-05: both were asked for in one turn. Its time-out ends the wait, and B's answer is there under its key."""
    speakers = Speakers(ledger)

    @speakers.team.agent(entry=True)
    async def s(own: Tenure[Any]) -> Complete[Any]:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(DEADLINE):
                await own.turn([Delegate("b", key="b"), Delegate("c", key="c")])
        again = await own.delegate("b", key="b")
        return Complete(again.value)

    async with nothing_left(), speakers.team.worker():
        handle = await speakers.team.submit(goal="g")
        assert (await handle.result(10)).value == "B"
        assert await open_children(ledger, handle) == [("c", "active")]
        await let_end(speakers, handle)
    assert sorted(speakers.heard) == ["b", "c"], "nobody was asked twice"


@pytest.mark.parametrize("stopped", ["by a person", "with the worker"])
async def test_ta_05_the_end_of_the_run_leaves_no_timer(ledger: Ledger, stopped: str) -> None:
    """TA-05, variant: the run ends before the deadline, while C is silent and a watchdog of S's own waits."""
    speakers = Speakers(ledger, lease_ms=600)
    opened = asyncio.Event()

    @speakers.team.agent(entry=True)
    async def s(own: Tenure[Any]) -> Complete[Any]:
        child = await own.open("c")
        _ = own.spawn(asyncio.sleep(60), policy=BRIEF, name="watchdog")
        await own.save()
        opened.set()
        await within(own, child, 60)
        return Complete()

    before = asyncio.all_tasks()
    async with nothing_left():
        async with speakers.team.worker(drain=0, agents=["s", "c"]):
            handle = await speakers.team.submit(goal="g")
            await asyncio.wait_for(opened.wait(), 10)

            async def speaking() -> bool:
                return speakers.heard == ["c"]

            await until(speaking)
            if stopped == "by a person":
                await handle.cancel(by="person-1")
                await in_phase(handle, "cancelled")
                assert await open_children(ledger, handle) == [("c", "active")], "it was not asked, and is told of"
        assert "DelegationEnded" not in await names(ledger, handle.task_id), "nobody says that C has ended"
        reports = {task.get_name().split(":")[0] for task in asyncio.all_tasks() - before}
        assert reports <= {"afterwards"}, "of what was let go there is only the report, once the ledger has ended it"
        async with speakers.team.worker(agents=["d"]):  # any worker sees to that

            async def leases_over() -> bool:
                tasks = await ledger.tasks()
                return not any(row.task.tenure for row in tasks)

            await until(leases_over)
    if stopped == "by a person":
        (watchdog,) = await events(ledger, handle.task_id, ev.WorkStopped)
        assert watchdog.how == WorkEnd.CANCELLED
