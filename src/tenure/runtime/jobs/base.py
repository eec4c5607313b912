"""What every job is: it runs something, can be asked to end, and is *seen* to end.

A request to end is never taken for an end. ``outcome`` stays ``None`` until the end was observed, however long ago it
was asked for, and a job that nobody waits for any more is still watched.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

from msgspec import Struct

from tenure.protocol.settings import Policy
from tenure.protocol.state import Locator
from tenure.protocol.vocabulary import WorkEnd, WorkKind


class Outcome(Struct, frozen=True):
    """How a job was seen to end.

    Attributes:
        how: what was observed. ``RAISED`` also stands for what could not be started at all: nothing of it ever ran.
        value: what a function or coroutine returned; the exit code of a process (minus the signal's number if killed).
        error: the exception of ``RAISED`` and ``CANCELLED``.
    """

    how: WorkEnd
    value: Any = None
    error: BaseException | None = None


WATCHED: set[Job] = set()
"""Jobs that were started and not seen to end: referenced here, so that none is collected while it still runs."""

FAMILY: ContextVar[Any] = ContextVar("tenure_job_family", default=None)
"""The coroutine job in whose context code runs; tasks started there belong to it."""


def outside() -> Context:
    """Copy the current context without its job, for tasks of the runtime that must not count as the job's own.

    A task that serves many jobs (a pool, a heartbeat) and happens to be started by the first of them needs this: as
    ``loop.create_task(…, context=outside())``. Otherwise that job is not seen to end before the task does.
    """
    context = copy_context()
    context.run(FAMILY.set, None)
    return context


class Job(ABC):
    """Something that runs, in or under this process, on behalf of one tenure.

    All methods are called on the event loop that ran :meth:`start`.

    Attributes:
        work_id: id of the work in the ledger. name: what people call it. policy: how it is retired.
        locator: where it runs; of a process known once :meth:`start` has returned.
        outcome: how it was seen to end; ``None`` until then.
        delivered: the request to end is known to have reached it. May become true after the request was made.
    """

    kind: WorkKind

    insist_limit = 1
    """How often :meth:`insist` does anything."""

    def __init__(self, *, work_id: str, name: str, policy: Policy) -> None:
        self.work_id = work_id
        self.name = name
        self.policy = policy
        self.locator: Locator | None = None
        self.outcome: Outcome | None = None
        self.delivered = False
        self._asked = False
        self._insisted = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Future[None] | None = None
        self._callbacks: list[Callable[[Job], None]] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.work_id} {self.name!r} {self.outcome or 'not seen to end'}>"

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that runs it.

        Raises:
            RuntimeError: it was not started.
        """
        if self._loop is None:
            raise RuntimeError(f"{self!r} was not started.")
        return self._loop

    async def start(self) -> None:
        """Start it, once. Cancelling this call leaves a job that may run and is watched.

        Raises:
            RuntimeError: it was started or discarded before.
            Exception: what prevented the start (``OSError`` of a missing program). Nothing runs then, and the outcome
                says ``RAISED``.
        """
        if self._loop is not None or self.outcome is not None:
            raise RuntimeError(f"{self!r} was started before.")
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.create_future()
        WATCHED.add(self)
        try:
            await self._start()
        except Exception as error:
            self._seen(Outcome(WorkEnd.RAISED, error=error))
            raise
        if self._asked and self.outcome is None:
            self._deliver()

    def discard(self) -> None:  # noqa: B027 - most jobs hold nothing before their start
        """Give up a job that was never started (its row was refused). Does nothing to one that was."""

    def request_cancel(self) -> bool:
        """Ask it to end; the second call and those after it ask nothing more. Never blocks, never raises.

        Returns:
            Whether the request is known to have been delivered *by now*. A coroutine gets it in a later cycle of the
            loop, so look at :attr:`delivered` again. It says nothing about an end.
        """
        if not self._asked:
            self._asked = True
            if self._loop is not None and self.outcome is None:
                self._deliver()
        return self.delivered

    def insist(self) -> None:
        """Ask again, harder where that exists. Bounded: beyond ``insist_limit`` calls it does nothing."""
        if self._loop is None or self.outcome is not None or self._insisted >= self.insist_limit:
            return
        self._asked = True
        self._insisted += 1
        self._deliver_again()

    async def wait(self, timeout: float | None = None) -> Outcome | None:
        """Wait until it is seen to end; cancelling the wait does nothing to the job.

        Args:
            timeout: longest wait in seconds.

        Returns:
            The outcome; ``None`` if no end was seen in time.
        """
        if self.outcome is None:
            if self._end is None:
                raise RuntimeError(f"{self!r} was not started.")
            await asyncio.wait((self._end,), timeout=timeout)
        return self.outcome

    @abstractmethod
    def survivors(self) -> tuple[str, ...]:
        """Name what is still alive of it, as far as that is known: ``pid 123 (sleep)``. Empty when none is known."""

    def on_end(self, callback: Callable[[Job], None]) -> None:
        """Have it called once with the job, on the loop, when the end is seen; soon, if it was seen already."""
        if self.outcome is None:
            self._callbacks.append(callback)
        else:
            self._call(callback)

    @abstractmethod
    async def _start(self) -> None: ...

    @abstractmethod
    def _deliver(self) -> None:
        """Ask it to end. Must not block or raise."""

    def _deliver_again(self) -> None:  # noqa: B027 - a thread cannot be asked harder
        """Ask it harder. Must not block or raise."""

    def _seen(self, outcome: Outcome) -> None:
        """Record the observed end. The first observation counts."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        WATCHED.discard(self)
        if self._end is not None and not self._end.done():
            self._end.set_result(None)
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callable[[Job], None]) -> None:
        """Call it in a cycle of its own: its exceptions are the loop's to report and touch nobody else."""
        loop = self._loop or asyncio.get_running_loop()
        loop.call_soon(callback, self, context=outside())
