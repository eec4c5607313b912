"""Graphs of Google ADK's own agents."""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import Workflow
from pydantic import BaseModel
from typing_extensions import override

from tenure.adapters.google_adk import graph_of
from tenure.adapters.inferring import infer, look_into
from tenure.errors import Refused
from tenure.graph import AgentKind, AgentNode, Edge, EdgeKind, Graph, Tool


class Case(BaseModel):
    order: str


def look_up(order: str) -> str:
    """Look an order up."""
    return order


def refund(order: str) -> str:
    """Pay back."""
    return order


def moves(graph: Graph) -> list[tuple[str, str, str]]:
    return [(edge.source, str(edge.kind), edge.target) for edge in graph.edges]


def test_transfers_follow_the_rules_of_the_tree() -> None:
    free = LlmAgent(name="free", tools=[look_up], description="Answers\nquestions.")
    loyal = LlmAgent(name="loyal", disallow_transfer_to_peers=True)
    stuck = LlmAgent(name="stuck", disallow_transfer_to_parent=True, disallow_transfer_to_peers=True)
    graph = graph_of(LlmAgent(name="root", sub_agents=[free, loyal, stuck]))
    assert graph.entry == "root"
    assert graph.agents["free"] == AgentNode(description="Answers questions.", tools=("look_up",))
    assert moves(graph) == [
        ("root", "transfer", "free"),
        ("root", "transfer", "loyal"),
        ("root", "transfer", "stuck"),
        ("free", "transfer", "root"),
        ("free", "transfer", "loyal"),
        ("free", "transfer", "stuck"),
        ("loyal", "transfer", "root"),
    ]


def test_agents_that_run_as_tools_are_delegations() -> None:
    calculator = LlmAgent(name="calculator", description="Adds up.", input_schema=Case)
    root = LlmAgent(
        name="root",
        sub_agents=[
            LlmAgent(name="worker", mode="task", description="Does it."),
            LlmAgent(name="once", mode="single_turn"),
            LlmAgent(name="talker"),
        ],
        tools=[AgentTool(calculator), FunctionTool(refund, require_confirmation=True)],
    )
    graph = graph_of(root)
    assert graph.edges == (
        Edge(source="root", target="talker", kind=EdgeKind.TRANSFER),
        Edge(source="root", target="worker", description="Does it."),
        Edge(source="root", target="once"),
        Edge(source="root", target="calculator", description="Adds up."),
        Edge(source="talker", target="root", kind=EdgeKind.TRANSFER),
    )
    assert graph.agents["calculator"].accepts == "Case"
    assert graph.agents["root"].tools == ("refund",)
    assert graph.agents["worker"].tools == ()
    assert graph.tools == {"refund": Tool(approval=True)}
    assert look_into(root).notes == ()


@pytest.mark.filterwarnings("ignore:.*Agent is deprecated in favor of Workflow:DeprecationWarning")  # still in use
def test_workflow_agents_delegate_to_their_steps() -> None:
    adk: Any = importlib.import_module("google.adk.agents")  # by name: for the type checker they are gone already
    steps = adk.SequentialAgent(
        name="steps",
        sub_agents=[
            LlmAgent(name="first"),
            adk.LoopAgent(name="again", sub_agents=[LlmAgent(name="inner")]),
            adk.ParallelAgent(name="both", sub_agents=[LlmAgent(name="left"), LlmAgent(name="right")]),
        ],
    )
    graph = graph_of(LlmAgent(name="root", sub_agents=[steps]))
    assert [(edge.source, edge.target, edge.description) for edge in graph.edges if edge.kind is EdgeKind.DELEGATE] == [
        ("steps", "first", "Step 1 of 3."),
        ("steps", "again", "Step 2 of 3."),
        ("steps", "both", "Step 3 of 3."),
        ("again", "inner", "Step 1, in a loop."),
        ("both", "left", "In parallel."),
        ("both", "right", "In parallel."),
    ]
    # The parent of a step has no model that could be handed anything.
    assert [move for move in moves(graph) if move[1] == "transfer"] == [("root", "transfer", "steps")]


def test_a_workflow_delegates_to_the_agents_among_its_steps() -> None:
    workflow = Workflow(name="flow", edges=[("START", LlmAgent(name="first"), look_up, LlmAgent(name="last"))])
    found = look_into(workflow)
    assert moves(found.graph) == [("flow", "delegate", "first"), ("flow", "delegate", "last")]
    assert found.notes == ("Steps of flow that are no agents are not drawn: look_up.",)


def test_an_app_is_its_root_agent() -> None:
    assert infer(App(name="shop", root_agent=LlmAgent(name="solo"))).agents == {"solo": AgentNode(tools=())}


class RemoteA2aAgent(BaseAgent):
    """Called like the framework's own, which needs a further package even to be imported."""


def test_a_remote_agent_is_a_partner() -> None:
    found = look_into(LlmAgent(name="root", sub_agents=[RemoteA2aAgent(name="carrier", description="Ships.")]))
    assert found.graph.agents["carrier"] == AgentNode(kind=AgentKind.PARTNER, description="Ships.")
    assert moves(found.graph) == [("root", "transfer", "carrier")]
    assert "cannot be fenced" in found.notes[0]


class Own(BaseAgent):
    """An agent whose code decides."""


def test_what_stands_in_code_is_told() -> None:
    class Tools(BaseToolset):
        async def get_tools(self, readonly_context: Any = None) -> list[Any]:
            raise AssertionError("nothing runs")

        async def close(self) -> None:
            return

    own = Own(name="own", sub_agents=[LlmAgent(name="one", tools=[Tools()])])
    found = look_into(own)
    assert moves(found.graph) == [("own", "delegate", "one")]
    assert found.notes == (
        "In which order own runs its sub-agents stands in its code.",
        "The tools of a Tools of one are not listed: only a run tells them.",
    )


def test_a_function_that_decides_on_approval_counts_as_approval() -> None:
    def decide(order: str) -> bool:
        raise AssertionError("nothing runs")

    found = look_into(LlmAgent(name="solo", tools=[FunctionTool(refund, require_confirmation=decide)]))
    assert found.graph.tools == {"refund": Tool(approval=True)}
    assert found.notes == ("A function decides whether refund of solo needs approval; here it always does.",)


def test_two_agents_of_one_name_are_an_error() -> None:
    root = LlmAgent(name="root", tools=[AgentTool(LlmAgent(name="twin")), AgentTool(LlmAgent(name="twin"))])
    with pytest.raises(Refused, match="Two different agents are called 'twin'"):
        infer(root)


def test_no_model_is_called() -> None:
    class Never(BaseLlm):
        @override
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[Any]:
            for what in ("a model was called",):
                raise AssertionError(what)
            yield

    assert infer(LlmAgent(name="solo", model=Never(model="never"))).entry == "solo"
