"""Reading the ledger on behalf of a tenure: patiently while it may act, so that a blink of the ledger is no failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from tenure.errors import Unavailable
from tenure.ledger import Ledger, Message
from tenure.protocol.body import Body
from tenure.protocol.outside import Effect
from tenure.protocol.state import Task
from tenure.runtime.ids import jitter

if TYPE_CHECKING:
    from tenure.runtime.hold import Hold

T = TypeVar("T")

PAUSE = 0.05


class Books:
    """What a tenure reads. Each method is the ledger's of that name.

    Raises:
        Fenced: the tenure was lost, or its time ran out while the ledger did not answer.
        Unavailable: ``ledger_closed``.
    """

    def __init__(self, hold: Hold) -> None:
        """Made by the hold."""
        self._hold = hold

    async def task(self, task_id: str) -> Task | None:
        """See :meth:`tenure.ledger.Ledger.task`."""
        return await self._read(lambda ledger: ledger.task(task_id))

    async def effects(self, task_id: str, *, open_only: bool = False) -> list[Effect]:
        """See :meth:`tenure.ledger.Ledger.effects`."""
        return await self._read(lambda ledger: ledger.effects(task_id, open_only=open_only))

    async def messages(self, task_id: str, *, after: int = 0, limit: int = 100) -> list[Message]:
        """See :meth:`tenure.ledger.Ledger.messages`."""
        return await self._read(lambda ledger: ledger.messages(task_id, after=after, limit=limit))

    async def body(self, root_id: str, digest: str) -> Body | None:
        """See :meth:`tenure.ledger.Ledger.body`."""
        return await self._read(lambda ledger: ledger.body(root_id, digest))

    async def wait(self, position: int, timeout: float) -> int:
        """See :meth:`tenure.ledger.Ledger.wait`."""
        return await self._read(lambda ledger: ledger.wait(position, timeout))

    async def _read(self, ask: Callable[[Ledger], Awaitable[T]]) -> T:
        while True:
            try:
                return await ask(self._hold.ledger)
            except Unavailable as error:
                if error.next_action == "stop":
                    raise
            self._hold.check()
            await asyncio.sleep(jitter(PAUSE))


Reader = Ledger | Books
"""Either reads."""
