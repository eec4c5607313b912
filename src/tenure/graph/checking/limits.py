"""Deadlines, budgets, classes and gates: values that contradict each other."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tenure.graph.checking.grants import granted
from tenure.graph.findings import Finding, Where
from tenure.protocol.authority import ANY
from tenure.protocol.graph import EdgeKind, Graph
from tenure.protocol.settings import POLICIES, Policy, Settings
from tenure.protocol.vocabulary import Gate

_EDGE_DEADLINES = ("pickup_ms", "ack_ms")
_WEAKEST = (Gate.ROUTING_RETIRED, "")


def limit_findings(graph: Graph) -> Iterator[Finding]:
    """Findings about numbers and classes."""
    invalid = list(_least(graph))
    yield from invalid
    yield from _finite(graph)
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
    for name, node in graph.policies.items():
        if node.grace_ms < 1:
            message = f"The grace of {name} is {node.grace_ms}; the least is 1."
            yield _found("limit_invalid", message, ("policies", name, "grace_ms"))
    for number, edge in enumerate(graph.edges):
        if edge.pickup_ms < 0 or edge.ack_ms < 0:
            for name in _EDGE_DEADLINES:
                message = f"{name} is {getattr(edge, name)}; the least is 1, and 0 takes the task's."
                if getattr(edge, name) < 0:
                    yield _found("limit_invalid", message, ("edges", number, name))


def _finite(graph: Graph) -> Iterator[Finding]:
    """A saved graph is JSON, which has no infinite numbers: it could not be read again."""
    for name, tool in graph.tools.items():
        for field, most in tool.limits.items():
            if not math.isfinite(most):
                message = f"The limit of {field} is {most}, which is no finite number."
                yield _found("limit_invalid", message, ("tools", name, "limits", field))


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
        if policy.grace_ms > settings.retire_ms:
            message = f"retire_ms is {settings.retire_ms}, and the grace of {name} is {policy.grace_ms}."
            yield _found("deadline_below_grace", message, _said(graph, "retire_ms", name))
        if policy.gate is not Gate.ROUTING_RETIRED and policy.grace_ms > settings.gate_ms:
            message = f"gate_ms is {settings.gate_ms}, and the grace of {name}, for which the gate waits, is"
            yield _found("deadline_below_grace", f"{message} {policy.grace_ms}.", _said(graph, "gate_ms", name))
    if settings.ack_ms > settings.transition_ms:
        message = f"ack_ms is {settings.ack_ms}, and the whole transition may take {settings.transition_ms}."
        name = "ack_ms" if graph.deadlines.transition_ms is None else "transition_ms"
        yield _found("deadline_below_grace", message, ("deadlines", name))
    most = settings.transition_ms
    for number, edge in enumerate(graph.edges):
        if edge.pickup_ms > most or edge.ack_ms > most:
            for name in _EDGE_DEADLINES:
                value = getattr(edge, name)
                if value > most:
                    message = f"{name} is {value}, and the whole transition may take {most}."
                    yield _found("deadline_below_grace", message, ("edges", number, name))


def _said(graph: Graph, deadline: str, policy: str) -> Where:
    """The deadline where the graph states it, else the grace that is too long for the default."""
    if getattr(graph.deadlines, deadline) is not None or policy not in graph.policies:
        return ("deadlines", deadline)
    return ("policies", policy, "grace_ms")


def _gates(graph: Graph) -> Iterator[Finding]:
    """An edge cannot promise a weaker gate than the class of a tool that its sender may use."""
    gates = {
        name: (policy.gate, name)
        for name, tool in graph.tools.items()
        if (policy := graph.policy(tool.policy)) is not None and policy.gate is not Gate.ROUTING_RETIRED
    }
    if not gates:
        return
    every = max(gates.values(), key=lambda gate: gate[0].rank)
    strongest: dict[tuple[str, ...] | None, tuple[Gate, str]] = {None: every}
    for number, edge in enumerate(graph.edges):
        node = graph.agents.get(edge.source)
        if edge.gate is None or edge.kind is not EdgeKind.TRANSFER or node is None:
            continue
        if node.tools not in strongest:
            held = granted(node.tools or ())
            mine = [gates[tool] for tool in held if tool in gates]
            strongest[node.tools] = every if ANY in held else max(mine, key=lambda gate: gate[0].rank, default=_WEAKEST)
        gate, tool = strongest[node.tools]
        if edge.gate.rank < gate.rank:
            message = f"{edge.source} → {edge.target} waits for {edge.gate}; {tool} of {edge.source} needs {gate}."
            yield _found("gate_below_tool", message, ("edges", number, "gate"))
