"""Pydantic AI: an agent with its tools. Which other agents it runs stands in the code of its tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenure.adapters.sketching import Inferred, Sketch, one_line
from tenure.protocol.graph import Graph

NAME = "Pydantic AI"


def recognises(agent: Any) -> bool:
    """Whether it looks like an agent of this framework."""
    return all(hasattr(agent, name) for name in ("toolsets", "output_type", "run_sync", "iter"))


def graph_of(agent: Any) -> Graph:
    """The agent with its tools, without edges. No model is called.

    Raises:
        Refused: ``invalid_team`` for an agent without a name.
    """
    return inferred(agent).graph


def inferred(agent: Any, name: str = "") -> Inferred:
    """The same, with what could not be seen.

    Args:
        agent: the agent. name: its name when it has none of its own.
    """
    called = agent.name or name
    sketch = Sketch()
    sketch.meet(called, agent, lambda: _look(sketch, agent, called))
    return sketch.finish(called)


def _look(sketch: Sketch, agent: Any, name: str) -> None:
    sketch.agent(name, description=one_line(getattr(agent, "description", "")))
    tools: list[tuple[str, bool]] = []
    for toolset in agent.toolsets:
        tools += _tools(sketch, name, toolset)
    sketch.tools(name, tools)
    hands_on = dict.fromkeys([*(tool for tool, _ in tools), *_functions(agent.output_type)])
    where = f" ({', '.join(hands_on)})" if hands_on else ""
    sketch.note(
        f"Which other agents {name} runs or hands over to stands in the code of its tools and output functions{where}, "
        "where nobody can see it from outside: add those agents, and an edge for each."
    )


def _tools(sketch: Sketch, name: str, toolset: Any) -> Iterator[tuple[str, bool]]:
    """Tools of a set that lists them; of one around another set, that one's."""
    listed, inner = getattr(toolset, "tools", None), getattr(toolset, "wrapped", None)
    if isinstance(listed, dict):
        for tool, definition in listed.items():
            yield tool, bool(getattr(definition, "requires_approval", False))
    elif inner is not None:
        sketch.note(
            f"A {type(toolset).__name__} of {name} may rename, hide or add tools; those inside of it are listed."
        )
        yield from _tools(sketch, name, inner)
    elif isinstance(several := getattr(toolset, "toolsets", None), list | tuple):
        for one in several:
            yield from _tools(sketch, name, one)
    else:
        sketch.note(f"The tools of a {type(toolset).__name__} of {name} are not listed: only a run tells them.")


def _functions(output: Any) -> Iterator[str]:
    """Names of output functions, the usual way to hand over for good."""
    for one in output if isinstance(output, list | tuple) else (output,):
        function = getattr(one, "output", one)
        if callable(function) and not isinstance(function, type) and hasattr(function, "__name__"):
            yield function.__name__
