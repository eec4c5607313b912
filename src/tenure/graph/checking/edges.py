"""Names and edges: what each of them says by itself."""

from __future__ import annotations

from collections.abc import Iterator

from tenure.graph.findings import Finding, Where
from tenure.protocol.graph import ANY_AGENT, AgentKind, Edge, EdgeKind, Graph
from tenure.protocol.settings import Limits


def edge_findings(graph: Graph) -> Iterator[Finding]:
    """Findings about names and single edges."""
    yield from _names(graph)
    agents, transfer, copies = graph.agents, EdgeKind.TRANSFER, graph.budgets.depth is None
    partners = {name for name, node in agents.items() if node.kind is AgentKind.PARTNER}
    seen: dict[EdgeKind, set[tuple[str, str]]] = {kind: set() for kind in EdgeKind}
    transfers, delegations = seen[transfer], seen[EdgeKind.DELEGATE]
    for number, edge in enumerate(graph.edges):
        # The plain questions first, for there may be many edges; words are made only where one has an answer.
        source, target = ends = (edge.source, edge.target)
        if source not in agents or target not in agents:
            yield from _ends(graph, edge, ("edges", number))
        if edge.kind is transfer:
            known = transfers
            if source == target or target in partners or not edge.because or edge.because.isspace():
                yield from _transfer(graph, edge, ("edges", number))
        else:
            known = delegations
            if copies and source == target:
                yield _copies(edge, ("edges", number))
        if ends in known:
            yield _found("duplicate_edge", f"{_named(edge)} stands twice.", ("edges", number))
        known.add(ends)
        if edge.termination is not None and not edge.termination:
            yield _found("edge_without_end", f"{_named(edge)} can end in no way.", ("edges", number, "termination"))
        if edge.payload:
            yield from _payload(graph, edge, ("edges", number))


def _copies(edge: Edge, where: Where) -> Finding:
    message = f"{edge.source} may delegate to itself and no depth is said; {Limits().depth} applies."
    return _found("self_delegation", message, where)


def _found(code: str, message: str, where: Where = ()) -> Finding:
    return Finding(code=code, message=message, where=where)


def _named(edge: Edge) -> str:
    return f"The {edge.kind} {edge.source} → {edge.target}"


def _names(graph: Graph) -> Iterator[Finding]:
    if not graph.agents:
        yield _found("no_agents", f"The graph of {graph.team!r} has no agents.", ("agents",))
        return
    if not graph.entry:
        yield _found("no_entry", f"The graph of {graph.team!r} names no entry: no agent gets a new task.", ("entry",))
    elif graph.entry not in graph.agents:
        yield _found("unknown_agent", f"The entry {graph.entry!r} is no agent.", ("entry",))
    elif graph.agents[graph.entry].kind is AgentKind.PARTNER:
        yield _found("route_forbidden", f"The entry {graph.entry} is a partner, which cannot be fenced.", ("entry",))
    supervisor = graph.fallback.supervisor
    if supervisor and supervisor not in graph.agents:
        yield _found("unknown_agent", f"The supervisor {supervisor!r} is no agent.", ("fallback", "supervisor"))
    elif supervisor and graph.agents[supervisor].kind is AgentKind.PARTNER:
        message = f"The supervisor {supervisor} is a partner, which cannot be fenced."
        yield _found("route_forbidden", message, ("fallback", "supervisor"))


def _ends(graph: Graph, edge: Edge, where: Where) -> Iterator[Finding]:
    """Whether both ends of an edge are agents."""
    if edge.source not in graph.agents:
        yield _found("unknown_agent", f"{_named(edge)} begins at {edge.source!r}, which is no agent.", (*where, "from"))
    if edge.target == ANY_AGENT:
        if edge.kind is EdgeKind.TRANSFER:
            message = f"{edge.source} may transfer to anybody; name each receiver, and why."
            yield _found("wildcard_transfer", message, (*where, "to"))
    elif edge.target not in graph.agents:
        yield _found("unknown_agent", f"{_named(edge)} leads to {edge.target!r}, which is no agent.", (*where, "to"))


def _transfer(graph: Graph, edge: Edge, where: Where) -> Iterator[Finding]:
    if edge.source == edge.target:
        yield _found("self_transfer", f"{edge.source} has a transfer to itself.", where)
    node = graph.agents.get(edge.target)
    if node is not None and node.kind is AgentKind.PARTNER:
        message = f"{edge.target} is a partner: it cannot be fenced, so it can never own a task."
        yield _found("route_forbidden", message, (*where, "to"))
    if not edge.because.strip():
        yield _found("because_missing", f"{_named(edge)} does not say why it is no delegation.", (*where, "because"))


def _payload(graph: Graph, edge: Edge, where: Where) -> Iterator[Finding]:
    node = graph.agents.get(edge.target)
    if node is not None and node.accepts and edge.payload != node.accepts:
        message = f"{_named(edge)} carries {edge.payload}; {edge.target} accepts {node.accepts}."
        yield _found("payload_mismatch", message, (*where, "payload"))
