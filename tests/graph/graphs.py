"""Graphs with names that no drawing may stumble over."""

from __future__ import annotations

from hypothesis import strategies as st

from tenure.graph import AgentKind, AgentNode, Edge, EdgeKind, Graph

HOSTILE = (
    "end",
    "END of it",
    'a"]:::x --> b["',
    "x\nclick n0 call evil()",
    "%%{init: {}}%%",
    "<script>alert(1)</script>",
    "<b>html</b>",
    "]]>&amp;&#34;#quot;",
    "`**markdown**`",
    "- list",
    "1. list",
    "|label|",
    "\\N \\G \\",
    "subgraph x",
    "graph TD; a-->b",
    "\x00\x1b[31m\x7f\ud800",
    "*",
    "",
    "שלום 世界 🜁",
)

texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40))
names = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=12))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any graph at all, right or wrong."""
    agents = draw(st.dictionaries(names, st.tuples(st.sampled_from(AgentKind), texts), max_size=6))
    known = st.one_of(names, st.sampled_from(sorted(agents))) if agents else names
    edge = st.builds(
        Edge,
        source=known,
        target=known,
        kind=st.sampled_from(EdgeKind),
        because=texts,
        trigger=texts,
        description=texts,
    )
    return Graph(
        team=draw(texts),
        entry=draw(known),
        agents={name: AgentNode(kind=kind, description=words) for name, (kind, words) in agents.items()},
        edges=tuple(draw(st.lists(edge, max_size=8))),
    )
