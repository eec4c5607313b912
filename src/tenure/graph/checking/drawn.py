"""A routing graph as networkx sees it, made in one walk over the edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx as nx
from msgspec import Struct

from tenure.protocol.graph import ANY_AGENT, EdgeKind, Graph

if TYPE_CHECKING:
    _DiGraph = nx.DiGraph[str]
else:
    _DiGraph = nx.DiGraph  # it takes no parameters at run time

Rows = dict[str, dict[str, None]]
"""Agent → the agents to which it leads."""


class Drawn(_DiGraph):
    """The forward half of a directed graph, for algorithms that only go forward.

    To add edges one by one costs five times what a pass for components costs: two dictionaries of attributes are made
    for each. The rows are taken over as they are instead, nobody may change them, and there are no predecessors.
    """

    def __init__(self, rows: Rows) -> None:
        """``rows`` has every agent as a key, also those that lead nowhere."""
        super().__init__()
        self._node: dict[str, dict[str, object]] = {name: {} for name in rows}
        self._adj = rows
        nx.freeze(self)


class Walks(Struct, frozen=True, kw_only=True):
    """Who leads to whom, by the kind of the edges; names that are no agent's are left out.

    ``*`` is a node of its own that leads to every agent, so that one edge does not become thousands. An edge from an
    agent to itself is in neither: it is a finding by itself, and no way to anybody else. A transfer to ``*`` is an
    error; ``anywhere`` keeps who has one, lest every agent behind it is reported too.
    """

    transfers: Rows
    delegations: Rows
    anywhere: frozenset[str] = frozenset()

    @property
    def both(self) -> Rows:
        """The edges of both kinds."""
        found = {name: {**row, **self.delegations[name]} for name, row in self.transfers.items()}
        for name in self.anywhere:
            found[name][ANY_AGENT] = None
        return found


def walks_of(graph: Graph) -> Walks:
    """One walk over the edges of a graph."""
    agents, transfer = graph.agents, EdgeKind.TRANSFER
    transfers: Rows = {name: {} for name in agents}
    delegations: Rows = {name: {} for name in agents}
    anywhere: set[str] = set()
    for edge in graph.edges:
        source, target = edge.source, edge.target
        if source not in agents or source == target:
            continue
        if edge.kind is transfer:
            if target in agents:
                transfers[source][target] = None
            elif target == ANY_AGENT:
                anywhere.add(source)
        elif target in agents or target == ANY_AGENT:
            delegations[source][target] = None
    transfers[ANY_AGENT], delegations[ANY_AGENT] = {}, dict.fromkeys(agents)
    return Walks(transfers=transfers, delegations=delegations, anywhere=frozenset(anywhere))


def turned(rows: Rows) -> Rows:
    """The same with every edge turned round."""
    found: Rows = {name: {} for name in rows}
    for source, row in rows.items():
        for target in row:
            found[target][source] = None
    return found


def reached(rows: Rows, *starts: str) -> set[str]:
    """All that can be reached from some agents, they themselves too."""
    known = [name for name in starts if name in rows]
    return {name for layer in nx.bfs_layers(Drawn(rows), known) for name in layer} if known else set()
