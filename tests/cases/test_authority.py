"""Reported failures, security: SE-01. A tool that needs an approval needs it from whomever it is called."""

import asyncio
from typing import Any

import pytest

from tenure import Complete, Confirmed, Done, Held, Provider, Settings, Team, Tenure, Transfer, Wait
from tenure import Refused as NotDone
from tenure.errors import Refused
from tenure.graph import AgentNode, Edge, EdgeKind, Graph, Tool
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import Phase, Reason
from tenure.runtime.handle import TaskHandle
from tests.runtime.harness import Line, events, in_phase, until

GRAPH = Graph(
    team="t",
    entry="s",
    agents={name: AgentNode() for name in "sbcd"},
    edges=(
        Edge(source="s", target="b"),
        Edge(source="s", target="d"),
        Edge(source="b", target="c"),
        Edge(source="s", target="b", kind=EdgeKind.TRANSFER, because="b cleans up for good"),
    ),
    tools={"del": Tool(approval=True)},
)
ME = "person:operator"


class Del(Provider):
    """Deletes tables, and remembers which."""

    name = "del"

    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def apply(self, request: Any, *, key: str) -> Any:
        self.deleted.append(request["table"])
        return Confirmed(None, f"del-{len(self.deleted)}")


async def deletes(own: Tenure[Any], tool: Del, table: str) -> Wait | Complete[Any]:
    """Call the tool as any agent would."""
    outcome = await own.effect(tool, {"table": table}, key=f"{own.agent}:{table}")
    match outcome:
        case Held():
            return outcome.wait
        case Done():
            return Complete("deleted")
        case _:
            return Complete([type(outcome).__name__, getattr(outcome, "reason", "")])


def team_of(ledger: Ledger, tool: Del, *, stuck: list[str] | None = None, **settings: Any) -> Team:
    """Each agent hands its input on along the path that it names; the last one deletes. S deletes then for itself.

    ``stuck``: where the first tenure of B notes that it has begun; it stays there.
    """
    team = Team("t", ledger=ledger, graph=GRAPH, settings=Settings(**settings))

    async def handler(own: Tenure[Any]) -> Wait | Complete[Any]:
        if own.agent == "b" and stuck is not None:
            stuck.append(own.agent)
            if len(stuck) == 1:
                await asyncio.Event().wait()
        paths = [path for path in own.input if path]
        if not paths:
            return await deletes(own, tool, "accounts")
        children = [await own.open(path[0], [path[1:]], key=path) for path in paths]
        found = [(await own.join(child)).value for child in children]
        then = await deletes(own, tool, "logs") if own.agent == "s" else Complete("deleted")
        return Complete([*found, then.result]) if isinstance(then, Complete) and own.agent == "s" else then

    for name in "sbcd":
        team.agent(name=name)(handler)
    return team


async def asking(ledger: Ledger, agent: str) -> Task:
    """The task in which an agent's question is open."""

    async def there() -> list[Task]:
        rows = await ledger.tasks(phases=[Phase.WAITING], limit=100)
        return [row.task for row in rows if row.task.owner == agent and row.task.question is not None]

    (found,) = await until(there)
    return found


async def told(ledger: Ledger, task: Task) -> Any:
    """What the person who is asked reads."""
    assert task.question is not None
    assert task.question.allowed == ("approve", "refuse")
    body = await ledger.body(task.root_id, task.question.body)
    assert body is not None
    return body.value()["evidence"]


async def answer(team: Team, task: Task, choice: str) -> None:
    assert task.question is not None
    await team.task(task.task_id).answer(task.question.question_id, by=ME, choice=choice)


async def approved_then_own(team: Team, ledger: Ledger, handle: TaskHandle, tool: Del, chain: str) -> None:
    """The held call is asked for under its chain, runs when it is approved, and S is then held for its own."""
    asked = await asking(ledger, chain[-1])
    table = "accounts" if len(chain) > 1 else "logs"
    assert await told(ledger, asked) == {"tool": "del", "request": {"table": table}, "chain": list(chain)}
    assert tool.deleted == [], "nothing runs until it is decided"
    assert await ledger.effects(asked.task_id) == []
    await answer(team, asked, "approve")
    mine = await asking(ledger, "s")
    assert tool.deleted == ["accounts"]
    assert await told(ledger, mine) == {"tool": "del", "request": {"table": "logs"}, "chain": ["s"]}
    await answer(team, mine, "refuse")
    found = (await handle.result(10)).value
    assert found == ["deleted", ["Refused", f"{ME} has refused del."]], "after the delegation the policy is as before"
    assert tool.deleted == ["accounts"]


