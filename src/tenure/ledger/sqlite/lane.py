"""A thread with a queue before it: jobs are handed over and answered in batches, from event loops and from threads.

One event loop hands everything over that its tasks asked for in one turn, and gets all answers of a batch in one call:
two wake-ups per batch and loop, however many tasks there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from tenure.errors import Unavailable

T = TypeVar("T")
S = TypeVar("S")

MOST = 256
"""Jobs in one batch: bounds how long the first of them waits for its answer."""


class Job(Generic[S]):
    """One piece of work for the thread, and whom to tell."""

    __slots__ = ("error", "future", "loop", "value", "work")

    def __init__(
        self,
        work: Callable[[S], Any],
        future: asyncio.Future[Any] | Future[Any],
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self.work = work
        self.future = future
        self.loop = loop
        self.value: Any = None
        self.error: BaseException | None = None

    def answer(self) -> None:
        """Tell the caller, if it still waits."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)


class Desk(ABC, Generic[S]):
    """What the thread runs: opened, used and closed on it alone."""

    @abstractmethod
    def serve(self, jobs: list[Job[S]]) -> None:
        """Do the jobs and set the value or the error of each."""

    def idle(self) -> None:
        """Called about every :attr:`pause` seconds, if that is set."""

    @property
    def pause(self) -> float | None:
        """Seconds until ``idle`` wants to be called; ``None``: never."""
        return None

    def close(self) -> None:
        """Let everything go."""


class Lane(Generic[S]):
    """The thread. ``make`` is called on it first; what it raises, the constructor raises."""

    def __init__(self, name: str, make: Callable[[], Desk[S]]) -> None:
        self._queue: queue.SimpleQueue[list[Job[S]] | None] = queue.SimpleQueue()
        self._pending: dict[asyncio.AbstractEventLoop, list[Job[S]]] = {}
        self._stopping = False
        self._ended = False
        opened: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(make, opened), name=name, daemon=True)
        self._thread.start()
        error = opened.get()
        if error is not None:
            raise error

    async def call(self, work: Callable[[S], T]) -> T:
        """Have work done, from an event loop. A caller that is cancelled does not take its work back."""
        self._check()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job: Job[S] = Job(work, future, loop)
        pending = self._pending.get(loop)
        if pending is None:
            self._pending[loop] = [job]
            loop.call_soon(self._hand_over, loop)
        else:
            pending.append(job)
        return await future

    def call_blocking(self, work: Callable[[S], T]) -> T:
        """Have work done, from any other thread."""
        self._check()
        future: Future[T] = Future()
        self._put([Job(work, future, None)])
        return future.result()

    def nudge(self) -> None:
        """Make the thread look at its ``pause`` again."""
        self._queue.put([])

    async def stop(self) -> None:
        """Do what was handed over, then end the thread. Idempotent."""
        loop = asyncio.get_running_loop()
        self._hand_over(loop)
        self.end()
        while self._thread.is_alive():  # noqa: ASYNC110 - ends with the batch at hand; a join would block the loop
            await asyncio.sleep(0.001)

    def end(self) -> None:
        """Tell the thread to end when it has done what it was given; does not wait for it."""
        if not self._stopping:
            self._stopping = True
            self._queue.put(None)

    def _check(self) -> None:
        if self._stopping:
            raise Unavailable("ledger_closed")

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        jobs = self._pending.pop(loop, None)
        if jobs:
            self._put(jobs)

    def _put(self, jobs: list[Job[S]]) -> None:
        self._queue.put(jobs)
        # The thread sets `ended` and then empties the queue; whoever comes after that finds `ended` set here.
        if self._ended:
            self._turn_away()

    def _turn_away(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                jobs = self._queue.get_nowait() or []
                for job in jobs:
                    job.error = Unavailable("ledger_closed")
                answer(jobs)

    def _run(self, make: Callable[[], Desk[S]], opened: queue.SimpleQueue[BaseException | None]) -> None:
        try:
            desk = make()
        except BaseException as error:  # noqa: BLE001 - it is raised where the lane was made
            opened.put(error)
            return
        opened.put(None)
        try:
            while (jobs := self._next(desk)) is not None:
                for start in range(0, len(jobs), MOST):
                    batch = jobs[start : start + MOST]
                    _serve(desk, batch)
                    answer(batch)
        finally:
            self._stopping = True
            desk.close()
            self._ended = True
            self._turn_away()

    def _next(self, desk: Desk[S]) -> list[Job[S]] | None:
        """Wait for jobs and take along what else is there; ``None`` at the end."""
        try:
            first = self._queue.get(timeout=desk.pause)
        except queue.Empty:
            desk.idle()
            return []
        if first is None:
            return None
        jobs = list(first)
        with contextlib.suppress(queue.Empty):
            while len(jobs) < MOST:
                more = self._queue.get_nowait()
                if more is None:
                    self._queue.put(None)
                    break
                jobs += more
        return jobs


def _serve(desk: Desk[S], jobs: list[Job[S]]) -> None:
    try:
        desk.serve(jobs)
    except Exception as error:  # noqa: BLE001 - a caller gets it; the thread serves the others
        for job in jobs:
            job.error = job.error or error


def answer(jobs: list[Job[Any]]) -> None:
    """Tell the callers: those of one loop in one call."""
    loops: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
    for job in jobs:
        if job.loop is None:
            job.answer()
        else:
            loops.setdefault(job.loop, []).append(job)
    for loop, mine in loops.items():
        with contextlib.suppress(RuntimeError):  # that loop is closed, and so nobody waits for the answers
            loop.call_soon_threadsafe(_answer_all, mine)


def _answer_all(jobs: list[Job[Any]]) -> None:
    for job in jobs:
        job.answer()
