"""The closed vocabularies: every state, kind and reason that a record may name."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """State of a task. The last three are final."""

    OFFERED = "offered"
    ACTIVE = "active"
    WAITING = "waiting"
    ESCALATED = "escalated"
    CANCEL_REQUESTED = "cancel_requested"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """No tenure can follow."""
        return self in _ENDED


_ENDED = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED})


class HandoffState(StrEnum):
    """State of one hop."""

    INITIATED = "INITIATED"
    TRANSFERRED = "TRANSFERRED"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    OWNED_BY_RECEIVER = "OWNED_BY_RECEIVER"
    COMPLETED = "COMPLETED"
    FAILED_RETURNED = "FAILED_RETURNED"
    FAILED_ESCALATED = "FAILED_ESCALATED"
    TIMED_OUT = "TIMED_OUT"
    REVERSED = "REVERSED"
    FAILED = "FAILED"


class OfferKind(StrEnum):
    """Why a task is open to be owned."""

    START = "start"
    TRANSFER = "transfer"
    RETURN = "return"
    TAKEOVER = "takeover"
    CLAIM = "claim"
    RESUME = "resume"


class OfferState(StrEnum):
    """Pick-up of an offer."""

    OPEN = "open"
    CLAIMED = "claimed"
    ACKNOWLEDGED = "acknowledged"
    DECLINED = "declined"
    EXPIRED = "expired"


class WorkKind(StrEnum):
    """What a work is made of. It decides what the death of its process proves."""

    HANDLER = "handler"
    COROUTINE = "coroutine"
    THREAD = "thread"
    PROCESS = "process"
    REMOTE = "remote"


DIES_WITH_PROCESS = frozenset({WorkKind.HANDLER, WorkKind.COROUTINE, WorkKind.THREAD})
"""Kinds whose end is proven by the observed death of the process that ran them."""


class WorkState(StrEnum):
    """State of an open work; a stopped one leaves the books."""

    RUNNING = "running"
    CANCEL_REQUESTED = "cancel_requested"
    RESIDUAL = "residual"
    STOPPED = "stopped"


class WorkEnd(StrEnum):
    """How a work was seen to end."""

    RETURNED = "returned"
    RAISED = "raised"
    CANCELLED = "cancelled"
    EXITED = "exited"
    KILLED = "killed"
    VANISHED = "vanished"
    ATTESTED = "attested"


class EffectState(StrEnum):
    """State of an effect outside."""

    INTENDED = "intended"
    ACCEPTED = "accepted"
    CONFIRMED = "confirmed"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"
    IN_DOUBT = "in_doubt"
    ABSENT = "absent"
    ATTESTED = "attested"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"
    COMPENSATION_FAILED = "compensation_failed"
    DISPUTED = "disputed"

    @property
    def settled(self) -> bool:
        """Evidence has closed the question of what exists outside."""
        return self not in _OPEN_EFFECTS


_OPEN_EFFECTS = frozenset(
    {
        EffectState.INTENDED,
        EffectState.ACCEPTED,
        EffectState.IN_DOUBT,
        EffectState.COMPENSATING,
        EffectState.COMPENSATION_FAILED,
        EffectState.DISPUTED,
    }
)


class EvidenceKind(StrEnum):
    """What was observed, of an effect or of a work. :mod:`tenure.protocol.evidence` says what each kind can show."""

    RESPONSE = "response"
    LOOKUP = "lookup"
    NOT_SENT = "not_sent"
    SEALED = "sealed"
    NOT_FOUND_AFTER_DEATH = "not_found_after_death"
    ENDED = "ended"
    GONE = "gone"
    DEATH = "death"
    STATUS = "status"
    ATTESTATION = "attestation"
    NONE = "none"


class Finding(StrEnum):
    """What a person has found about an effect that its provider cannot, or does not, tell of."""

    PRESENT = "present"
    ABSENT = "absent"
    UNDONE = "undone"


class Purpose(StrEnum):
    """What a provider call is for. Each call is one attempt."""

    APPLY = "apply"
    LOOKUP = "lookup"
    SEAL = "seal"
    CANCEL = "cancel"
    COMPENSATE = "compensate"


class Gate(StrEnum):
    """How much of the old tenure must be over before another may act, weakest first."""

    ROUTING_RETIRED = "routing_retired"
    STOPPED = "stopped"
    SETTLED = "settled"

    @property
    def rank(self) -> int:
        """Position in the order of strength."""
        return _GATE_ORDER.index(self)


_GATE_ORDER = (Gate.ROUTING_RETIRED, Gate.STOPPED, Gate.SETTLED)


class WaitOn(StrEnum):
    """What a waiting task waits for. Every wait also has a ``wake_by``."""

    INPUT = "input"
    CHILD = "child"
    ANSWER = "answer"
    TIME = "time"


class TurnOutcome(StrEnum):
    """What became of a turn."""

    GO = "go"
    TRANSFER = "transfer"
    NUDGE = "nudge"
    END = "end"


class Reason(StrEnum):
    """Why a handoff failed, a tenure was ended or a task stopped. A closed list."""

    NONE = ""
    DECLINED = "declined"
    START_FAILED = "start_failed"
    CAPABILITY = "capability"
    PERMISSION = "permission"
    RAISED = "raised"
    RETRIES_EXHAUSTED = "retries_exhausted"
    ACK_TIMEOUT = "ack_timeout"
    PICKUP_TIMEOUT = "pickup_timeout"
    TRANSITION_LIMIT = "transition_limit"
    GATE_TIMEOUT = "gate_timeout"
    RETIRE_TIMEOUT = "retire_timeout"
    LEASE_LOST = "lease_lost"
    INSTANCE_DEAD = "instance_dead"
    NO_PROGRESS = "no_progress"
    BUDGET = "budget"
    ROUTE_FORBIDDEN = "route_forbidden"
    TRANSFER_LIMIT_EXCEEDED = "transfer_limit_exceeded"
    DELEGATION_LIMIT_EXCEEDED = "delegation_limit_exceeded"
    OSCILLATION = "oscillation"
    GAVE_BACK = "gave_back"
    REVERSED = "reversed"
    ESCALATED = "escalated"
    ESCALATION_EXPIRED = "escalation_expired"
    CANCELLED = "cancelled"
    CANCEL_TIMEOUT = "cancel_timeout"
    ABORTED = "aborted"
    ANSWERED = "answered"
    REASSIGNED = "reassigned"
    WAKE_INPUT = "wake_input"
    WAKE_CHILD = "wake_child"
    WAKE_TIME = "wake_time"
