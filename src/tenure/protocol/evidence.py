"""The evidence contract: what was observed, by whom, and which state each kind of it can settle.

One vocabulary for what is observed here (a process ended) and at a provider (a payment is on its books). The tables
are the law: :mod:`tenure.protocol.decide` refuses evidence that cannot show what it is brought for, and the reference
page is made from them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tenure.protocol import events as ev
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Finding, Purpose, WorkEnd

E, K, W = EffectState, EvidenceKind, WorkEnd

EVIDENCE: Mapping[EvidenceKind, frozenset[EffectState]] = {
    K.RESPONSE: frozenset(
        {E.ACCEPTED, E.CONFIRMED, E.REFUSED, E.FAILED, E.CANCELLED, E.COMPENSATED, E.COMPENSATION_FAILED}
    ),
    K.LOOKUP: frozenset(
        {E.ACCEPTED, E.CONFIRMED, E.REFUSED, E.FAILED, E.CANCELLED, E.COMPENSATED, E.COMPENSATION_FAILED}
    ),
    K.NOT_SENT: frozenset({E.ABSENT, E.COMPENSATION_FAILED}),
    K.SEALED: frozenset({E.ABSENT, E.COMPENSATION_FAILED}),
    K.NOT_FOUND_AFTER_DEATH: frozenset({E.ABSENT, E.COMPENSATION_FAILED}),
    K.ENDED: frozenset(),
    K.GONE: frozenset(),
    K.DEATH: frozenset(),
    K.STATUS: frozenset(),
    K.ATTESTATION: frozenset({E.ATTESTED}),
    K.NONE: frozenset({E.IN_DOUBT}),
}
"""Which state of an effect each kind can speak for. ``none`` (a time-out, an exception) settles nothing."""

WORK_EVIDENCE: Mapping[EvidenceKind, frozenset[WorkEnd]] = {
    K.ENDED: frozenset({W.RETURNED, W.RAISED, W.CANCELLED, W.EXITED, W.KILLED}),
    K.GONE: frozenset({W.VANISHED}),
    K.DEATH: frozenset({W.VANISHED}),
    K.STATUS: frozenset({W.RETURNED, W.RAISED, W.CANCELLED, W.VANISHED}),
    K.ATTESTATION: frozenset({W.ATTESTED}),
}
"""Which end of a work each kind can show. Kinds that are not listed say nothing about works."""

EVIDENCE_FROM: Mapping[EvidenceKind, frozenset[Purpose]] = {
    K.LOOKUP: frozenset({Purpose.LOOKUP, Purpose.SEAL}),
    K.NOT_SENT: frozenset({Purpose.APPLY, Purpose.COMPENSATE}),
    K.SEALED: frozenset({Purpose.SEAL, Purpose.LOOKUP}),
    K.NOT_FOUND_AFTER_DEATH: frozenset({Purpose.LOOKUP}),
}
"""Which kind of call can yield which evidence; kinds that are not listed may come from any."""

UNDOING = frozenset({E.COMPENSATED, E.COMPENSATION_FAILED})
"""States that speak of the compensation and not of the effect itself."""

SHOWN_BY: Mapping[Purpose, frozenset[EffectState]] = {
    Purpose.APPLY: frozenset(E) - UNDOING,
    Purpose.SEAL: frozenset(E) - UNDOING,
    Purpose.CANCEL: frozenset({E.ACCEPTED, E.CONFIRMED, E.CANCELLED, E.IN_DOUBT}),
    Purpose.COMPENSATE: UNDOING | {E.IN_DOUBT},
}
"""Which states a call can show; calls that are not listed may show any. A cancellation that was refused, or failed,
says that the cancellation did not happen, and nothing about the effect; so does a compensation."""


FINDINGS: Mapping[EffectState, frozenset[Finding]] = {
    E.ACCEPTED: frozenset({Finding.PRESENT, Finding.ABSENT}),
    E.IN_DOUBT: frozenset({Finding.PRESENT, Finding.ABSENT}),
    E.CONFIRMED: frozenset({Finding.UNDONE}),
    E.COMPENSATING: frozenset({Finding.PRESENT, Finding.UNDONE}),
    E.COMPENSATION_FAILED: frozenset({Finding.PRESENT, Finding.UNDONE}),
    E.DISPUTED: frozenset(Finding),
}
"""What a person may attest of an effect in each state; of the others nothing."""


class Evidence(Struct, frozen=True, kw_only=True):
    """One observation, of an effect or of a work.

    Attributes:
        of: id of the effect or work. kind: what was observed. shows: the state or end that it speaks for.
        source: the call that yielded it (:class:`Purpose`), ``person``, ``ledger``, or where a work was seen: ``host``,
            ``provider``.
        observer: instance or person. at: milliseconds since the Unix epoch, by the ledger's clock.
        attempt: the effect's attempt that it is about; 0 for none.
        reference: the provider's name for it. digest: of the body that was observed, in the tree's bodies.
    """

    of: str
    kind: EvidenceKind
    shows: str
    source: str
    observer: str
    at: int
    attempt: int = 0
    reference: str = ""
    digest: str = ""


def evidence_of(event: ev.Event) -> Evidence | None:
    """The evidence that an event records; ``None`` for events that record none."""
    if isinstance(event, ev.EffectObserved):
        return Evidence(
            of=event.effect_id,
            kind=event.evidence,
            shows=str(event.state),
            source=event.source or ("ledger" if not event.attempt else ""),
            observer=event.observer,
            at=event.at,
            attempt=event.attempt,
            reference=event.reference,
            digest=event.body,
        )
    if isinstance(event, ev.EffectSenderDied):
        return Evidence(
            of=event.effect_id, kind=K.DEATH, shows="sender", source="host", observer=event.instance, at=event.at
        )
    if isinstance(event, ev.WorkStopped):
        return Evidence(
            of=event.work_id,
            kind=event.evidence,
            shows=str(event.how),
            source=_SOURCES[event.evidence],
            observer=event.by,
            at=event.at,
            digest=event.result,
        )
    return None


_SOURCES = {K.ENDED: "host", K.GONE: "host", K.DEATH: "host", K.STATUS: "provider", K.ATTESTATION: "person"}
