"""The routing graph of a team: from a value, a file or the handlers; what it says is what holds."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tenure import Complete, Done, Limits, Settings, Team, Tenure, Transfer
from tenure.errors import Refused
from tenure.graph import AgentNode, Budgets, Deadlines, Edge, Fallback, Graph, Oscillation, PolicyNode, Tool, Turns
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.settings import EXTERNAL, Policy
from tenure.protocol.vocabulary import Gate, Reason
from tenure.runtime.intents import tool_policy
from tests.runtime.harness import Desk, events

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
        _ = own.spawn(asyncio.sleep(0), policy="mine")
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

    said: list[dict[str, Any]] = [
        {"entry": True},
        {"may_transfer": {"b": "b answers"}},
        {"tools": ["x"]},
        {"may_delegate": []},
        {"skills": ["x"]},
    ]
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


# --- what it says becomes what holds ----------------------------------------------------------------------------------


def test_budgets_fallbacks_and_deadlines_of_the_graph_become_the_settings() -> None:
    graph = replace(
        GRAPH,
        budgets=Budgets(transfers=0, delegations=5, turn_delegations=2, depth=1, tree_delegations=7, agents=8),
        turns=Turns(nudges=0, calls_ms=250),
        oscillation=Oscillation(repeats=1),
        fallback=Fallback(person="person:lead", supervisor="b", failure="fail", lost="return", unanswered="cancel"),
        deadlines=Deadlines(lease_ms=2_000, question_ms=3_000, approval_ms=4_000),
    )
    team = Team("t", graph=graph, settings=Settings(gate_ms=77, nudges=9), limits=Limits(depth=9))
    told = team.settings
    assert (told.transfers, told.delegations, told.turn_delegations) == (0, 5, 2)
    assert (told.nudges, told.calls_ms, told.repeats) == (0, 250, 1), "the graph goes before the settings"
    assert (told.fallback, told.supervisor, told.on_failure) == ("person:lead", "b", "fail")
    assert (told.on_lost, told.on_unanswered, told.on_ack_timeout) == ("return", "cancel", "return")
    assert (told.lease_ms, told.question_ms, told.approval_ms) == (2_000, 3_000, 4_000)
    assert told.gate_ms == 77, "what it does not say is as it was"
    assert team.limits == Limits(depth=1, delegations=7, agents=8)


FILE = """
team = "t"
entry = "a"
[agents.a]
[agents.b]
[[edges]]
from = "a"
to = "b"
kind = "transfer"
because = "b answers"
trigger = "classification"
[tools.pay]
policy = "critical"
[tools.note]
policy = "mine"
[policies.mine]
grace_ms = 50
[budgets]
transfers = 3
[deadlines]
ack_ms = 999
"""


async def test_a_team_by_a_file_is_the_team_by_its_value(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "team.toml"
    file.write_text(FILE)
    for source in (file, str(file)):
        team = await asyncio.to_thread(partial(Team, "t", ledger=ledger, graph=source))
        assert team.graph == GRAPH
        assert await team.save_graph() == GRAPH.digest, "equal graphs have one digest, wherever they are written"


async def test_edges_at_the_handlers_are_a_graph_too(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "b answers"}, may_delegate=[], tools=["note"], skills=["sorts"])
    async def a(own: Tenure[int]) -> Complete[Any]:
        return Complete()

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete()

    graph = team.graph
    assert graph.agents == {"a": AgentNode(skills=("sorts",), accepts="int", tools=("note",)), "b": AgentNode()}
    assert graph.edges == (Edge(source="a", target="b", **EDGE), Edge(source="b", target="*"))
    assert graph.entry == "a"
    handle = await team.submit(1, goal="g")
    assert (await handle.state()).graph == graph.digest
    saved = await ledger.graph(graph.digest)
    assert saved is not None
    assert saved.graph == graph


async def test_a_policy_of_the_graph_is_known_by_its_name_for_works_and_effects(ledger: Ledger) -> None:
    desk = Desk()
    team = Team("t", ledger=ledger, graph=GRAPH)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        await own.spawn(asyncio.sleep(0), policy="mine", name="rest")
        one = await own.effect(desk, {"n": 1}, tool="note", key="1")
        other = await own.effect(desk, {"n": 2}, key="2", policy="mine")
        with pytest.raises(Refused) as caught:
            await own.effect(desk, {"n": 3}, tool="pay", key="3", policy="mine")
        assert caught.value.code == "misuse"
        with pytest.raises(Refused, match="use helper, local, external, critical, mine"):
            await own.spawn(asyncio.sleep(0), policy="yours")
        return Complete([isinstance(one, Done), isinstance(other, Done)])

    async with team.worker(agents=["a"]):
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == [True, True]
    mine = Policy(name="mine", grace_ms=50)
    assert [one.policy for one in await events(ledger, handle.task_id, ev.WorkStarted)] == [mine]
    assert [one.policy for one in await events(ledger, handle.task_id, ev.EffectIntended)] == [mine, mine]
    assert len(desk.acts) == 2, "a weaker class than the tool's was refused before the call"


@pytest.mark.parametrize("asked", ["", "classification"])
async def test_the_trigger_of_a_transfer_is_filled_from_its_edge(ledger: Ledger, asked: str) -> None:
    team = Team("t", ledger=ledger, graph=GRAPH)

    @team.agent
    async def a(own: Tenure[Any]) -> Any:
        return await own.turn([Transfer("b", trigger=asked)])

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.payload.trigger)

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == "classification"


async def test_another_trigger_than_the_edges_is_a_route_that_is_not_there(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, graph=replace(GRAPH, turns=Turns(nudges=0), fallback=Fallback(failure="fail")))

    @team.agent
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        return Transfer("b", trigger="error_threshold")

    team.agent(name="b")(a)
    async with team.worker():
        result = await (await team.submit(goal="g")).result(10)
    assert (result.outcome, result.reason) == ("failed", Reason.ROUTE_FORBIDDEN)
    assert "on classification, not on error_threshold" in result.value["error"]


@pytest.mark.parametrize(("asked", "held"), [("stopped", "settled"), ("settled", "settled")])
async def test_an_edge_raises_the_gate_of_a_transfer(ledger: Ledger, asked: str, held: str) -> None:
    edge = Edge(source="a", target="b", gate=Gate.SETTLED, **EDGE)
    team = Team("t", ledger=ledger, graph=replace(GRAPH, edges=(edge,)))

    @team.agent
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        return Transfer("b", gate=Gate(asked))

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(10)
    (moved,) = await events(ledger, handle.task_id, ev.HandoffInitiated)
    assert moved.gate == Gate(held)


async def test_a_team_without_a_handler_for_the_entry_submits_and_another_serves(ledger: Ledger) -> None:
    """The graph names the agents; a process needs handlers only for those that it serves."""
    front, back = Team("t", ledger=ledger, graph=GRAPH), Team("t", ledger=ledger, graph=GRAPH)

    @back.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        return Complete("served")

    with pytest.raises(Refused, match="has a handler here"):
        async with front.worker():
            pass
    handle = await front.submit(goal="g")
    async with back.worker():
        assert (await handle.result(10)).value == "served"
