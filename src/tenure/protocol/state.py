"""What a task, a tree and an effect are at one moment.

Frozen values; only :mod:`tenure.protocol.evolve` makes new ones. They hold nothing but other frozen values, so no cycle
can arise among them, and Python's collector is told not to look (``gc=False``).

A task's state holds open items only: what is settled is in the events, and rows by reference, so the state stays
small however long the history gets. Times are milliseconds since the Unix epoch, by the ledger's clock.
"""

from __future__ import annotations

from msgspec import Struct

from tenure.protocol.approvals import Approval, AskedApproval
from tenure.protocol.graph import Graph
from tenure.protocol.outside import Effect, OpenEffect
from tenure.protocol.settings import Limits, Policy, Settings
from tenure.protocol.vocabulary import (
    Gate,
    HandoffState,
    OfferKind,
    OfferState,
    Phase,
    Reason,
    WaitOn,
    WorkEnd,
    WorkKind,
    WorkState,
)


class Locator(Struct, frozen=True, kw_only=True, gc=False):
    """Where a work runs, so that its end can be observed from outside.

    Attributes:
        host: host name. boot: boot id of that host. pid: process id. started: the process's start time, in clock
        ticks since boot (a pid alone may be reused). group: process group that is signalled; 0 when none.
        provider, reference: of remote work, where its status is to be had, and its name there.
    """

    host: str = ""
    boot: str = ""
    pid: int = 0
    started: int = 0
    group: int = 0
    provider: str = ""
    reference: str = ""


class Work(Struct, frozen=True, kw_only=True, gc=False):
    """One owned piece of execution that was not seen to end yet."""

    work_id: str
    kind: WorkKind
    name: str
    policy: Policy
    agent: str
    epoch: int
    instance: str
    started_at: int
    state: WorkState = WorkState.RUNNING
    delivered: bool = False
    locator: Locator | None = None


class Ending(Struct, frozen=True, kw_only=True, gc=False):
    """How a work ended that its own tenure could not hand over: news for the owner, until the next handoff."""

    work_id: str
    name: str
    agent: str
    how: WorkEnd
    result: str


class Rejected(Struct, frozen=True, kw_only=True, gc=False):
    """Something that was asked for and is not done: ``code`` of :data:`tenure.errors.CODES` says why."""

    call_id: str
    code: str
    detail: str = ""


class Pending(Struct, frozen=True, kw_only=True, gc=False):
    """A transfer that a turn has decided and that is not initiated yet: calls beside it may finish until ``calls_by``.

    Should the instance be lost, the ledger initiates it with what was frozen at the decision.
    """

    handoff_id: str
    candidates: tuple[Candidate, ...]
    payload: str
    constraints: tuple[str, ...]
    gate: Gate
    calls_by: int
    mark: str
    broadcast: bool = False
    told: tuple[str, ...] = ()
    pickup_ms: int = 0
    ack_ms: int = 0


class Step(Struct, frozen=True, kw_only=True, gc=False):
    """One transfer of the task's path. ``mark``: what had been achieved by then, as a digest to compare."""

    sender: str
    receiver: str
    mark: str


class Retiring(Struct, frozen=True, kw_only=True, gc=False):
    """A tenure that has decided and only finishes what it started.

    Attributes:
        decision: the tag of the decision; its parts are in the fields that it needs.
        released: its works and routes are over; it waits only for the gate.
    """

    decision: str
    at: int
    deadline: int
    handoff_id: str = ""
    body: str = ""
    reason: Reason = Reason.NONE
    broadcast: bool = False
    wait: Wait | None = None
    question: Question | None = None
    released: bool = False
    unseen: int = 0


class Tenure(Struct, frozen=True, kw_only=True, gc=False):
    """One agent's period of owning the task, identified by ``epoch`` and ``instance``.

    Attributes:
        turn: how many turns it has decided or committed. delegated: delegations opened since the last of them.
        pending: the transfer that a turn has decided; nothing else may begin.
    """

    agent: str
    instance: str
    epoch: int
    since: int
    authority: tuple[str, ...]
    progress_at: int
    turn: int = 0
    delegated: int = 0
    asked_at: int = 0
    routes: tuple[str, ...] = ()
    pending: Pending | None = None
    retiring: Retiring | None = None


class Candidate(Struct, frozen=True, kw_only=True, gc=False):
    """An agent that may pick an offer up, and what its edge grants. ``None`` means all of the task's authority."""

    agent: str
    authority: tuple[str, ...] | None = None


class Pickup(Struct, frozen=True, kw_only=True, gc=False):
    """Who has claimed an offer, and until when it must be acknowledged."""

    agent: str
    instance: str
    until: int


class Offer(Struct, frozen=True, kw_only=True, gc=False):
    """An open invitation to own the task.

    Attributes:
        index: the candidate whose turn it is; a ``claim`` offer is open to all of them.
        attempt: from 1.
        payload: digest of the sender's part.
        gate: what must be over before the grant; ``None`` when the gate is waived, which a return after a failed
            gate is.
        gate_by: deadline of the gate, set by the acknowledgement.
        reason: why the offer was issued.
    """

    kind: OfferKind
    candidates: tuple[Candidate, ...]
    deadline: int
    payload: str
    index: int = 0
    attempt: int = 1
    state: OfferState = OfferState.OPEN
    handoff_id: str = ""
    reason: Reason = Reason.NONE
    gate: Gate | None = Gate.ROUTING_RETIRED
    pickup: Pickup | None = None
    gate_by: int = 0

    @property
    def open_to(self) -> tuple[Candidate, ...]:
        """The candidates that may pick it up now."""
        return self.candidates if self.kind is OfferKind.CLAIM else self.candidates[self.index : self.index + 1]


