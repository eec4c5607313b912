"""Calls of providers: each an attempt that is committed first, and what it showed as evidence.

Whoever holds the task makes them, and whoever reconciles; both by the same rules, which are the ledger's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from tenure.errors import Fenced
from tenure.errors import Refused as RefusedError
from tenure.protocol import commands as cmd
from tenure.protocol.body import Body, text_digest
from tenure.protocol.outside import Effect
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Purpose
from tenure.runtime import provider as pv
from tenure.runtime.content import to_body, words_of

E, K = EffectState, EvidenceKind
C = TypeVar("C", bound=cmd.CommandBase)

NOT_NOW = frozenset({"attempt_unsafe", "attempt_open", "version_conflict", "retiring", "wrong_phase", "owner_needed"})
"""Refusals of an attempt that only say that this call is not to be made."""

UNDOING = frozenset({E.COMPENSATING, E.COMPENSATION_FAILED})


class Speaker(Protocol):
    """Who makes the calls: a tenure, or a reconciler with the epoch 0."""

    @property
    def instance(self) -> str:
        """The process that speaks."""

    @property
    def epoch(self) -> int:
        """The tenure's epoch."""

    def check(self) -> None:
        """Raise ``Fenced`` when it must assume that it may not act any more."""

    async def say(self, kind: type[C], /, **fields: Any) -> cmd.Receipt:
        """Send a command, patiently."""

    async def report(self, kind: type[C], /, **fields: Any) -> cmd.Receipt:
        """Send an observation, very patiently: nobody else has made it."""


class Bodies(Protocol):
    """Where the requests are kept."""

    async def body(self, root_id: str, digest: str) -> Body | None:
        """A body; ``None`` when it was erased."""


class Seen(Struct, frozen=True, kw_only=True):
    """An answer as evidence."""

    state: EffectState
    evidence: EvidenceKind
    reference: str = ""
    body: Any = None
    not_found: bool = False