@pytest.mark.parametrize("choice", ["approve", "refuse"])
async def test_se_01_a_called_from_s_itself(ledger: Ledger, choice: str) -> None:
    """SE-01 (a): S calls del directly. It is held; the question names S; nothing runs until it is decided."""
    tool = Del()
    team = team_of(ledger, tool)
    async with team.worker():
        handle = await team.submit([], goal="clean up")
        asked = await asking(ledger, "s")
        assert await told(ledger, asked) == {"tool": "del", "request": {"table": "accounts"}, "chain": ["s"]}
        assert (tool.deleted, await ledger.effects(handle.task_id)) == ([], [])
        await answer(team, asked, choice)
        value = (await handle.result(10)).value
    approved = choice == "approve"
    assert value == ("deleted" if approved else ["Refused", f"{ME} has refused del."])
    assert tool.deleted == ["accounts"] * approved
    (word,) = await events(ledger, handle.task_id, ev.ApprovalDecided)
    assert (word.approval.by, word.approval.granted, word.approval.tool) == (ME, approved, "del")
    intended = await events(ledger, handle.task_id, ev.EffectIntended)
    assert [each.approval for each in intended] == [word.approval.question_id] * approved, (
        "the record names its question"
    )


@pytest.mark.parametrize("path", ["b", "bc"])
async def test_se_01_b_and_c_called_from_a_helper_and_from_its_helper(ledger: Ledger, path: str) -> None:
    """SE-01 (b), (c): B delegated by S, and C delegated by B. The question names the whole chain, not the entry agent.

    After the delegation S calls del itself: it is held as before.
    """
    tool = Del()
    team = team_of(ledger, tool)
    async with team.worker():
        handle = await team.submit([path], goal="clean up")
        await approved_then_own(team, ledger, handle, tool, f"s{path}")


async def test_se_01_d_called_from_b_after_a_restart(ledger: Ledger) -> None:
    """SE-01 (d): B's host is lost before the call, and B is resumed elsewhere; all workers end while it is held.

    The policy comes from the graph in the ledger, and not from the memory of the process that had delegated.
    """
    tool = Del()
    stuck: list[str] = []
    line = Line(ledger)
    one, two = (team_of(way, tool, stuck=stuck, lease_ms=600) for way in (line.ledger, ledger))
    async with one.worker(name="w1", drain=0):
        handle = await two.submit(["b"], goal="clean up")

        async def with_b() -> bool:
            return bool(stuck)

        await until(with_b)
        line.cut()
        async with two.worker(name="w2", drain=0):
            await asking(ledger, "b")
        line.mend()
    assert tool.deleted == []
    async with two.worker(name="w3"):
        await approved_then_own(two, ledger, handle, tool, "sb")
    assert len(stuck) >= 2, "B has begun again"


async def test_se_01_e_called_from_a_sibling_while_b_is_at_work(ledger: Ledger) -> None:
    """SE-01 (e): D is a parallel sibling of B. Each is asked for by itself; an approval of one is none of the other.

    Both want the same request. B is approved and deletes; D stays held until a person has refused it.
    """
    tool = Del()
    team = team_of(ledger, tool)
    async with team.worker():
        handle = await team.submit(["b", "d"], goal="clean up")
        b, d = await asking(ledger, "b"), await asking(ledger, "d")
        assert [(await told(ledger, one))["chain"] for one in (b, d)] == [["s", "b"], ["s", "d"]]
        assert tool.deleted == []
        await answer(team, b, "approve")
        assert (await team.task(b.task_id).result(10)).value == "deleted"
        still = await asking(ledger, "d")
        assert (still.question, still.approvals) == (d.question, ())
        assert tool.deleted == ["accounts"]
        await answer(team, d, "refuse")
        mine = await asking(ledger, "s")
        assert mine.approvals == (), "what was approved for B is not on the books of its caller"
        await answer(team, mine, "refuse")
        no = ["Refused", f"{ME} has refused del."]
        assert (await handle.result(10)).value == ["deleted", no, no]
    assert tool.deleted == ["accounts"]


# --- closed when nobody can be asked ----------------------------------------------------------------------------------


