"""A worker: picks offers up, runs handlers under the tenures that it is granted, and retires them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tenure.errors import TenureError
from tenure.ledger import OpenOffer
from tenure.runtime.background import background
from tenure.runtime.housekeeper import Housekeeper
from tenure.runtime.ids import jitter, new_id
from tenure.runtime.jobs import watch_tasks
from tenure.runtime.reconciler import Reconciler
from tenure.runtime.recovery import Recovery, recover
from tenure.runtime.registering import register
from tenure.runtime.residual import watch_residual
from tenure.runtime.serving import Serving

if TYPE_CHECKING:
    from tenure.runtime.team import Team

_LOG = logging.getLogger("tenure.worker")

POLL = 1.0
RECOVER_EVERY = 5.0
LETTING_GO = 3.0
"""Seconds for tenures that are let go to be seen to end."""


class Worker:
    """One process's part in a team. Made by :meth:`Team.worker`.

    Attributes:
        name: may be used again after its process has ended. instance: never is.
        recovery: the newest sweep for dead instances of this host. reconciler: looks after open effects; ``None`` when
        that was not wanted. left: offers and tenures that still ran when the drain's time was over.
    """

    def __init__(
        self, team: Team, *, name: str, agents: tuple[str, ...], concurrency: int, reconcile: bool = True
    ) -> None:
        """Not started yet."""
        self.team = team
        self.name = name
        self.instance = new_id(name)
        self.agents = agents
        self.concurrency = concurrency
        self.recovery = Recovery(failed={})
        self.left = 0
        self._ledger = team.ledger
        self.reconciler = (
            Reconciler(self._ledger, team.providers, instance=self.instance, watch=self._watch) if reconcile else None
        )
        self._house = Housekeeper(self._ledger, self.instance, lease_ms=team.settings.lease_ms)
        self._serving: dict[tuple[str, int], tuple[asyncio.Task[None], Serving]] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._draining = asyncio.Event()
        self._freed = asyncio.Event()

    async def _watch(self) -> int:
        return await watch_residual(self._ledger, self.team.providers, by=self.instance)

    async def start(self) -> None:
        """Register, recover what dead instances of this host left, and begin to pick offers up.

        Raises:
            Refused: ``worker_name_taken``.
            Unavailable: the ledger has taken nothing for half a minute, or will not.
        """
        watch_tasks(asyncio.get_running_loop())
        lease_ms = self.team.settings.lease_ms
        await register(self._ledger, instance_id=self.instance, name=self.name, lease_ms=lease_ms)
        self._house.start()
        self._loops = [
            background(self._recover_forever(), name="tenure-recovery"),
            background(self._pick_up_forever(), name="tenure-pick-up"),
        ]
        if self.reconciler is not None:
            self._loops.append(background(self.reconciler.forever(), name="tenure-reconciler"))

    async def stop(self, *, drain: float) -> None:
        """Pick nothing up any more, let running tenures end for ``drain`` seconds, then let go.

        What still runs then is asked to end. Its lease lapses, and nothing is claimed about what is not seen to end.
        """
        self._draining.set()
        if self.reconciler is not None:
            self.reconciler.stop()
        if running := [task for task, _ in self._serving.values()]:
            _, pending = await asyncio.wait(running, timeout=drain)
            self.left = len(pending)
        await self._let_go()
        if self.reconciler is not None:
            await self.reconciler.stopped(LETTING_GO)
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self._house.stop()
        try:
            await asyncio.to_thread(self._ledger.retire_instance, self.instance)
        except TenureError:
            return  # its name is free again when its lease has passed

    async def _let_go(self) -> None:
        """Ask everything that still runs to end, and see what does for a moment."""
        for task, serving in list(self._serving.values()):
            if not serving.let_go():
                task.cancel()
        if running := [task for task, _ in self._serving.values()]:
            _, pending = await asyncio.wait(running, timeout=LETTING_GO)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    @property
    def busy(self) -> int:
        """Number of offers and tenures it is at."""
        return len(self._serving)

    async def _pick_up_forever(self) -> None:
        position = 0
        while not self._draining.is_set():
            free = self.concurrency - len(self._serving)
            self._freed.clear()
            try:
                newest = await self._ledger.wait(0, 0)
                taken = await self._take(free) if free > 0 else 0
                if not taken:
                    await self._idle(max(position, newest))
                position = newest
            except TenureError:
                await asyncio.sleep(jitter(POLL))

    async def _idle(self, position: int) -> None:
        """Sleep until the feed moves, a place becomes free, or the poll is due."""
        moved = asyncio.ensure_future(self._ledger.wait(position, POLL))
        freed = asyncio.ensure_future(self._freed.wait())
        try:
            await asyncio.wait({moved, freed}, return_when=asyncio.FIRST_COMPLETED, timeout=POLL)
        finally:
            for waiting in (moved, freed):
                waiting.cancel()
            await asyncio.gather(moved, freed, return_exceptions=True)

    async def _take(self, free: int) -> int:
        offers = await self._ledger.offers(self.agents, limit=free + len(self._serving))
        taken = 0
        for offer in offers:
            if taken >= free:
                break
            if (offer.task_id, offer.epoch) not in self._serving:
                self._serve(offer)
                taken += 1
        return taken

    def _serve(self, offer: OpenOffer) -> None:
        serving = Serving(self.team, self._house, self.instance, offer)
        task = background(serving.run(), name=f"serve:{offer.task_id}")
        self._serving[offer.task_id, offer.epoch] = (task, serving)

        def free(_: asyncio.Task[None]) -> None:
            self._serving.pop((offer.task_id, offer.epoch), None)
            self._freed.set()

        task.add_done_callback(free)

    async def _recover_forever(self) -> None:
        """At the start and from time to time: what could not be recovered is tried again until nothing is left."""
        while not self._draining.is_set():
            try:
                self.recovery = await recover(self._ledger, by=self.instance)
            except TenureError as error:
                _LOG.warning("The sweep for dead instances stopped half-way and starts again: %s", error)
                await asyncio.sleep(jitter(POLL))
                continue
            again = self.recovery.failed or self.recovery.unfinished
            pause = POLL if again else RECOVER_EVERY
            await asyncio.sleep(jitter(pause))
