"""The routing graph of a team: read from a file, or made of what stands at its handlers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenure.errors import CODES, Refused
from tenure.protocol.graph import ANY_AGENT, AgentNode, Edge, EdgeKind, Graph

if TYPE_CHECKING:
    from tenure.graph.findings import Finding
    from tenure.runtime.team import Agent

MOST = 3
"""How many findings an error names."""


def given_graph(source: Graph | str | Path | None) -> Graph | None:
    """A graph that was handed over, or read from its file.

    Raises:
        Refused: ``invalid_graph`` with file, line and column for a file that is none.
    """
    if source is None or isinstance(source, Graph):
        return source
    from tenure.graph.reading import read  # noqa: PLC0415 - only a team with a graph file pays for reading one

    found = read(Path(source))
    graph: Graph | None = found.graph
    if graph is None:
        raise Refused("invalid_graph", _told(found.problems))
    return graph


def graph_of_agents(team: str, entry: str, agents: Mapping[str, Agent]) -> Graph:
    """The graph that stands at the handlers, in their order."""
    return Graph(
        team=team,
        entry=entry,
        agents={
            agent.name: AgentNode(skills=agent.skills, accepts=_name_of(agent.accepts), tools=agent.tools)
            for agent in agents.values()
        },
        edges=tuple(edge for agent in agents.values() for edge in _edges(agent)),
    )


def check_graph(graph: Graph) -> None:
    """Refuse a graph that has errors.

    Raises:
        Refused: with the code of the first error where a command would be refused with the same one, else
            ``invalid_graph``.
    """
    from tenure.graph.checking import errors  # noqa: PLC0415 - not before a team is used

    found: tuple[Finding, ...] = errors(graph)
    if found:
        code = found[0].code
        raise Refused(code if code in CODES else "invalid_graph", _told(found))


def _edges(agent: Agent) -> Iterator[Edge]:
    for target, because in agent.may_transfer.items():
        yield Edge(source=agent.name, target=target, kind=EdgeKind.TRANSFER, because=because)
    for target in (ANY_AGENT,) if agent.may_delegate is None else agent.may_delegate:
        yield Edge(source=agent.name, target=target)


def _name_of(accepts: Any) -> str:
    return "" if accepts is None or accepts is Any else getattr(accepts, "__name__", str(accepts))


def _told(findings: tuple[Finding, ...]) -> str:
    """The first findings, each with its place where it has one."""
    told = [f"{one.file}:{one.line}:{one.column}: {one.message}" if one.file else one.message for one in findings]
    more = f" And {len(told) - MOST} more: `tenure check` lists them." if len(told) > MOST else ""
    return " ".join(told[:MOST]) + more
