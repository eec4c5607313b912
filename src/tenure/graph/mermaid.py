"""A graph as mermaid text, which code hosts, editors and wikis draw.

Transfers are thick arrows, delegations dotted ones. Agents are boxes; remote ones have double sides, partners are
hexagons, people have round ends; the entry is marked. No name and no label can end up as syntax: nodes have numbers
for ids, and what is not plain text is written as a code.
"""

from __future__ import annotations

import re
import textwrap

from tenure.graph.cast import Participant, cast, label, printable, summary
from tenure.protocol.graph import AgentKind, EdgeKind, Graph

MOST_EDGES = 500
MOST_CHARACTERS = 50_000
"""Mermaid's own limits; a page may raise them (``maxEdges``, ``maxTextSize``)."""

WIDTH = 32
"""Characters per line of a label."""

_SHAPES: dict[str, tuple[str, str]] = {
    AgentKind.LOCAL: ("[", "]"),
    AgentKind.REMOTE: ("[[", "]]"),
    AgentKind.PARTNER: ("{{", "}}"),
    AgentKind.PERSON: ("([", "])"),
    "every": ("((", "))"),
    "unknown": (">", "]"),
}
_ARROWS = {EdgeKind.TRANSFER: "==>", EdgeKind.DELEGATE: "-.->"}

_CODED = re.compile(
    r"(?<=[^\W_])[-._](?=[^\W_])"  # inside of a word: as it is
    r"|(?P<end>\b[eE](?=[nN][dD]\b))"  # closes a subgraph, in some versions between quotes too
    r"|(?P<other>[^\w ,:?!=()/]|_)"
)


def mermaid(graph: Graph) -> str:
    """The graph as a mermaid flowchart, with a newline at its end. Equal graphs give equal text."""
    people = cast(graph)
    ids = {name: f"n{number}" for number, name in enumerate(people)}
    lines = ["flowchart LR", f"  accTitle: {_coded(summary(graph))}"]
    lines += [f"  {ids[name]}{_node(one)}" for name, one in people.items()]
    for edge in graph.edges:
        words = label(edge)
        beside = f'|"{_wrapped(words)}"|' if words else ""
        lines.append(f"  {ids[edge.source]} {_ARROWS[edge.kind]}{beside} {ids[edge.target]}")
    lines.append("  classDef entry stroke-width:3px")
    lines.append("  classDef unknown stroke-dasharray:4")
    return "\n".join(lines) + "\n"


def beyond_limits(text: str, graph: Graph) -> str:
    """Which of mermaid's own limits a text is beyond, in words; empty when of none."""
    beyond = []
    if len(graph.edges) > MOST_EDGES:
        beyond.append(f"maxEdges is {MOST_EDGES}, and there are {len(graph.edges)} edges")
    if len(text) > MOST_CHARACTERS:
        beyond.append(f"maxTextSize is {MOST_CHARACTERS}, and there are {len(text)} characters")
    return "; ".join(beyond)


def _node(one: Participant) -> str:
    before, behind = _SHAPES[one.role]
    said = f"<br/>{one.said}" if one.said else ""
    words = "every agent" if one.role == "every" else _wrapped(one.name)
    mark = "▶ " if one.entry else ""
    style = ":::entry" if one.entry else ":::unknown" if one.role == "unknown" else ""
    return f'{before}"{mark}{words}{said}"{behind}{style}'


def _wrapped(text: str) -> str:
    lines = textwrap.wrap(printable(text), WIDTH, max_lines=6, placeholder=" …", break_on_hyphens=False)
    return "<br/>".join(map(_coded, lines)) or "#160;"


def _coded(text: str) -> str:
    """What could be syntax as ``#number;``, which mermaid shows as the character."""
    return _CODED.sub(lambda found: _code(found[0]) if found["end"] or found["other"] else found[0], text)


def _code(character: str) -> str:
    return f"#{ord(character)};"
