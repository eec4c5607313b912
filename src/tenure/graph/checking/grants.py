"""Grants: whether each can be read, names a known tool, and goes no further than its receiver's own."""

from __future__ import annotations

from collections.abc import Iterator

from tenure.errors import Refused
from tenure.graph.findings import Finding, Where
from tenure.protocol.authority import ANY, Limits, parse
from tenure.protocol.graph import Edge, Graph


def grant_findings(graph: Graph) -> Iterator[Finding]:
    """Findings about the grants of agents and edges."""
    for name, agent in graph.agents.items():
        if agent.tools is not None:
            yield from _tools(graph, name, agent.tools, ("agents", name, "tools"))
    for number, edge in enumerate(graph.edges):
        if edge.tools is not None:
            whose = f"The {edge.kind} {edge.source} → {edge.target}"
            where: Where = ("edges", number, "tools")
            yield from _tools(graph, whose, edge.tools, where)
            yield from _wider(graph, edge, whose, where)


def granted(grants: tuple[str, ...]) -> dict[str, Limits]:
    """Tools with their limits, of those grants that can be read; the others are findings of their own."""
    found: dict[str, Limits] = {}
    for grant in grants:
        try:
            tool, limits = parse(grant)
        except Refused:
            continue
        found[tool] = dict(limits)
    return found


def _found(code: str, message: str, where: Where) -> Finding:
    return Finding(code=code, message=message, where=where)


def _tools(graph: Graph, whose: str, grants: tuple[str, ...], where: Where) -> Iterator[Finding]:
    seen: dict[str, object] = {}
    for number, grant in enumerate(grants):
        try:
            tool, limits = parse(grant)
        except Refused as error:
            yield _found("bad_grant", f"{whose}: {error.detail}", (*where, number))
            continue
        if seen.setdefault(tool, limits) != limits:
            message = f"{whose} is granted {tool} twice, under different limits; only one of them would hold."
            yield _found("grant_twice", message, (*where, number))
        if graph.tools and tool not in graph.tools and tool != ANY:
            message = f"{whose} is granted {tool}, which stands nowhere in [tools]."
            yield _found("unknown_tool", message, (*where, number))


def _wider(graph: Graph, edge: Edge, whose: str, where: Where) -> Iterator[Finding]:
    """What an edge grants beyond its receiver's own tools. A limit that it does not state is the receiver's."""
    node = graph.agents.get(edge.target)
    if node is None or node.tools is None or edge.tools is None:
        return
    held = granted(node.tools)
    for number, grant in enumerate(edge.tools):
        for tool, limits in granted((grant,)).items():
            theirs = held.get(tool, held.get(ANY))
            if tool == ANY:
                continue
            if theirs is None:
                message = f"{whose} grants {tool}, which {edge.target} does not have."
                yield _found("authority_widened", message, (*where, number))
            for name, most in limits.items():
                if theirs is not None and name in theirs and most > theirs[name]:
                    message = f"{whose} grants {tool} up to {name}<={most}; {edge.target} has {name}<={theirs[name]}."
                    yield _found("authority_widened", message, (*where, number))
