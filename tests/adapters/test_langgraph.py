"""Graphs of LangGraph's own swarms and supervisors."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph_supervisor import create_supervisor
from langgraph_swarm import create_handoff_tool, create_swarm

from tenure.adapters.inferring import infer, look_into
from tenure.adapters.langgraph import graph_of
from tenure.errors import Refused
from tenure.graph import AgentNode, Edge, EdgeKind, Graph, Tool

# langgraph-supervisor itself uses what langgraph has moved elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")


class Never(GenericFakeChatModel):
    """A model that nobody may call."""

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, *given: Any, **more: Any) -> Any:
        raise AssertionError("a model was called")


MODEL = Never(messages=iter(()))


def add(left: int, right: int) -> int:
    """Add up."""
    return left + right


def agent(name: str, *tools: Any) -> Any:
    return create_agent(MODEL, tools=list(tools), name=name)


def moves(graph: Graph) -> list[tuple[str, str, str]]:
    return [(edge.source, str(edge.kind), edge.target) for edge in graph.edges]


def swarm() -> Any:
    alice = agent("alice", add, create_handoff_tool(agent_name="bob", description="Bob speaks."))
    bob = agent("bob", create_handoff_tool(agent_name="alice"))
    return create_swarm([alice, bob], default_active_agent="bob")


@pytest.mark.parametrize("made", [swarm(), swarm().compile()], ids=["being built", "compiled"])
def test_a_swarm_transfers(made: Any) -> None:
    graph = graph_of(made)
    assert (graph.team, graph.entry) == ("bob", "bob")
    assert graph.agents == {"alice": AgentNode(tools=("add",)), "bob": AgentNode(tools=())}
    assert graph.edges == (
        Edge(source="alice", target="bob", kind=EdgeKind.TRANSFER, description="Bob speaks."),
        Edge(source="bob", target="alice", kind=EdgeKind.TRANSFER),
    )
    assert graph.tools == {"add": Tool()}
    assert look_into(swarm()).notes == ()


def test_a_supervisor_delegates_and_always_in_the_same_order() -> None:
    names = [f"worker-{number}" for number in range(8)]
    found = look_into(create_supervisor([agent(name) for name in names], model=MODEL, tools=[add]).compile())
    assert found.graph.entry == "supervisor"
    assert moves(found.graph) == [("supervisor", "delegate", name) for name in names]
    assert found.graph.agents["supervisor"].tools == ("add",)
    assert found.notes == ()


def test_a_worker_that_hands_over_itself_transfers() -> None:
    workers = [agent("one", create_handoff_tool(agent_name="two")), agent("two")]
    graph = infer(create_supervisor(workers, model=MODEL))
    assert moves(graph) == [
        ("one", "transfer", "two"),
        ("supervisor", "delegate", "one"),
        ("supervisor", "delegate", "two"),
    ]


def test_a_team_inside_of_a_team_is_delegated_to() -> None:
    inner = create_supervisor([agent("digger")], model=MODEL, supervisor_name="lead").compile(name="research")
    graph = infer(create_supervisor([inner, agent("writer")], model=MODEL, supervisor_name="boss"))
    assert graph.entry == "boss"
    assert moves(graph) == [
        ("boss", "delegate", "research"),
        ("boss", "delegate", "writer"),
        ("lead", "delegate", "digger"),
        ("research", "delegate", "lead"),
    ]


def test_two_agents_of_one_name_are_an_error() -> None:
    inner = create_supervisor([agent("writer")], model=MODEL, supervisor_name="lead").compile(name="research")
    with pytest.raises(Refused, match="Two different agents are called 'writer'"):
        infer(create_supervisor([inner, agent("writer")], model=MODEL))


def test_one_agent_alone_takes_the_name_that_it_is_given() -> None:
    found = look_into(create_agent(MODEL, tools=[add]), "helper")
    assert found.graph.agents == {"helper": AgentNode(tools=("add",))}
    assert look_into(agent("solo"), "helper").graph.entry == "solo"


def test_a_chain_of_agents_transfers_when_a_stage_is_done() -> None:
    def tidy(state: MessagesState) -> MessagesState:
        raise AssertionError("nothing runs")

    chain = StateGraph(MessagesState)
    chain.add_node("draft", agent("draft"))
    chain.add_node("check", agent("check"))
    chain.add_node("send", agent("send"))
    chain.add_node("tidy", tidy)
    chain.add_edge(START, "draft")
    chain.add_edge("draft", "check")
    chain.add_conditional_edges("check", lambda state: "draft", ["draft", "tidy"])
    chain.add_edge("tidy", "send")
    chain.add_edge("send", END)
    found = look_into(chain)
    assert found.graph.edges == (
        Edge(source="check", target="draft", kind=EdgeKind.TRANSFER),
        Edge(source="draft", target="check", kind=EdgeKind.TRANSFER, trigger="stage_done"),
    )
    assert found.notes == ("Nodes that are no agents are not drawn, nor what leads through them: tidy.",)


def test_an_entry_that_only_code_knows_is_told() -> None:
    choice = StateGraph(MessagesState)
    choice.add_node("one", agent("one"))
    choice.add_node("two", agent("two"))
    choice.add_conditional_edges(START, lambda state: "two", ["two", "one"])
    found = look_into(choice)
    assert found.graph.entry in {"one", "two"}
    assert found.notes == (f"Which agent gets new tasks is decided by code; {found.graph.entry} is taken for it.",)


def test_an_agent_whose_tools_nobody_can_see_is_told() -> None:
    def act(state: MessagesState) -> MessagesState:
        raise AssertionError("nothing runs")

    inner = StateGraph(MessagesState)
    inner.add_node("act", act)
    inner.add_edge(START, "act")
    outer = StateGraph(MessagesState)
    outer.add_node("own", inner.compile())
    outer.add_edge(START, "own")
    found = look_into(outer)
    assert found.graph.agents == {"own": AgentNode(tools=())}
    assert found.notes == ("own has no node of tools: which tools it uses is not listed.",)
