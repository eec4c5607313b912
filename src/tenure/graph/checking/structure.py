"""The graph as a whole: cycles, what cannot be reached, what cannot come to an end. All of it in linear time."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx

from tenure.graph.checking.drawn import Drawn, Rows, Walks, reached, turned, walks_of
from tenure.graph.findings import Finding, Where
from tenure.protocol.graph import ANY_AGENT, AgentKind, EdgeKind, Graph, Termination
from tenure.protocol.settings import Limits, Settings

SHOWN = 6
"""How many agents of a cycle are named."""
SEVERAL = 2
"""From so many receivers on, passing a task round is the rule of an agent and no exception."""
PERSON = "person:"
"""How the name of a party begins that is a person and no agent."""


def structure_findings(graph: Graph) -> Iterator[Finding]:
    """Findings about the whole."""
    walks = walks_of(graph)
    yield from _cycles(graph, walks)
    yield from _unreachable(graph, walks)
    yield from _dead_ends(graph, walks)
    yield from _transfer_first(graph, walks)
    yield from _nobody(graph)


def _found(code: str, message: str, where: Where) -> Finding:
    return Finding(code=code, message=message, where=where)


# --- cycles ---------------------------------------------------------------------------------------------------------


def _cycles(graph: Graph, walks: Walks) -> Iterator[Finding]:
    if graph.budgets.transfers is None:
        for agents, where in _components(graph, walks.transfers, EdgeKind.TRANSFER):
            message = f"can go round {_named(agents)} and no transfer budget is said; {Settings().transfers} applies."
            yield _found("transfer_cycle", f"The task {message}", where)
    if graph.budgets.depth is None:
        for agents, where in _components(graph, walks.delegations, EdgeKind.DELEGATE):
            message = f"Delegations can go round {_named(agents)} and no depth is said; {Limits().depth} applies."
            yield _found("delegation_cycle", message, where)


def _components(graph: Graph, rows: Rows, kind: EdgeKind) -> Iterator[tuple[list[str], Where]]:
    """The agents of each cycle and its first edge, by strongly connected components; cycles are never enumerated.

    A lone agent with a delegation to ``*`` is in none: it stands for the others only.
    """
    found = [one for one in nx.strongly_connected_components(Drawn(rows)) if len(one) > 1]
    found = [one for one in found if len(one) > SEVERAL or ANY_AGENT not in one]
    if not found:
        return
    inside = {name: number for number, component in enumerate(found) for name in component}
    first: dict[int, int] = {}
    for number, edge in enumerate(graph.edges):
        if edge.kind is kind and edge.source != edge.target:
            component = inside.get(edge.source, -1)
            if component >= 0 and component == inside.get(edge.target) and component not in first:
                first[component] = number
                if len(first) == len(found):
                    break
    order = {name: number for number, name in enumerate(graph.agents)}
    for number, where in sorted(first.items(), key=lambda one: one[1]):
        yield sorted(found[number] - {ANY_AGENT}, key=order.__getitem__), ("edges", where)


def _named(agents: list[str]) -> str:
    more = f" and {len(agents) - SHOWN} more" if len(agents) > SHOWN else ""
    return ", ".join(agents[:SHOWN]) + more


# --- ways in and out ------------------------------------------------------------------------------------------------


def _unreachable(graph: Graph, walks: Walks) -> Iterator[Finding]:
    """Agents to which no path leads. A supervisor gets tasks without an edge, a person is asked without one."""
    if graph.entry not in graph.agents:
        return
    known = reached(walks.both, graph.entry, graph.fallback.supervisor)
    for name, node in graph.agents.items():
        if name not in known and node.kind is not AgentKind.PERSON:
            yield _found("unreachable", f"No edge leads from {graph.entry} to {name}.", ("agents", name))


def _dead_ends(graph: Graph, walks: Walks) -> Iterator[Finding]:
    """Agents that get the task for good and can neither end it nor transfer it on to one who can.

    To give it back is no end: the sender gets it as one that has failed.
    """
    bound: dict[str, str] = {}
    enders: set[str] = set()
    for edge in graph.edges:
        if edge.kind is not EdgeKind.TRANSFER or edge.source == edge.target:
            continue
        if edge.termination is None or Termination.END in edge.termination:
            enders.add(edge.source)
        elif edge.termination:  # an edge that can end in no way is a finding of its own
            bound.setdefault(edge.target, edge.source)
    if not bound:
        return
    able = reached(turned(walks.transfers), *(name for name in graph.agents if name in enders))
    for name in graph.agents:
        if name in bound and name not in able:
            message = f"{name} may not end what {bound[name]} transfers to it, and can transfer it to nobody who may."
            yield _found("dead_end", message, ("agents", name))


# --- transfers as the rule --------------------------------------------------------------------------------------------


def _transfer_first(graph: Graph, walks: Walks) -> Iterator[Finding]:
    """Agents that pass the task round for answers, which is what a delegation is for.

    Whoever hands over for good does not get the task again. The entry passes it round when most of its receivers, and
    several, transfer it back, by themselves or through each other. Any other agent does when the only transfer of each
    of its several receivers leads back to it. Persons do not count: the task goes to them because they are persons.
    """
    rows = walks.transfers
    for hub in graph.agents:
        if len(rows[hub]) < SEVERAL:
            continue
        receivers = [name for name in rows[hub] if graph.agents[name].kind is not AgentKind.PERSON]
        if hub == graph.entry:
            backers = _handing_back(rows, hub, receivers)
            passed = len(backers) >= SEVERAL and 2 * len(backers) > len(receivers)
        else:
            backers = set(receivers)
            passed = len(receivers) >= SEVERAL and all(len(rows[name]) == 1 and hub in rows[name] for name in receivers)
        if passed:
            message = f"{hub} transfers to {len(receivers)} agents, and {len(backers)} of them hand the task back."
            yield _found("transfer_first", message, ("agents", hub))


def _handing_back(rows: Rows, hub: str, receivers: list[str]) -> set[str]:
    """The receivers from whom the task comes back to the hub by transfers, over nobody but each other."""
    among = {hub, *receivers}
    back = turned({name: dict.fromkeys(to for to in rows[name] if to in among) for name in among})
    return reached(back, hub) - {hub}


# --- persons ----------------------------------------------------------------------------------------------------------


def _nobody(graph: Graph) -> Iterator[Finding]:
    """A person is said by an agent of that kind, or by a fallback that is one. The default fallback is not said."""
    said = graph.fallback.person
    if not graph.agents or said.startswith(PERSON):
        return
    if any(node.kind is AgentKind.PERSON for node in graph.agents.values()):
        return
    if said:
        message = f"{said}, who is asked in the end, is no person; nor is any agent."
        yield _found("no_person", message, ("fallback", "person"))
    else:
        message = f"The graph names no person; {Settings().fallback} would be asked, whoever that is."
        yield _found("no_person", message, ("fallback",))
