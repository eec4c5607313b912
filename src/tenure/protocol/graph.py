"""The routing graph: who may hand what to whom, as a design that is reviewed, saved, versioned and enforced.

This is the form in which files, the ledger and Python share it. :class:`Graph` holds what was said; what was not said
is filled by the defaults of :mod:`tenure.protocol.settings`. Its digest names one version for ever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property
from typing import Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from tenure.protocol.settings import POLICIES, Limits, Policy, Settings
from tenure.protocol.vocabulary import Gate

ANY_AGENT = "*"
"""As the target of a delegation: every agent of the graph but the caller."""


class AgentKind(StrEnum):
    """Where an agent runs, and so whether it can be fenced."""

    LOCAL = "local"
    REMOTE = "remote"
    PARTNER = "partner"
    PERSON = "person"


class EdgeKind(StrEnum):
    """What an edge moves: the result (a delegation) or the task (a transfer)."""

    DELEGATE = "delegate"
    TRANSFER = "transfer"


class Termination(StrEnum):
    """How the receiver's part may end: it finishes the task, gives it back, or asks a person."""

    END = "end"
    RETURN = "return"
    ESCALATE = "escalate"


_BACK = (Termination.RETURN,)
_ANY_END = tuple(Termination)


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of everything in a graph: an unknown field is an error, what was not said is not written."""


class AgentNode(Part, frozen=True, kw_only=True):
    """A named participant.

    Attributes:
        kind: a ``partner`` belongs to another organisation and cannot be fenced. description: in words.
        skills: what it can do, one phrase each. accepts: name of the type of its input.
        tools: grants for effects, as in :mod:`tenure.protocol.authority`; ``None`` means all of the task's.
    """

    kind: AgentKind = AgentKind.LOCAL
    description: str = ""
    skills: tuple[str, ...] = ()
    accepts: str = ""
    tools: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Take the plain words that Python allows for the members of a vocabulary that they are."""
        force_setattr(self, "kind", AgentKind(self.kind))


class Edge(Part, frozen=True, kw_only=True):
    """One agent may hand something to another. Four elements: trigger, payload, transition, termination.

    Attributes:
        source, target: agents; in files ``from`` and ``to``. ``*`` as target of a delegation means every agent.
        because: why this is a transfer: the sender does not need the result to go on. description: in words.
        trigger: what sets it off; any when empty. A transfer that names another trigger is refused.
        payload: name of the type that moves; what the target accepts when empty.
        gate: what must be over before the receiver acts. It raises the sender's gate, never lowers it.
        pickup_ms, ack_ms: deadlines of this edge's offers; 0 takes the task's.
        tools: grants that go over this edge; ``None`` means the target's own.
        termination: how the receiver's part may end; ``None`` takes the default of the kind.
    """

    source: str = field(name="from")
    target: str = field(name="to")
    kind: EdgeKind = EdgeKind.DELEGATE
    because: str = ""
    description: str = ""
    trigger: str = ""
    payload: str = ""
    gate: Gate | None = None
    pickup_ms: int = 0
    ack_ms: int = 0
    tools: tuple[str, ...] | None = None
    termination: tuple[Termination, ...] | None = None

    def __post_init__(self) -> None:
        """Take the plain words that Python allows for the members of a vocabulary that they are."""
        force_setattr(self, "kind", EdgeKind(self.kind))
        if self.gate is not None:
            force_setattr(self, "gate", Gate(self.gate))
        if self.termination is not None:
            force_setattr(self, "termination", tuple(Termination(one) for one in self.termination))

    @property
    def ends(self) -> tuple[Termination, ...]:
        """Its termination, with the default filled in: a delegation returns, a transfer may end in any way."""
        if self.termination is not None:
            return self.termination
        return _BACK if self.kind is EdgeKind.DELEGATE else _ANY_END


class Tool(Part, frozen=True, kw_only=True):
    """What holds for an effect by whomever it is made.

    Attributes:
        policy: its class. approval: every call waits for a person's approval of its exact arguments.
        limits: field of the request → largest number that it may have.
    """

    policy: str = "external"
    approval: bool = False
    limits: dict[str, int | float] = {}


class PolicyNode(Part, frozen=True, kw_only=True):
    """A class of works and effects; see :class:`tenure.protocol.settings.Policy`."""

    grace_ms: int
    booked: bool = True
    gate: Gate = Gate.ROUTING_RETIRED

    def __post_init__(self) -> None:
        """Take a plain word for the gate that it is."""
        force_setattr(self, "gate", Gate(self.gate))


class Budgets(Part, frozen=True, kw_only=True):
    """Limits. ``None`` takes the default.

    Attributes:
        transfers, delegations: of one task. turn_delegations: of one turn.
        depth, tree_delegations, agents: of a delegation tree.
    """

    transfers: int | None = None
    delegations: int | None = None
    turn_delegations: int | None = None
    depth: int | None = None
    tree_delegations: int | None = None
    agents: int | None = None


class Turns(Part, frozen=True, kw_only=True):
    """How an ambiguous or forbidden turn is treated. ``None`` takes the default.

    Attributes:
        nudges: how often a turn is handed back with words before its fallback, from one handoff to the next.
        calls_ms: how long the calls beside a transfer may take before they are asked to end.
    """

    nudges: int | None = None
    calls_ms: int | None = None


class Oscillation(Part, frozen=True, kw_only=True):
    """``repeats``: how often an edge may be used again without progress; ``None`` takes the default."""

    repeats: int | None = None


