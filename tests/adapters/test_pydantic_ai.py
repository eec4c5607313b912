"""Graphs of Pydantic AI's own agents; and what no adapter recognises."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import CombinedToolset, ExternalToolset, FunctionToolset

from tenure.adapters.inferring import infer, look_into
from tenure.adapters.pydantic_ai import graph_of
from tenure.errors import Refused
from tenure.graph import AgentNode, Tool


def look_up(order: str) -> str:
    """Look an order up."""
    return order


def refund(order: str) -> str:
    """Pay back."""
    return order


def to_billing(order: str) -> str:
    """Hand over."""
    raise AssertionError("nothing runs")


def test_tools_are_seen_and_edges_are_never_invented() -> None:
    support = Agent(TestModel(), name="support", tools=[look_up], output_type=[to_billing, str])
    support.tool_plain(requires_approval=True)(refund)
    found = look_into(support)
    assert found.graph == graph_of(support)
    assert found.graph.agents == {"support": AgentNode(tools=("look_up", "refund"))}
    assert (found.graph.entry, found.graph.edges) == ("support", ())
    assert found.graph.tools == {"look_up": Tool(), "refund": Tool(approval=True)}
    (note,) = found.notes
    assert "stands in the code of its tools and output functions (look_up, refund, to_billing)" in note


def test_an_agent_without_a_name_takes_the_one_that_it_is_given() -> None:
    assert look_into(Agent(), "helper").graph.entry == "helper"
    with pytest.raises(Refused, match="no name for an agent"):
        infer(Agent())


def test_toolsets_are_looked_into_as_far_as_they_list_their_tools() -> None:
    inner = CombinedToolset([FunctionToolset([look_up]), FunctionToolset([refund]).prefixed("shop")])
    found = look_into(Agent(name="support", toolsets=[inner, ExternalToolset([])]))
    assert found.graph.agents["support"].tools == ("look_up", "refund")
    assert found.notes[:2] == (
        "A PrefixedToolset of support may rename, hide or add tools; those inside of it are listed.",
        "The tools of a ExternalToolset of support are not listed: only a run tells them.",
    )


@pytest.mark.parametrize("value", [None, 3, "agent", object(), Agent])
def test_what_nobody_recognises_is_refused(value: object) -> None:
    with pytest.raises(Refused, match="OpenAI Agents SDK, Google ADK, LangGraph, Pydantic AI") as caught:
        infer(value)
    assert caught.value.code == "misuse"


def test_the_door_imports_no_framework() -> None:
    code = "import sys, tenure.adapters.inferring; print(*sorted(name.partition('.')[0] for name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"agents", "google", "langgraph", "langchain", "langchain_core", "pydantic_ai", "pydantic"} & set(found)
