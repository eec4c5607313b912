"""Signals: the first one drains, the second one stops, and neither can be held up for ever.

The handlers are Python's own, not the event loop's: they also run while a handler of the team blocks the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

from tenure.cli.problems import INTERRUPTED

STOP_SECONDS = 2.0
"""How long a stop at once may take for the team's own clean-up, and the end of the event loop for what still runs."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """What the signals ask for. ``requested`` is set by the first one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, first: str) -> None:
        self.requested = asyncio.Event()
        self.signals = 0
        self._loop = loop
        self._first = first
        self._work: asyncio.Task[int] | None = None

    async def watch(self, work: Callable[[Stop], Coroutine[Any, Any, int]]) -> int:
        """Do the work; the second signal cancels it."""
        self._work = asyncio.current_task()
        return await work(self)

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Count, and act on the count."""
        del number, frame
        self.signals += 1
        if self.signals == 1:
            _tell(self._first)
            self._on_loop(self.requested.set)
        elif self.signals == 2:  # noqa: PLR2004 - the second of two
            _tell("stopping at once")
            end_within(STOP_SECONDS, INTERRUPTED)
            if self._work is not None:
                self._on_loop(self._work.cancel)
        else:
            os._exit(INTERRUPTED)

    def _on_loop(self, note: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: it is over anyway
            self._loop.call_soon_threadsafe(note)


def run_stoppable(work: Callable[[Stop], Coroutine[Any, Any, int]], *, first: str) -> int:
    """Run a coroutine under both signals and return its exit code; 130 after a stop at once.

    Args:
        first: what is told at the first signal; empty tells nothing.
    """
    runner = asyncio.Runner()
    code = INTERRUPTED
    stop = Stop(runner.get_loop(), first)
    before = {number: signal.signal(number, stop.on_signal) for number in SIGNALS}
    try:
        code = runner.run(stop.watch(work))
    except asyncio.CancelledError:
        if not stop.signals:
            raise
    finally:
        # What swallows its cancellation, or a thread of the executor that never ends, would hold the loop's end.
        bound = end_within(STOP_SECONDS, code)
        runner.close()
        bound.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
    return code


def end_within(seconds: float, code: int) -> threading.Timer:
    """End the process with this code after so many seconds, unless the timer is cancelled or the process has ended."""

    def end() -> None:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


def _tell(text: str) -> None:
    """From within a signal handler: a write that takes no lock."""
    if text:
        with contextlib.suppress(OSError):
            os.write(2, f"{text}\n".encode())
