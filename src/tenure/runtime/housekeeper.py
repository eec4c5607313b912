"""The housekeeping thread of a worker: heartbeats, and the watch over every deadline.

It is a thread of its own, so that neither depends on a busy handler. It only talks to the ledger and leaves notes on
the loop; a tenure whose heartbeat is fenced, or not answered in time, is lost.
"""

from __future__ import annotations

import asyncio
import logging
import threading

from tenure.errors import CODES, Fenced, Refused, TenureError
from tenure.ledger import Beat, Beaten, Ledger, root_of
from tenure.protocol.commands import Expire
from tenure.runtime.clock import uptime_ms
from tenure.runtime.hold import Hold
from tenure.runtime.ids import jitter, new_id

_LOG = logging.getLogger("tenure.housekeeper")

LONGEST_PAUSE = 2.0
SHORTEST_PAUSE = 0.02
SWEEP = 64


class Housekeeper:
    """Beats for all holds of one instance and expires what is overdue, whoever owns it."""

    def __init__(self, ledger: Ledger, instance_id: str, *, lease_ms: int) -> None:
        """Beat at least five times per shortest lease."""
        self._ledger = ledger
        self._instance = instance_id
        self._lease_ms = lease_ms
        self._holds: dict[tuple[str, int], Hold] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._pausing = LONGEST_PAUSE
        self._thread = threading.Thread(target=self._run, name=f"tenure-housekeeper-{instance_id}", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start, on the loop that the notes go to."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def stop(self) -> None:
        """Stop and wait for the last beat to be answered."""
        self._stop.set()
        self._wake.set()
        await asyncio.to_thread(self._thread.join)

    def add(self, hold: Hold) -> None:
        """Beat for a tenure from now on, and in time for a lease that is shorter than those known so far."""
        with self._lock:
            self._holds[hold.task_id, hold.epoch] = hold
            if self._pause([hold]) < self._pausing:
                self._wake.set()

    def remove(self, hold: Hold) -> None:
        """Beat no more for it."""
        with self._lock:
            self._holds.pop((hold.task_id, hold.epoch), None)

    def _pause(self, holds: list[Hold]) -> float:
        lease = min([self._lease_ms, *(hold.settings.lease_ms for hold in holds)])
        return max(SHORTEST_PAUSE, min(LONGEST_PAUSE, lease / 5000))

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                holds = list(self._holds.values())
            try:
                self._beat(holds)
                self._sweep()
            except Exception:  # noqa: BLE001 - a thread that ends silently would let every lease run out
                _LOG.exception("A round of the housekeeper failed.")
            self._rest()

    def _rest(self) -> None:
        """Wait for the next round, and not longer than a tenure allows that came during this one."""
        with self._lock:
            self._pausing = self._pause(list(self._holds.values()))
        self._wake.wait(jitter(self._pausing))
        self._wake.clear()

    def _beat(self, holds: list[Hold]) -> None:
        """One durable write for all; the own clock is read before it is sent."""
        sent_at = uptime_ms()
        beats = [Beat(task_id=hold.task_id, epoch=hold.epoch, instance=hold.instance) for hold in holds]
        try:
            answers = self._ledger.heartbeat(beats, self._instance)
        except TenureError:
            answers = []  # nothing was prolonged: each hold runs out by its own clock
        known = {(answer.task_id, answer.epoch): answer for answer in answers}
        for hold in holds:
            self._note(hold, known.get((hold.task_id, hold.epoch)), sent_at)

    def _note(self, hold: Hold, answer: Beaten | None, sent_at: int) -> None:
        if answer is not None and not answer.error:
            hold.prolong(sent_at)
            if answer.cancel:
                self._tell(hold.cancel_requested.set)
            if answer.asked is not hold.asked.is_set():
                self._tell(hold.asked.set if answer.asked else hold.asked.clear)
            return
        if answer is not None:
            code = answer.error if answer.error in CODES else "stale_epoch"
            self._tell(hold.lose, Fenced(code, "The ledger refused the heartbeat.", task_id=hold.task_id))
        elif hold.overdue:
            self._tell(hold.lose, Fenced("lease_lost", "No heartbeat was answered in time.", task_id=hold.task_id))
        else:
            return
        self.remove(hold)

    def _sweep(self) -> None:
        """Apply overdue deadlines. Neither a faster worker nor a store that fails for a while is an error here."""
        try:
            overdue = self._ledger.overdue_blocking(limit=SWEEP)
        except TenureError:
            return
        for task_id in overdue:
            command = Expire(command_id=new_id("c"), root_id=root_of(task_id), task_id=task_id)
            try:
                self._ledger.execute_blocking(command)
            except Refused:
                continue
            except TenureError:
                return
            except Exception:  # noqa: BLE001 - one task that cannot be read must not stall those behind it
                _LOG.exception("A deadline of %s could not be applied.", task_id)

    def _tell(self, note: object, *values: object) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed() and callable(note):
            loop.call_soon_threadsafe(note, *values)
