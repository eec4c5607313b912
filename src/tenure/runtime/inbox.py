"""Live input of a tenure: shown in order, marked as seen before it is shown, consumed by the commit of its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from tenure.errors import Refused
from tenure.protocol import commands as cmd
from tenure.protocol.state import Task
from tenure.runtime.hold import Hold
from tenure.runtime.ids import new_id

POLL = 0.5


class Message(Struct, frozen=True, kw_only=True):
    """One message.

    Attributes:
        n: its number in the task. text or data: in ``value``; ``None`` once it was erased.
        question_id: of the question that it answers, or empty.
        redelivered: an earlier tenure was shown it and did not consume it.
    """

    n: int
    value: Any
    sender: str
    question_id: str = ""
    redelivered: bool = False


class Inbox:
    """What a tenure has been shown, and what it has consumed."""

    def __init__(self, hold: Hold, task: Task) -> None:
        """Start after what earlier tenures consumed."""
        self._hold = hold
        self.consumed = task.consumed
        self._seen_before = task.seen
        self.shown = task.consumed
        self._lock = asyncio.Lock()
        self._routes: set[Route] = set()

    @property
    def routes(self) -> frozenset[Route]:
        """Open routes."""
        return frozenset(self._routes)

    async def receive(self, timeout: float | None = None) -> Message | None:
        """The next message, in order; ``None`` when none came within ``timeout`` seconds or the tenure retires.

        Raises:
            Fenced: the tenure was lost.
        """
        loop = asyncio.get_running_loop()
        give_up = None if timeout is None else loop.time() + timeout
        async with self._lock:
            while not self._hold.closing:
                position = await self._hold.books.wait(0, 0)
                found = await self._hold.books.messages(self._hold.task_id, after=self.shown, limit=1)
                if found:
                    message = found[0]
                    await self._hold.say(cmd.See, upto=max(message.n, self._seen_before))
                    self.shown = message.n
                    return Message(
                        n=message.n,
                        value=message.body.value() if message.body else None,
                        sender=message.sender,
                        question_id=message.question_id,
                        redelivered=message.n <= self._seen_before,
                    )
                left = POLL if give_up is None else min(POLL, give_up - loop.time())
                if left <= 0:
                    return None
                await self._hold.books.wait(position, left)
            self._hold.check()
            await asyncio.sleep(0)  # whoever asks again and again can still be cancelled in between
        return None

    def route(self, name: str) -> Route:
        """A subscription that is part of the tenure."""
        return Route(self._hold, self, name)

    async def close_routes(self) -> None:
        """Stop intake. What was not consumed stays unread and goes on."""
        for route in list(self._routes):
            await route.stop()

    def opened(self, route: Route) -> None:
        """Note an open route."""
        self._routes.add(route)

    def closed(self, route: Route) -> None:
        """Note a closed one."""
        self._routes.discard(route)


class Route:
    """A subscription: ``async with own.route() as route: async for message in route``."""

    def __init__(self, hold: Hold, inbox: Inbox, name: str) -> None:
        """Not open yet."""
        self.route_id = f"{name}:{new_id('r')}"
        self._hold = hold
        self._inbox = inbox
        self._stopped = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Open it, in the ledger first."""
        self._hold.check_open()
        await self._hold.say(cmd.OpenRoute, route_id=self.route_id)
        self._inbox.opened(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; a tenure that lost its authority has no route left to close."""
        await self.stop()
        self._inbox.closed(self)
        if not self._hold.closing:
            try:
                await self._hold.say(cmd.CloseRoute, route_id=self.route_id)
            except Refused as refusal:
                if refusal.code != "unknown_work":
                    raise

    async def stop(self) -> None:
        """Take no more input; an iteration that waits ends."""
        self._stopped.set()

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Messages in order, until the tenure retires."""
        while not self._stopped.is_set() and not self._hold.closing:
            message = await self._inbox.receive(timeout=POLL)
            if message is not None:
                yield message
