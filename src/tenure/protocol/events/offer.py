"""Events of offers and handoffs."""

from __future__ import annotations

from tenure.protocol.events.base import EventBase
from tenure.protocol.state import Candidate
from tenure.protocol.vocabulary import Gate, HandoffState, OfferKind, Reason


class OfferIssued(EventBase, frozen=True, kw_only=True, tag="offer.issued"):
    """The task is open to be owned; raises the epoch. Of a transfer, this is TRANSFERRED."""

    kind: OfferKind
    candidates: tuple[Candidate, ...]
    deadline: int
    payload: str
    index: int = 0
    attempt: int = 1
    handoff_id: str = ""
    reason: Reason = Reason.NONE
    gate: Gate | None = Gate.ROUTING_RETIRED
    graph: str = ""


class OfferClaimed(EventBase, frozen=True, kw_only=True, tag="offer.claimed"):
    """An instance picked the offer up; it has not acknowledged yet."""

    agent: str
    instance: str
    until: int


class OfferAcknowledged(EventBase, frozen=True, kw_only=True, tag="offer.acknowledged"):
    """The receiver confirmed the digest. It owns nothing before the grant."""

    digest: str
    gate_by: int
    readback: str = ""


class OfferDeclined(EventBase, frozen=True, kw_only=True, tag="offer.declined"):
    """The candidate turned the offer down or failed to start."""

    agent: str
    reason: Reason
    detail: str = ""


class OfferExpired(EventBase, frozen=True, kw_only=True, tag="offer.expired"):
    """A deadline of the offer passed."""

    reason: Reason


class OfferWithdrawn(EventBase, frozen=True, kw_only=True, tag="offer.withdrawn"):
    """The offer is closed without a successor of its kind; raises the epoch."""

    reason: Reason


class HandoffInitiated(EventBase, frozen=True, kw_only=True, tag="handoff.initiated"):
    """The sender's part is frozen; a hop is on the stack.

    Attributes:
        told: ended works that it states as facts. graph: digest of the graph that allowed it.
        mark: what had been achieved by then, as a digest to compare. pickup_ms, ack_ms: the edge's deadlines, or 0.
    """

    handoff_id: str
    candidates: tuple[Candidate, ...]
    payload: str
    constraints: tuple[str, ...]
    gate: Gate
    told: tuple[str, ...] = ()
    graph: str = ""
    mark: str = ""
    pickup_ms: int = 0
    ack_ms: int = 0


class HandoffEnded(EventBase, frozen=True, kw_only=True, tag="handoff.ended"):
    """The newest hop left the stack in a final state."""

    handoff_id: str
    state: HandoffState
    reason: Reason
