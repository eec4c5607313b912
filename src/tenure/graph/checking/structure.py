"""The graph as a whole: cycles, what cannot be reached, what cannot come to an end. All of it in linear time."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx

from tenure.graph.findings import Finding, Where
from tenure.protocol.graph import ANY_AGENT, AgentKind, EdgeKind, Graph, Termination
from tenure.protocol.settings import Limits, Settings

SHOWN = 6
"""How many agents of a cycle are named."""


def structure_findings(graph: Graph) -> Iterator[Finding]:
    """Findings about the whole."""
    yield from _cycles(graph)
    yield from _unreachable(graph)
    yield from _dead_ends(graph)
    yield from _transfer_first(graph)
    yield from _nobody(graph)


def _drawn(graph: Graph, *kinds: EdgeKind) -> nx.DiGraph[str]:
    """The agents and the edges of some kinds. ``*`` is a node that leads to every agent, so that it stays linear."""
    found: nx.DiGraph[str] = nx.DiGraph()
    found.add_nodes_from(graph.agents)
    known = {*graph.agents, ANY_AGENT}
    found.add_edges_from(
        (edge.source, edge.target)
        for edge in graph.edges
        if edge.kind in kinds and edge.source in known and edge.target in known
    )
    if ANY_AGENT in found:
        found.add_edges_from((ANY_AGENT, name) for name in graph.agents)
    return found


def _cycles(graph: Graph) -> Iterator[Finding]:
    if graph.budgets.transfers is None:
        for names in _components(_drawn(graph, EdgeKind.TRANSFER)):
            message = f"The task can go round {names} and no transfer budget is said; {Settings().transfers} applies."
            yield _found("transfer_cycle", message, _first(graph, names, EdgeKind.TRANSFER))
    if graph.budgets.depth is None:
        for names in _components(_drawn(graph, EdgeKind.DELEGATE)):
            message = f"Delegations can go round {names} and no depth is said; {Limits().depth} applies."
            yield _found("delegation_cycle", message, _first(graph, names, EdgeKind.DELEGATE))


def _components(found: nx.DiGraph[str]) -> Iterator[str]:
    """Cycles as the agents of each strongly connected component; never an enumeration of all cycles.

    A lone agent with a delegation to ``*`` is in none: it stands for the others only.
    """
    for component in nx.strongly_connected_components(found):
        names = sorted(component - {ANY_AGENT})
        if len(names) > 1 or (len(names) == 1 and found.has_edge(names[0], names[0])):
            yield ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _first(graph: Graph, names: str, kind: EdgeKind) -> Where:
    """The first edge of a kind that begins at one of the named agents."""
    first = names.split(", ", maxsplit=1)[0]
    number = next((n for n, edge in enumerate(graph.edges) if edge.kind is kind and edge.source == first), None)
    return ("edges",) if number is None else ("edges", number)


def _unreachable(graph: Graph) -> Iterator[Finding]:
    if graph.entry not in graph.agents:
        return
    reached = nx.descendants(_drawn(graph, *EdgeKind), graph.entry) | {graph.entry, graph.fallback.supervisor}
    for name, node in graph.agents.items():
        if name not in reached and node.kind is not AgentKind.PERSON:
            yield _found("unreachable", f"No edge leads from {graph.entry} to {name}.", ("agents", name))


def _dead_ends(graph: Graph) -> Iterator[Finding]:
    """Agents that get the task for good and can neither end it nor hand it to one who can."""
    incoming: dict[str, bool] = {}
    for edge in graph.edges:
        if edge.kind is EdgeKind.TRANSFER and edge.target in graph.agents and not incoming.get(edge.target):
            incoming[edge.target] = edge.termination is None or Termination.END in edge.termination
    doubtful = [name for name, ends in incoming.items() if not ends]
    if not doubtful:
        return
    backwards = _drawn(graph, EdgeKind.TRANSFER).reverse(copy=False)
    enders = [name for name in graph.agents if incoming.get(name, True)]
    reaching = {name for layer in nx.bfs_layers(backwards, enders) for name in layer} if enders else set()
    for name in graph.agents:
        if name in doubtful and name not in reaching:
            message = f"{name} gets the task by transfer, may not end it, and can hand it to nobody who may."
            yield _found("dead_end", message, ("agents", name))


def _transfer_first(graph: Graph) -> Iterator[Finding]:
    """An agent to which every one of its receivers can hand the task back, for good: it wants their results.

    Whoever hands over for good does not get the task again. Where all of several receivers transfer back to the same
    sender, the task is passed round for answers, which is what a delegation is for.
    """
    transfers = [edge for edge in graph.edges if edge.kind is EdgeKind.TRANSFER]
    receivers = {edge.target for edge in transfers if edge.source == graph.entry}
    if len(receivers) > 1:
        back = {edge.source for edge in transfers if edge.target == graph.entry}
        if receivers <= back:
            message = f"{graph.entry} transfers to {len(receivers)} agents, and each of them transfers back."
            yield _found("transfer_first", message, ("agents", graph.entry))


def _nobody(graph: Graph) -> Iterator[Finding]:
    person = graph.fallback.person or any(node.kind is AgentKind.PERSON for node in graph.agents.values())
    if graph.agents and not person:
        message = f"The graph names no person; {Settings().fallback} would be asked, whoever that is."
        yield _found("no_person", message, ("fallback",))


def _found(code: str, message: str, where: Where) -> Finding:
    return Finding(code=code, message=message, where=where)
