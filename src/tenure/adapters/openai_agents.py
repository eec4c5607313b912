"""OpenAI Agents SDK: handoffs are transfers, agents as tools are delegations, function tools are tools."""

from __future__ import annotations

from typing import Any

from tenure.adapters.sketching import Inferred, Sketch, one_line
from tenure.protocol.graph import EdgeKind, Graph

NAME = "OpenAI Agents SDK"


def recognises(agent: Any) -> bool:
    """Whether it looks like an agent of this framework, text or realtime."""
    return all(hasattr(agent, name) for name in ("name", "handoffs", "tools", "instructions"))


def graph_of(agent: Any) -> Graph:
    """The routing of an agent and of all that it can hand to. No model is called.

    Raises:
        Refused: ``invalid_team`` for two agents of one name.
    """
    return inferred(agent).graph


def inferred(agent: Any, name: str = "") -> Inferred:
    """The same, with what could not be seen. ``name`` is not needed: these agents have theirs."""
    del name
    sketch = Sketch()
    _meet(sketch, agent)
    return sketch.finish(agent.name)


def _meet(sketch: Sketch, agent: Any) -> None:
    sketch.meet(agent.name, agent, lambda: _look(sketch, agent))


def _look(sketch: Sketch, agent: Any) -> None:
    sketch.agent(agent.name, description=one_line(agent.handoff_description))
    for handoff in agent.handoffs:
        if recognises(handoff):
            _meet(sketch, handoff)
            sketch.edge(agent.name, handoff.name, EdgeKind.TRANSFER)
        else:
            _handoff(sketch, agent, handoff)
    own = [tool for tool in agent.tools if not _delegation(sketch, agent, tool)]
    sketch.tools(agent.name, [(tool.name, _approval(sketch, agent, tool)) for tool in own])
    for server in getattr(agent, "mcp_servers", ()):
        shown = getattr(server, "name", type(server).__name__)
        sketch.note(
            f"The tools of the MCP server {shown} of {agent.name} are not listed: only a connection tells them."
        )


def _handoff(sketch: Sketch, agent: Any, handoff: Any) -> None:
    """A handoff that was made by ``handoff()``, or by hand: then only the target's name is known."""
    target = handoff.agent_name
    if handoff.is_enabled is False:
        sketch.note(f"The handoff from {agent.name} to {target} is disabled, and left out.")
        return
    reference = getattr(handoff, "_agent_ref", None)
    found = reference() if callable(reference) else None
    if found is not None:
        _meet(sketch, found)
    else:
        sketch.meet(target, None, lambda: None)
    described = one_line(handoff.tool_description)
    default = one_line(type(handoff).default_tool_description(found)) if found is not None else ""
    sketch.edge(
        agent.name,
        target,
        EdgeKind.TRANSFER,
        description="" if described == default else described,
        payload=one_line(handoff.input_json_schema.get("title", "")),
    )


def _delegation(sketch: Sketch, agent: Any, tool: Any) -> bool:
    """Whether a tool runs another agent; the agent stands in a field that older versions do not have."""
    target = getattr(tool, "_agent_instance", None)
    if target is None or not recognises(target):
        return False
    if getattr(tool, "is_enabled", True) is False:
        sketch.note(f"The tool {tool.name} of {agent.name} is disabled, and left out.")
        return True
    _meet(sketch, target)
    sketch.edge(agent.name, target.name, EdgeKind.DELEGATE, description=one_line(tool.description))
    return True


def _approval(sketch: Sketch, agent: Any, tool: Any) -> bool:
    needs = getattr(tool, "needs_approval", False)
    if callable(needs):
        sketch.note(f"A function decides whether {tool.name} of {agent.name} needs approval; here it always does.")
    return bool(needs)
