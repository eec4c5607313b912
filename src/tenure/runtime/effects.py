"""Effects of a tenure: intent first, an attempt before every call, evidence after it, and a way out of doubt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from msgspec import Struct

from tenure.errors import Fenced, TenureError
from tenure.errors import Refused as RefusedError
from tenure.protocol import commands as cmd
from tenure.protocol.body import text_digest
from tenure.protocol.state import Effect
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Purpose
from tenure.runtime import provider as pv
from tenure.runtime.background import background
from tenure.runtime.content import to_body, words_of
from tenure.runtime.hold import Hold
from tenure.runtime.ids import jitter, new_id
from tenure.runtime.intents import Intent
from tenure.runtime.outcomes import Done, InDoubt, Outcome, Refused

E = EffectState
_LOG = logging.getLogger("tenure.effects")

CANCEL_SECONDS = 2.0
LAST_WORDS = 1.0
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0


class Call(Struct, frozen=True):
    """An effect that is being performed."""

    intent: Intent
    task: asyncio.Task[Outcome]


class Effects:
    """The effects that one tenure performs."""

    def __init__(self, hold: Hold) -> None:
        """Start with none in flight."""
        self._hold = hold
        self._calls: dict[str, Call] = {}

    @property
    def running(self) -> bool:
        """Whether any is being performed."""
        return bool(self._calls)

    async def perform(self, intent: Intent) -> Outcome:
        """Perform an effect once; the same intent asked for twice at the same time is one call."""
        self._hold.check_open()
        call = self._calls.get(intent.digest)
        if call is None:
            # A task of its own: what interrupts the caller does not interrupt the record.
            call = Call(intent, background(self._perform(intent), name=f"effect:{intent.tool}"))
            self._calls[intent.digest] = call
            call.task.add_done_callback(lambda _: self._calls.pop(intent.digest, None))
        elif call.intent.compared != intent.compared:
            raise RefusedError("intent_conflict", "The same key is in flight with another request.")
        return await asyncio.shield(call.task)

    async def cancel(self, intent: Intent) -> Outcome:
        """Ask the provider to end what it has taken on. Only what it *shows* to be over counts as cancelled."""
        self._hold.check_open()
        effect = await self._open_effect(intent)
        if effect is None:
            raise RefusedError("unknown_effect", f"No open effect of {intent.tool} with this key.")
        effect = await self._withdraw(intent, effect)
        return await self._answered(effect)

    async def retire(self, *, owned: bool) -> int:
        """Give each call the grace of its policy to answer, then cancel it: what has not answered is in doubt.

        A provider that has ``cancel`` is asked for it then, while the task is still ours. Returns the number of calls
        that were not seen to end here.
        """
        seen = await asyncio.gather(*(self._retire_call(call, owned=owned) for call in list(self._calls.values())))
        return seen.count(False)

    async def _retire_call(self, call: Call, *, owned: bool) -> bool:
        await asyncio.wait({call.task}, timeout=call.intent.policy.grace_ms / 1000 if owned else 0)
        if call.task.done():
            return True
        call.task.cancel()
        await asyncio.wait({call.task}, timeout=LAST_WORDS)
        if owned and pv.can(call.intent.provider, "cancel"):
            try:
                effect = await self._open_effect(call.intent)
                if effect is not None:
                    await self._withdraw(call.intent, effect)
            except TenureError as error:
                _LOG.debug("cancel %s: %s", call.intent.tool, error)  # it stays in doubt, which the books say
        return call.task.done()

    async def _open_effect(self, intent: Intent) -> Effect | None:
        found = await self._hold.books.effects(self._hold.task_id, open_only=True)
        return next((effect for effect in found if effect.intent == intent.digest), None)

    async def _withdraw(self, intent: Intent, effect: Effect) -> Effect:
        """Send the provider's cancellation as an attempt of its own. That it was sent proves nothing."""
        if not pv.can(intent.provider, "cancel"):
            return effect
        asking = await self._attempt(effect, Purpose.CANCEL)
        if asking is None:
            return effect
        limit = min(intent.timeout or CANCEL_SECONDS, CANCEL_SECONDS)
        answer = await self._ask(intent, asking, "cancel", limit)
        return await self._record_answer(asking, answer, EvidenceKind.RESPONSE)

    async def _perform(self, intent: Intent) -> Outcome:
        provider = intent.provider
        try:
            receipt = await self._hold.say(
                cmd.Intend,
                effect_id=new_id("e"),
                provider=provider.name,
                tool=intent.tool,
                intent=intent.digest,
                request=to_body(intent.request),
                compared=intent.compared,
                arguments=intent.arguments,
                policy=intent.policy,
                idempotent_ms=int(provider.idempotent_for * 1000),
                in_flight_ms=int(provider.in_flight_limit * 1000),
            )
        except RefusedError as error:
            effect = error.facts.get("effect")
            if error.code != "effect_open" or effect is None:
                raise
            return await self._adopt(intent, effect)
        effect = receipt.effect
        if effect is None:
            raise RefusedError("unknown_effect", intent.tool)
        if receipt.status == "already":
            return await self._recorded(effect, repeated=True)
        return await self._resolve(intent, await self._apply(intent, effect, intent.request))

    async def _adopt(self, intent: Intent, effect: Effect) -> Outcome:
        """Take up an effect that an earlier tenure of the task left open; one of another task is not ours to touch."""
        if effect.task_id != self._hold.task_id:
            return await self._in_doubt(effect, "Another task of the tree answers for it.")
        return await self._resolve(intent, effect)

    async def _apply(self, intent: Intent, effect: Effect, request: Any) -> Effect:
        """Make the call of an attempt that is committed, and record what it showed."""
        self._hold.check()
        key = provider_key(effect)
        try:
            answer = await _limited(intent.provider.apply(request, key=key), intent.timeout)
        except pv.NotSent as error:
            return await self._record(effect, E.ABSENT, EvidenceKind.NOT_SENT, body={"not_sent": words_of(error)})
        except asyncio.CancelledError:
            await asyncio.shield(
                self._record(effect, E.IN_DOUBT, EvidenceKind.NONE, body={"error": "the call was cancelled"})
            )
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a provider raises proves nothing of what it did
            body = {"error": words_of(error)}
            return await self._record(effect, E.IN_DOUBT, EvidenceKind.NONE, body=body)
        return await self._record_answer(effect, answer, EvidenceKind.RESPONSE)

    async def _resolve(self, intent: Intent, effect: Effect) -> Outcome:
        """Look, and where it is proven safe call again, until the effect is settled or patience ends."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + intent.patience
        pause = FIRST_PAUSE
        while not effect.state.settled or effect.state is E.ABSENT:
            before = effect.version
            effect = await self._step(intent, effect)
            if effect.state.settled and effect.state is not E.ABSENT:
                break
            if effect.version == before or loop.time() >= give_up:
                break
            await asyncio.sleep(jitter(pause))
            pause = min(pause * 2, LONGEST_PAUSE)
        return await self._answered(effect)

    async def _answered(self, effect: Effect) -> Outcome:
        if effect.state.settled:
            return await self._recorded(effect, repeated=False)
        return await self._in_doubt(effect, "Nothing has settled it so far.")

    async def _step(self, intent: Intent, effect: Effect) -> Effect:
        """One way out of doubt: look up, then call again if that cannot act twice, then seal."""
        provider = intent.provider
        if effect.state is not E.ABSENT and pv.can(provider, "lookup"):
            effect = await self._look(intent, effect, Purpose.LOOKUP)
            if effect.state.settled:
                return effect
        if effect.state is E.ACCEPTED:
            return effect
        again = await self._attempt(effect, Purpose.APPLY)
        if again is not None:
            return await self._apply(intent, again, await self._request_of(effect))
        if pv.can(provider, "seal"):
            return await self._look(intent, effect, Purpose.SEAL)
        return effect

    async def _look(self, intent: Intent, effect: Effect, purpose: Purpose) -> Effect:
        """Ask the provider what it knows; not knowing is an answer."""
        looking = await self._attempt(effect, purpose)
        if looking is None:
            return effect
        answer = await self._ask(intent, looking, str(purpose), intent.timeout)
        return await self._record_answer(looking, answer, EvidenceKind.LOOKUP)

    async def _ask(self, intent: Intent, effect: Effect, method: str, timeout: float | None) -> object:
        """Call an optional method of the provider. One that failed has shown nothing."""
        request = await self._request_of(effect)
        more = {"reference": effect.reference} if pv.takes_reference(intent.provider, method) else {}
        try:
            return await _limited(getattr(intent.provider, method)(request, key=provider_key(effect), **more), timeout)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
            return pv.Inconclusive(words_of(error))

    async def _attempt(self, effect: Effect, purpose: Purpose) -> Effect | None:
        """Commit one more call; ``None`` when the ledger finds that it could act twice or somebody else is at it."""
        try:
            receipt = await self._hold.say(
                cmd.AttemptEffect, effect_id=effect.effect_id, version=effect.version, purpose=purpose, **self._speaker
            )
        except RefusedError as error:
            if error.code in ("attempt_unsafe", "attempt_open", "version_conflict", "retiring", "wrong_phase"):
                return None
            raise
        return receipt.effect

    @property
    def _speaker(self) -> dict[str, Any]:
        return {"instance": self._hold.instance, "epoch": self._hold.epoch}

    async def _record_answer(self, effect: Effect, answer: object, seen_by: EvidenceKind) -> Effect:
        """Record an answer as evidence. One that such a call cannot give shows nothing."""
        try:
            return await self._record_evidence(effect, answer, seen_by)
        except RefusedError as error:
            if error.code not in ("evidence_insufficient", "invalid"):
                raise
            words = f"{type(answer).__name__} was no evidence: {error}"
        return await self._record(effect, E.IN_DOUBT, EvidenceKind.NONE, body={"error": words})

    async def _record_evidence(self, effect: Effect, answer: object, seen_by: EvidenceKind) -> Effect:
        """Translate a provider's answer into evidence."""
        match answer:
            case pv.Confirmed(value, reference):
                return await self._record(effect, E.CONFIRMED, seen_by, reference=reference, body={"value": value})
            case pv.Accepted(reference, value):
                return await self._record(effect, E.ACCEPTED, seen_by, reference=reference, body={"value": value})
            case pv.Declined(reason, value):
                return await self._record(effect, E.REFUSED, seen_by, body={"reason": reason, "value": value})
            case pv.Failed(reason, value):
                return await self._record(effect, E.FAILED, seen_by, body={"reason": reason, "value": value})
            case pv.Cancelled(reference):
                return await self._record(effect, E.CANCELLED, seen_by, reference=reference)
            case pv.Sealed():
                return await self._record(effect, E.ABSENT, EvidenceKind.SEALED)
            case pv.NotFound():
                return await self._not_found(effect)
            case pv.Inconclusive(reason):
                return await self._record(effect, E.IN_DOUBT, EvidenceKind.NONE, body={"inconclusive": reason})
            case _:
                words = f"The provider answered {type(answer).__name__}, which is not an answer."
                return await self._record(effect, E.IN_DOUBT, EvidenceKind.NONE, body={"error": words})

    async def _not_found(self, effect: Effect) -> Effect:
        """Take what was not found for absent only with the ledger's proof; otherwise the doubt stays."""
        try:
            return await self._record(effect, E.ABSENT, EvidenceKind.NOT_FOUND_AFTER_DEATH, not_found=True)
        except RefusedError as error:
            if error.code != "evidence_insufficient":
                raise
        return await self._record(effect, E.IN_DOUBT, EvidenceKind.NONE, not_found=True)

    async def _record(
        self,
        effect: Effect,
        state: EffectState,
        evidence: EvidenceKind,
        *,
        reference: str = "",
        body: Any = None,
        not_found: bool = False,
    ) -> Effect:
        """Record evidence under whatever epoch; a fenced tenure learns that it was kept, and stops."""
        receipt = await self._hold.report(
            cmd.RecordOutcome,
            effect_id=effect.effect_id,
            attempt=effect.attempt.n,
            state=state,
            evidence=evidence,
            reference=str(reference),  # many systems name things by numbers
            body=None if body is None else to_body(body),
            not_found=not_found,
            **self._speaker,
        )
        if receipt.status == "late" or receipt.effect is None:
            raise Fenced("stale_epoch", "The outcome was kept as evidence.", kept=True, task_id=self._hold.task_id)
        return receipt.effect

    async def _request_of(self, effect: Effect) -> Any:
        body = await self._hold.books.body(effect.root_id, effect.request)
        if body is None:
            raise RefusedError("erased", "The request of this effect.")
        return body.value()

    async def _evidence_of(self, effect: Effect) -> dict[str, Any]:
        body = await self._hold.books.body(effect.root_id, effect.evidence) if effect.evidence else None
        value = body.value() if body is not None else {}
        return value if isinstance(value, dict) else {}

    async def _recorded(self, effect: Effect, *, repeated: bool) -> Outcome:
        """The outcome that the record gives."""
        seen = await self._evidence_of(effect)
        if effect.state in (E.CONFIRMED, E.ATTESTED):
            value = seen.get("value", seen if effect.state is E.ATTESTED else None)
            return Done(effect_id=effect.effect_id, value=value, reference=effect.reference, repeated=repeated)
        reason = str(seen.get("reason", effect.state))
        return Refused(
            effect_id=effect.effect_id, state=effect.state, reason=reason, value=seen.get("value"), repeated=repeated
        )

    async def _in_doubt(self, effect: Effect, why: str) -> InDoubt:
        task = await self._hold.books.task(effect.task_id)
        seen = await self._evidence_of(effect)
        return InDoubt(
            effect_id=effect.effect_id,
            state=effect.state,
            reason=str(seen.get("error") or seen.get("inconclusive") or why),
            reference=effect.reference,
            answerable=task.answerable if task else "",
            next_check=effect.next_check,
        )


def provider_key(effect: Effect) -> str:
    """The idempotency key of an effect at its provider. A sealed key is never used again."""
    return text_digest(f"{effect.root_id}\x1f{effect.intent}\x1f{effect.generation}")


async def _limited(call: Awaitable[pv.Answer], timeout: float | None) -> pv.Answer:
    async with asyncio.timeout(timeout):
        return await call
