"""Google ADK: sub-agents by its transfer rules, agents that run as tools, workflow agents, remote agents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenure.adapters.sketching import Inferred, Sketch, name_of, one_line
from tenure.protocol.graph import AgentKind, EdgeKind, Graph

NAME = "Google ADK"

_STEPS = {"SequentialAgent": "Step {n} of {all}.", "ParallelAgent": "In parallel.", "LoopAgent": "Step {n}, in a loop."}
_AS_A_TOOL = ("task", "single_turn")
"""Modes of a sub-agent that its parent runs as a tool; it is no target of a transfer."""
_FINISH = "finish_task"
"""The tool by which an agent in mode ``task`` gives its result; no effect."""


def recognises(agent: Any) -> bool:
    """Whether it looks like an agent, an app or a workflow of this framework."""
    return _is_agent(agent) or _is_workflow(agent) or _is_agent(getattr(agent, "root_agent", None))


def graph_of(agent: Any) -> Graph:
    """The routing of an agent and of its whole tree. No model is called.

    Raises:
        Refused: ``invalid_team`` for two agents of one name.
    """
    return inferred(agent).graph


def inferred(agent: Any, name: str = "") -> Inferred:
    """The same, with what could not be seen. ``name`` is not needed: these agents have theirs."""
    del name
    root = getattr(agent, "root_agent", agent) if not _is_agent(agent) else agent
    sketch = Sketch()
    _meet(sketch, root)
    return sketch.finish(root.name)


def _is_agent(value: Any) -> bool:
    return hasattr(value, "sub_agents") and hasattr(value, "parent_agent")


def _is_workflow(value: Any) -> bool:
    graph = getattr(value, "graph", None)
    return hasattr(value, "rerun_on_resume") and hasattr(graph, "nodes") and hasattr(graph, "edges")


def _meet(sketch: Sketch, agent: Any) -> None:
    sketch.meet(agent.name, agent, lambda: _look(sketch, agent))


def _look(sketch: Sketch, agent: Any) -> None:
    sketch.agent(
        agent.name,
        kind=AgentKind.PARTNER if _is_remote(agent) else AgentKind.LOCAL,
        description=one_line(agent.description),
        accepts=name_of(getattr(agent, "input_schema", None)),
    )
    if _is_workflow(agent):
        _workflow(sketch, agent)
    elif _transfers(agent):
        _model(sketch, agent)
    else:
        _steps(sketch, agent)


def _classes(agent: Any) -> set[str]:
    return {one.__name__ for one in type(agent).__mro__}


def _is_remote(agent: Any) -> bool:
    return "RemoteA2aAgent" in _classes(agent)


def _transfers(agent: Any) -> bool:
    return hasattr(agent, "disallow_transfer_to_parent")


# --- agents with a model --------------------------------------------------------------------------------------------


def _model(sketch: Sketch, agent: Any) -> None:
    for target in _targets(agent):
        _meet(sketch, target)
        sketch.edge(agent.name, target.name, EdgeKind.TRANSFER)
        if _is_remote(target):
            sketch.note(
                f"{agent.name} transfers to {target.name}, which runs elsewhere and cannot be fenced: `tenure check` "
                "asks for a delegation."
            )
    for sub in agent.sub_agents:
        if _runs_as_a_tool(sub):
            _delegate(sketch, agent, sub, one_line(sub.description))
    tools = []
    for tool in agent.tools:
        target = getattr(tool, "agent", None) or getattr(tool, "node", None)
        name = getattr(tool, "name", None) or getattr(tool, "__name__", "")
        if _is_agent(target) or _is_workflow(target):
            _delegate(sketch, agent, target, one_line(tool.description))
        elif hasattr(tool, "get_tools"):
            sketch.note(f"The tools of a {type(tool).__name__} of {agent.name} are not listed: only a run tells them.")
        elif name and name != _FINISH:
            tools.append((name, _approval(sketch, agent, tool, name)))
    sketch.tools(agent.name, tools)


def _targets(agent: Any) -> Iterator[Any]:
    """Whom its model may transfer to: sub-agents, the parent, the parent's other sub-agents, each as far as allowed."""
    yield from (sub for sub in agent.sub_agents if not _runs_as_a_tool(sub))
    parent = agent.parent_agent
    if parent is None or not _transfers(parent) or _runs_as_a_tool(agent):
        return
    if not agent.disallow_transfer_to_parent:
        yield parent
    if not getattr(agent, "disallow_transfer_to_peers", False):
        yield from (peer for peer in parent.sub_agents if peer is not agent and not _runs_as_a_tool(peer))


def _runs_as_a_tool(agent: Any) -> bool:
    return str(getattr(agent, "mode", "")) in _AS_A_TOOL


def _delegate(sketch: Sketch, agent: Any, target: Any, description: str) -> None:
    if target is not agent:
        _meet(sketch, target)
        sketch.edge(agent.name, target.name, EdgeKind.DELEGATE, description=description)


def _approval(sketch: Sketch, agent: Any, tool: Any, name: str) -> bool:
    """Whether a tool asks for confirmation; the answer stands in a field of the tool that has no public name yet."""
    needs = getattr(tool, "require_confirmation", getattr(tool, "_require_confirmation", False))
    if callable(needs):
        sketch.note(f"A function decides whether {name} of {agent.name} needs approval; here it always does.")
    return bool(needs)


# --- agents that run others -----------------------------------------------------------------------------------------


def _steps(sketch: Sketch, agent: Any) -> None:
    """An agent without a model runs its sub-agents and goes on with what they give: it delegates."""
    known = _classes(agent) & _STEPS.keys()
    words = _STEPS[min(known)] if known else ""
    for number, sub in enumerate(agent.sub_agents, 1):
        _delegate(sketch, agent, sub, words.format(n=number, all=len(agent.sub_agents)))
    if agent.sub_agents and not known:
        sketch.note(f"In which order {agent.name} runs its sub-agents stands in its code.")
    if not _is_remote(agent):
        sketch.tools(agent.name, ())


def _workflow(sketch: Sketch, workflow: Any) -> None:
    others = []
    for node in workflow.graph.nodes:
        inner = node if _is_agent(node) or _is_workflow(node) else getattr(node, "agent", None)
        if _is_agent(inner) or _is_workflow(inner):
            _delegate(sketch, workflow, inner, "A step of the workflow.")
        elif node.name != "__START__":
            others.append(node.name)
    sketch.tools(workflow.name, ())
    if others:
        sketch.note(f"Steps of {workflow.name} that are no agents are not drawn: {', '.join(others)}.")
