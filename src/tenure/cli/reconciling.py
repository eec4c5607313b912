"""What ``tenure reconcile`` does, once its team is loaded."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from tenure.cli.effectlines import all_effects, find_effect
from tenure.cli.problems import FOUND, INTERRUPTED
from tenure.cli.progress import Progress, progress
from tenure.cli.stopping import Stop
from tenure.cli.talk import emit, emit_json, plural, say
from tenure.errors import TenureError, Unavailable
from tenure.ledger import Ledger
from tenure.protocol.outside import Effect
from tenure.runtime.ids import new_id
from tenure.runtime.reconciler import Reconciler
from tenure.runtime.recovery import recover
from tenure.runtime.registering import register
from tenure.runtime.residual import watch_residual
from tenure.runtime.swept import Fate, Look, Planned, Swept
from tenure.runtime.team import Team

PAGE = 100


class Report(Struct, kw_only=True):
    """What a run has found. The nine counts by fate add up to ``due``.

    Attributes:
        due: effects that were to be looked after. calls: provider calls that were made. ended: residual works that were
        seen to end. recovered: tasks in which a dead process of this host held something that is over now.
        still_open: effects of the ledger that need somebody at the end. error: the ledger's, when it ended the run.
    """

    ledger: str
    interrupted: bool = False
    due: int = 0
    settled: int = 0
    open: int = 0
    asked: int = 0
    with_person: int = 0
    owned: int = 0
    busy: int = 0
    unknown_provider: int = 0
    failed: int = 0
    left: int = 0
    calls: int = 0
    ended: int = 0
    recovered: int = 0
    still_open: int | None = None
    error: str = ""
    looks: list[Look] = []

    def add(self, swept: Swept) -> None:
        """Count another sweep in."""
        for name in ("due", *Fate, "calls", "ended"):
            setattr(self, name, getattr(self, name) + getattr(swept, name))
        self.looks.extend(swept.looks)
        self.error = swept.error


class Errand:
    """One run. ``limit`` is ``None`` for all of them."""

    def __init__(
        self,
        team: Team,
        ledger: Ledger,
        *,
        effect_ids: tuple[str, ...],
        all_open: bool,
        limit: int | None,
        as_json: bool,
    ) -> None:
        self._team = team
        self._ledger = ledger
        self._effect_ids = effect_ids
        self._all_open = all_open
        self._limit = limit
        self._as_json = as_json
        self._instance = new_id(f"{team.name}-reconcile")
        self._reconciler = Reconciler(ledger, team.providers, instance=self._instance, watch=self._watch)
        self._report = Report(ledger=ledger.url)
        self._told: Counter[Fate] = Counter()

    async def plan(self, stop: Stop) -> int:
        """Say what would be tried, and try nothing."""
        del stop  # nothing is written, so nothing needs to be brought to an end
        async with self._ledger:
            named = await self._named()
            limit = self._limit or await self._due()
            planned = await self._reconciler.plan(limit, effects=named)
        if self._as_json:
            emit_json({"ledger": self._ledger.url, "would": planned})
        elif planned:
            emit("\n".join(_plan_line(each) for each in planned))
        else:
            say("nothing is due")
        return FOUND if planned else 0

    async def run(self, stop: Stop) -> int:
        """Note deaths, look, count, tell."""
        async with self._ledger:
            await register(
                self._ledger,
                instance_id=self._instance,
                name=self._instance,
                lease_ms=self._team.settings.lease_ms,
            )
            halt = asyncio.ensure_future(self._halt(stop))
            try:
                async with self._team.surroundings():
                    with progress("effects looked after") as bar:
                        await self._work(bar)
            finally:
                halt.cancel()
                await self._farewell()
            self._report.interrupted = stop.requested.is_set()
            if not self._report.error:
                self._report.still_open = len([row async for row in all_effects(self._ledger, open_only=True)])
        self._tell()
        return self._code()

    async def _halt(self, stop: Stop) -> None:
        await stop.requested.wait()
        self._reconciler.stop()

    async def _farewell(self) -> None:
        """This process sends nothing more. What it has sent may still land: that is for its death to prove."""
        try:
            await asyncio.to_thread(self._ledger.retire_instance, self._instance)
        except TenureError as error:
            say(f"the end of {self._instance} was not noted: {error}")

    async def _work(self, bar: Progress) -> None:
        def seen(look: Look) -> None:
            self._told[look.fate] += 1
            words = ", ".join(f"{number} {fate}" for fate, number in sorted(self._told.items()))
            bar.show(self._told.total(), total, words)

        recovery = await recover(self._ledger, by=self._instance)
        self._report.recovered = recovery.recovered
        named = await self._named()
        if named is not None:
            total = len(named)
            self._report.add(await self._reconciler.sweep(effects=named, seen=seen))
            return
        total = 0
        while self._limit is None or self._report.due < self._limit:
            page = PAGE if self._limit is None else min(PAGE, self._limit - self._report.due)
            swept = await self._reconciler.sweep(page, seen=seen)
            self._report.add(swept)
            if swept.error or not swept.more or swept.left:
                return

    async def _watch(self) -> int:
        return await watch_residual(self._ledger, self._team.providers, by=self._instance)

    async def _named(self) -> Sequence[Effect] | None:
        """The effects that the command line names; ``None`` for those that are due."""
        if self._effect_ids:
            return [await find_effect(self._ledger, effect_id) for effect_id in self._effect_ids]
        if self._all_open:
            found = [row.effect async for row in all_effects(self._ledger, open_only=True)]
            return found[: self._limit]
        return None

    async def _due(self) -> int:
        """More than there can be due."""
        return 1 + sum((await self._ledger.effect_counts()).values())

    def _tell(self) -> None:
        report = self._report
        if self._as_json:
            emit_json(report)
            return
        for look in report.looks:
            emit(_look_line(look))
        counts = ", ".join(f"{number} {fate}" for fate in Fate if (number := getattr(report, fate)))
        words = f"{plural(report.due, 'effect')} due" + (f": {counts}" if counts else "")
        emit(f"{words}; {plural(report.calls, 'call')}; {_still(report)}")
        if report.error:
            say(f"error: {report.error}\nnext: repeat it when the ledger answers")

    def _code(self) -> int:
        if self._report.error:
            return Unavailable.exit_code
        if self._report.interrupted:
            return INTERRUPTED
        return FOUND if self._report.still_open else 0


def _still(report: Report) -> str:
    if report.still_open is None:
        return "how many are open in the ledger is not known"
    return f"{report.still_open} in the ledger {'needs' if report.still_open == 1 else 'need'} somebody"


def _look_line(look: Look) -> str:
    moved = look.state if look.was == look.state else f"{look.was} → {look.state}"
    calls = f" by {', '.join(look.calls)}" if look.calls else ""
    why = f": {look.why}" if look.why else ""
    return f"{look.effect_id} of {look.task_id} {look.tool}: {moved}{calls}, {look.fate}{why}"


def _plan_line(planned: Planned) -> str:
    would = ", then ".join(planned.would) or "nothing"
    why = f": {planned.why}" if planned.why else ""
    return f"{planned.effect_id} of {planned.task_id} {planned.tool}: {planned.state}, would try {would}{why}"
