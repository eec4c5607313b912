"""What lies between the one-finding graphs: where a finding ends, what counts as said, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import Refused
from tenure.graph import (
    AgentKind,
    AgentNode,
    Budgets,
    Deadlines,
    Edge,
    EdgeKind,
    Fallback,
    Graph,
    PolicyNode,
    Tool,
)
from tenure.graph.checking import check, errors
from tenure.graph.checking.drawn import Drawn, Rows, reached, turned, walks_of
from tenure.graph.findings import CODES
from tenure.protocol.graph import ANY_AGENT, read_graph
from tenure.protocol.settings import Settings
from tests.graph.counting import calls_of
from tests.graph.graphs import graphs

ANSWERS = "it answers for its part, to the end"


def transfer(source: str, target: str, **said: Any) -> Edge:
    return Edge(source=source, target=target, kind=EdgeKind.TRANSFER, **{"because": ANSWERS, **said})


def delegate(source: str, target: str, **said: Any) -> Edge:
    return Edge(source=source, target=target, **said)


def agents(*names: str, **said: AgentNode) -> dict[str, AgentNode]:
    return {**{name: AgentNode() for name in names}, **said}


def found(**said: Any) -> list[tuple[str, tuple[str | int, ...]]]:
    graph = Graph(**{"team": "t", "entry": "a", "fallback": Fallback(person="person:operator"), **said})
    return [(one.code, one.where) for one in check(graph)]


PERSON = AgentNode(kind=AgentKind.PERSON)
FEW = Budgets(transfers=4, depth=2)
CRITICAL = {"pay": Tool(policy="critical")}
STAR = (transfer("a", "b"), transfer("a", "c"), transfer("b", "a"), transfer("c", "a"))

GOOD: dict[str, dict[str, Any]] = {
    "a delegation to oneself with a depth": {
        "agents": agents("a"),
        "edges": (delegate("a", "a"),),
        "budgets": Budgets(depth=2),
    },
    "a lone agent that may delegate to everybody": {"agents": agents("a", "b"), "edges": (delegate("a", "*"),)},
    "the receivers of a supervisor": {
        "agents": agents("a", "s", "x"),
        "edges": (delegate("s", "x"),),
        "fallback": Fallback(person="person:lead", supervisor="s"),
    },
    "a person without an edge": {"agents": agents("a", p=PERSON), "fallback": Fallback()},
    "specialists that pass on what is not theirs": {
        "agents": agents("a", "b", "c", "d"),
        "edges": (*(transfer("a", name) for name in "bcd"), transfer("b", "c"), transfer("c", "d"), transfer("d", "b")),
        "budgets": FEW,
    },
    "one of three hands back": {
        "agents": agents("a", "b", "c", "d"),
        "edges": (*(transfer("a", name) for name in "bcd"), transfer("b", "a")),
        "budgets": FEW,
    },
    "a person and one who hands back": {
        "agents": agents("a", "b", p=PERSON),
        "edges": (transfer("a", "b"), transfer("a", "p"), transfer("b", "a")),
        "budgets": FEW,
    },
    "bound to pass on, and can": {
        "agents": agents("a", "b", "c"),
        "edges": (transfer("a", "b", termination=("escalate",)), transfer("b", "c")),
    },
    "an edge's grant without the limit of its receiver": {
        "agents": agents("a", b=AgentNode(tools=("refund(cents<=5)",))),
        "edges": (transfer("a", "b", tools=("refund",)),),
    },
    "all that a receiver has": {
        "agents": agents("a", b=AgentNode(tools=("refund(cents<=5)",))),
        "edges": (transfer("a", "b", tools=("*",)),),
    },
    "a tool of everybody": {
        "agents": agents("a", b=AgentNode(tools=("*",))),
        "edges": (transfer("a", "b", tools=("refund",)),),
    },
    "the same grant twice": {"agents": {"a": AgentNode(tools=("refund", "refund"))}},
    "a weaker gate of an agent without the tool": {
        "agents": agents("b", a=AgentNode(tools=())),
        "edges": (transfer("a", "b", gate="stopped"),),
        "tools": CRITICAL,
    },
    "a gate of a delegation, where nobody stops": {
        "agents": agents("a", "b"),
        "edges": (delegate("a", "b", gate="stopped"),),
        "tools": CRITICAL,
    },
    "budgets of nothing": {"agents": agents("a"), "budgets": Budgets(transfers=0, delegations=0, depth=0)},
}

BAD: dict[str, tuple[dict[str, Any], list[tuple[str, tuple[str | int, ...]]]]] = {
    "an entry that is nobody": ({"agents": agents("b"), "entry": "x"}, [("unknown_agent", ("entry",))]),
    "a supervisor that is nobody": (
        {"agents": agents("a"), "fallback": Fallback(person="person:o", supervisor="x")},
        [("unknown_agent", ("fallback", "supervisor"))],
    ),
    "an edge from nobody": (
        {"agents": agents("a"), "edges": (delegate("x", "a"),)},
        [("unknown_agent", ("edges", 0, "from"))],
    ),
    "a transfer to oneself is no cycle": (
        {"agents": agents("a"), "edges": (transfer("a", "a"),)},
        [("self_transfer", ("edges", 0))],
    ),
    "a transfer and a delegation are no duplicate, two delegations are": (
        {"agents": agents("a", "b"), "edges": (transfer("a", "b"), delegate("a", "b"), delegate("a", "b"))},
        [("duplicate_edge", ("edges", 2))],
    ),
    "a fallback that is an agent": (
        {"agents": agents("a"), "fallback": Fallback(person="a")},
        [("no_person", ("fallback", "person"))],
    ),
    "a cycle begins at an edge that is part of it": (
        {"agents": agents("a", "b", "x"), "edges": (delegate("a", "x"), delegate("a", "b"), delegate("b", "a"))},
        [("delegation_cycle", ("edges", 1))],
    ),
    "a cycle does not begin with a delegation to oneself": (
        {"agents": agents("a", "b"), "edges": (delegate("a", "a"), delegate("a", "b"), delegate("b", "a"))},
        [("self_delegation", ("edges", 0)), ("delegation_cycle", ("edges", 1))],
    ),
    "oneself is no receiver": (
        {"agents": agents("a", "b", "c", "d"), "edges": (*(transfer("a", to) for to in "abcd"), *STAR[2:])}
        | {"budgets": FEW},
        [("transfer_first", ("agents", "a")), ("self_transfer", ("edges", 0))],
    ),
    "two that delegate to everybody": (
        {"agents": agents("a", "b"), "edges": (delegate("a", "*"), delegate("b", "*"))},
        [("delegation_cycle", ("edges", 0))],
    ),
    "each cycle by itself": (
        {
            "agents": agents("a", "b", "c", "d"),
            "edges": (delegate("a", "c"), *(transfer(*pair) for pair in ("ab", "ba", "cd", "dc"))),
        },
        [("transfer_cycle", ("edges", 1)), ("transfer_cycle", ("edges", 3))],
    ),
    "passed round, with a person as the way out": (
        {"agents": agents("a", "b", "c", p=PERSON), "edges": (*STAR, transfer("a", "p")), "budgets": FEW},
        [("transfer_first", ("agents", "a"))],
    ),
    "passed round in a ring": (
        {
            "agents": agents("a", "b", "c"),
            "edges": (transfer("a", "b"), transfer("a", "c"), transfer("b", "c"), transfer("c", "a")),
            "budgets": FEW,
        },
        [("transfer_first", ("agents", "a"))],
    ),
    "passed round behind the entry": (
        {
            "agents": agents("e", "a", "b", "c"),
            "entry": "e",
            "edges": (delegate("e", "a"), *STAR),
            "budgets": FEW,
        },
        [("transfer_first", ("agents", "a"))],
    ),
    "a chain without an end": (
        {
            "agents": agents("a", "b", "c"),
            "edges": (transfer("a", "b", termination=("escalate",)), transfer("b", "c", termination=("return",))),
        },
        [("dead_end", ("agents", "b")), ("dead_end", ("agents", "c"))],
    ),
    "may end what one sends, and not what the other does": (
        {
            "agents": agents("a", "b", "c"),
            "edges": (transfer("a", "b"), transfer("a", "c"), transfer("c", "b", termination=("return",))),
        },
        [("dead_end", ("agents", "b"))],
    ),
    "a gate that cannot wait for a class": (
        {"agents": agents("a"), "tools": CRITICAL, "deadlines": Deadlines(gate_ms=1_000)},
        [("deadline_below_grace", ("deadlines", "gate_ms"))],
    ),
    "retirement and gate": (
        {"agents": agents("a"), "tools": CRITICAL, "deadlines": Deadlines(gate_ms=1_000, retire_ms=1_000)},
        [("deadline_below_grace", ("deadlines", "gate_ms")), ("deadline_below_grace", ("deadlines", "retire_ms"))],
    ),
    "a grace that is too long for the default": (
        {"agents": agents("a"), "policies": {"slow": PolicyNode(grace_ms=Settings().retire_ms + 1)}},
        [("deadline_below_grace", ("policies", "slow", "grace_ms"))],
    ),
    "deadlines of an edge": (
        {
            "agents": agents("a", "b"),
            "edges": (transfer("a", "b", ack_ms=2_000, pickup_ms=2_000),),
            "deadlines": Deadlines(ack_ms=1_000, transition_ms=1_000),
        },
        [("deadline_below_grace", ("edges", 0, "ack_ms")), ("deadline_below_grace", ("edges", 0, "pickup_ms"))],
    ),
    "an acknowledgement longer than the default": (
        {"agents": agents("a"), "deadlines": Deadlines(ack_ms=Settings().transition_ms + 1)},
        [("deadline_below_grace", ("deadlines", "ack_ms"))],
    ),
    "a number that JSON does not have": (
        {"agents": agents("a"), "tools": {"pay": Tool(limits={"cents": float("nan")})}},
        [("limit_invalid", ("tools", "pay", "limits", "cents"))],
    ),
    "a limit beyond the receiver's": (
        {
            "agents": agents("a", b=AgentNode(tools=("refund(cents<=5)",))),
            "edges": (transfer("a", "b", tools=("refund(cents<=9)",)),),
        },
        [("authority_widened", ("edges", 0, "tools", 0))],
    ),
    "the tools of everybody count for the gate": (
        {"agents": agents("b", a=AgentNode(tools=("*",))), "edges": (transfer("a", "b", gate="stopped"),)}
        | {"tools": CRITICAL},
        [("gate_below_tool", ("edges", 0, "gate"))],
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_graph_gives_none(name: str) -> None:
    assert found(**GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_a_finding_and_its_place(name: str) -> None:
    said, expected = BAD[name]
    assert found(**said) == expected


def test_a_limit_that_is_refused_could_not_have_been_read_again() -> None:
    graph = Graph(team="t", tools={"pay": Tool(limits={"cents": float("inf")})})
    with pytest.raises(ValueError, match="null"):
        read_graph(graph.content)


def test_deadlines_that_pass_are_those_that_the_ledger_takes() -> None:
    """What the settings of a task refuse is found, with the same word."""
    said = Deadlines(ack_ms=2_000, transition_ms=1_000)
    graph = Graph(team="t", entry="a", agents=agents("a"), deadlines=said, fallback=Fallback(person="person:o"))
    with pytest.raises(Refused) as refusal:
        graph.settings(Settings()).check()
    assert [one.code for one in errors(graph)] == [refusal.value.code]


def test_findings_come_in_the_order_of_the_graph() -> None:
    graph = Graph(
        team="t",
        entry="z",
        agents={"z": AgentNode(tools=("x(",)), "a": AgentNode(tools=("x(",))},
        edges=tuple(transfer("z", "a", because="") for _ in range(11)),
        budgets=Budgets(transfers=-1),
    )
    places = [one.where for one in check(graph)]
    tools: list[tuple[str | int, ...]] = [("agents", "z", "tools", 0), ("agents", "a", "tools", 0)]
    assert places[:2] == tools
    numbers = [place[1] for place in places if place[0] == "edges"]
    assert numbers == sorted(numbers, key=int)
    assert [place[0] for place in places[-2:]] == ["budgets", "fallback"]


@given(graphs())
def test_any_graph_can_be_judged_and_always_the_same(graph: Graph) -> None:
    judged = check(graph)
    assert judged == check(read_graph(graph.content) if _can_be_saved(graph) else graph)
    assert {one.code for one in judged} <= CODES.keys()
    told = [one for one in judged if one.severity == "error"]
    assert list(errors(graph)) == told


def _can_be_saved(graph: Graph) -> bool:
    try:
        return read_graph(graph.content) == graph
    except (UnicodeError, ValueError):
        return False  # a name with half of a surrogate pair


nodes = st.integers(0, 7).map(str)


@given(st.dictionaries(nodes, st.lists(nodes, max_size=4), max_size=8), nodes)
def test_what_networkx_sees_is_the_graph(lists: dict[str, list[str]], start: str) -> None:
    names = {start, *lists, *(name for row in lists.values() for name in row)}
    rows: Rows = {name: dict.fromkeys(lists.get(name, ())) for name in names}
    plain: nx.DiGraph[str] = nx.DiGraph(lists)
    plain.add_nodes_from(names)
    components = {frozenset(one) for one in nx.strongly_connected_components(plain)}
    assert {frozenset(one) for one in nx.strongly_connected_components(Drawn(rows))} == components
    assert reached(rows, start) == {start} | nx.descendants(plain, start)
    assert reached(turned(rows), start) == {start} | nx.ancestors(plain, start)
    with pytest.raises(nx.NetworkXError):
        Drawn(rows).add_edge("0", "1")


def test_everybody_is_one_edge() -> None:
    walks = walks_of(Graph(team="t", agents=agents("a", "b"), edges=(delegate("a", "*"), transfer("b", "*"))))
    assert walks.delegations == {"a": {"*": None}, "b": {}, ANY_AGENT: {"a": None, "b": None}}
    assert walks.transfers == {"a": {}, "b": {}, ANY_AGENT: {}}
    assert reached(walks.both, "b") == {"a", "b", ANY_AGENT}


def pairs(size: int) -> Graph:
    """Nothing but small cycles."""
    edges = [transfer(f"{side}{n}", f"{other}{n}") for n in range(size) for side, other in ("ab", "ba")]
    return Graph(
        team="t", entry="a0", agents=agents(*(f"{side}{n}" for n in range(size) for side in "ab")), edges=tuple(edges)
    )


def tools_of_all(size: int) -> Graph:
    """Every agent may use every tool, and each edge states a gate."""
    names = [f"a{n}" for n in range(size)]
    edges = tuple(transfer(names[0], name, gate="settled") for name in names[1:])
    return Graph(team="t", entry="a0", agents=agents(*names), edges=edges, tools={f"t{n}": Tool() for n in range(size)})


def everybody(size: int) -> Graph:
    """Every agent may delegate to every other."""
    names = [f"a{n}" for n in range(size)]
    return Graph(team="t", entry="a0", agents=agents(*names), edges=tuple(delegate(name, "*") for name in names))


@pytest.mark.parametrize("made", [pairs, tools_of_all, everybody])
def test_twenty_times_the_graph_takes_about_twenty_times_as_many_calls(made: Callable[[int], Graph]) -> None:
    def calls(size: int) -> int:
        graph = made(size)
        check(graph)
        return calls_of(lambda: check(graph))

    assert calls(2_000) < 25 * calls(100)  # quadratic would be 400 times
