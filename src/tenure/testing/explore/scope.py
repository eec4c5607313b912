"""What a scope fixes: who takes part, what they may do, how often, and how the outside behaves."""

from __future__ import annotations

from msgspec import Struct

from tenure.protocol.settings import Limits, Policy, Settings
from tenure.protocol.vocabulary import Gate, WorkKind

FAR = 1_000_000
"""A limit that no scope's clock can reach, in milliseconds: spans that only it is compared with are dropped."""

SMALL = Settings(
    lease_ms=10,
    progress_ms=FAR,
    progress_grace_ms=10,
    pickup_ms=10,
    ack_ms=10,
    attempts=2,
    transition_ms=FAR,
    gate_ms=10,
    retire_ms=10,
    cancel_ms=10,
    question_ms=10,
    transfers=2,
    takeovers=1,
    unread=2,
    open_items=2,
)
"""Settings of the scopes: few attempts, and spans that come due together as often as possible."""

SLOW = Policy(name="local", grace_ms=1)
"""The class ``local`` with a grace that fits into the small ``retire_ms``."""

CRITICAL_WORK = Policy(name="critical", grace_ms=1, gate=Gate.SETTLED)
EXTERNAL_CALL = Policy(name="external", grace_ms=1)


class Outside(Struct, frozen=True, kw_only=True):
    """One provider. ``window_ms``: it repeats its answer to a key that long. ``limit_ms``: a request lands within.

    Attributes:
        seals: it can seal a key. finds: it can look a key up. refuses: it may refuse.
        direct: requests are sent in the moment of their commit; what was never sent counts as lost on its way.
        policy: of its effects. intents: business intents that the agents may have.
    """

    window_ms: int = 0
    limit_ms: int = 0
    seals: bool = False
    finds: bool = True
    refuses: bool = False
    direct: bool = False
    policy: Policy = EXTERNAL_CALL
    intents: tuple[str, ...] = ("i1",)


class Scope(Struct, frozen=True, kw_only=True):
    """A named, bounded part of everything that can happen.

    Attributes:
        about: one line for the report.
        agents: instances of each agent. edges: who may transfer to whom, in the order of asking.
        settings, limits, authority: of the root task. edge_authority: what the edge to an agent grants.
        gate: of every edge.
        kinds, work_policy: of the works that owners start.
        waits: what a tenure may wait for. decisions: which kinds of decision are tried.
        children: the agent that delegated tasks go to; empty for no delegation.
        budget: how often each kind of move may happen in one history.
        reduced: epochs are replaced by their rank, and only newer stale speakers are tried (see ``keys``).
        late: every acknowledgement and owner's command of every epoch so far arrives at any time.
        separate_claim: offers are also claimed without being acknowledged.
        ticks: how many deadlines in a row the watchdog may sleep through.
        most: stop after this many states (0: never). A scope that stops there says so.
    """

    name: str
    about: str
    agents: dict[str, tuple[str, ...]]
    edges: dict[str, tuple[str, ...]] = {}
    settings: Settings = SMALL
    limits: Limits = Limits(depth=1, delegations=1)
    authority: tuple[str, ...] = ("*",)
    edge_authority: dict[str, tuple[str, ...]] = {}
    gate: Gate = Gate.ROUTING_RETIRED
    kinds: tuple[WorkKind, ...] = (WorkKind.COROUTINE, WorkKind.PROCESS)
    work_policy: Policy = SLOW
    outside: Outside = Outside()
    waits: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ("complete", "transfer")
    children: str = ""
    broadcast: bool = False
    budget: dict[str, int] = {}
    reduced: bool = True
    late: bool = False
    separate_claim: bool = False
    ticks: int = 0
    most: int = 0

    @property
    def instances(self) -> tuple[str, ...]:
        """All instances of all agents, in their order of use."""
        return tuple(instance for group in self.agents.values() for instance in group)

    def agent_of(self, instance: str) -> str:
        """The agent that an instance runs."""
        return next(agent for agent, group in self.agents.items() if instance in group)

    def bounds(self) -> str:
        """The bounds, as the report prints them."""
        settings = self.settings
        limits = f"transfers {settings.transfers}, attempts {settings.attempts}, takeovers {settings.takeovers}"
        moves = ", ".join(f"{name} {count}" for name, count in sorted(self.budget.items()))
        actors = " ".join(f"{agent}×{len(group)}" for agent, group in self.agents.items())
        sleep = f", watchdog sleeps {self.ticks}" if self.ticks else ""
        return f"{actors}; {limits}{sleep}; {moves or 'no further moves'}"