class Fallback(Part, frozen=True, kw_only=True):
    """Who gets what goes wrong. ``None`` and an empty name take the default.

    Attributes:
        person: the party that is asked in the end. supervisor: the agent that gets an oscillating task.
        failure, lost, ack_timeout, unanswered: the policies of :class:`tenure.protocol.settings.Settings`.
    """

    person: str = ""
    supervisor: str = ""
    failure: Literal["escalate", "fail"] | None = None
    lost: Literal["same", "return", "person"] | None = None
    ack_timeout: Literal["return", "escalate"] | None = None
    unanswered: Literal["fail", "cancel"] | None = None


class Deadlines(Part, frozen=True, kw_only=True):
    """Deadlines in milliseconds, named as in :class:`tenure.protocol.settings.Settings`; ``None`` takes the default."""

    lease_ms: int | None = None
    progress_ms: int | None = None
    progress_grace_ms: int | None = None
    pickup_ms: int | None = None
    ack_ms: int | None = None
    attempts: int | None = None
    transition_ms: int | None = None
    gate_ms: int | None = None
    retire_ms: int | None = None
    cancel_ms: int | None = None
    question_ms: int | None = None
    approval_ms: int | None = None


class Graph(Part, frozen=True, kw_only=True, dict=True):
    """One version of a team's routing.

    Attributes:
        team: its name. entry: the agent that gets new tasks.
        agents, tools, policies: by name. edges: in the order that decides between transfers of one turn.
    """

    team: str
    entry: str = ""
    agents: dict[str, AgentNode] = {}
    edges: tuple[Edge, ...] = ()
    tools: dict[str, Tool] = {}
    policies: dict[str, PolicyNode] = {}
    budgets: Budgets = Budgets()
    turns: Turns = Turns()
    oscillation: Oscillation = Oscillation()
    fallback: Fallback = Fallback()
    deadlines: Deadlines = Deadlines()

    @cached_property
    def content(self) -> bytes:
        """The graph as JSON: equal graphs give equal bytes."""
        return msgspec.json.encode(self)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content, 64 hexadecimal digits: the name of this version."""
        return hashlib.sha256(self.content).hexdigest()

    @cached_property
    def _index(self) -> dict[tuple[str, str, EdgeKind], tuple[int, Edge]]:
        found: dict[tuple[str, str, EdgeKind], tuple[int, Edge]] = {}
        for number, edge in enumerate(self.edges):
            found.setdefault((edge.source, edge.target, edge.kind), (number, edge))
        return found

    def edge(self, source: str, target: str, kind: EdgeKind) -> Edge | None:
        """The edge by which one agent may hand something to another, if there is one."""
        exact = self._index.get((source, target, kind))
        if exact is None and kind is EdgeKind.DELEGATE and source != target and target in self.agents:
            exact = self._index.get((source, ANY_AGENT, kind))
        return exact[1] if exact else None

    def rank(self, source: str, target: str) -> int:
        """Place of a transfer edge in the graph's order; behind all of them when there is none."""
        found = self._index.get((source, target, EdgeKind.TRANSFER))
        return found[0] if found else len(self.edges)

    def targets(self, source: str, kind: EdgeKind) -> Iterator[str]:
        """To whom an agent may hand something, in the graph's order."""
        for edge in self.edges:
            if edge.source != source or edge.kind is not kind:
                continue
            if edge.target == ANY_AGENT:
                yield from (name for name in self.agents if name != source)
            else:
                yield edge.target

    def policy(self, name: str) -> Policy | None:
        """A class of works and effects by its name: the graph's own, else one of the four."""
        node = self.policies.get(name)
        if node is None:
            return POLICIES.get(name)
        return Policy(name=name, grace_ms=node.grace_ms, booked=node.booked, gate=node.gate)

    def settings(self, base: Settings) -> Settings:
        """Settings of a task under this graph: what the graph says, over ``base``."""
        said = {name: value for name, value in _said(self.deadlines).items() if value is not None}
        return replace(self.routing_settings(base), **said)

    def routing_settings(self, base: Settings) -> Settings:
        """The same without the deadlines, which a running task keeps: whoever owns it counts on its lease."""
        said = {
            "transfers": self.budgets.transfers,
            "delegations": self.budgets.delegations,
            "turn_delegations": self.budgets.turn_delegations,
            "nudges": self.turns.nudges,
            "calls_ms": self.turns.calls_ms,
            "repeats": self.oscillation.repeats,
            "fallback": self.fallback.person or None,
            "supervisor": self.fallback.supervisor or None,
            "on_failure": self.fallback.failure,
            "on_lost": self.fallback.lost,
            "on_ack_timeout": self.fallback.ack_timeout,
            "on_unanswered": self.fallback.unanswered,
        }
        return replace(base, **{name: value for name, value in said.items() if value is not None})

    def limits(self, base: Limits) -> Limits:
        """Limits of a tree under this graph: what the graph says, over ``base``."""
        budgets = self.budgets
        said = {"depth": budgets.depth, "delegations": budgets.tree_delegations, "agents": budgets.agents}
        return replace(base, **{name: value for name, value in said.items() if value is not None})


def _said(part: Struct) -> dict[str, object]:
    return {name: getattr(part, name) for name in part.__struct_fields__}


def read_graph(content: bytes) -> Graph:
    """Decode a graph that :attr:`Graph.content` has encoded.

    Raises:
        msgspec.ValidationError, msgspec.DecodeError: it is none.
    """
    return msgspec.json.decode(content, type=Graph)
