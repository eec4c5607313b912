"""Work at a provider, started under a tenure and known by the provider's name for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from tenure.protocol.settings import Policy
from tenure.protocol.state import Locator
from tenure.protocol.vocabulary import WorkKind
from tenure.runtime.jobs.base import Job, Outcome, outside

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
STOP_SECONDS = 10.0

Reply = Literal["accepted", "refused", "not_supported", "unknown", "ended"]
"""What is known of a request to end remote work. Only ``ended`` says that it has: its status has shown it."""


class RemoteJob(Job):
    """Asks for the status of something that runs elsewhere, until that is an end.

    A request to stop it is delivered when the provider has taken it, and is no end: only a status is.

    Args:
        provider, reference: where it runs, and its name there. status: how it ended; ``None`` while it goes on, or
            cannot be told. stop: asks for its end, and says what became of the request; ``None`` where it cannot be
            asked.
    """

    kind = WorkKind.REMOTE

    def __init__(
        self,
        provider: str,
        reference: str,
        *,
        status: Callable[[], Awaitable[Outcome | None]],
        stop: Callable[[], Awaitable[Reply]] | None,
        work_id: str,
        name: str,
        policy: Policy,
    ) -> None:
        super().__init__(work_id=work_id, name=name, policy=policy)
        self.locator = Locator(provider=provider, reference=reference)
        self._status = status
        self._stop = stop
        self._tasks: set[asyncio.Task[Any]] = set()
        self._moved = asyncio.Event()

    def survivors(self) -> tuple[str, ...]:
        """Its name at the provider, while it was not seen to end."""
        return () if self.outcome or self.locator is None else (f"{self.locator.provider} {self.locator.reference}",)

    async def ask(self) -> Reply:
        """Ask the provider to end it, and look at once what has come of it."""
        reply: Reply = "not_supported"
        if self.outcome is None and self._stop is not None:
            reply = await self._request(self._stop)
        if self.outcome is None:
            await self._look()
        return reply if self.outcome is None else "ended"

    async def _start(self) -> None:
        self._keep(self._watch())

    def _deliver(self) -> None:
        if self._stop is not None:
            self._keep(self._request(self._stop))

    def _deliver_again(self) -> None:
        self._deliver()

    def _keep(self, work: Any) -> None:
        # Asked for from a handler's code, the request is still not the handler's own.
        task = self.loop.create_task(work, context=outside())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _request(self, stop: Callable[[], Awaitable[Reply]]) -> Reply:
        """Send the request. Whatever was raised, it is not known to have arrived."""
        reply: Reply = "unknown"
        try:
            async with asyncio.timeout(STOP_SECONDS):
                reply = await stop()
        except (Exception, SystemExit):  # noqa: BLE001 - see above
            reply = "unknown"
        finally:
            self._moved.set()
        self.delivered = self.delivered or reply == "accepted"
        return reply

    async def _look(self) -> None:
        """Ask for its status once. One that cannot be had is none."""
        try:
            outcome = await self._status()
        except (Exception, SystemExit):  # noqa: BLE001 - see above
            return
        if outcome is not None:
            self._seen(outcome)

    async def _watch(self) -> None:
        pause = FIRST_PAUSE
        while True:
            await self._look()
            if self.outcome is not None:
                return
            try:
                async with asyncio.timeout(pause):
                    await self._moved.wait()
                self._moved.clear()
                pause = FIRST_PAUSE
            except TimeoutError:
                pause = min(pause * 2, LONGEST_PAUSE)
