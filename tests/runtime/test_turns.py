"""``own.turn``, nudges, a team's graph: what the handler sees, and what the ledger has of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenure import Answered, Call, Complete, Delegate, Nudged, Settings, Team, Tenure, Transfer
from tenure.errors import Refused
from tenure.graph import AgentNode, Budgets, Deadlines, Edge, Graph, PolicyNode, Tool
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.settings import EXTERNAL
from tenure.runtime.intents import tool_policy
from tests.runtime.harness import events


async def answer(value: Any, seconds: float = 0) -> Any:
    await asyncio.sleep(seconds)
    return value


def teams(ledger: Ledger, asked: list[Any], seen: list[Any], **settings: Any) -> Team:
    """A takes one turn; b, c complete with what they were told."""
    team = Team("t", ledger=ledger, settings=Settings(**settings))

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


async def test_two_things_of_a_turn_have_two_ids(ledger: Ledger) -> None:
    seen: list[Any] = []
    team = Team("t", ledger=ledger, settings=Settings(on_failure="fail"))

    @team.agent(entry=True)
    async def a(own: Tenure[Any]) -> Any:
        with pytest.raises(Refused, match="same id") as caught:
            await own.turn([Call("x", lambda: answer(1), id="1"), Call("y", lambda: answer(1), id="1")])
        seen.append(caught.value.code)
        return Complete()

    async with team.worker():
        await (await team.submit(goal="g")).result(10)
    assert seen == ["misuse"]


async def test_equal_content_of_a_state_document_has_an_equal_digest(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        await own.save({"n": 1})
        await own.save({"n": 2})
        await own.save({"n": 1})
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(10)
    one, two, three = (event.document for event in await events(ledger, handle.task_id, ev.Advanced))
    assert one == three != two


# --- the graph of a team --------------------------------------------------------------------------------------------

EDGE: dict[str, Any] = {"kind": "transfer", "because": "b answers"}
GRAPH = Graph(
    team="t",
    entry="a",
    agents={"a": AgentNode(), "b": AgentNode()},
    edges=(Edge(source="a", target="b", trigger="classification", **EDGE),),
    tools={"pay": Tool(policy="critical"), "note": Tool(policy="mine")},
    policies={"mine": PolicyNode(grace_ms=50)},
    budgets=Budgets(transfers=3),
    deadlines=Deadlines(ack_ms=999),
)


async def test_the_graph_says_what_holds_and_is_saved_once(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, graph=GRAPH)
    assert (team.settings.transfers, team.settings.ack_ms) == (3, 999)

    @team.agent
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        _ = own.spawn(answer(1), policy="mine")
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.payload.trigger)

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "classification", "the edge's trigger is filled in"
    assert await team.save_graph() == (await handle.state()).graph == GRAPH.digest
    assert [saved.digest for saved in await ledger.graphs()] == [GRAPH.digest]


async def test_a_task_is_moved_to_another_version(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, graph=GRAPH)
    handle = await team.submit(goal="g")
    newer = Graph(team="t", entry="a", agents=GRAPH.agents, budgets=Budgets(transfers=1))
    await handle.adopt(await ledger.save_graph(newer), by="person:lead")
    task = await handle.state()
    assert (task.graph, task.settings.transfers) == (newer.digest, 1)
    assert await team.version(newer.digest) == newer
    assert await team.version("") is None


def test_what_stands_in_the_graph_stands_nowhere_else() -> None:
    team = Team("t", graph=GRAPH)

    async def handler(own: Tenure[Any]) -> Complete[Any]:
        return Complete()

    said: list[dict[str, Any]] = [{"entry": True}, {"tools": ["x"]}, {"may_delegate": []}, {"skills": ["x"]}]
    for more in said:
        with pytest.raises(Refused, match="stand in the team's routing graph"):
            team.agent(name="a", **more)(handler)
    team.agent(name="stranger")(handler)
    with pytest.raises(Refused, match="Not in the routing graph of 't': stranger"):
        team.check()
    with pytest.raises(Refused, match="that of team 't', not of 'u'"):
        Team("u", graph=GRAPH)


def test_a_graph_file_is_read_when_the_team_is_made(tmp_path: Path) -> None:
    file = tmp_path / "team.toml"
    file.write_text('team = "t"\nentry = "a"\n[agents.a]\nknd = 1\n')
    with pytest.raises(Refused, match=r"team\.toml:4:1: There is no field 'knd'") as caught:
        Team("t", graph=file)
    assert caught.value.code == "invalid_graph"


def test_a_graph_with_errors_is_not_run() -> None:
    team = Team("t", graph=Graph(team="t", entry="a", agents={"a": AgentNode(tools=("pay(",))}))

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        return Complete()

    with pytest.raises(Refused, match="is no grant") as caught:
        team.check()
    assert caught.value.code == "invalid_graph"


def test_the_class_of_an_effect_is_what_the_graph_says_and_no_weaker() -> None:
    assert tool_policy(GRAPH, "pay", "").name == "critical"
    assert tool_policy(GRAPH, "note", "").grace_ms == 50
    assert tool_policy(GRAPH, "other", "") == tool_policy(None, "pay", "") == EXTERNAL
    assert tool_policy(GRAPH, "note", "critical").name == "critical"
    with pytest.raises(Refused, match="weaker gate"):
        tool_policy(GRAPH, "pay", "local")
    with pytest.raises(Refused, match="not a policy"):
        tool_policy(GRAPH, "note", "none such")
