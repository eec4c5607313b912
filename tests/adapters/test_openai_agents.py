"""Graphs of the OpenAI Agents SDK's own agents."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from agents import Agent, Handoff, RunContextWrapper, function_tool, handoff
from pydantic import BaseModel

from tenure.adapters.inferring import infer, look_into
from tenure.adapters.openai_agents import graph_of
from tenure.errors import Refused
from tenure.graph import AgentNode, Edge, EdgeKind, Tool


class Case(BaseModel):
    order: str


@function_tool
def look_up(order: str) -> str:
    """Look an order up."""
    return order


@function_tool(needs_approval=True)
def refund(order: str) -> str:
    """Pay back."""
    return order


def shop() -> Agent[Any]:
    def taken(context: RunContextWrapper[Any], case: Case) -> None:
        raise AssertionError("nothing runs")

    research: Agent[Any] = Agent(name="Research", tools=[look_up])
    billing: Agent[Any] = Agent(name="billing", handoff_description="Answers for refunds.", tools=[refund])
    triage: Agent[Any] = Agent(
        name="triage",
        tools=[look_up, research.as_tool("research", "Finds things out.")],
        handoffs=[handoff(billing, on_handoff=taken, input_type=Case, tool_description_override="For refunds.")],
    )
    billing.handoffs.append(triage)
    return triage


def test_handoffs_are_transfers_agents_as_tools_delegations_and_functions_tools() -> None:
    graph = graph_of(shop())
    assert (graph.team, graph.entry) == ("triage", "triage")
    assert graph.agents == {
        "triage": AgentNode(tools=("look_up",)),
        "billing": AgentNode(description="Answers for refunds.", tools=("refund",)),
        "Research": AgentNode(tools=("look_up",)),
    }
    assert graph.edges == (
        Edge(source="triage", target="billing", kind=EdgeKind.TRANSFER, payload="Case", description="For refunds."),
        Edge(source="triage", target="Research", kind=EdgeKind.DELEGATE, description="Finds things out."),
        Edge(source="billing", target="triage", kind=EdgeKind.TRANSFER),
    )
    assert graph.tools == {"look_up": Tool(), "refund": Tool(approval=True)}
    assert look_into(shop()).notes == ()


def test_a_handoff_with_the_usual_words_has_no_description() -> None:
    billing: Agent[Any] = Agent(name="billing", handoff_description="Answers for refunds.")
    graph = infer(Agent(name="triage", handoffs=[handoff(billing)]))
    assert graph.edges == (Edge(source="triage", target="billing", kind=EdgeKind.TRANSFER),)


def test_a_target_that_nobody_can_see_is_a_name_and_a_note() -> None:
    async def taken(context: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
        raise AssertionError("nothing runs")

    by_hand: Handoff[Any, Agent[Any]] = Handoff(
        tool_name="to_billing",
        tool_description="By hand.",
        input_json_schema={},
        on_invoke_handoff=taken,
        agent_name="billing",
    )
    found = look_into(Agent(name="triage", handoffs=[by_hand]))
    assert found.graph.edges == (
        Edge(source="triage", target="billing", kind=EdgeKind.TRANSFER, description="By hand."),
    )
    assert found.graph.agents["billing"].tools is None
    assert found.notes == ("billing could not be looked into: its own edges and tools are not here.",)


def test_a_handoff_whose_agent_is_gone_is_a_name_too() -> None:
    made = handoff(Agent(name="billing"))
    made.on_invoke_handoff = None  # type: ignore[assignment]  # what held the agent
    gc.collect()
    found = look_into(Agent(name="triage", handoffs=[made]))
    assert list(found.graph.agents) == ["triage", "billing"]
    assert len(found.notes) == 1


def test_what_is_disabled_is_left_out_and_told() -> None:
    other: Agent[Any] = Agent(name="other")
    tool = other.as_tool("ask", "Asks.", is_enabled=False)
    found = look_into(Agent(name="triage", tools=[tool], handoffs=[handoff(other, is_enabled=False)]))
    assert (list(found.graph.agents), found.graph.edges) == (["triage"], ())
    assert found.notes == (
        "The handoff from triage to other is disabled, and left out.",
        "The tool ask of triage is disabled, and left out.",
    )


def test_two_agents_of_one_name_are_an_error() -> None:
    twins: list[Any] = [Agent(name="billing"), Agent(name="billing")]
    with pytest.raises(Refused, match="Two different agents are called 'billing'") as caught:
        infer(Agent(name="triage", handoffs=twins))
    assert caught.value.code == "invalid_team"


@pytest.mark.parametrize("name", ["", "*"])
def test_a_name_that_no_agent_can_have_is_an_error(name: str) -> None:
    with pytest.raises(Refused, match="no name for an agent"):
        infer(Agent(name="triage", handoffs=[Agent(name=name)]))


def test_a_function_that_decides_on_approval_counts_as_approval() -> None:
    async def decide(context: Any, arguments: Any, call: str) -> bool:
        raise AssertionError("nothing runs")

    tool = function_tool(lambda order: order, name_override="pay", needs_approval=decide)
    found = look_into(Agent(name="triage", tools=[tool]))
    assert found.graph.tools == {"pay": Tool(approval=True)}
    assert "always does" in found.notes[0]


def test_servers_of_tools_are_told() -> None:
    class Server:
        name = "orders"

    found = look_into(Agent(name="triage", mcp_servers=[Server()]))  # type: ignore[list-item]  # nothing connects
    assert found.notes == (
        "The tools of the MCP server orders of triage are not listed: only a connection tells them.",
    )


def test_a_tool_whose_name_is_no_grant_is_left_out_and_told() -> None:
    tool = function_tool(lambda order: order, name_override="pay(all)")
    found = look_into(Agent(name="triage", tools=[tool, look_up]))
    assert found.graph.agents["triage"].tools == ("look_up",)
    assert found.notes == ("The tool 'pay(all)' of triage is left out: a grant is a name without spaces and brackets.",)
