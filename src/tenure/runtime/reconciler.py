"""The reconciler: looks after open effects until they are settled or a person is asked, whoever owns their tasks.

It has no memory that matters. What is due, how often somebody has looked and when the next look is due stand in the
ledger; each call is an attempt that is committed first, by compare-and-set, and keeps other reconcilers away until the
next check. One that was killed half-way is followed by any other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from tenure.errors import OutcomeUnknown, Unavailable
from tenure.ledger import Ledger
from tenure.protocol.outside import Effect
from tenure.protocol.settings import HOUR
from tenure.runtime.clock import uptime_ms
from tenure.runtime.content import words_of
from tenure.runtime.ids import jitter
from tenure.runtime.looking import Looking
from tenure.runtime.provider import Provider
from tenure.runtime.swept import Fate, Look, Planned, Swept, look_of

_LOG = logging.getLogger("tenure.reconciler")

Watch = Callable[[], Awaitable[int]]
"""Looks at the residual work that can be seen from here, and returns how much of it was seen to end."""

EVERY = 5.0
AT_ONCE = 4
CALL_SECONDS = 10.0


class Reconciler:
    """Sweeps over the effects that are due.

    Args:
        ledger: where they are. providers: the outside systems that this process can call, by their names.
        instance: the process that speaks. It is to be registered: what it sends may land until it is seen dead.
        timeout: longest time in seconds for one call; it is shorter where the next check is sooner.
        at_once: looks at the same time, for each provider: one that hangs does not hold up the others.
        watch: asked once in each sweep for residual work.
    """

    def __init__(
        self,
        ledger: Ledger,
        providers: Mapping[str, Provider],
        *,
        instance: str,
        timeout: float = CALL_SECONDS,
        at_once: int = AT_ONCE,
        watch: Watch | None = None,
    ) -> None:
        """Nothing is looked at yet."""
        self._ledger = ledger
        self._providers = providers
        self._instance = instance
        self._timeout = timeout
        self._at_once = at_once
        self._watch = watch
        self._stopping = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._aside: dict[str, tuple[int, int]] = {}

    def stop(self) -> None:
        """Begin no further look. Those that have begun are brought to their end, which time-outs bound."""
        self._stopping.set()

    async def stopped(self, within: float) -> bool:
        """Wait for the end of the looks that have begun, so many seconds at most; whether they have ended."""
        try:
            async with asyncio.timeout(within):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def forever(self) -> None:
        """Sweep again and again, until :meth:`stop`."""
        while not self._stopping.is_set():
            swept = await self.sweep()
            if swept.error:
                _LOG.warning("The sweep of open effects stopped half-way and starts again: %s", swept.error)
            if swept.error or not swept.more:
                try:
                    async with asyncio.timeout(jitter(EVERY)):
                        await self._stopping.wait()
                except TimeoutError:
                    continue

    async def sweep(
        self, limit: int = 100, *, effects: Sequence[Effect] | None = None, seen: Callable[[Look], None] | None = None
    ) -> Swept:
        """Look once after each effect that is due, ``limit`` at most, or after these ``effects``, due or not.

        A provider that fails leaves the others alone, and so does a look that fails. A ledger that does not answer
        ends the sweep: what was not looked at is counted as ``left``.

        Args:
            seen: told of each look at its end.
        """
        try:
            clock = await self._clock()
            due = list(effects) if effects is not None else await self._due(limit, clock())
        except (Unavailable, OutcomeUnknown) as error:
            return Swept(error=str(error))
        sweep = _Sweep(self._looking(clock), self._stopping, seen)
        self._idle.clear()
        try:
            await asyncio.gather(*(sweep.work(lane) for lane in _lanes(due, self._at_once)))
        finally:
            self._idle.set()
        self._set_aside(due, sweep.looks, clock())
        counts = Counter(look.fate for look in sweep.looks)
        return Swept(
            due=len(due),
            settled=counts[Fate.SETTLED],
            open=counts[Fate.OPEN],
            asked=counts[Fate.ASKED],
            with_person=counts[Fate.WITH_PERSON],
            owned=counts[Fate.OWNED],
            busy=counts[Fate.BUSY],
            unknown_provider=counts[Fate.UNKNOWN_PROVIDER],
            failed=counts[Fate.FAILED],
            left=counts[Fate.LEFT],
            calls=sum(len(look.calls) for look in sweep.looks),
            ended=await self._watched(),
            looks=tuple(sweep.looks),
            more=effects is None and len(due) == limit,
            error=sweep.error,
        )

    async def plan(self, limit: int = 100, *, effects: Sequence[Effect] | None = None) -> list[Planned]:
        """What a sweep would try for each effect, as far as it can be told without a call or a command.

        Raises:
            Unavailable. Refused: ``unknown_task``.
        """
        looking = self._looking(await self._clock())
        due = list(effects) if effects is not None else await self._ledger.effects_due(limit=limit)
        return [await looking.plan(effect) for effect in due]

    async def _clock(self) -> Callable[[], int]:
        """The ledger's time, read once and carried on by this process's own clock."""
        now = await asyncio.to_thread(self._ledger.now_blocking)
        since = uptime_ms()
        return lambda: now + uptime_ms() - since

    def _looking(self, clock: Callable[[], int]) -> Looking:
        return Looking(self._ledger, self._providers, self._instance, self._timeout, clock)

    async def _due(self, limit: int, now: int) -> list[Effect]:
        """The effects that are due, without those for which nothing can be done here and now.

        They stay due in the ledger, for others who may do something, and would else fill every sweep.
        """
        asked_for = limit + len(self._aside)
        found = await self._ledger.effects_due(limit=asked_for)
        if len(found) < asked_for:
            here = {effect.effect_id for effect in found}
            self._aside = {effect_id: aside for effect_id, aside in self._aside.items() if effect_id in here}
        return [effect for effect in found if not self._is_aside(effect, now)][:limit]

    def _is_aside(self, effect: Effect, now: int) -> bool:
        version, until = self._aside.get(effect.effect_id, (0, 0))
        return version == effect.version and now < until

    def _set_aside(self, due: Sequence[Effect], looks: Sequence[Look], now: int) -> None:
        """Remember what a look has left as it was; where a person was asked, for as long as others leave it alone."""
        before = {effect.effect_id: effect for effect in due}
        for look in looks:
            effect = before[look.effect_id]
            if look.version == effect.version and look.fate is not Fate.LEFT:
                pause = max(effect.check_ms, HOUR) if look.fate is Fate.WITH_PERSON else effect.check_ms
                self._aside[look.effect_id] = (look.version, now + pause)

    async def _watched(self) -> int:
        if self._watch is None or self._stopping.is_set():
            return 0
        try:
            return await self._watch()
        except Exception as error:  # noqa: BLE001 - effects are looked after whatever becomes of works
            _LOG.warning("Residual work was not looked at: %s", words_of(error))
            return 0


class _Sweep:
    """The state of one sweep. ``error`` is the ledger's, once it has ended the sweep."""

    def __init__(self, looking: Looking, stopping: asyncio.Event, seen: Callable[[Look], None] | None) -> None:
        self.looks: list[Look] = []
        self.error = ""
        self._looking = looking
        self._stopping = stopping
        self._seen = seen

    async def work(self, lane: Iterator[Effect]) -> None:
        """Look at one effect of the lane after the other. Several may share a lane."""
        for effect in lane:
            look = await self._look(effect)
            self.looks.append(look)
            if look.fate in (Fate.SETTLED, Fate.ASKED, Fate.FAILED):
                _LOG.info("%s of %s: %s, %s %s", effect.effect_id, effect.task_id, look.fate, look.state, look.why)
            if self._seen is not None:
                self._seen(look)

    async def _look(self, effect: Effect) -> Look:
        if self.error or self._stopping.is_set():
            return look_of(effect, Fate.LEFT)
        try:
            return await self._looking.look(effect)
        except (Unavailable, OutcomeUnknown) as error:
            self.error = str(error)
            return look_of(effect, Fate.FAILED, why=str(error))
        except Exception as error:  # noqa: BLE001 - a fault in one look is told, and leaves the others alone
            return look_of(effect, Fate.FAILED, why=words_of(error))


def _lanes(effects: Sequence[Effect], at_once: int) -> list[Iterator[Effect]]:
    """A lane for each provider, named once for each look that may go on in it at the same time."""
    by_provider: dict[str, list[Effect]] = {}
    for effect in effects:
        by_provider.setdefault(effect.provider, []).append(effect)
    lanes: list[Iterator[Effect]] = []
    for each in by_provider.values():
        lanes += [iter(each)] * min(at_once, len(each))
    return lanes