class Calls:
    """The calls of one speaker."""

    def __init__(self, speaker: Speaker, bodies: Bodies) -> None:
        """Speak and read by these."""
        self._speaker = speaker
        self._bodies = bodies
        self._said: dict[str, Body] = {}

    async def attempt(self, provider: pv.Provider, effect: Effect, purpose: Purpose) -> Effect | None:
        """Commit one more call; ``None`` when the ledger finds that it could act twice or somebody else is at it."""
        try:
            return await self.commit(provider, effect, purpose)
        except RefusedError as error:
            if error.code in NOT_NOW:
                return None
            raise

    async def commit(self, provider: pv.Provider, effect: Effect, purpose: Purpose) -> Effect:
        """Commit one more call, which :meth:`make` then makes.

        Raises:
            Refused: a code of :data:`NOT_NOW` when this call is not to be made.
        """
        undo = purpose is Purpose.COMPENSATE
        receipt = await self._speaker.say(
            cmd.AttemptEffect,
            effect_id=effect.effect_id,
            version=effect.version,
            purpose=purpose,
            key_scope=provider.key_scope,
            idempotent_ms=int(provider.undo_idempotent_for * 1000) if undo else 0,
            in_flight_ms=int(provider.in_flight_limit * 1000) if undo else 0,
            instance=self._speaker.instance,
            epoch=self._speaker.epoch,
        )
        if receipt.effect is None:
            raise RefusedError("unknown_effect", effect.effect_id)
        return receipt.effect

    async def make(self, provider: pv.Provider, effect: Effect, request: Any, timeout: float | None) -> Effect:
        """Make the call that is committed as the effect's newest attempt, and record what it showed."""
        purpose = effect.attempt.purpose
        if purpose is Purpose.APPLY:
            return await self.apply(provider, effect, request, timeout)
        if purpose is Purpose.COMPENSATE:
            return await self._act(effect, _call(provider, effect, "compensate", request), timeout)
        method = str(purpose)
        if purpose is Purpose.LOOKUP and effect.state in UNDOING:
            method = "lookup_compensation"
        answer = await self._ask(_call(provider, effect, method, request), timeout)
        return await self.record_answer(effect, answer, K.LOOKUP)

    async def unsent(self, effect: Effect, words: str) -> Effect:
        """Record that the call which is committed was not made."""
        return await self.record(effect, _not_sent(effect, words))

    async def apply(self, provider: pv.Provider, effect: Effect, request: Any, timeout: float | None) -> Effect:
        """Make the call of an ``apply`` that is committed, and record what it showed."""
        more = {"repeat": effect.sends > 1} if pv.takes(provider, "apply", "repeat") else {}
        return await self._act(effect, provider.apply(request, key=provider_key(effect), **more), timeout)

    async def compensate(self, provider: pv.Provider, effect: Effect, timeout: float | None) -> Effect | None:
        """Undo an effect under a key of its own; ``None`` when that is not to be done now."""
        return await self._made(provider, effect, Purpose.COMPENSATE, timeout)

    async def _act(self, effect: Effect, call: Awaitable[pv.Answer], timeout: float | None) -> Effect:
        """A call that changes something outside: whatever it raises, what it did is not known."""
        try:
            answer = await _limited(call, timeout)
        except pv.NotSent as error:
            return await self.record(effect, _not_sent(effect, words_of(error)))
        except asyncio.CancelledError:
            await asyncio.shield(self.record(effect, _doubt({"error": "the call was cancelled"})))
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a provider raises proves nothing of what it did
            return await self.record(effect, _doubt({"error": words_of(error)}))
        return await self.record_answer(effect, answer, K.RESPONSE)

    async def look(
        self, provider: pv.Provider, effect: Effect, purpose: Purpose, timeout: float | None
    ) -> Effect | None:
        """Ask the provider what it knows, or to seal the key; ``None`` when that is not to be done now."""
        return await self._made(provider, effect, purpose, timeout)

    async def again(self, provider: pv.Provider, effect: Effect, timeout: float | None) -> Effect | None:
        """Make the call of ``apply`` once more; ``None`` when that could act twice."""
        return await self._made(provider, effect, Purpose.APPLY, timeout)

    async def _made(
        self, provider: pv.Provider, effect: Effect, purpose: Purpose, timeout: float | None
    ) -> Effect | None:
        # Read first: an attempt whose request is gone, or late, would only look like a call.
        request = await self.request_of(effect)
        committed = await self.attempt(provider, effect, purpose)
        if committed is None:
            return None
        self._speaker.check()
        return await self.make(provider, committed, request, timeout)

    async def ask(self, provider: pv.Provider, effect: Effect, method: str, timeout: float | None) -> object:
        """Call an optional method of the provider. One that failed has shown nothing."""
        return await self._ask(_call(provider, effect, method, await self.request_of(effect)), timeout)

    async def _ask(self, call: Awaitable[pv.Answer], timeout: float | None) -> object:
        try:
            return await _limited(call, timeout)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
            return pv.Inconclusive(words_of(error))

    async def record_answer(self, effect: Effect, answer: object, seen_by: EvidenceKind) -> Effect:
        """Record an answer as evidence. One that such a call cannot give shows nothing."""
        seen = _undone(answer, seen_by) if effect.state in UNDOING else _seen(answer, seen_by)
        try:
            return await self.record(effect, seen)
        except RefusedError as error:
            if error.code not in ("evidence_insufficient", "invalid"):
                raise
            if seen.not_found:
                return await self.record(effect, Seen(state=E.IN_DOUBT, evidence=K.NONE, not_found=True))
            words = f"{type(answer).__name__} was no evidence: {error}"
        return await self.record(effect, _doubt({"error": words}))

    async def record(self, effect: Effect, seen: Seen) -> Effect:
        """Record evidence under whatever epoch; a fenced tenure learns that it was kept, and stops."""
        body = None if seen.body is None else to_body(seen.body)
        receipt = await self._speaker.report(
            cmd.RecordOutcome,
            effect_id=effect.effect_id,
            attempt=effect.attempt.n,
            state=seen.state,
            evidence=seen.evidence,
            reference=str(seen.reference),  # many systems name things by numbers
            body=body,
            not_found=seen.not_found,
            instance=self._speaker.instance,
            epoch=self._speaker.epoch,
        )
        if receipt.status == "late" or receipt.effect is None:
            raise Fenced("stale_epoch", "The outcome was kept as evidence.", kept=True, task_id=effect.task_id)
        if body is not None:
            self._said[effect.effect_id] = body
        return receipt.effect

    async def evidence_of(self, effect: Effect) -> Body | None:
        """What was observed of an effect last; read only if it was not observed here."""
        said = self._said.get(effect.effect_id)
        if said is not None and said.digest == effect.evidence:
            return said
        return await self._bodies.body(effect.root_id, effect.evidence) if effect.evidence else None

    async def request_of(self, effect: Effect) -> Any:
        """The request of an effect as it was made.

        Raises:
            Refused: ``erased``.
        """
        body = await self._bodies.body(effect.root_id, effect.request)
        if body is None:
            raise RefusedError("erased", "The request of this effect.")
        return body.value()


