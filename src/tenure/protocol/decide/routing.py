"""What the routing graph says about a command: asked in the commit of the thing that it allows or forbids.

A task without a graph is bound by what its own settings and its owner's authority say, and by nothing else.
"""

from __future__ import annotations

import hashlib

import msgspec

from tenure.errors import Refused
from tenure.protocol import authority
from tenure.protocol.decide.draft import Draft
from tenure.protocol.decisions import TransferTo
from tenure.protocol.graph import AgentKind, AgentNode, Edge, EdgeKind, Graph, Termination
from tenure.protocol.payload import Payload
from tenure.protocol.state import Candidate, Task, Tree
from tenure.protocol.vocabulary import Gate


def graph_of(draft: Draft, digest: str) -> Graph | None:
    """The version of the graph with this digest; ``None`` for an empty one.

    Raises:
        Refused: ``unknown_graph``.
    """
    if not digest:
        return None
    graph = draft.books.graph
    if graph is None or graph.digest != digest:
        raise Refused("unknown_graph", digest)
    return graph


def in_force(draft: Draft) -> Graph | None:
    """The graph of the task that the command names."""
    return graph_of(draft, draft.task.graph)


def edge_for(graph: Graph, sender: str, receiver: str, kind: EdgeKind) -> Edge:
    """The edge by which a handoff goes.

    Raises:
        Refused: ``unknown_agent``; ``route_forbidden`` without an edge, and for a transfer to an agent that cannot be
            fenced.
    """
    node = node_of(graph, receiver)
    if kind is EdgeKind.TRANSFER and node.kind is AgentKind.PARTNER:
        raise Refused("route_forbidden", f"{receiver} is a partner and cannot be fenced; delegate to it.")
    edge = graph.edge(sender, receiver, kind)
    if edge is None:
        has = ", ".join(graph.targets(sender, kind)) or "nobody"
        raise Refused("route_forbidden", f"{sender} may not {kind} to {receiver}; it may to {has}.")
    return edge


def may_own(graph: Graph, agent: str) -> bool:
    """Whether an agent is in the graph and can be fenced."""
    node = graph.agents.get(agent)
    return node is not None and node.kind is not AgentKind.PARTNER


def node_of(graph: Graph, agent: str) -> AgentNode:
    """An agent of the graph.

    Raises:
        Refused: ``unknown_agent``.
    """
    node = graph.agents.get(agent)
    if node is None:
        raise Refused("unknown_agent", f"{agent} is not in the graph of team {graph.team!r}.")
    return node


def granted(graph: Graph | None, entry: Candidate, edge: Edge | None = None) -> Candidate:
    """A candidate with no more authority than the graph gives it: its own tools, and those of the edge.

    Raises:
        Refused: ``unknown_agent``; ``route_forbidden`` for an agent that cannot be fenced and comes by no delegation.
    """
    if graph is None:
        return entry
    node = node_of(graph, entry.agent)
    if edge is None and node.kind is AgentKind.PARTNER:
        raise Refused("route_forbidden", f"{entry.agent} is a partner and cannot be fenced; delegate to it.")
    held = entry.authority
    for tools in (node.tools, edge.tools if edge else None):
        if tools is not None:
            held = tools if held is None else authority.within(tools, held)
    return Candidate(agent=entry.agent, authority=held)


