"""Reported failures, budgets and loops: BL-01 and BL-03. Scripted agents stand for models."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenure import Complete, Delegate, Fact, Limits, Nudged, Settings, Team, Tenure, Transfer, Wait
from tenure.errors import Refused
from tenure.ledger import Ledger, open_ledger
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import OfferKind, Phase, Reason
from tenure.runtime.handle import TaskHandle
from tests.cases.spawning import research
from tests.runtime.harness import events, in_phase, owned_by, until
from tests.runtime.processes import ROOT
from tests.runtime.program import Folder

# --- BL-01 ------------------------------------------------------------------------------------------------------------

GATHERED = (Fact(id="item-0", what="gathered", outcome="done"),)


def table_tennis(ledger: Ledger, played: list[str], *, supervisor: str = "", waits: bool = False) -> Team:
    """A and B hand the same request to each other, with other words each time. A has found something out before."""
    team = Team("t", ledger=ledger, settings=Settings(repeats=1, nudges=1, supervisor=supervisor))

    async def player(own: Tenure[Any]) -> Transfer[Any] | Wait:
        played.append(own.agent)
        if waits and len(played) % 2:
            return Wait("time", within=0.01)
        if own.state is None:
            await own.save({"customer": "customer-07"})
        words = f"I am not in charge of this ({len(played)})."
        while True:
            to = "b" if own.agent == "a" else "a"
            done = GATHERED if own.agent == "a" else ()
            outcome = await own.turn([Transfer(to, own.input, summary=words, done=done, constraints=("be polite",))])
            if isinstance(outcome, Transfer):
                return outcome
            assert isinstance(outcome, Nudged)

    async def third(own: Tenure[Any]) -> Complete[Any]:
        known = [fact.id for fact in own.payload.done]
        return Complete([own.agent, own.input, own.state, known, list(own.payload.constraints)])

    team.agent(name="a", entry=True, may_transfer={"b": "b knows about it"})(player)
    team.agent(name="b", may_transfer={"a": "a knows about it"})(player)
    team.agent(name="lead", tools=[])(third)
    return team


INTACT = ["lead", {"order": "A17"}, {"customer": "customer-07"}, ["item-0"], ["be polite"]]


async def check_stopped(ledger: Ledger, handle: TaskHandle) -> None:
    """Two uses of each edge, then a nudge, then the end: with the reason, and with the path in words."""
    moved = await events(ledger, handle.task_id, ev.HandoffInitiated)
    assert [each.candidates[0].agent for each in moved] == ["b", "a", "b", "a"], "repeats=1: each edge twice"
    (nudged,) = await events(ledger, handle.task_id, ev.TurnNudged)
    *_, decided = await events(ledger, handle.task_id, ev.TurnDecided)
    for rejected in (nudged.rejected[0], decided.rejected[0]):
        assert rejected.code == "oscillation"
        assert "a → b → a → b → a" in rejected.detail
    assert (decided.outcome, decided.reason) == ("end", Reason.OSCILLATION)


async def test_bl_01_a_ping_pong_ends_with_the_supervisor_and_its_state(ledger: Ledger) -> None:
    """BL-01: A → B → A → B … with nothing new in between goes to the supervisor after a small number of repeats."""
    played: list[str] = []
    team = table_tennis(ledger, played, supervisor="lead")
    async with team.worker():
        handle = await team.submit({"order": "A17"}, goal="g")
        assert (await handle.result(10)).value == INTACT
    assert played == ["a", "b", "a", "b", "a"]
    await check_stopped(ledger, handle)
    *_, last = await events(ledger, handle.task_id, ev.OfferIssued)
    assert (last.kind, last.reason, last.candidates[0].agent) == (OfferKind.TAKEOVER, Reason.OSCILLATION, "lead")


async def test_bl_01_a_ping_pong_ends_with_a_person_who_reads_the_path_and_decides(ledger: Ledger) -> None:
    """BL-01: without a supervisor a person is asked; the task keeps somebody who answers for it, and its state."""
    team = table_tennis(ledger, [])
    async with team.worker():
        handle = await team.submit({"order": "A17"}, goal="g")
        asked = await in_phase(handle, Phase.ESCALATED)
        question = asked.question
        assert question is not None
        assert (question.reason, question.who) == (Reason.OSCILLATION, ("person:operator",))
        told = (await ledger.body(asked.root_id, question.body)).value()  # type: ignore[union-attr]  # it was just asked
        assert (told["path"], told["asked"]) == (["a", "b", "a", "b", "a"], [["b"]])
        assert (await handle.facts()).answerable
        await handle.answer(question.question_id, by="person:operator", action="reassign", agent="lead")
        assert (await handle.result(10)).value == INTACT
    await check_stopped(ledger, handle)


async def test_bl_01_a_tenure_that_is_resumed_is_not_counted_again(ledger: Ledger) -> None:
    """BL-01: waiting and waking between the hops adds no hop; the same number of hops is stopped."""
    played: list[str] = []
    team = table_tennis(ledger, played, supervisor="lead", waits=True)
    async with team.worker():
        handle = await team.submit({"order": "A17"}, goal="g")
        assert (await handle.result(10)).value == INTACT
    assert played == ["a", "a", "b", "b", "a", "a", "b", "b", "a", "a"]
    await check_stopped(ledger, handle)


CONTROL = "bacabacabacab"
"""Thirteen hops, where the ping-pong was stopped at its fifth."""


def productive(ledger: Ledger, *, by: str, hops: str, transfers: int) -> Team:
    """A, B and C pass one request round; each completes another item: a stated fact, or a saved document."""
    team = Team("t", ledger=ledger, settings=Settings(repeats=1, nudges=1, transfers=transfers))

    async def agent(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        hop = own.payload.hop
        if hop == len(hops):
            return Complete([hop, own.state, [fact.id for fact in own.payload.done]])
        done: tuple[Fact, ...] = ()
        if by == "fact":
            done = (Fact(id=f"item-{hop}", what="gathered", outcome="done"),)
        else:
            await own.save({"items": hop + 1})
        while True:
            outcome = await own.turn([Transfer(hops[hop], done=done)])
            if isinstance(outcome, Transfer):
                return outcome

    everybody = {name: dict.fromkeys(set("abc") - {name}, "goes on with the next item") for name in "abc"}
    for name, edges in everybody.items():
        team.agent(name=name, entry=name == "a", may_transfer=edges)(agent)
    return team


@pytest.mark.parametrize("by", ["fact", "document"])
async def test_bl_01_the_control_run_with_more_hops_is_not_stopped(ledger: Ledger, by: str) -> None:
    """BL-01, control run: A → B → A → C → A … with another item at each hop uses the same edges more often."""
    team = productive(ledger, by=by, hops=CONTROL, transfers=16)
    async with team.worker():
        handle = await team.submit(goal="g")
        value = (await handle.result(20)).value
    assert value[0] == len(CONTROL)
    if by == "fact":
        assert value[2] == [f"item-{n}" for n in range(len(CONTROL))]
    else:
        assert value[1] == {"items": len(CONTROL)}
    assert await events(ledger, handle.task_id, ev.TurnNudged) == []


@pytest.mark.parametrize("policy", ["escalate", "fail"])
async def test_bl_01_the_hard_budget_is_reported_as_such(ledger: Ledger, policy: Any) -> None:
    """BL-01: a hard hop budget still applies to a productive run, and is reported as used up, not as a crash."""
    team = productive(ledger, by="document", hops=CONTROL, transfers=5)
    async with team.worker():
        handle = await team.submit(goal="g", settings=Settings(transfers=5, nudges=1, on_failure=policy))
        task = await in_phase(handle, Phase.ESCALATED, Phase.FAILED)
    reason = task.reason if policy == "fail" else task.question and task.question.reason
    assert reason == Reason.TRANSFER_LIMIT_EXCEEDED
    body = task.result if policy == "fail" else task.question and task.question.body
    told = (await ledger.body(task.root_id, body or "")).value()  # type: ignore[union-attr]  # it has ended with words
    assert (told["path"], told["asked"]) == (["a", "b", "a", "c", "a", "b"], [["a"]])
    assert (await handle.facts()).answerable
    document = await ledger.body(task.root_id, task.document)
    assert document is not None
    assert document.value() == {"items": 6}, "its state is kept"
    assert len(await events(ledger, handle.task_id, ev.HandoffInitiated)) == 5


# --- BL-03 ------------------------------------------------------------------------------------------------------------


async def most_at_once(ledger: Ledger, root_id: str) -> tuple[int, int]:
    """How many tasks of a tree were unfinished at the same time at most, and how deep it went: counted from events."""
    now = most = deepest = 0
    for recorded in await ledger.events(limit=10_000):
        match recorded.event:
            case ev.TaskSubmitted(depth=depth):
                now += 1
                deepest = max(deepest, depth)
            case ev.TaskCompleted() | ev.TaskFailed() | ev.TaskCancelled():
                now -= 1
            case _:
                pass
        assert recorded.task_id.startswith(root_id)
        most = max(most, now)
    return most, deepest


async def tree_of(ledger: Ledger, handle: TaskHandle) -> list[Any]:
    """The tasks of a tree, as they are."""
    return [row.task for row in await ledger.tasks(limit=1_000) if row.task.root_id == handle.task_id]


@pytest.mark.parametrize("limits", [Limits(depth=2, agents=6), Limits(depth=9, agents=6)])
async def test_bl_03_depth_and_number_are_limited_when_a_helper_is_asked_for(ledger: Ledger, limits: Limits) -> None:
    """BL-03: S delegates to B, B delegates the same text to copies of itself, three each, without an end of its own.

    With depth 2 the grandchildren may ask nobody. With a depth that does not hold them back, the number of agents does.
    A refusal is typed: its code and the limit, in the turn's answer; nothing is thrown away and nobody crashes.
    """
    team = research(ledger, limits)
    async with team.worker(concurrency=64):
        handle = await team.submit(goal="research the tides")
        result = await handle.result(20)
    assert result.outcome == "completed"
    most, deepest = await most_at_once(ledger, handle.task_id)
    assert most <= limits.agents
    assert deepest <= limits.depth
    copies = result.value["found"]["facts"]
    assert [outcome for outcome, _ in copies] == ["done"] * 3
    if limits.depth == 2:
        assert (most, deepest) == (5, 2)
        assert all(value["refused"] == ["delegation_limit_exceeded"] * 3 for _, value in copies)
        assert all("depth of the tree is 2" in value["because"] for _, value in copies)
    else:
        refusals = str(copies)
        assert "agents at work in the tree is 6" in refusals


async def test_bl_03_an_obstinate_helper_ends_and_its_caller_gets_a_typed_result(ledger: Ledger) -> None:
    """BL-03: one that asks again and again is told twice; then its task ends, and its caller goes on with why."""
    team = research(ledger, Limits(depth=1, agents=6), obstinate=True)
    async with team.worker():
        handle = await team.submit(goal="research the tides")
        result = await handle.result(20)
    assert result.value["outcome"] == "failed"
    assert result.value["reason"] == Reason.DELEGATION_LIMIT_EXCEEDED
    assert result.value["found"]["asked"] == [["b"]] * 3
    _, child = await tree_of(ledger, handle)
    nudged = await events(ledger, child.task_id, ev.TurnNudged)
    told = [one.detail for each in nudged for one in each.rejected]
    assert told == ["The limit of the depth of the tree is 1."] * 6
    assert (child.phase, child.reason) == (Phase.FAILED, Reason.DELEGATION_LIMIT_EXCEEDED)


async def test_bl_03_a_delegation_outside_of_a_turn_is_refused_by_its_code(ledger: Ledger) -> None:
    """BL-03: the same for ``own.delegate``: a typed error at the call, in the audit, and the caller goes on."""
    team = Team("t", ledger=ledger, limits=Limits(depth=0))

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        with pytest.raises(Refused) as caught:
            await own.delegate("b")
        return Complete([caught.value.code, caught.value.detail])

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        raise AssertionError("it must not start")

    async with team.worker():
        handle = await team.submit(goal="g")
        value = (await handle.result(10)).value
    assert value == ["delegation_limit_exceeded", "The limit of the depth of the tree is 0."]
    assert [each.code for each in await ledger.refusals(task_id=handle.task_id)] == ["delegation_limit_exceeded"]


class Helpers:
    """``tenure worker`` processes of :mod:`tests.cases.spawning` on one folder."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self.path, self.ledger = path, ledger
        self.folder = Folder(path)
        self.running: list[asyncio.subprocess.Process] = []

    async def start(self) -> asyncio.subprocess.Process:
        options = ("worker", "tests/cases/spawning.py:team", "--name", "w", "--concurrency", "64")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tenure",
            *options,
            cwd=ROOT,
            env={**os.environ, "SPAWNING": str(self.path), "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        self.running.append(process)
        return process

    async def began(self, times: int) -> list[str]:
        """Wait until handlers have begun so often; the tasks, in that order."""

        async def enough() -> list[str]:
            found = [line[1] for line in self.folder.lines("began")]
            return found if len(found) >= times else []

        return await until(enough, 20)


@pytest.fixture
async def helpers(tmp_path: Path) -> AsyncIterator[Helpers]:
    ledger = await asyncio.to_thread(open_ledger, f"sqlite:///{tmp_path}/ledger.db")
    made = Helpers(tmp_path, ledger)
    yield made
    for process in made.running:
        if process.returncode is None:
            process.kill()
        await process.wait()
    found = await ledger.verify()
    await ledger.close()
    assert (found.chain, found.replay, found.problems) == ("verified", "equal", ())


# A turn that is asked again is judged as if its three copies were to be opened anew: it needs room for eight.
@pytest.mark.parametrize(("at_work", "agents"), [("b", 6), ("its copies", 8)])
async def test_bl_03_the_limits_hold_for_children_that_come_back_after_a_restart(
    helpers: Helpers, at_work: str, agents: int
) -> None:
    """BL-03: depth and number are carried with the delegation; they hold for a child restored after a restart.

    The process is killed with SIGKILL while B is at work, or while its three copies are. Each handler that had begun
    starts again: B finds the copies that it had asked for, and a copy may ask nobody.
    """
    first = await helpers.start()
    submitting = research(helpers.ledger, Limits(depth=2, agents=agents), settings=Settings(lease_ms=60_000))
    handle = await submitting.submit(goal="research the tides")
    (b,) = await helpers.began(1)
    if at_work == "its copies":
        (helpers.path / "go").touch()
        await helpers.began(4)
    first.kill()
    await first.wait()
    (helpers.path / "go").touch()
    (helpers.path / "go-copies").touch()
    await helpers.start()
    result = await handle.result(25)
    assert result.outcome == "completed"
    copies = result.value["found"]["facts"]
    assert [value["refused"] for _, value in copies] == [["delegation_limit_exceeded"] * 3] * 3
    begun = await helpers.began(1)
    assert begun.count(b) == 2, "B has begun again"
    assert len(begun) == (5 if at_work == "b" else 8), "and so have the copies that had begun, and no other"
    tree = await tree_of(helpers.ledger, handle)
    assert sorted(task.depth for task in tree) == [0, 1, 2, 2, 2], "nothing was counted or opened twice"
    assert await most_at_once(helpers.ledger, handle.task_id) == (5, 2)


async def test_bl_03_results_without_a_consumer_are_listed(ledger: Ledger) -> None:
    """BL-03: one copy ends before its caller and is never collected, one after it: both stand on the caller's books.

    The later one is marked as unclaimed in the commit of its own end. A result that was collected is not listed.
    """
    go = asyncio.Event()
    team = Team("t", ledger=ledger)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        collected = await own.open("b", "collected")
        early = await own.open("b", "early")
        late = await own.open("b", "late")
        await own.join(collected)

        async def ended() -> bool:
            child = await ledger.task(early)
            return child is not None and child.phase.ended

        await until(ended)
        return Complete([early, late])

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        if own.input == "late":
            await go.wait()
        return Complete(f"{own.input} found something")

    async with team.worker():
        handle = await team.submit(goal="g")
        early, late = (await handle.result(10)).value
        assert [child.child_id for child in (await handle.facts()).delegations] == [late], "it has not ended"
        go.set()
        assert (await team.task(late).result(10)).outcome == "completed"
    books = {child.child_id: child.outcome for child in (await handle.state()).children}
    assert books == {early: "completed", late: "completed"}, "their results can be read; nobody did"
    marked = {each.child_id: each.unclaimed for each in await events(ledger, handle.task_id, ev.DelegationEnded)}
    assert (marked[early], marked[late]) == (False, True)


async def test_bl_03_a_stopped_tree_grows_no_further_and_what_has_not_ended_is_listed(ledger: Ledger) -> None:
    """BL-03: the user stops the root while B is at work.

    What exists: the stop flag of the tree refuses every new task in it, at any depth, as a typed result; the root that
    was asked to stop ends, and lists the delegations that have not. That a stop of the root *reaches* every descendant
    is for a supervisor to do, and is not tested here: until then each of them is asked by its own ``cancel``.
    """
    go = asyncio.Event()
    team = Team("t", ledger=ledger)

    @team.agent
    async def s(own: Tenure[Any]) -> Complete[Any]:
        return Complete((await own.delegate("b")).value)

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        await go.wait()
        outcome = await own.turn([Delegate("c"), Delegate("c")])
        assert isinstance(outcome, Nudged)
        return Complete([one.code for one in outcome.rejected])

    @team.agent
    async def c(own: Tenure[Any]) -> Complete[Any]:
        raise AssertionError("it must not start")

    async with team.worker():
        handle = await team.submit(goal="g")

        async def child() -> str:
            children = (await handle.state()).children
            return children[0].child_id if children else ""

        helper = team.task(await until(child))
        await owned_by(helper, "b")
        stop = {"root_id": handle.task_id, "task_id": handle.task_id, "by": "person:office", "reason": "enough"}
        await ledger.execute(cmd.StopTree(command_id="stop", **stop))
        await handle.cancel(by="person:office", reason="enough")
        assert (await handle.result(10)).outcome == "cancelled"
        assert [(one.agent, one.outcome) for one in (await handle.facts()).delegations] == [("b", "")]
        go.set()
        assert (await helper.result(10)).value == ["tree_stopped", "tree_stopped"]
    (ended,) = await events(ledger, handle.task_id, ev.DelegationEnded)
    assert ended.unclaimed