async def _call(provider: pv.Provider, effect: Effect, method: str, request: Any) -> pv.Answer:
    """An optional method, by the key that it works on. Whatever it raises is raised where it is awaited."""
    names = {"reference": effect.reference, "undo_reference": effect.undo_reference, "repeat": effect.sends > 1}
    more = {name: value for name, value in names.items() if pv.takes(provider, method, name)}
    undo = method in ("compensate", "lookup_compensation")
    key = undo_key(effect) if undo else provider_key(effect)
    answer: pv.Answer = await getattr(provider, method)(request, key=key, **more)
    return answer


def provider_key(effect: Effect) -> str:
    """The idempotency key of an effect at its provider. A sealed key is never used again."""
    return text_digest(f"{effect.root_id}\x1f{effect.intent}\x1f{effect.generation}")


def undo_key(effect: Effect) -> str:
    """The key of its compensation. After one that is known to have failed, the next has a key of its own."""
    return text_digest(f"{effect.root_id}\x1f{effect.intent}\x1f{effect.generation}\x1fundo\x1f{effect.undo}")


def _doubt(body: Any) -> Seen:
    return Seen(state=E.IN_DOUBT, evidence=K.NONE, body=body)


def _not_sent(effect: Effect, words: str) -> Seen:
    state = E.COMPENSATION_FAILED if effect.state in UNDOING else E.ABSENT
    return Seen(state=state, evidence=K.NOT_SENT, body={"not_sent": words})


def _seen(answer: object, seen_by: EvidenceKind) -> Seen:
    """What an answer says of the effect itself."""
    match answer:
        case pv.Confirmed(value, reference):
            return Seen(state=E.CONFIRMED, evidence=seen_by, reference=reference, body={"value": value})
        case pv.Accepted(reference, value):
            return Seen(state=E.ACCEPTED, evidence=seen_by, reference=reference, body={"value": value})
        case pv.Declined(reason, value):
            return Seen(state=E.REFUSED, evidence=seen_by, body={"reason": reason, "value": value})
        case pv.Failed(reason, value):
            return Seen(state=E.FAILED, evidence=seen_by, body={"reason": reason, "value": value})
        case pv.Cancelled(reference):
            return Seen(state=E.CANCELLED, evidence=seen_by, reference=reference)
        case pv.Sealed() | pv.NotFound(final=True):
            return Seen(state=E.ABSENT, evidence=K.SEALED)
        case pv.NotFound():
            # Taken for absent only with the ledger's proof; otherwise the doubt stays.
            return Seen(state=E.ABSENT, evidence=K.NOT_FOUND_AFTER_DEATH, not_found=True)
        case pv.Inconclusive(reason):
            return _doubt({"inconclusive": reason})
        case _:
            return _doubt({"error": f"The provider answered {type(answer).__name__}, which is not an answer."})


def _undone(answer: object, seen_by: EvidenceKind) -> Seen:
    """What an answer says of the compensation of an effect."""
    match answer:
        case pv.Confirmed(value, reference):
            return Seen(state=E.COMPENSATED, evidence=seen_by, reference=reference, body={"value": value})
        case pv.Accepted(reference, value):
            return Seen(state=E.IN_DOUBT, evidence=K.NONE, reference=reference, body={"value": value})
        case pv.Declined(reason, value) | pv.Failed(reason, value):
            return Seen(state=E.COMPENSATION_FAILED, evidence=seen_by, body={"reason": reason, "value": value})
        case pv.Sealed() | pv.NotFound(final=True):
            return Seen(state=E.COMPENSATION_FAILED, evidence=K.SEALED)
        case pv.NotFound():
            return Seen(state=E.COMPENSATION_FAILED, evidence=K.NOT_FOUND_AFTER_DEATH, not_found=True)
        case pv.Inconclusive(reason):
            return _doubt({"inconclusive": reason})
        case _:
            return _doubt({"error": f"The provider answered {type(answer).__name__}: it says nothing of an undoing."})


async def _limited(call: Awaitable[pv.Answer], timeout: float | None) -> pv.Answer:
    async with asyncio.timeout(timeout):
        return await call
