"""A graph as SVG, laid out by Graphviz (the extra ``draw``).

Transfers are thick arrows, delegations thin dashed ones. Agents are boxes; remote ones are double, partners are
hexagons, people have round corners, everybody is an ellipse; the entry is marked. Every node and edge has a title, and
the whole has a description, in words. The file refers to nothing outside of itself.

Graphviz runs in a process of its own: for some graphs it takes for ever, and in this one nothing could stop it.
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import textwrap
from typing import Any
from xml.etree import ElementTree as ET  # what is parsed is Graphviz's own output

import msgspec
from msgspec import Struct

from tenure.errors import Refused
from tenure.graph.cast import Participant, cast, label, printable, sentence, summary
from tenure.protocol.graph import AgentKind, EdgeKind, Graph

SECONDS = 60.0
"""How long a layout may take."""

MOST_LABELS = 120
"""Edges up to which their words stand beside them; above, only in their titles. Each label is laid out like a node."""

WIDTH = 28

_SVG = "http://www.w3.org/2000/svg"
_INK, _GREY, _RED = "#1b2a41", "#5c6470", "#b3261e"
_PLAIN = {"shape": "box", "style": "filled", "fillcolor": "#ffffff", "color": _INK}
_SHAPES: dict[str, dict[str, str]] = {
    AgentKind.LOCAL: _PLAIN,
    AgentKind.REMOTE: {**_PLAIN, "peripheries": "2"},
    AgentKind.PARTNER: {**_PLAIN, "shape": "hexagon", "fillcolor": "#fdf3d8"},
    AgentKind.PERSON: {**_PLAIN, "style": "filled,rounded", "fillcolor": "#e3f0e8"},
    "every": {**_PLAIN, "shape": "ellipse", "style": "dashed", "color": _GREY},
    "unknown": {**_PLAIN, "style": "dashed", "color": _RED, "fontcolor": _RED},
}
_ARROWS = {
    EdgeKind.TRANSFER: {"penwidth": "2.5", "color": _INK},
    EdgeKind.DELEGATE: {"style": "dashed", "color": _GREY, "arrowhead": "vee"},
}


class Plan(Struct, frozen=True):
    """What Graphviz lays out: attributes of the graph, of each node, and of each edge from node to node."""

    graph: dict[str, str]
    nodes: list[dict[str, str]]
    edges: list[tuple[int, int, dict[str, str]]]


def svg(graph: Graph, *, seconds: float = SECONDS) -> bytes:
    """The graph as an SVG file. Equal graphs give equal bytes, with the same Graphviz and the same fonts.

    Raises:
        Refused: ``misuse`` without the extra, and when the layout takes longer than ``seconds`` or fails.
    """
    if importlib.util.find_spec("pygraphviz") is None:
        detail = "SVG needs an extra: pip install 'tenure[draw]'. `tenure graph --mermaid` needs nothing."
        raise Refused("misuse", detail)
    command = [sys.executable, "-P", "-m", "tenure.graph.drawing"]
    plan = msgspec.json.encode(_plan(graph))
    try:
        done = subprocess.run(command, input=plan, capture_output=True, timeout=seconds, check=False)  # noqa: S603 - ours
    except subprocess.TimeoutExpired:
        size = f"{len(graph.agents)} agents and {len(graph.edges)} edges"
        detail = (
            f"Graphviz has not laid out {size} in {seconds:g} s. `tenure graph --edges` and `--mermaid` lay out none."
        )
        raise Refused("misuse", detail) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Refused("misuse", f"Graphviz has failed ({done.returncode}): {said[-1] if said else 'without a word'}.")
    return _finished(done.stdout, graph)


def with_labels(graph: Graph) -> bool:
    """Whether the words of edges stand beside them."""
    return len(graph.edges) <= MOST_LABELS


# --- what is laid out -----------------------------------------------------------------------------------------------


def _plan(graph: Graph) -> Plan:
    people = cast(graph)
    places = {name: number for number, name in enumerate(people)}
    small = with_labels(graph)
    # A large graph gets straight lines and fewer rounds of improvement: minutes become seconds.
    effort = {} if small else {"splines": "line", "nslimit": "1", "nslimit1": "1"}
    edges = [
        (
            places[edge.source],
            places[edge.target],
            {**_ARROWS[edge.kind], "id": f"edge-{number}", **({"label": _label(label(edge))} if small else {})},
        )
        for number, edge in enumerate(graph.edges)
    ]
    nodes = [{**_node(one), "id": f"agent-{number}"} for number, one in enumerate(people.values())]
    return Plan({"rankdir": "LR", "bgcolor": "#ffffff", "ranksep": "0.8", **effort}, nodes, edges)


def _node(one: Participant) -> dict[str, str]:
    # A label whose first line is empty makes some versions of Graphviz crash.
    words = "every agent" if one.role == "every" else _label(one.name) or "&#160;"
    mark = "▶ " if one.entry else ""
    shape = {**_SHAPES[one.role], **({"penwidth": "2.5"} if one.entry else {})}
    return {**shape, "label": f"{mark}{words}\\n{one.said}" if one.said else f"{mark}{words}"}


def _label(text: str) -> str:
    r"""A text that Graphviz shows as it is: wrapped, and neither HTML (``<…>``) nor an escape (``\N``)."""
    lines = textwrap.wrap(printable(text), WIDTH, max_lines=6, placeholder=" …", break_on_hyphens=False)
    return "\\n".join(line.replace("&", "&amp;").replace("<", "&lt;").replace("\\", "\\\\") for line in lines)


# --- what comes of it -----------------------------------------------------------------------------------------------


def _finished(drawn: bytes, graph: Graph) -> bytes:
    """Graphviz's drawing with words for whoever cannot see it, and without what depends on its version."""
    ET.register_namespace("", _SVG)
    root = ET.fromstring(drawn)  # noqa: S314 - Graphviz's own output; every name in it was escaped by it
    for number, one in enumerate(cast(graph).values()):
        _title(root, f"agent-{number}", one.words)
    for number, edge in enumerate(graph.edges):
        _title(root, f"edge-{number}", sentence(edge))
    told = summary(graph)
    root.attrib.update({"role": "img", "aria-label": told, "aria-describedby": "edges"})
    title, description = ET.Element(f"{{{_SVG}}}title"), ET.Element(f"{{{_SVG}}}desc", {"id": "edges"})
    title.text, description.text = told, ". ".join(sentence(edge) for edge in graph.edges)
    root[:0] = [title, description]
    finished: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return finished + b"\n"


def _title(root: ET.Element, id: str, text: str) -> None:
    found = root.find(f".//{{{_SVG}}}g[@id='{id}']/{{{_SVG}}}title")
    if found is not None:
        found.text = text


# --- in the other process -------------------------------------------------------------------------------------------


def _lay_out(plan: bytes) -> bytes:
    pygraphviz: Any = importlib.import_module("pygraphviz")  # an extra, without types
    found = msgspec.json.decode(plan, type=Plan)
    picture = pygraphviz.AGraph(directed=True, strict=False, **found.graph)
    picture.node_attr.update(fontname="Helvetica,Arial,sans-serif", fontsize="12", margin="0.2,0.1")
    picture.edge_attr.update(fontname="Helvetica,Arial,sans-serif", fontsize="10")
    for number, node in enumerate(found.nodes):
        picture.add_node(str(number), **node)
    for number, (source, target, edge) in enumerate(found.edges):
        picture.add_edge(str(source), str(target), key=str(number), **edge)
    drawn: bytes = picture.draw(format="svg", prog="dot")
    return drawn


if __name__ == "__main__":
    sys.stdout.buffer.write(_lay_out(sys.stdin.buffer.read()))