def delegated_to(draft: Draft, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """The candidates of a delegation, as the graph grants them."""
    graph, tenure = in_force(draft), draft.task.tenure
    if graph is None or tenure is None:
        return candidates
    return tuple(
        granted(graph, entry, edge_for(graph, tenure.agent, entry.agent, EdgeKind.DELEGATE)) for entry in candidates
    )


def transferred_to(draft: Draft, decision: TransferTo, trigger: str) -> tuple[tuple[Candidate, ...], Edge | None]:
    """The candidates of a transfer as the graph grants them, and the edge to the first of them.

    Raises:
        Refused: ``self_transfer``, ``unknown_agent``, ``route_forbidden``.
    """
    tenure, graph = draft.task.tenure, in_force(draft)
    sender = tenure.agent if tenure else ""
    if any(entry.agent == sender for entry in decision.candidates):
        raise Refused("self_transfer", f"{sender} owns it already.")
    if graph is None:
        return decision.candidates, None
    edges = [edge_for(graph, sender, entry.agent, EdgeKind.TRANSFER) for entry in decision.candidates]
    for edge in edges:
        if trigger and edge.trigger and trigger != edge.trigger:
            detail = f"{edge.source} may transfer to {edge.target} on {edge.trigger}, not on {trigger}."
            raise Refused("route_forbidden", detail)
    entries = tuple(granted(graph, entry, edge) for entry, edge in zip(decision.candidates, edges, strict=True))
    return entries, edges[0]


def still_allowed(draft: Draft, sender: str, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """The candidates to whom the graph in force by now lets a transfer go."""
    graph = in_force(draft)
    if graph is None:
        return candidates
    return tuple(
        entry
        for entry in candidates
        if graph.edge(sender, entry.agent, EdgeKind.TRANSFER) is not None and may_own(graph, entry.agent)
    )


def ends_by(draft: Draft, termination: Termination) -> bool:
    """Whether the edge by which the owner got the task lets it end its part in this way."""
    task, graph = draft.task, in_force(draft)
    if graph is None or not task.hops:
        return True
    edge = graph.edge(task.hops[-1].sender, task.owner, EdgeKind.TRANSFER)
    return edge is None or termination in edge.ends


def gate_of(gate: Gate, edge: Edge | None) -> Gate:
    """An edge may raise the gate, never lower it."""
    return gate if edge is None or edge.gate is None or edge.gate.rank <= gate.rank else edge.gate


def within_tree(task: Task, tree: Tree | None, ahead: int = 0, *, in_turn: int | None = None) -> Tree:
    """Refuse one more delegation; ``ahead`` others are not counted yet.

    Args:
        in_turn: how many its turn has by then; those of the turn that goes on by default.

    Raises:
        Refused: ``tree_stopped``, ``delegation_limit_exceeded``, ``backlog_full``.
    """
    if tree is None or tree.stopped:
        raise Refused("tree_stopped")
    limits, settings, more = tree.limits, task.settings, ahead + 1
    opened = task.tenure.delegated if task.tenure else 0
    turn = (opened if in_turn is None else in_turn) + 1
    for what, count, limit in (
        ("the depth of the tree", task.depth + 1, limits.depth),
        ("delegations in the tree", tree.delegations + more, limits.delegations),
        ("agents at work in the tree", tree.unfinished + more, limits.agents),
        ("delegations of the task", task.delegated + more, settings.delegations),
        ("delegations of the turn", turn, settings.turn_delegations),
    ):
        if count > limit:
            raise Refused("delegation_limit_exceeded", f"The limit of {what} is {limit}.", limit=limit)
    if len(task.children) + ahead >= settings.open_items:
        raise Refused("backlog_full", f"{len(task.children)} results were not collected.")
    return tree


def progress_mark(task: Task, payload: Payload) -> str:
    """What has been achieved, as a digest: equal marks on one edge mean that nothing came of what lies between.

    It is made of what the ledger sees: the state document, consumed input, results of delegations, effects, and the
    facts and artifacts that are stated. A work counts by what it found, not by having run; wording counts for nothing.
    """
    parts = {
        _encoded([fact.what, fact.outcome, fact.data] if fact.origin == "work" else [fact.id, fact.outcome])
        for fact in payload.done
    }
    parts |= {_encoded(artifact.id) for artifact in payload.artifacts}
    parts.add(_encoded([task.document, task.consumed, task.collected]))
    return hashlib.sha256(b"\n".join(sorted(parts))).hexdigest()[:16]


_encoded = msgspec.json.Encoder(order="sorted").encode


def goes_on(task: Task, sender: str, candidates: tuple[Candidate, ...], mark: str) -> None:
    """Refuse an edge that was used too often without progress.

    Raises:
        Refused: ``oscillation``.
    """
    receiver = candidates[0].agent
    used = sum((step.sender, step.receiver, step.mark) == (sender, receiver, mark) for step in task.trail)
    if used > task.settings.repeats:
        path = " → ".join([*(step.sender for step in task.trail), sender])
        detail = f"{sender} → {receiver} was used {used} times and nothing came of it: {path}."
        raise Refused("oscillation", detail, limit=task.settings.repeats)
