"""One look after one effect by somebody who does not own its task: try what its provider can do, else ask a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol.outside import Effect
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import EffectState, Purpose, Reason
from tenure.runtime.calls import NOT_NOW, Calls
from tenure.runtime.clock import uptime_ms
from tenure.runtime.outsider import Outsider
from tenure.runtime.provider import Provider
from tenure.runtime.swept import Fate, Look, Planned, look_of
from tenure.runtime.ways import Tried, budget_spent, has_way, next_way, patience_ms, start_within_ms

E = EffectState

TAKEN = frozenset({"attempt_open", "version_conflict"})
"""Refusals that say that somebody else is at the effect."""

ACTS = frozenset({Purpose.APPLY, Purpose.COMPENSATE})

DISPUTED = "its evidence contradicts itself"
NO_WAY = "its provider has no way to settle it"
ERASED = "its request was erased"
UNKNOWN = "no provider of this name and scope of keys is known here"
FOR_LONG = f"{UNKNOWN}, and nobody has looked at it for as long as a whole budget of looks takes"
SPENT = "the budget of looks is used up"
NOTHING_LEFT = "nothing is left to try"


class Case(Struct, frozen=True):
    """An effect with what a look needs. ``provider``: ``None`` for none here. ``erased``: the request was."""

    effect: Effect
    task: Task
    provider: Provider | None
    request: Any
    erased: bool


class Looking:
    """Looks for one sweep."""

    def __init__(
        self,
        ledger: Ledger,
        providers: Mapping[str, Provider],
        instance: str,
        timeout: float,
        clock: Callable[[], int],
    ) -> None:
        """``timeout`` is in seconds, for each call. ``clock`` gives the ledger's time."""
        self._ledger = ledger
        self._providers = providers
        self._instance = instance
        self._timeout = timeout
        self._clock = clock

    async def look(self, effect: Effect) -> Look:
        """Look once.

        Raises:
            TenureError: the look failed; what it committed stands, and counts.
        """
        case = await self._case(effect)
        if effect.state is E.INTENDED:
            return look_of(effect, Fate.OWNED)
        if case.provider is None and effect.state is not E.DISPUTED:
            return await self._without_provider(case)
        tried = Tried()
        after, taken = await self._try(case, tried)
        calls = tuple(str(purpose) for purpose in tried.made)
        if taken:
            return look_of(effect, Fate.BUSY, after=after, calls=calls)
        if after.state.settled and not after.next_check:
            return look_of(effect, Fate.SETTLED, after=after, calls=calls)
        reason, why = _question(case, after, tried)
        if not why or (after.asked and calls):
            return look_of(effect, Fate.OPEN, after=after, calls=calls)
        return await self._ask(case, after, calls, reason, why)

    async def plan(self, effect: Effect) -> Planned:
        """What a look would try, if no call changed anything."""
        case = await self._case(effect)
        tried = Tried()
        why = ""
        if effect.state is E.INTENDED:
            why = "its first call is in flight at its tenure"
        elif case.provider is None and effect.state is not E.DISPUTED:
            why = FOR_LONG if self._nobody_looks(case) else UNKNOWN
        else:
            while (purpose := self._next(case, effect, tried)) is not None:
                tried.made = (*tried.made, purpose)
            _, why = _question(case, effect, tried)
        asks = why not in ("", UNKNOWN) and effect.state is not E.INTENDED and not effect.asked
        return Planned(
            effect_id=effect.effect_id,
            task_id=effect.task_id,
            tool=effect.tool,
            provider=effect.provider,
            state=str(effect.state),
            version=effect.version,
            would=(*(str(purpose) for purpose in tried.made), *(("ask",) if asks else ())),
            why=f"{effect.asked} was asked" if effect.asked and not tried.made and why else why,
        )

    # --- what there is to go on with ----------------------------------------------------------------------------

    async def _case(self, effect: Effect) -> Case:
        task = await self._ledger.task(effect.task_id)
        if task is None:
            raise Refused("unknown_task", effect.task_id)
        # Read before anything is committed: an attempt that could not be made would only look like one.
        body = await self._ledger.body(effect.root_id, effect.request)
        return Case(effect, task, self._provider(effect), None if body is None else body.value(), body is None)

    def _provider(self, effect: Effect) -> Provider | None:
        """The provider of an effect. One whose keys count elsewhere does not know this key: it cannot speak for it."""
        provider = self._providers.get(effect.provider)
        return provider if provider is not None and provider.key_scope == effect.key_scope else None

    def _next(self, case: Case, effect: Effect, tried: Tried) -> Purpose | None:
        if case.provider is None or case.erased:
            return None
        return next_way(effect, case.provider, case.task, self._clock(), tried)

    # --- trying -------------------------------------------------------------------------------------------------

    async def _try(self, case: Case, tried: Tried) -> tuple[Effect, bool]:
        """Make one call after the other. Returns the effect, and whether somebody else has come to it."""
        effect, provider = case.effect, case.provider
        calls = Calls(Outsider(self._ledger, effect, self._instance), self._ledger)
        while provider is not None and (purpose := self._next(case, effect, tried)) is not None:
            asked_at = uptime_ms()
            try:
                committed = await calls.commit(provider, effect, purpose)
            except Refused as error:
                if error.code in TAKEN:
                    return error.facts.get("effect") or effect, True
                if error.code not in NOT_NOW:
                    raise
                tried.refused = (*tried.refused, purpose)
                continue
            tried.made = (*tried.made, purpose)
            if purpose in ACTS and uptime_ms() - asked_at >= start_within_ms(committed):
                effect = await calls.unsent(committed, "its time was over before it began")
            else:
                effect = await calls.make(provider, committed, case.request, self._limit(committed))
        return effect, False

    def _limit(self, effect: Effect) -> float:
        """A call ends before the next check is due: until then nobody else makes one."""
        return min(self._timeout, (effect.next_check - effect.attempt.at) / 2000)

    # --- asking -------------------------------------------------------------------------------------------------

    async def _without_provider(self, case: Case) -> Look:
        """Other processes may have the provider: a person is asked only when none of them has looked for very long.

        No attempt is committed, because no call is made; so the budget, which counts attempts, is told in time.
        """
        if case.effect.asked or not self._nobody_looks(case):
            return look_of(case.effect, Fate.UNKNOWN_PROVIDER)
        return await self._ask(case, case.effect, (), Reason.CAPABILITY, FOR_LONG)

    def _nobody_looks(self, case: Case) -> bool:
        return self._clock() - case.effect.next_check >= patience_ms(case.effect, case.task)

    async def _ask(self, case: Case, effect: Effect, calls: tuple[str, ...], reason: Reason, why: str) -> Look:
        if effect.asked:
            return look_of(case.effect, Fate.WITH_PERSON, after=effect, calls=calls)
        outsider = Outsider(self._ledger, effect, self._instance)
        try:
            receipt = await outsider.say(
                cmd.AskAboutEffect,
                effect_id=effect.effect_id,
                version=effect.version,
                instance=self._instance,
                reason=reason,
            )
        except Refused as error:
            if error.code not in ("version_conflict", "wrong_phase"):
                raise
            return look_of(case.effect, Fate.BUSY, after=error.facts.get("effect"), calls=calls)
        return look_of(case.effect, Fate.ASKED, after=receipt.effect, calls=calls, why=why)


def _question(case: Case, effect: Effect, tried: Tried) -> tuple[Reason, str]:
    """Why a person is to be asked about an effect that is open after a look; no words when there is no reason yet."""
    if case.erased:
        return Reason.CAPABILITY, ERASED
    if effect.state is E.DISPUTED:
        return Reason.CAPABILITY, DISPUTED
    if case.provider is None or not has_way(effect, case.provider):
        return Reason.CAPABILITY, NO_WAY
    if budget_spent(effect, case.task):
        return Reason.RETRIES_EXHAUSTED, SPENT
    return Reason.RETRIES_EXHAUSTED, "" if tried.made else NOTHING_LEFT
