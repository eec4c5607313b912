"""A graph in the making: what adapters share. It knows no framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenure.errors import Refused
from tenure.protocol.authority import parse
from tenure.protocol.graph import ANY_AGENT, AgentKind, AgentNode, Edge, EdgeKind, Graph, Tool


class Inferred(Struct, frozen=True, kw_only=True):
    """What a framework's agents say about their routing.

    Attributes:
        graph: agents, edges and tools. A transfer has no ``because``: no framework asks for one.
        notes: what could not be seen, or means something else here; one sentence each.
    """

    graph: Graph
    notes: tuple[str, ...] = ()


class Sketch:
    """Collects agents, edges and tools. Each agent is looked into once, however often it is met."""

    def __init__(self) -> None:
        self._things: dict[str, Any] = {}
        self._agents: dict[str, AgentNode] = {}
        self._edges: dict[tuple[str, str, EdgeKind], Edge] = {}
        self._tools: dict[str, Tool] = {}
        self._notes: dict[str, None] = {}
        self._pending: list[Callable[[], None]] = []

    def meet(self, name: str, thing: Any, look: Callable[[], None]) -> None:
        """Note an agent, and look into it later if it is new: agents hand over in circles.

        Raises:
            Refused: ``invalid_team`` for a second agent of the same name, or a name that none can have.
        """
        if not name or name == ANY_AGENT:
            raise Refused("invalid_team", f"{name!r} is no name for an agent in a graph.")
        known = self._things.get(name)
        if known is not None and known is not thing:
            detail = f"Two different agents are called {name!r}; in a graph an agent is its name. Rename one of them."
            raise Refused("invalid_team", detail)
        self._agents.setdefault(name, AgentNode())
        if known is None and thing is not None:
            self._things[name] = thing
            self._pending.append(look)

    def agent(self, name: str, *, kind: AgentKind = AgentKind.LOCAL, description: str = "", accepts: str = "") -> None:
        """Say more about an agent that was met."""
        text = one_line(description)
        self._agents[name] = replace(self._agents[name], kind=kind, description=text, accepts=accepts)

    def tools(self, name: str, tools: Iterable[tuple[str, bool]]) -> None:
        """Grant an agent its tools, each with whether a person has to approve every call."""
        granted = []
        for tool, approval in tools:
            if not _is_grant(tool):
                self.note(f"The tool {tool!r} of {name} is left out: a grant is a name without spaces and brackets.")
                continue
            granted.append(tool)
            approved = approval or self._tools.get(tool, Tool()).approval
            self._tools[tool] = Tool(approval=approved)
        self._agents[name] = replace(self._agents[name], tools=tuple(dict.fromkeys(granted)))

    def edge(
        self, source: str, target: str, kind: EdgeKind, *, description: str = "", payload: str = "", trigger: str = ""
    ) -> None:
        """One agent may hand something to another. The first of several alike counts."""
        edge = Edge(source=source, target=target, kind=kind, description=description, payload=payload, trigger=trigger)
        self._edges.setdefault((source, target, kind), edge)

    def note(self, text: str) -> None:
        """Tell what could not be seen; once."""
        self._notes.setdefault(one_line(text))

    def looked_into(self, name: str) -> bool:
        """Whether an agent is more than a name."""
        return name in self._things

    def finish(self, entry: str) -> Inferred:
        """Look into everything that was met; the team is called by its entry."""
        while self._pending:
            self._pending.pop(0)()
        for name in self._agents:
            if not self.looked_into(name):
                self.note(f"{name} could not be looked into: its own edges and tools are not here.")
        graph = Graph(
            team=entry, entry=entry, agents=self._agents, edges=tuple(self._edges.values()), tools=self._tools
        )
        return Inferred(graph=graph, notes=tuple(self._notes))


def one_line(text: object) -> str:
    """A text of a framework in one line; empty for what is none, such as a function that makes the text."""
    return " ".join(text.split()) if isinstance(text, str) else ""


def name_of(kind: object) -> str:
    """The name of a type; empty when there is none."""
    return kind.__name__ if isinstance(kind, type) else ""


def _is_grant(tool: str) -> bool:
    try:
        return parse(tool) == (tool, ())
    except Refused:
        return False
