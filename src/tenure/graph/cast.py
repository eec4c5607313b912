"""Who stands in a drawing of a graph, and the words beside them; shared by all kinds of drawings."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from tenure.protocol.graph import ANY_AGENT, AgentKind, Edge, EdgeKind, Graph

Role = AgentKind | Literal["every", "unknown"]
"""The kind of an agent; ``every`` stands for all of them, ``unknown`` for a name that only edges know."""

_UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Participant(Struct, frozen=True, kw_only=True):
    """One node of a drawing.

    Attributes:
        name: empty for ``every``. role: what it is. entry: it gets new tasks.
        description: in words. skills: what it can do.
    """

    name: str
    role: Role
    entry: bool = False
    description: str = ""
    skills: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """What stands below its name; empty for a local agent, which is the usual kind."""
        return "" if self.role in (AgentKind.LOCAL, "every") else str(self.role)

    @property
    def words(self) -> str:
        """What it is, in one line: for titles and for those who cannot see the drawing."""
        if self.role == "every":
            return "every agent but the caller"
        entry = ", gets new tasks" if self.entry else ""
        kind = "not among the agents" if self.role == "unknown" else _KINDS[AgentKind(self.role)]
        skills = f"; skills: {', '.join(self.skills)}" if self.skills else ""
        description = f": {self.description}" if self.description else ""
        return printable(f"{self.name} ({kind}{entry}){description}{skills}")


_KINDS = {
    AgentKind.LOCAL: "agent",
    AgentKind.REMOTE: "remote agent",
    AgentKind.PARTNER: "partner",
    AgentKind.PERSON: "person",
}


def cast(graph: Graph) -> dict[str, Participant]:
    """Everybody who stands in a drawing, by name: the agents, then the names that only edges know, ``*`` among them."""
    found = {
        name: Participant(
            name=name, role=node.kind, entry=name == graph.entry, description=node.description, skills=node.skills
        )
        for name, node in graph.agents.items()
    }
    named = [name for edge in graph.edges for name in (edge.source, edge.target)]
    for name in (*filter(None, [graph.entry]), *named):
        if name not in found:
            role: Role = "every" if name == ANY_AGENT else "unknown"
            found[name] = Participant(name=name, role=role, entry=name == graph.entry)
    return found


def label(edge: Edge) -> str:
    """The words beside an edge: its trigger, and why it is a transfer."""
    return printable(": ".join(filter(None, [edge.trigger, edge.because])))


def sentence(edge: Edge) -> str:
    """An edge in words."""
    target = "every agent" if edge.target == ANY_AGENT else edge.target
    verb = "transfers to" if edge.kind == EdgeKind.TRANSFER else "delegates to"
    trigger = f" on {edge.trigger}" if edge.trigger else ""
    because = f" because {edge.because}" if edge.because else ""
    return printable(f"{edge.source} {verb} {target}{trigger}{because}")


def summary(graph: Graph) -> str:
    """What a drawing shows, in one line."""
    transfers = sum(edge.kind == EdgeKind.TRANSFER for edge in graph.edges)
    counts = (len(graph.agents), "agent"), (transfers, "transfer"), (len(graph.edges) - transfers, "delegation")
    told = ", ".join(f"{number} {noun}{'' if number == 1 else 's'}" for number, noun in counts)
    return printable(f"Routing of team {graph.team}: {told}")


def printable(text: str) -> str:
    """A text in one line, without what neither XML nor a terminal can show."""
    return " ".join(_UNPRINTABLE.sub("\ufffd", text).split())
