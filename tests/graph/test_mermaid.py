"""Mermaid text: what it draws, and that no name and no label can break it."""

from __future__ import annotations

import html
import re

from hypothesis import given

from tenure.graph import AgentKind, AgentNode, Edge, EdgeKind, Graph
from tenure.graph.cast import cast, label, printable
from tenure.graph.mermaid import MOST_CHARACTERS, MOST_EDGES, beyond_limits, mermaid
from tests.graph.graphs import graphs

# The whole of what may stand in a line: between two quotes there is no character that means anything to mermaid.
TEXT = r"(?:[^\W_]|[ ,:?!=()/▶…\-._]|#\d+;|<br/>)*"
NODE = re.compile(
    rf'  (n\d+)(?:\["({TEXT})"\]|\[\["({TEXT})"\]\]|\{{\{{"({TEXT})"\}}\}}|\(\["({TEXT})"\]\)|\(\("({TEXT})"\)\)'
    rf'|>"({TEXT})"\])(?::::(?:entry|unknown))?'
)
EDGE = re.compile(rf'  (n\d+) (==>|-\.->)(?:\|"({TEXT})"\|)? (n\d+)')
FIXED = ("  classDef entry stroke-width:3px", "  classDef unknown stroke-dasharray:4")


def shown(coded: str) -> str:
    """A text as mermaid shows it."""
    return html.unescape(re.sub(r"#(\d+);", r"&#\1;", coded.replace("<br/>", " ")))


@given(graphs())
def test_no_name_and_no_label_becomes_syntax(graph: Graph) -> None:
    lines = mermaid(graph).removesuffix("\n").split("\n")
    people = cast(graph)
    assert lines[0] == "flowchart LR"
    assert re.fullmatch(rf"  accTitle: {TEXT}", lines[1])
    nodes, edges = lines[2 : 2 + len(people)], lines[2 + len(people) : -2]
    assert [NODE.fullmatch(line) is not None for line in nodes] == [True] * len(people)
    assert tuple(lines[-2:]) == FIXED
    assert len(edges) == len(graph.edges)
    ids = {name: f"n{number}" for number, name in enumerate(people)}
    for line, edge in zip(edges, graph.edges, strict=True):
        found = EDGE.fullmatch(line)
        assert found is not None, line
        assert (found[1], found[4]) == (ids[edge.source], ids[edge.target])
        assert found[2] == ("==>" if edge.kind is EdgeKind.TRANSFER else "-.->")
        assert (found[3] is not None) == bool(label(edge))
        assert not re.search(r"\bend\b", found[3] or "", re.IGNORECASE)


@given(graphs())
def test_a_name_is_shown_as_it_is(graph: Graph) -> None:
    lines = mermaid(graph).split("\n")[2:]
    for one, line in zip(cast(graph).values(), lines, strict=False):
        found = NODE.fullmatch(line)
        assert found is not None
        (coded,) = (text for text in found.groups()[1:] if text is not None)
        words = shown(coded).removeprefix("▶ ").removesuffix(f" {one.said}" if one.said else "")
        if one.role != "every":
            # Long words are broken over lines, which adds blanks; nothing is lost or added otherwise.
            assert words.replace(" ", "").strip("\xa0") == printable(one.name).replace(" ", "")


def test_kinds_and_edges_look_different() -> None:
    graph = Graph(
        team="shop",
        entry="triage",
        agents={
            "triage": AgentNode(),
            "billing": AgentNode(),
            "away": AgentNode(kind=AgentKind.REMOTE),
            "carrier": AgentNode(kind=AgentKind.PARTNER),
            "boss": AgentNode(kind=AgentKind.PERSON),
        },
        edges=(
            Edge(
                source="triage",
                target="billing",
                kind=EdgeKind.TRANSFER,
                trigger="classification",
                because="it answers",
            ),
            Edge(source="billing", target="*"),
            Edge(source="billing", target="ghost"),
        ),
    )
    assert mermaid(graph) == (
        "flowchart LR\n"
        "  accTitle: Routing of team shop: 5 agents, 1 transfer, 2 delegations\n"
        '  n0["▶ triage"]:::entry\n'
        '  n1["billing"]\n'
        '  n2[["away<br/>remote"]]\n'
        '  n3{{"carrier<br/>partner"}}\n'
        '  n4(["boss<br/>person"])\n'
        '  n5(("every agent"))\n'
        '  n6>"ghost<br/>unknown"]:::unknown\n'
        '  n0 ==>|"classification: it answers"| n1\n'
        "  n1 -.-> n5\n"
        "  n1 -.-> n6\n"
        "  classDef entry stroke-width:3px\n"
        "  classDef unknown stroke-dasharray:4\n"
    )


def test_it_is_told_when_mermaids_own_limits_are_too_low() -> None:
    many = Graph(
        team="t", agents={"a": AgentNode(), "b": AgentNode()}, edges=(Edge(source="a", target="b"),) * (MOST_EDGES + 1)
    )
    assert beyond_limits(mermaid(many), many) == "maxEdges is 500, and there are 501 edges"
    few = Graph(team="t", agents={"a": AgentNode()})
    assert beyond_limits(mermaid(few), few) == ""
    assert "maxTextSize" in beyond_limits("x" * (MOST_CHARACTERS + 1), few)