async def test_se_01_without_anybody_to_answer_it_fails_closed_with_that_reason(ledger: Ledger) -> None:
    """SE-01: no human is available. The wait for an answer ends by its own time; the call is held again, not run."""
    tool = Del()
    held: list[Held] = []
    team = Team("t", ledger=ledger, graph=GRAPH, settings=Settings(question_ms=50))

    @team.agent
    async def s(own: Tenure[Any]) -> Wait | Complete[Any]:
        outcome = await own.effect(tool, {"table": "accounts"}, key="accounts")
        assert isinstance(outcome, Held)
        held.append(outcome)
        return outcome.wait if len(held) == 1 else Complete(["not approved", outcome.tool, str(outcome.next_action)])

    async with team.worker():
        handle = await team.submit(goal="clean up")
        assert (await handle.result(10)).value == ["not approved", "del", "ask"]
    assert (tool.deleted, await ledger.effects(handle.task_id)) == ([], [])
    codes = [each.code for each in await ledger.refusals(task_id=handle.task_id)]
    assert codes == ["approval_required"] * 2, "each attempt is in the audit, with its reason"
    *_, woken = await events(ledger, handle.task_id, ev.OfferIssued)
    assert woken.reason == Reason.WAKE_TIME


async def test_se_01_a_person_who_aborts_has_not_approved(ledger: Ledger) -> None:
    """SE-01: an answer that is neither yes nor no ends the helper; its caller gets that as a result."""
    tool = Del()
    team = team_of(ledger, tool)
    async with team.worker():
        handle = await team.submit(["b"], goal="clean up")
        asked = await asking(ledger, "b")
        assert asked.question is not None
        helper = team.task(asked.task_id)
        await helper.answer(asked.question.question_id, by=ME, action="abort", choice="refuse")
        ended = await helper.result(10)
        assert (ended.outcome, ended.reason) == ("failed", Reason.ABORTED)
        await answer(team, await asking(ledger, "s"), "refuse")
        await handle.result(10)
    assert tool.deleted == []


async def test_se_01_an_approval_lapses_and_binds_the_exact_arguments(ledger: Ledger) -> None:
    """SE-01: an approval is for one request, and for a time. Other arguments, and the same ones too late, are held."""
    tool = Del()
    team = Team("t", ledger=ledger, graph=GRAPH, settings=Settings(approval_ms=400))
    seen: list[str] = []

    @team.agent
    async def s(own: Tenure[Any]) -> Wait | Complete[Any]:
        if await own.receive(timeout=0) is None:
            asked = await own.effect(tool, {"table": "accounts"}, key="k")
            assert isinstance(asked, Held)
            return asked.wait
        other = await own.effect(tool, {"table": "backups"}, key="k")
        seen.append(type(other).__name__)
        task = await ledger.task(own.task_id)
        assert task is not None
        until_ms = task.approvals[0].until

        async def lapsed() -> bool:
            return await asyncio.to_thread(ledger.now_blocking) > until_ms

        await until(lapsed)
        late = await own.effect(tool, {"table": "accounts"}, key="k")
        return Complete([*seen, type(late).__name__])

    async with team.worker():
        handle = await team.submit(goal="clean up")
        await answer(team, await asking(ledger, "s"), "approve")
        assert (await handle.result(10)).value == ["Held", "Held"]
    assert tool.deleted == []


# --- a delegation never widens ----------------------------------------------------------------------------------------

