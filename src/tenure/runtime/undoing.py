"""Undoing what a task has done outside: effect by effect, the newest first, each with a state of its own.

The whole counts as compensated only when every one is. What is in doubt is found out first and not undone blindly; what
its provider cannot undo, or fails to, is told. Nothing is remembered here: a handler that starts again and asks again
goes on where the ledger says that it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from tenure.errors import NextAction
from tenure.errors import Refused as RefusedError
from tenure.protocol.outside import Effect
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Finding, Purpose
from tenure.runtime import provider as pv
from tenure.runtime.calls import UNDOING, Calls
from tenure.runtime.ids import jitter

if TYPE_CHECKING:
    from tenure.runtime.hold import Hold

E = EffectState

TRIES = 3
"""How often one compensation that is known to have failed is tried, before it is left to a reconciler and a person."""
PAUSE = 0.05

COMPENSATED = "compensated"
PARTIALLY = "partially_compensated"
NOTHING = "nothing_to_compensate"

_NOTHING_THERE = frozenset({E.REFUSED, E.FAILED, E.CANCELLED, E.ABSENT})


class Undone(Struct, frozen=True, kw_only=True):
    """What became of one effect that had happened, or may have.

    Attributes:
        state: the effect's, as the ledger has it. undone: it is seen, or attested by a person, to be undone.
        reason: why it is not. next_action: what is left to do about it.
    """

    effect_id: str
    tool: str
    state: EffectState
    undone: bool
    reason: str = ""
    next_action: NextAction = NextAction.USE_RESULT


class Compensation(Struct, frozen=True, kw_only=True):
    """What an undoing has come to.

    ``compensated`` only if every effect is; ``partially_compensated`` as soon as one is not, or is not known to be;
    ``nothing_to_compensate`` when nothing had happened.

    Attributes:
        state: ``compensated``, ``partially_compensated`` or ``nothing_to_compensate``.
        effects: in the order in which they were undone, the newest first.
    """

    state: str
    effects: tuple[Undone, ...] = ()


def is_undone(effect: Effect) -> bool:
    """Whether it is proven, or attested by a person, that the effect was undone."""
    return effect.state is E.COMPENSATED or (effect.state is E.ATTESTED and effect.finding == Finding.UNDONE)


def nothing_there(effect: Effect) -> bool:
    """Whether it is settled that the effect never came to be."""
    return effect.state in _NOTHING_THERE or (effect.state is E.ATTESTED and effect.finding == Finding.ABSENT)


def compensation_of(effects: Iterable[Effect]) -> str:
    """The word for a whole; empty when nobody has begun to undo any of it."""
    there = [effect for effect in effects if not nothing_there(effect)]
    if not any(effect.undo or is_undone(effect) for effect in there):
        return ""
    return COMPENSATED if all(is_undone(effect) for effect in there) else PARTIALLY


class Undoing:
    """One request to undo, by the tenure that holds the task."""

    def __init__(self, hold: Hold, *, timeout: float | None) -> None:
        """Speak as the tenure. ``timeout``: seconds for one call of a provider."""
        self._hold = hold
        self._calls = Calls(hold, hold.books)
        self._providers: Mapping[str, pv.Provider] = hold.providers
        self._timeout = timeout

    async def run(self, scope: str | None) -> Compensation:
        """Find out what is open, then undo what there is, the newest first."""
        self._hold.check_open()
        found = await self._hold.books.effects(self._hold.task_id)
        mine = [effect for effect in found if scope is None or effect.scope == scope]
        known = [await self._found_out(effect) for effect in reversed(mine)]
        there = [effect for effect in known if not nothing_there(effect)]
        undone = [await self._undo(effect) for effect in there]
        if not undone:
            return Compensation(state=NOTHING)
        state = COMPENSATED if all(each.undone for each in undone) else PARTIALLY
        return Compensation(state=state, effects=tuple(undone))

    async def _found_out(self, effect: Effect) -> Effect:
        """An open effect after what can be found out, or kept from happening, without making it happen."""
        provider = self._providers.get(effect.provider)
        if provider is None or effect.state not in (E.ACCEPTED, E.IN_DOUBT):
            return effect
        if effect.state is E.ACCEPTED and pv.can(provider, "cancel"):
            effect = await self._cancelled(provider, effect)
        for purpose in (Purpose.LOOKUP, Purpose.SEAL):
            if effect.state is E.IN_DOUBT or (effect.state is E.ACCEPTED and purpose is Purpose.LOOKUP):
                effect = await self._looked(provider, effect, purpose)
        return effect

    async def _cancelled(self, provider: pv.Provider, effect: Effect) -> Effect:
        asking = await self._calls.attempt(provider, effect, Purpose.CANCEL)
        if asking is None:
            return effect
        answer = await self._calls.ask(provider, asking, "cancel", self._timeout)
        return await self._calls.record_answer(asking, answer, EvidenceKind.RESPONSE)

    async def _looked(self, provider: pv.Provider, effect: Effect, purpose: Purpose) -> Effect:
        if not pv.can(provider, str(purpose)):
            return effect
        return await self._calls.look(provider, effect, purpose, self._timeout) or effect

    async def _undo(self, effect: Effect) -> Undone:
        if is_undone(effect):
            return _told(effect)
        provider = self._providers.get(effect.provider)
        if provider is None:
            return _told(effect, f"The provider {effect.provider} is not among the team's.", NextAction.FIX)
        if effect.state not in (E.CONFIRMED, E.ATTESTED, *UNDOING):
            return _told(effect, "It is not known whether it happened.", NextAction.RECONCILE)
        if not pv.can(provider, "compensate"):
            return _told(effect, f"{effect.provider} cannot undo it.", NextAction.ASK)
        try:
            effect = await self._tried(provider, effect)
        except RefusedError as error:
            return _told(effect, str(error), error.next_action)
        return _told(effect, said=await self._said(effect))

    async def _tried(self, provider: pv.Provider, effect: Effect) -> Effect:
        """Undo it, and where that is known to have failed try again, within bounds."""
        effect = await self._looked_back(provider, effect)
        for attempt in range(TRIES):
            if is_undone(effect) or effect.state not in (E.CONFIRMED, E.ATTESTED, *UNDOING):
                break
            if attempt:
                await asyncio.sleep(jitter(PAUSE * 2**attempt))
            before = effect.version
            tried = await self._calls.compensate(provider, effect, self._timeout)
            # Where the call is not to be made, somebody else may be at it: what is told is what the books say by now.
            effect = await self._looked_back(provider, tried or await self._read_again(effect))
            if effect.version == before:
                break
        return effect

    async def _looked_back(self, provider: pv.Provider, effect: Effect) -> Effect:
        """An effect whose undoing is in doubt, after its provider was asked what became of it."""
        if effect.state is not E.COMPENSATING or not pv.can(provider, "lookup_compensation"):
            return effect
        looked = await self._calls.look(provider, effect, Purpose.LOOKUP, self._timeout)
        return looked or await self._read_again(effect)

    async def _read_again(self, effect: Effect) -> Effect:
        found = await self._hold.books.effects(self._hold.task_id)
        return next((each for each in found if each.effect_id == effect.effect_id), effect)

    async def _said(self, effect: Effect) -> str:
        """What the provider said last of an effect that is not undone; empty when that tells nothing."""
        if is_undone(effect):
            return ""
        body = await self._calls.evidence_of(effect)
        seen = body.value() if body is not None else None
        words = (
            (seen.get(name) for name in ("reason", "error", "inconclusive", "not_sent"))
            if isinstance(seen, dict)
            else ()
        )
        return str(next((each for each in words if each), ""))


_WHY = {
    E.COMPENSATING: ("It is not known whether it was undone.", NextAction.RECONCILE),
    E.COMPENSATION_FAILED: ("Its compensation failed.", NextAction.ASK),
    E.DISPUTED: ("What is known of it contradicts itself.", NextAction.ASK),
}


def _told(
    effect: Effect, reason: str = "", next_action: NextAction = NextAction.USE_RESULT, *, said: str = ""
) -> Undone:
    undone = is_undone(effect)
    if not undone and not reason:
        reason, next_action = _WHY.get(effect.state, (f"It is {effect.state}.", NextAction.ASK))
        reason = f"{reason} {said}".rstrip()
    return Undone(
        effect_id=effect.effect_id,
        tool=effect.tool,
        state=effect.state,
        undone=undone,
        reason=reason,
        next_action=next_action,
    )
