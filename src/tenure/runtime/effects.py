"""Effects of a tenure: intent first, an attempt before every call, evidence after it, and a way out of doubt."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from msgspec import Struct

from tenure.errors import Refused as RefusedError
from tenure.errors import TenureError
from tenure.protocol import commands as cmd
from tenure.protocol.outside import Effect
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Finding, Purpose
from tenure.runtime import provider as pv
from tenure.runtime.background import background
from tenure.runtime.calls import UNDOING, Calls
from tenure.runtime.content import to_body
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
        self._running: dict[str, Call] = {}
        self._calls = Calls(hold, hold.books)

    @property
    def running(self) -> bool:
        """Whether any is being performed."""
        return bool(self._running)

    async def answered(self, timeout: float | None) -> None:
        """Wait for the effects that are being performed, ``timeout`` seconds at most."""
        if self._running:
            await asyncio.wait([call.task for call in self._running.values()], timeout=timeout)

    async def perform(self, intent: Intent) -> Outcome:
        """Perform an effect once; the same intent asked for twice at the same time is one call."""
        self._hold.check_open()
        call = self._running.get(intent.digest)
        if call is None:
            # A task of its own: what interrupts the caller does not interrupt the record.
            call = Call(intent, background(self._perform(intent), name=f"effect:{intent.tool}"))
            self._running[intent.digest] = call
            call.task.add_done_callback(lambda _: self._running.pop(intent.digest, None))
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
        seen = await asyncio.gather(*(self._retire_call(call, owned=owned) for call in list(self._running.values())))
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
        asking = await self._calls.attempt(intent.provider, effect, Purpose.CANCEL)
        if asking is None:
            return effect
        limit = min(intent.timeout or CANCEL_SECONDS, CANCEL_SECONDS)
        answer = await self._calls.ask(intent.provider, asking, "cancel", limit)
        return await self._calls.record_answer(asking, answer, EvidenceKind.RESPONSE)

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
                key_scope=provider.key_scope,
                scope=intent.scope,
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
        self._hold.check()
        made = await self._calls.apply(provider, effect, intent.request, intent.timeout)
        return await self._resolve(intent, made)

    async def _adopt(self, intent: Intent, effect: Effect) -> Outcome:
        """Take up an effect that an earlier tenure of the task left open; one of another task is not ours to touch."""
        if effect.task_id != self._hold.task_id:
            return await self._in_doubt(effect, "Another task of the tree answers for it.")
        return await self._resolve(intent, effect)

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
            if loop.time() >= give_up:
                break
            if effect.version == before:
                effect = await self._read_again(effect)  # somebody else may have been at it
                if effect.version == before:
                    break
            await asyncio.sleep(jitter(pause))
            pause = min(pause * 2, LONGEST_PAUSE)
        return await self._answered(effect)

    async def _read_again(self, effect: Effect) -> Effect:
        found = await self._hold.books.effects(effect.task_id)
        return next(each for each in found if each.effect_id == effect.effect_id)

    async def _answered(self, effect: Effect) -> Outcome:
        if effect.state.settled:
            return await self._recorded(effect, repeated=False)
        return await self._in_doubt(effect, "Nothing has settled it so far.")

    async def _step(self, intent: Intent, effect: Effect) -> Effect:
        """One way out of doubt: look up, then call again if that cannot act twice, then seal."""
        provider = intent.provider
        if effect.state in UNDOING:
            if not pv.can(provider, "lookup_compensation"):
                return effect
            return await self._calls.look(provider, effect, Purpose.LOOKUP, intent.timeout) or effect
        if effect.state is not E.ABSENT and pv.can(provider, "lookup"):
            effect = await self._calls.look(provider, effect, Purpose.LOOKUP, intent.timeout) or effect
            if effect.state.settled:
                return effect
        if effect.state is E.ACCEPTED:
            return effect
        again = await self._calls.again(provider, effect, intent.timeout)
        if again is not None:
            return again
        if pv.can(provider, "seal"):
            return await self._calls.look(provider, effect, Purpose.SEAL, intent.timeout) or effect
        return effect

    async def _evidence_of(self, effect: Effect) -> dict[str, Any]:
        body = await self._calls.evidence_of(effect)
        value = body.value() if body is not None else {}
        return value if isinstance(value, dict) else {}

    async def _recorded(self, effect: Effect, *, repeated: bool) -> Outcome:
        """The outcome that the record gives."""
        seen = await self._evidence_of(effect)
        present = effect.state is E.ATTESTED and effect.finding in ("", Finding.PRESENT)
        if effect.state is E.CONFIRMED or present:
            value = seen.get("value", seen if effect.state is E.ATTESTED else None)
            return Done(effect_id=effect.effect_id, value=value, reference=effect.reference, repeated=repeated)
        reason = str(seen.get("reason") or effect.finding or effect.state)
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
