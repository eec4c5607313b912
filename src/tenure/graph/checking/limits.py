"""Deadlines, budgets, classes and gates: values that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from tenure.errors import Refused
from tenure.graph.findings import Finding, Where
from tenure.protocol.authority import ANY, tools_of
from tenure.protocol.graph import EdgeKind, Graph
from tenure.protocol.settings import POLICIES, Policy, Settings
from tenure.protocol.vocabulary import Gate


def limit_findings(graph: Graph) -> Iterator[Finding]:
    """Findings about numbers and classes."""
    invalid = list(_least(graph))
    yield from invalid
    yield from _policies(graph)
    if not invalid:
        yield from _deadlines(graph)
    yield from _gates(graph)


def _found(code: str, message: str, where: Where) -> Finding:
    return Finding(code=code, message=message, where=where)


def _least(graph: Graph) -> Iterator[Finding]:
    """Budgets may be 0, deadlines are at least 1 ms."""
    parts = (("budgets", graph.budgets, 0), ("turns", graph.turns, 0), ("oscillation", graph.oscillation, 0))
    for table, part, least in (*parts, ("deadlines", graph.deadlines, 1)):
        for name in part.__struct_fields__:
            value, low = getattr(part, name), 1 if name in ("agents", "calls_ms") else least
            if value is not None and value < low:
                yield _found("limit_invalid", f"{name} is {value}; the least is {low}.", (table, name))
    for number, edge in enumerate(graph.edges):
        if edge.pickup_ms < 0 or edge.ack_ms < 0:
            name = "pickup_ms" if edge.pickup_ms < 0 else "ack_ms"
            yield _found("limit_invalid", f"{name} is {getattr(edge, name)}.", ("edges", number, name))
    for name, node in graph.policies.items():
        if node.grace_ms < 1:
            yield _found("limit_invalid", f"The grace of {name} is {node.grace_ms}.", ("policies", name, "grace_ms"))


def _policies(graph: Graph) -> Iterator[Finding]:
    for name, tool in graph.tools.items():
        if graph.policy(tool.policy) is None:
            has = ", ".join({**POLICIES, **graph.policies})
            message = f"The tool {name} is of the class {tool.policy!r}; there are {has}."
            yield _found("unknown_policy", message, ("tools", name, "policy"))


def _used(graph: Graph) -> dict[str, Policy]:
    """The classes that the graph states, and those of its tools."""
    names = dict.fromkeys([*graph.policies, *(tool.policy for tool in graph.tools.values())])
    return {name: policy for name in names if (policy := graph.policy(name)) is not None}


def _deadlines(graph: Graph) -> Iterator[Finding]:
    settings = graph.settings(Settings())
    for name, policy in _used(graph).items():
        where: Where = ("policies", name, "grace_ms") if name in graph.policies else ("deadlines", "retire_ms")
        if policy.grace_ms > settings.retire_ms:
            message = f"retire_ms is {settings.retire_ms}, and the grace of {name} is {policy.grace_ms}."
            yield _found("deadline_below_grace", message, where)
        elif policy.gate is not Gate.ROUTING_RETIRED and policy.grace_ms > settings.gate_ms:
            message = f"gate_ms is {settings.gate_ms}, and the grace of {name}, which the gate waits for, is longer."
            yield _found("deadline_below_grace", f"{message} It is {policy.grace_ms}.", where)
    if settings.ack_ms > settings.transition_ms:
        message = f"ack_ms is {settings.ack_ms}, and the whole transition may take {settings.transition_ms}."
        yield _found("deadline_below_grace", message, ("deadlines", "transition_ms"))
    most = settings.transition_ms
    for number, edge in enumerate(graph.edges):
        if edge.pickup_ms > most or edge.ack_ms > most:
            name = "pickup_ms" if edge.pickup_ms > most else "ack_ms"
            message = f"{name} is {getattr(edge, name)}, and the whole transition may take {most}."
            yield _found("deadline_below_grace", message, ("edges", number, name))


def _gates(graph: Graph) -> Iterator[Finding]:
    """An edge cannot promise a weaker gate than the class of a tool that its sender may use."""
    strongest = {name: _strongest(graph, node.tools) for name, node in graph.agents.items()}
    for number, edge in enumerate(graph.edges):
        if edge.gate is None or edge.kind is not EdgeKind.TRANSFER:
            continue
        gate, tool = strongest.get(edge.source, (Gate.ROUTING_RETIRED, ""))
        if edge.gate.rank < gate.rank:
            message = f"{edge.source} → {edge.target} waits for {edge.gate}; {tool} of {edge.source} needs {gate}."
            yield _found("gate_below_tool", message, ("edges", number, "gate"))


def _strongest(graph: Graph, grants: tuple[str, ...] | None) -> tuple[Gate, str]:
    """The strongest gate among the tools that an agent may use, and one tool that has it."""
    try:
        names = None if grants is None or ANY in grants else tools_of(grants)
    except Refused:
        names = frozenset()
    best = (Gate.ROUTING_RETIRED, "")
    for name, tool in graph.tools.items():
        policy = graph.policy(tool.policy)
        if policy is not None and (names is None or name in names) and policy.gate.rank > best[0].rank:
            best = (policy.gate, name)
    return best
