"""What each edge of a graph says and what its defaults say: trigger, payload, transition, termination."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from tenure.errors import Refused
from tenure.protocol.authority import ANY, parse
from tenure.protocol.graph import Edge, EdgeKind, Graph, Termination
from tenure.protocol.settings import Settings
from tenure.protocol.vocabulary import Gate

Element = Literal["trigger", "payload", "gate", "pickup_ms", "ack_ms", "termination"]


class Elements(Struct, frozen=True, kw_only=True):
    """One edge with its four elements, none of them left open.

    Attributes:
        source, target, kind: the edge; ``*`` as target stands for every agent. because, description: as the graph says.
        trigger: what sets it off; empty: anything. payload: name of the type that moves; empty: any.
        gate: the strongest that may have to be met before the receiver acts; ``None`` for a delegation, where nobody
            stops. pickup_ms, ack_ms: deadlines of its offers, in milliseconds.
        termination: how the receiver's part may end.
        defaults: the elements that the graph does not say.
    """

    source: str
    target: str
    kind: EdgeKind
    because: str
    description: str
    trigger: str
    payload: str
    gate: Gate | None
    pickup_ms: int
    ack_ms: int
    termination: tuple[Termination, ...]
    defaults: tuple[Element, ...]


def elements(graph: Graph) -> list[Elements]:
    """The elements of all edges, in the graph's order. A delegation to every agent stays one.

    Nothing is judged here: also a graph with errors has edges to show.
    """
    settings = graph.settings(Settings())
    return [_filled(graph, edge, settings) for edge in graph.edges]


def _filled(graph: Graph, edge: Edge, settings: Settings) -> Elements:
    target = graph.agents.get(edge.target)
    said: dict[Element, bool] = {
        "trigger": bool(edge.trigger),
        "payload": bool(edge.payload),
        "gate": edge.gate is not None,
        "pickup_ms": bool(edge.pickup_ms),
        "ack_ms": bool(edge.ack_ms),
        "termination": edge.termination is not None,
    }
    return Elements(
        source=edge.source,
        target=edge.target,
        kind=EdgeKind(edge.kind),
        because=edge.because,
        description=edge.description,
        trigger=edge.trigger,
        payload=edge.payload or (target.accepts if target else ""),
        gate=_gate(graph, edge),
        pickup_ms=edge.pickup_ms or settings.pickup_ms,
        ack_ms=edge.ack_ms or settings.ack_ms,
        termination=edge.ends,
        defaults=tuple(name for name, is_said in said.items() if not is_said),
    )


def _gate(graph: Graph, edge: Edge) -> Gate | None:
    """What the edge says, or more where the class of a tool that its sender may use demands more."""
    if edge.kind == EdgeKind.DELEGATE:
        return edge.gate
    classes = (graph.policy(graph.tools[name].policy) for name in _tools(graph, edge.source))
    demanded = [policy.gate for policy in classes if policy is not None]
    return max((edge.gate or Gate.ROUTING_RETIRED, *demanded), key=lambda gate: gate.rank)


def _tools(graph: Graph, agent: str) -> Iterator[str]:
    """Tools that the graph describes and an agent may use."""
    node = graph.agents.get(agent)
    held = {ANY} if node is None or node.tools is None else {_tool(grant) for grant in node.tools}
    return (name for name in graph.tools if ANY in held or name in held)


def _tool(grant: str) -> str:
    try:
        return parse(grant)[0]
    except Refused:
        return ""  # a finding of `tenure check`; whoever draws goes on