NARROW = Graph(
    team="t",
    entry="s",
    agents={
        "s": AgentNode(tools=("del(rows<=50)", "read")),
        "b": AgentNode(tools=("del(rows<=9)", "export")),
        "c": AgentNode(),
    },
    edges=(Edge(source="s", target="b"), Edge(source="b", target="c"), Edge(source="s", target="c", tools=("read",))),
)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("", {"del 50": "Done", "del 51": "limit_exceeded", "read 0": "Done", "export 0": "tool_not_allowed"}),
        (
            "b",
            {"del 9": "Done", "del 10": "limit_exceeded", "read 0": "tool_not_allowed", "export 0": "tool_not_allowed"},
        ),
        ("bc", {"del 9": "Done", "del 10": "limit_exceeded", "read 0": "tool_not_allowed"}),
        ("c", {"del 1": "tool_not_allowed", "read 0": "Done"}),
    ],
)
async def test_se_01_a_delegation_narrows_and_never_widens(ledger: Ledger, path: str, allowed: dict[str, str]) -> None:
    """SE-01: a helper has what its caller holds *and* the graph grants it, with the lower limit, at any depth.

    Afterwards S has what it had before.
    """
    tool = Del()
    team = Team("t", ledger=ledger, graph=NARROW)

    async def tries(own: Tenure[Any], wanted: list[str]) -> dict[str, str]:
        found = {}
        for one in wanted:
            name, rows = one.split()
            request = {"table": one, "rows": int(rows)}
            try:
                outcome = await own.effect(tool, request, key=f"{own.agent} {one}", tool=name)
                found[one] = type(outcome).__name__
            except Refused as error:
                found[one] = error.code
        return found

    async def handler(own: Tenure[Any]) -> Complete[Any]:
        where, wanted = own.input
        if where:
            found = (await own.delegate(where[0], [where[1:], wanted])).value
            after = await tries(own, ["del 50", "export 1"]) if own.agent == "s" else None
            return Complete(found if own.agent != "s" else [found, after])
        return Complete(await tries(own, wanted))

    for name in "sbc":
        team.agent(name=name)(handler)
    async with team.worker():
        handle = await team.submit([path, list(allowed)], goal="g")
        value = (await handle.result(10)).value
    if path:
        assert value == [allowed, {"del 50": "Done", "export 1": "tool_not_allowed"}]
    else:
        assert value == allowed


async def test_se_01_a_transfer_brings_no_approval_of_its_own(ledger: Ledger) -> None:
    """SE-01: B as the new owner is held as S was; an approval that S got for the exact call goes with the task."""
    tool = Del()
    team = Team("t", ledger=ledger, graph=GRAPH)

    @team.agent
    async def s(own: Tenure[Any]) -> Wait | Transfer[Any]:
        if await own.receive(timeout=0) is None:
            outcome = await own.effect(tool, {"table": "accounts"}, key="accounts")
            assert isinstance(outcome, Held)
            return outcome.wait
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Wait | Complete[Any]:
        approved = await own.effect(tool, {"table": "accounts"}, key="accounts")
        other = await own.effect(tool, {"table": "logs"}, key="logs")
        assert isinstance(approved, Done)
        if isinstance(other, Held):
            return other.wait
        return Complete(isinstance(other, NotDone))

    for name in "cd":
        team.agent(name=name)(b)
    async with team.worker():
        handle = await team.submit(goal="clean up")
        await answer(team, await asking(ledger, "s"), "approve")
        asked = await asking(ledger, "b")
        assert (await told(ledger, asked))["chain"] == ["b"]
        assert tool.deleted == ["accounts"]
        await answer(team, asked, "refuse")
        assert (await handle.result(10)).value is True
        await in_phase(handle, Phase.COMPLETED)
    assert tool.deleted == ["accounts"]


async def test_se_01_a_helper_inherits_what_was_approved_and_nothing_goes_up_or_across(ledger: Ledger) -> None:
    """SE-01: S was approved for one exact call and lets B make it. B is not asked again for that one; for others it is.

    D, a sibling that was asked before the approval, is held for the same request.
    """
    tool = Del()
    team = Team("t", ledger=ledger, graph=GRAPH)

    @team.agent
    async def s(own: Tenure[Any]) -> Wait | Complete[Any]:
        before = await own.open("d", "accounts", key="d")
        if await own.receive(timeout=0) is None:
            outcome = await own.effect(tool, {"table": "accounts"}, key="accounts")
            assert isinstance(outcome, Held)
            return outcome.wait
        helped = [(await own.delegate("b", table, key=table)).value for table in ("accounts", "logs")]
        return Complete([*helped, (await own.join(before)).value])

    async def helper(own: Tenure[Any]) -> Wait | Complete[Any]:
        outcome = await own.effect(tool, {"table": own.input}, key=own.input if own.agent == "b" else "d")
        return outcome.wait if isinstance(outcome, Held) else Complete(type(outcome).__name__)

    for name in "bcd":
        team.agent(name=name)(helper)
    async with team.worker():
        handle = await team.submit(goal="clean up")
        d = await asking(ledger, "d")
        await answer(team, await asking(ledger, "s"), "approve")
        asked = await asking(ledger, "b")
        assert await told(ledger, asked) == {"tool": "del", "request": {"table": "logs"}, "chain": ["s", "b"]}
        assert tool.deleted == ["accounts"]
        for task in (asked, d):
            await answer(team, task, "refuse")
        assert (await handle.result(10)).value == ["Done", "Refused", "Refused"]
    assert tool.deleted == ["accounts"]
