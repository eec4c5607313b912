"""Which bodies an event refers to."""

from __future__ import annotations

from collections.abc import Iterator

from tenure.protocol import events as ev
from tenure.protocol.state import Pending, Question

FIELDS: dict[type[ev.EventBase], tuple[str, ...]] = {
    ev.TaskSubmitted: ("payload",),
    ev.TaskWaiting: ("question",),
    ev.TaskEscalated: ("question",),
    ev.TaskCompleted: ("result",),
    ev.TaskFailed: ("detail",),
    ev.OfferIssued: ("payload",),
    ev.OfferAcknowledged: ("digest", "readback"),
    ev.OfferDeclined: ("detail",),
    ev.HandoffInitiated: ("payload",),
    ev.TenureRetiring: ("body", "question"),
    ev.Advanced: ("document",),
    ev.LateRecorded: ("body",),
    ev.InputReceived: ("body",),
    ev.WorkStopped: ("result",),
    ev.EffectIntended: ("request",),
    ev.EffectObserved: ("body",),
    ev.DelegationEnded: ("result",),
    ev.QuestionAnswered: ("body",),
    ev.TurnDecided: ("pending",),
}
"""Fields of events that hold a body's digest, or a question or a decided transfer that does."""


def bodies_in(event: ev.Event) -> Iterator[str]:
    """Digests of the bodies that an event refers to."""
    for name in FIELDS.get(type(event), ()):
        value = getattr(event, name)
        if isinstance(value, Question):
            value = value.body
        elif isinstance(value, Pending):
            value = value.payload
        if value:
            yield value
