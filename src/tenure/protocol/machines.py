"""The state machines, as tables. Every transition stands here; the diagrams and the exhaustive tests come from here.

Each machine maps a state and the name of an event to the next state. :mod:`tenure.protocol.evolve` looks every step
up and has no transition of its own; a step that is not in its table is refused and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenure.protocol.vocabulary import (
    EffectState,
    HandoffState,
    OfferState,
    Phase,
    WorkState,
)

P, H, F, W, E = Phase, HandoffState, OfferState, WorkState, EffectState

TASK: Mapping[Phase, Mapping[str, Phase]] = {
    P.OFFERED: {
        "offer.issued": P.OFFERED,
        "tenure.granted": P.ACTIVE,
        "task.escalated": P.ESCALATED,
        "task.cancelled": P.CANCELLED,
    },
    P.ACTIVE: {
        "offer.issued": P.OFFERED,
        "task.waiting": P.WAITING,
        "task.escalated": P.ESCALATED,
        "task.cancel_requested": P.CANCEL_REQUESTED,
        "task.completed": P.COMPLETED,
        "task.failed": P.FAILED,
    },
    P.WAITING: {
        "offer.issued": P.OFFERED,
        "task.escalated": P.ESCALATED,
        "task.cancelled": P.CANCELLED,
        "task.failed": P.FAILED,
    },
    P.ESCALATED: {
        "offer.issued": P.OFFERED,
        "task.cancelled": P.CANCELLED,
        "task.failed": P.FAILED,
    },
    P.CANCEL_REQUESTED: {
        "task.escalated": P.ESCALATED,
        "task.completed": P.COMPLETED,
        "task.failed": P.FAILED,
        "task.cancelled": P.CANCELLED,
    },
    P.COMPLETED: {},
    P.FAILED: {},
    P.CANCELLED: {},
}

HANDOFF: Mapping[HandoffState, Mapping[str, HandoffState]] = {
    H.INITIATED: {
        "offer.issued": H.TRANSFERRED,
        "task.escalated": H.FAILED_ESCALATED,
        "reversed": H.REVERSED,
        "task.cancelled": H.FAILED,
    },
    H.TRANSFERRED: {
        "offer.issued": H.TRANSFERRED,
        "offer.acknowledged": H.ACKNOWLEDGED,
        "returned": H.FAILED_RETURNED,
        "timed_out": H.TIMED_OUT,
        "reversed": H.REVERSED,
        "task.escalated": H.FAILED_ESCALATED,
        "task.cancelled": H.FAILED,
    },
    H.ACKNOWLEDGED: {
        "tenure.granted": H.OWNED_BY_RECEIVER,
        "returned": H.FAILED_RETURNED,
        "reversed": H.REVERSED,
        "task.escalated": H.FAILED_ESCALATED,
        "task.cancelled": H.FAILED,
    },
    H.OWNED_BY_RECEIVER: {
        "returned": H.FAILED_RETURNED,
        "reversed": H.REVERSED,
        "task.escalated": H.FAILED_ESCALATED,
        "task.completed": H.COMPLETED,
        "task.failed": H.FAILED,
        "task.cancelled": H.FAILED,
    },
    H.COMPLETED: {},
    H.FAILED_RETURNED: {},
    H.FAILED_ESCALATED: {},
    H.TIMED_OUT: {},
    H.REVERSED: {},
    H.FAILED: {},
}

OFFER: Mapping[OfferState, Mapping[str, OfferState]] = {
    F.OPEN: {
        "offer.claimed": F.CLAIMED,
        "offer.declined": F.DECLINED,
        "offer.expired": F.EXPIRED,
    },
    F.CLAIMED: {
        "offer.acknowledged": F.ACKNOWLEDGED,
        "offer.declined": F.DECLINED,
        "offer.expired": F.EXPIRED,
    },
    F.ACKNOWLEDGED: {"offer.expired": F.EXPIRED},
    F.DECLINED: {},
    F.EXPIRED: {},
}

WORK: Mapping[WorkState, Mapping[str, WorkState]] = {
    W.RUNNING: {
        "cancellation.requested": W.CANCEL_REQUESTED,
        "residual.declared": W.RESIDUAL,
        "work.stopped": W.STOPPED,
    },
    W.CANCEL_REQUESTED: {
        "cancellation.requested": W.CANCEL_REQUESTED,
        "residual.declared": W.RESIDUAL,
        "work.stopped": W.STOPPED,
    },
    W.RESIDUAL: {
        "cancellation.requested": W.RESIDUAL,
        "work.stopped": W.STOPPED,
    },
    W.STOPPED: {},
}

SETTLED_MOVES = frozenset({E.DISPUTED})
EFFECT: Mapping[EffectState, frozenset[EffectState]] = {
    E.INTENDED: frozenset({E.ACCEPTED, E.CONFIRMED, E.REFUSED, E.IN_DOUBT}),
    E.ACCEPTED: frozenset({E.CONFIRMED, E.FAILED, E.CANCELLED, E.IN_DOUBT}),
    E.IN_DOUBT: frozenset({E.ACCEPTED, E.CONFIRMED, E.REFUSED, E.ABSENT, E.CANCELLED, E.ATTESTED}),
    E.ABSENT: frozenset({E.INTENDED}) | SETTLED_MOVES,
    E.CONFIRMED: frozenset({E.COMPENSATING, E.ATTESTED}) | SETTLED_MOVES,
    E.COMPENSATING: frozenset({E.COMPENSATED, E.COMPENSATION_FAILED, E.ATTESTED}),
    E.COMPENSATION_FAILED: frozenset({E.COMPENSATING, E.ATTESTED}) | SETTLED_MOVES,
    E.REFUSED: SETTLED_MOVES,
    E.FAILED: SETTLED_MOVES,
    E.CANCELLED: SETTLED_MOVES,
    E.ATTESTED: frozenset({E.INTENDED, E.COMPENSATING}) | SETTLED_MOVES,
    E.COMPENSATED: SETTLED_MOVES,
    E.DISPUTED: frozenset({E.ATTESTED}),
}
