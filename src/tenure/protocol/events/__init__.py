"""Facts, in the past tense. The only thing that changes state, and all that a ledger must keep.

An event names content by digest only (see :mod:`tenure.protocol.body`). Which task it belongs to, its number and its
epoch stand in the record around it. Events carry a version; a newer one than known is a clear error.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from msgspec import Struct

from tenure.errors import Refused
from tenure.protocol.events.base import VERSION, EventBase, event_tag
from tenure.protocol.events.effect import (
    EffectAsked,
    EffectAttempted,
    EffectIntended,
    EffectObserved,
    EffectSenderDied,
)
from tenure.protocol.events.offer import (
    HandoffEnded,
    HandoffInitiated,
    OfferAcknowledged,
    OfferClaimed,
    OfferDeclined,
    OfferExpired,
    OfferIssued,
    OfferWithdrawn,
)
from tenure.protocol.events.task import (
    ApprovalDecided,
    CancelRequested,
    DelegationEnded,
    DelegationOpened,
    GraphAdopted,
    QuestionAnswered,
    QuestionExpired,
    TaskCancelled,
    TaskCompleted,
    TaskEscalated,
    TaskFailed,
    TaskSubmitted,
    TaskWaiting,
    TreeStopped,
)
from tenure.protocol.events.tenure import (
    Advanced,
    EffectsSettled,
    ExecutionStopped,
    InputReceived,
    InputSeen,
    LateRecorded,
    ProgressAsked,
    ResidualDeclared,
    RouteClosed,
    RouteOpened,
    RoutingFenced,
    RoutingRetired,
    TenureEnded,
    TenureGranted,
    TenureReleased,
    TenureRetiring,
)
from tenure.protocol.events.turn import TurnDecided, TurnNudged
from tenure.protocol.events.work import (
    CancellationRequested,
    WorkLocated,
    WorkStarted,
    WorkStopped,
)

__all__ = [
    "EVENT_TYPES",
    "VERSION",
    "Advanced",
    "ApprovalDecided",
    "CancelRequested",
    "CancellationRequested",
    "DelegationEnded",
    "DelegationOpened",
    "EffectAsked",
    "EffectAttempted",
    "EffectIntended",
    "EffectObserved",
    "EffectSenderDied",
    "EffectsSettled",
    "Event",
    "EventBase",
    "ExecutionStopped",
    "GraphAdopted",
    "HandoffEnded",
    "HandoffInitiated",
    "InputReceived",
    "InputSeen",
    "LateRecorded",
    "OfferAcknowledged",
    "OfferClaimed",
    "OfferDeclined",
    "OfferExpired",
    "OfferIssued",
    "OfferWithdrawn",
    "ProgressAsked",
    "QuestionAnswered",
    "QuestionExpired",
    "ResidualDeclared",
    "RouteClosed",
    "RouteOpened",
    "RoutingFenced",
    "RoutingRetired",
    "TaskCancelled",
    "TaskCompleted",
    "TaskEscalated",
    "TaskFailed",
    "TaskSubmitted",
    "TaskWaiting",
    "TenureEnded",
    "TenureGranted",
    "TenureReleased",
    "TenureRetiring",
    "TreeStopped",
    "TurnDecided",
    "TurnNudged",
    "WorkLocated",
    "WorkStarted",
    "WorkStopped",
    "decode_event",
    "encode_event",
    "event_tag",
]

Event = (
    TaskSubmitted
    | TaskWaiting
    | TaskEscalated
    | TaskCompleted
    | TaskFailed
    | TaskCancelled
    | CancelRequested
    | TreeStopped
    | OfferIssued
    | OfferClaimed
    | OfferAcknowledged
    | OfferDeclined
    | OfferExpired
    | OfferWithdrawn
    | HandoffInitiated
    | HandoffEnded
    | TenureGranted
    | TenureRetiring
    | TenureReleased
    | TenureEnded
    | ProgressAsked
    | Advanced
    | LateRecorded
    | RoutingRetired
    | RoutingFenced
    | ExecutionStopped
    | ResidualDeclared
    | EffectsSettled
    | InputReceived
    | InputSeen
    | RouteOpened
    | RouteClosed
    | WorkStarted
    | WorkLocated
    | CancellationRequested
    | WorkStopped
    | EffectIntended
    | EffectAttempted
    | EffectObserved
    | EffectAsked
    | EffectSenderDied
    | DelegationOpened
    | DelegationEnded
    | QuestionAnswered
    | QuestionExpired
    | TurnDecided
    | TurnNudged
    | GraphAdopted
    | ApprovalDecided
)

EVENT_TYPES: tuple[type[EventBase], ...] = tuple(Event.__args__)


class _Envelope(Struct):
    event: str = ""
    v: int = 0


_ENVELOPE = msgspec.json.Decoder(_Envelope)


@functools.cache
def _decoder() -> msgspec.json.Decoder[Any]:
    """Made at first use: an import should not pay for the shapes of all events."""
    return msgspec.json.Decoder(Event)


_TAGS = frozenset(str(kind.__struct_config__.tag) for kind in EVENT_TYPES)

encode_event = msgspec.json.Encoder().encode
"""An event as JSON bytes; equal events give equal bytes."""


def decode_event(content: bytes) -> Event:
    """Read an event back.

    Raises:
        Refused: ``newer_version`` when type or version is not known to this code; ``invalid`` when the content is
            not an event at all.
    """
    try:
        head = _ENVELOPE.decode(content)
        if head.v > VERSION or (head.event and head.event not in _TAGS):
            detail = f"Event {head.event!r} has version {head.v}; this code knows up to {VERSION}. Upgrade Tenure."
            raise Refused("newer_version", detail)
        event: Event = _decoder().decode(content)
    except msgspec.DecodeError as error:
        raise Refused("invalid", f"This is not an event: {error}.") from None
    return event
