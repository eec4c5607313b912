"""What the author of a provider's tests gives: the provider, requests, and the truth about the outside system.

The suite believes nobody but the bench. So the bench counts at the system itself, in its database, in the simulated
service, in the mailbox; never by what the provider has answered.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, ClassVar, NoReturn, Self

import pytest

from tenure.runtime.provider import Provider


class Fault(StrEnum):
    """What may go wrong between a provider and its system, while a fault lasts."""

    LOST_ANSWER = "lost answer"
    """The system acts; then the connection ends without an answer."""
    SLOW_ANSWER = "slow answer"
    """The system acts; its answer is held back until the fault is over."""
    HELD_UP = "held up"
    """The request is held back on its way, and reaches the system when the fault is over."""
    TWICE = "delivered twice"
    """The system gets the same request twice."""
    ERROR_AFTER = "error after acting"
    """The system acts, and answers with an error of its own: a 5xx, or what its protocol has for that."""
    UNREACHABLE = "not reachable"
    """Nothing gets through: connections are refused."""
    DEAF = "deaf to cancellations"
    """A cancellation is taken note of and not heeded: the job goes on."""


FAULTS = tuple(fault for fault in Fault if fault is not Fault.DEAF)
"""Those that every provider can meet."""

HANGING = frozenset({Fault.SLOW_ANSWER, Fault.HELD_UP})
"""Those under which no answer comes while they last."""


class Struck:
    """Whether a fault has met a request. One that has met none has probed nothing.

    Attributes:
        times: number of requests that it has met.
    """

    def __init__(self) -> None:
        self.times = 0
        self._next = asyncio.Event()

    def strike(self) -> None:
        """Say that it has met a request."""
        self.times += 1
        self._next.set()
        self._next = asyncio.Event()

    async def beyond(self, times: int) -> None:
        """Wait until it has met more requests than these."""
        while self.times <= times:
            await self._next.wait()


class NotProbed(pytest.skip.Exception):  # type: ignore[name-defined, misc] # its public name; types cannot see it
    """A rule that cannot be probed on this bench, for a reason that its author declares."""


class NotOffered(NotProbed):
    """A rule of a capability that the provider does not offer."""


class Bench(ABC):
    """One outside system under test. It is opened for each rule, as an asynchronous context manager.

    Everything that a rule does goes under keys that no other rule has used, so a system may outlive its bench. Where
    the system has no keys, the bench must tell the requests of a rule from those of others.

    What it cannot do, it says in ``not_probed``, with the reason: by the name of a method (``refused``, ``undone``), by
    the value of a :class:`Fault`, or by ``faults`` for all of them. What it cannot do and gives no reason for, fails.

    The waits are real. Make ``gives_up_after`` longer than the provider's own time-out: what it says then is heard.

    Attributes:
        not_probed: reasons, by what cannot be done.
        patience: longest wait in seconds for an answer when nothing is wrong.
        gives_up_after: seconds for which a caller still waits when an answer is held back.
        settles_in: seconds after which nothing that was sent is on its way any more; see :meth:`quiet`.
        visible_in: seconds after which a look-up must find what was done; 0 when at once.
    """

    not_probed: ClassVar[Mapping[str, str]] = {}
    patience: float = 5
    gives_up_after: float = 0.1
    settles_in: float = 0.1
    visible_in: float = 0

    async def __aenter__(self) -> Self:
        """Start what the bench needs."""
        return self

    async def __aexit__(self, *raised: object) -> None:
        """End what the bench has started, and close the providers that it has made."""
        del raised

    @abstractmethod
    def provider(self) -> Provider:
        """Make a provider, as another process would: it shares nothing with those made before but the system."""

    @abstractmethod
    def request(self, n: int) -> Any:
        """Give a harmless request that the system will grant. Requests of different ``n`` differ."""

    @abstractmethod
    async def acts(self, request: Any, key: str) -> int:
        """Count how often the system really did this request, or anything under this key.

        A job counts when it has done what was asked; while it can still do it, it counts as :meth:`running` instead.
        """

    async def running(self, request: Any, key: str) -> int:
        """Count the jobs of this request that the system has taken on and that can still act."""
        del request, key
        return 0

    async def finish(self, request: Any, key: str) -> None:
        """Let the jobs of this request do what was asked, and wait for it. Until then they run, unless cancelled."""
        del request, key
        await self.quiet()

    async def undone(self, request: Any, key: str) -> int:
        """Count how often what was done under this key, that of ``apply``, was really undone."""
        del request, key
        self.cannot("undone")

    def refused(self, n: int) -> Any:
        """Give a request that the system refuses."""
        del n
        self.cannot("refused")

    def fault(self, fault: Fault) -> AbstractAsyncContextManager[Struck]:
        """Let every request that acts meet a fault, for as long as the context lasts.

        On leaving it everything is let go: answers and requests that were held back are delivered.
        """
        self.cannot(fault)

    async def quiet(self) -> None:
        """Wait until nothing that was sent is on its way any more."""
        await asyncio.sleep(self.settles_in)

    def cannot(self, what: str) -> NoReturn:
        """End the rule: this bench does not do it.

        Raises:
            NotProbed: a reason is declared.
            AssertionError: none is.
        """
        reason = self.not_probed.get(what, "")
        if not reason and what in set(Fault):
            reason = self.not_probed.get("faults", "")
        if reason:
            raise NotProbed(f"not probed, {what}: {reason}")
        raise AssertionError(f"The bench cannot do {what!r} and gives no reason: add it to `not_probed`.")
