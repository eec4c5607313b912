"""Routing graphs for the tests."""

from typing import Any

from tenure.protocol.graph import AgentNode, Edge, EdgeKind, Graph


def transfer(source: str, target: str, **parts: Any) -> Edge:
    return Edge(source=source, target=target, kind=EdgeKind.TRANSFER, because=f"{target} answers for it", **parts)


def delegate(source: str, target: str, **parts: Any) -> Edge:
    return Edge(source=source, target=target, **parts)


def graph_of(*edges: Edge, agents: dict[str, AgentNode] | None = None, **parts: Any) -> Graph:
    """A graph with these edges; agents that are not given are local ones that may do everything."""
    names = dict.fromkeys(name for edge in edges for name in (edge.source, edge.target) if name != "*")
    nodes = {name: AgentNode() for name in names} | (agents or {})
    return Graph(team="t", entry="a", agents=nodes, edges=edges, **parts)


THREE = graph_of(transfer("a", "b"), transfer("a", "c"), delegate("a", "*"), transfer("b", "a"))
"""a hands over to b or c, in this order, and delegates to anybody; b hands back to a."""
