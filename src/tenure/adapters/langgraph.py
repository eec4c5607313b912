"""LangGraph: graphs of agents as langgraph-swarm and langgraph-supervisor make them, and others built alike.

A handoff tool names its destination in its metadata. Where the destination always goes back to where it was called
from, the caller gets the result: that is a delegation. Where it does not, the task has moved.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from tenure.adapters.sketching import Inferred, Sketch, one_line
from tenure.protocol.graph import EdgeKind, Graph

NAME = "LangGraph"

_DESTINATION = "__handoff_destination"
_START, _END = "__start__", "__end__"
_MODEL_NODES = frozenset({"model", "agent"})
"""The node that asks the model, in agents that this framework makes; such an agent without a node of tools has none."""


def recognises(agent: Any) -> bool:
    """Whether it looks like a graph of this framework, compiled or still being built."""
    return hasattr(_compiled(agent), "get_graph") and hasattr(_compiled(agent), "get_subgraphs")


def graph_of(agent: Any) -> Graph:
    """The routing of a graph of agents, or of one agent. No model is called.

    Raises:
        Refused: ``invalid_team`` for two agents of one name.
    """
    return inferred(agent).graph


def inferred(agent: Any, name: str = "") -> Inferred:
    """The same, with what could not be seen.

    Args:
        agent: the graph. name: what to call a single agent that has no name of its own.
    """
    graph = _compiled(agent)
    sketch = Sketch()
    if _agents_in(graph):
        entry = _team(sketch, graph)
    else:
        entry = name if name and graph.name == "LangGraph" else graph.name
        sketch.meet(entry, graph, lambda: _single(sketch, graph, entry))
    return sketch.finish(entry)


def _compiled(agent: Any) -> Any:
    """A graph that is still being built is compiled; that runs nothing."""
    return agent.compile() if hasattr(agent, "add_node") and hasattr(agent, "compile") else agent


def _agents_in(graph: Any) -> dict[str, Any]:
    """The graphs inside of a graph, by the name of their node, in the order of the nodes."""
    found = dict(graph.get_subgraphs())
    return {name: found[name] for name in graph.get_graph().nodes if name in found}


def _team(sketch: Sketch, graph: Any) -> str:
    """Meet the agents of a graph and draw the edges between them; return who gets new tasks."""
    agents, drawn = _agents_in(graph), graph.get_graph()
    for name, inner in agents.items():
        _meet(sketch, name, inner)
    _edges(sketch, drawn, agents)
    others = [name for name in drawn.nodes if name not in agents and name not in (_START, _END)]
    if others:
        sketch.note(f"Nodes that are no agents are not drawn, nor what leads through them: {', '.join(others)}.")
    return _entry(sketch, graph, agents)


def _edges(sketch: Sketch, drawn: Any, agents: dict[str, Any]) -> None:
    always = {(edge.source, edge.target) for edge in drawn.edges if not edge.conditional}
    handed, delegations = set(), []
    for name, inner in agents.items():
        for target, tool in _handoffs(inner):
            sketch.meet(target, agents.get(target), lambda: None)
            handed.add((name, target))
            if (target, name) in always:
                delegations.append((name, target, tool))
                handed.add((target, name))
            else:
                sketch.edge(name, target, EdgeKind.TRANSFER, description=_description(tool, target))
    # A supervisor keeps its workers in a set: without an order, the same agents would give other files.
    order = list(agents)
    for name, target, tool in sorted(delegations, key=lambda one: (order.index(one[0]), order.index(one[1]))):
        sketch.edge(name, target, EdgeKind.DELEGATE, description=_description(tool, target))
    for edge in drawn.edges:
        if edge.source in agents and edge.target in agents and (edge.source, edge.target) not in handed:
            trigger = "" if edge.conditional else "stage_done"
            sketch.edge(edge.source, edge.target, EdgeKind.TRANSFER, trigger=trigger)


def _description(tool: Any, target: str) -> str:
    said = one_line(tool.description)
    return "" if said == f"Ask agent '{target}' for help" else said


def _meet(sketch: Sketch, name: str, inner: Any) -> None:
    def look() -> None:
        if _agents_in(inner):
            first = _team(sketch, inner)
            sketch.tools(name, ())
            sketch.edge(name, first, EdgeKind.DELEGATE, description="A team of its own, which gives its result back.")
        else:
            _single(sketch, inner, name)

    sketch.meet(name, inner, look)


def _single(sketch: Sketch, agent: Any, name: str) -> None:
    nodes = _tool_nodes(agent)
    sketch.tools(name, [(tool.name, False) for node in nodes for tool in _tools(node) if not _destination(tool)])
    if not nodes and not _MODEL_NODES & agent.get_graph().nodes.keys():
        sketch.note(f"{name} has no node of tools: which tools it uses is not listed.")


def _handoffs(agent: Any) -> Iterator[tuple[str, Any]]:
    for node in _tool_nodes(agent):
        for tool in _tools(node):
            if target := _destination(tool):
                yield target, tool


def _tool_nodes(agent: Any) -> list[Any]:
    return [node.data for node in agent.get_graph().nodes.values() if hasattr(node.data, "tools_by_name")]


def _tools(node: Any) -> list[Any]:
    return list(node.tools_by_name.values())


def _destination(tool: Any) -> str:
    return str((tool.metadata or {}).get(_DESTINATION, ""))


def _entry(sketch: Sketch, graph: Any, agents: dict[str, Any]) -> str:
    """Where the graph starts; a swarm starts with its default agent, which only its router knows."""
    starts = [edge for edge in graph.get_graph().edges if edge.source == _START and edge.target in agents]
    if len(starts) == 1:
        return str(starts[0].target)
    for branch in getattr(graph.builder, "branches", {}).get(_START, {}).values():
        function = getattr(branch.path, "func", None)
        if inspect.isfunction(function):
            default = inspect.getclosurevars(function).nonlocals.get("default_active_agent")
            if default in agents:
                return str(default)
    first = str(starts[0].target) if starts else next(iter(agents))
    sketch.note(f"Which agent gets new tasks is decided by code; {first} is taken for it.")
    return first