class Hop(Struct, frozen=True, kw_only=True, gc=False):
    """One open handoff. ``authority`` and ``given`` are the sender's, which a return gives back.

    ``pickup_ms`` and ``ack_ms`` are its edge's deadlines; 0 takes the task's.
    """

    handoff_id: str
    n: int
    sender: str
    receivers: tuple[Candidate, ...]
    receiver: str
    state: HandoffState
    payload: str
    authority: tuple[str, ...]
    given: str
    initiated_at: int
    gate: Gate = Gate.ROUTING_RETIRED
    pickup_ms: int = 0
    ack_ms: int = 0


class Wait(Struct, frozen=True, kw_only=True, gc=False):
    """What a task without a tenure waits for, and the time at which it wakes anyway."""

    on: WaitOn
    wake_by: int
    child_id: str = ""


class Question(Struct, frozen=True, kw_only=True, gc=False):
    """A structured question to a person.

    Attributes:
        who: parties that may answer. allowed: choices; empty means any. body: digest of text and evidence.
        due: when its finite fallback applies. approval: the effect that it asks to approve.
    """

    question_id: str
    reason: Reason
    who: tuple[str, ...]
    allowed: tuple[str, ...]
    body: str
    due: int
    approval: AskedApproval | None = None


class Child(Struct, frozen=True, kw_only=True, gc=False):
    """A delegation of this task. ``outcome`` is empty while the child has not ended."""

    child_id: str
    agent: str
    outcome: str = ""
    result: str = ""
    reason: Reason = Reason.NONE


class Cancel(Struct, frozen=True, kw_only=True, gc=False):
    """A requested cancellation. It claims nothing about what has stopped."""

    by: str
    reason: str
    due: int


class Task(Struct, frozen=True, kw_only=True, gc=False):
    """The unit that is owned.

    Attributes:
        goal: digest of the goal; the text is in each payload. constraints: digests; they only grow.
        revision: number of the task's last event; the compare-and-set version.
        epoch: fencing token; see the design for when it rises.
        at: time of the last event. vacant_since: when nobody began to own the task, for the measured window.
        owner: the agent that holds the task, or held it last, or is asked first. held_authority: what its last grant
            gave; before any, what the first one would give.
        answerable: who answers now for what is open; never empty.
        payload: digest of the newest frozen sender's part. endings: works that ended after it was frozen.
        given: digest of the part whose ``data`` is the input of whoever owns the task or is offered it: after a
            return, that is what the sender had been given itself.
        received, seen, consumed: counts of the input; ``consumed <= seen <= received``.
        graph: digest of the version of the routing graph in force; empty without one.
        nudges: how often a turn was handed back since the last handoff or answer of a person.
        nudged: what was said to the last of them.
        trail: the newest transfers, to tell circles from progress.
        delegated: delegations ever opened; collected: of those, results that were taken.
        approvals: persons' words on effects, while they hold.
        unseen: how many helpers and calls were not seen to end with their tenures. They are counted and not watched, so
        the number never falls.
    """

    root_id: str
    task_id: str
    parent: str
    depth: int
    conversation: str
    goal: str
    constraints: tuple[str, ...]
    authority: tuple[str, ...]
    settings: Settings
    phase: Phase
    revision: int
    epoch: int
    at: int
    created_at: int
    vacant_since: int
    owner: str
    answerable: str
    payload: str
    given: str
    held_authority: tuple[str, ...] = ()
    reason: Reason = Reason.NONE
    result: str = ""
    document: str = ""
    document_version: int = 0
    tenure: Tenure | None = None
    offer: Offer | None = None
    wait: Wait | None = None
    question: Question | None = None
    cancel: Cancel | None = None
    hops: tuple[Hop, ...] = ()
    works: tuple[Work, ...] = ()
    endings: tuple[Ending, ...] = ()
    effects: tuple[OpenEffect, ...] = ()
    children: tuple[Child, ...] = ()
    received: int = 0
    seen: int = 0
    consumed: int = 0
    transfers: int = 0
    takeovers: int = 0
    hop_count: int = 0
    unseen: int = 0
    graph: str = ""
    nudges: int = 0
    nudged: tuple[Rejected, ...] = ()
    trail: tuple[Step, ...] = ()
    delegated: int = 0
    collected: int = 0
    approvals: tuple[Approval, ...] = ()

    @property
    def unread(self) -> range:
        """Numbers of the input that nobody has consumed."""
        return range(self.consumed + 1, self.received + 1)


class Tree(Struct, frozen=True, kw_only=True, gc=False):
    """Counters and stop flag of a delegation tree, kept at its root."""

    root_id: str
    limits: Limits
    tasks: int = 1
    unfinished: int = 1
    delegations: int = 0
    stopped: bool = False


class Books(Struct, frozen=True, kw_only=True, gc=False):
    """Everything a command may touch, as loaded in its transaction.

    Attributes:
        task: the task that the command names. parent: its parent, whenever it has one.
        child: the task that already has the id of a child that is to be opened.
        effects: the effect that the command names by id; all in the tree with its intent, or with the intent that
            the command names; all open ones of the task for a death report. An effect that is not loaded changes all
            the same when an event of the verdict speaks of it (the end of a tenure puts its unanswered calls in
            doubt): whoever keeps effects evolves it from the events.
        graph: the version of the routing graph that the command names, else the one in force for the task.
        conversing: the task to which the command's conversation points.
        lease_until: end of the current tenure's lease; heartbeats move it and are not events. 0 without a tenure.
        parent_lease_until: the same of the parent.
    """

    tree: Tree | None = None
    task: Task | None = None
    parent: Task | None = None
    child: Task | None = None
    effects: tuple[Effect, ...] = ()
    conversing: Task | None = None
    graph: Graph | None = None
    lease_until: int = 0
    parent_lease_until: int = 0
