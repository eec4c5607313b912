"""Who waits for the feed to grow. Announcements come from any thread; each waiter is woken on its own event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable


class Wakeups:
    """Waiters of one ledger. Keeps nothing of a waiter that has gone: no timer, no task, no thread."""

    def __init__(self) -> None:
        self.newest = 0
        self.closed = False
        self._waiting: dict[asyncio.AbstractEventLoop, set[asyncio.Future[None]]] = {}

    @property
    def awaited(self) -> bool:
        """Whether anybody waits now."""
        return bool(self._waiting)

    async def wait(self, position: int, timeout: float, listed: Callable[[], None] = lambda: None) -> int:
        """Return the newest position once it is above ``position``, or after ``timeout`` seconds, or at the close.

        ``listed`` is called before the first pause, when :attr:`awaited` is true already.
        """
        loop = asyncio.get_running_loop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._above(position, loop, listed)
        return self.newest

    def announce(self, newest: int) -> None:
        """Tell every waiter of a commit."""
        self.newest = max(self.newest, newest)
        self._wake_all()

    def close(self) -> None:
        """Let every waiter go."""
        self.closed = True
        self._wake_all()

    async def _above(self, position: int, loop: asyncio.AbstractEventLoop, listed: Callable[[], None]) -> None:
        waiters = self._waiting.setdefault(loop, set())
        future = loop.create_future()
        waiters.add(future)
        listed()
        try:
            # An announcer sets `newest` and then looks for waiters; a waiter is listed and then looks at `newest`.
            while self.newest <= position and not self.closed:
                await future
                waiters.discard(future)
                future = loop.create_future()
                waiters.add(future)
        finally:
            waiters.discard(future)
            if not waiters:
                self._waiting.pop(loop, None)

    def _wake_all(self) -> None:
        for loop in list(self._waiting):
            with contextlib.suppress(RuntimeError):  # that loop is closed, and so nobody waits there any more
                loop.call_soon_threadsafe(self._wake, loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        for future in self._waiting.get(loop, ()):
            if not future.done():
                future.set_result(None)
