"""One request under one key: the calls of a provider for it, and the truth about it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tenure.protocol.body import text_digest
from tenure.runtime import provider as pv
from tenure.runtime.ids import new_id
from tenure.testing.providers.bench import HANGING, Bench, Fault, NotOffered, Struck
from tenure.testing.providers.truth import Truth, contradiction, doubtful, happened, shown

OFFERED: Mapping[str, Callable[[pv.Provider], bool]] = {
    "idempotent": lambda provider: provider.idempotent_for > 0,
    "queryable": lambda provider: pv.can(provider, "lookup"),
    "sealable": lambda provider: pv.can(provider, "seal"),
    "cancellable": lambda provider: pv.can(provider, "cancel"),
    "reversible": lambda provider: pv.can(provider, "compensate"),
    "undo idempotent": lambda provider: pv.can(provider, "compensate") and provider.undo_idempotent_for > 0,
    "undo queryable": lambda provider: pv.can(provider, "lookup_compensation"),
}
"""What a provider can offer, and how it declares it."""

POLL = 0.01


class Case:
    """One request under a key of its own. Every call goes to a fresh provider: what it knows, the system must know."""

    def __init__(self, bench: Bench, *needs: str, n: int = 1, refused: bool = False) -> None:
        """Make a case.

        Args:
            bench: the system. needs: capabilities without which there is nothing to probe.
            n: which of the bench's requests. refused: one that the system refuses.

        Raises:
            NotOffered: the provider does not offer what is needed.
        """
        declared = bench.provider()
        for capability in needs:
            if not OFFERED[capability](declared):
                raise NotOffered(f"not offered: {capability}")
        self.bench = bench
        self.request = bench.refused(n) if refused else bench.request(n)
        self.key = text_digest(new_id("k"))
        self.undo_key = text_digest(new_id("k"))
        self.reference = ""
        self.undo_reference = ""

    # --- calls ----------------------------------------------------------------------------------------------------

    async def apply(self, request: Any = None) -> object:
        """Call ``apply`` under the key; give its answer or what it raised."""
        wanted = self.request if request is None else request
        said = await self.limited(self.bench.provider().apply(wanted, key=self.key))
        if isinstance(said, pv.Confirmed | pv.Accepted) and request is None:
            self.reference = str(said.reference)
        return said

    async def lookup(self) -> object:
        """What became of it."""
        return await self._optional("lookup", self.key)

    async def seal(self) -> object:
        """See to it that nothing with the key can land any more."""
        return await self._optional("seal", self.key)

    async def cancel(self) -> object:
        """Ask for its end."""
        return await self._optional("cancel", self.key)

    async def compensate(self) -> object:
        """Undo it under the key of its undoing."""
        said = await self._optional("compensate", self.undo_key)
        if isinstance(said, pv.Confirmed | pv.Accepted):
            self.undo_reference = str(said.reference)
        return said

    async def lookup_compensation(self) -> object:
        """What became of the undoing."""
        return await self._optional("lookup_compensation", self.undo_key)

    async def _optional(self, method: str, key: str) -> object:
        provider = self.bench.provider()
        known = {"reference": self.reference, "undo_reference": self.undo_reference}
        more = {name: value for name, value in known.items() if pv.takes(provider, method, name)}
        return await self.limited(getattr(provider, method)(self.request, key=key, **more))

    async def limited(self, call: Awaitable[pv.Answer]) -> object:
        """Wait for an answer as long as a patient caller would; whatever is raised is what was said."""
        try:
            async with asyncio.timeout(self.bench.patience):
                return await call
        except (Exception, SystemExit) as error:  # noqa: BLE001 - what is raised is what was said
            return error

    async def done(self) -> object:
        """Apply it and, when that is a job, let it end. It must be done then.

        Returns:
            What ``apply`` has answered.
        """
        said = await self.apply()
        assert happened(said), f"A request that the system grants was answered {shown(said)}."
        if isinstance(said, pv.Accepted):
            await self.bench.finish(self.request, self.key)
        truth = await self.settled()
        assert truth == Truth(1), f"Applied once and finished; the truth: {truth}."
        return said

    # --- faults ---------------------------------------------------------------------------------------------------

    async def under(self, fault: Fault, *calls: Callable[[], Awaitable[object]]) -> list[object]:
        """Make calls under a fault, one after the other; the fault lasts until all are answered or given up.

        Returns:
            What each answered or raised; an error for one that nobody waited for any longer.
        """
        async with self.bench.fault(fault) as struck:
            said = [await (self._given_up(call, struck) if fault in HANGING else call()) for call in calls]
        assert struck.times, f"The fault {fault!r} of the bench has met no request: nothing was probed."
        return said

    async def _given_up(self, call: Callable[[], Awaitable[object]], struck: Struck) -> object:
        """Wait until the fault has met the call or it is answered, then a little longer, then no more."""
        met = asyncio.ensure_future(struck.beyond(struck.times))
        task = asyncio.ensure_future(call())
        try:
            await asyncio.wait({task, met}, timeout=self.bench.patience, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait({task}, timeout=self.bench.gives_up_after)
        finally:
            met.cancel()
        return await self.ended(task)

    async def ended(self, task: asyncio.Future[object]) -> object:
        """Cancel a call, and give what it then said."""
        task.cancel()
        await asyncio.wait({task}, timeout=self.bench.patience)
        assert task.done(), "The call goes on although it was cancelled."
        return asyncio.CancelledError("nobody waits for it") if task.cancelled() else task.result()

    # --- the truth ------------------------------------------------------------------------------------------------

    async def now(self, request: Any = None) -> Truth:
        """What is true at this moment."""
        wanted = self.request if request is None else request
        return Truth(await self.bench.acts(wanted, self.key), await self.bench.running(wanted, self.key))

    async def settled(self) -> Truth:
        """What is true when nothing is on its way any more."""
        await self.bench.quiet()
        return await self.now()

    async def undone(self) -> int:
        """How often it was undone, when nothing is on its way any more."""
        await self.bench.quiet()
        return await self.bench.undone(self.request, self.key)

    async def judge(self, *said: object) -> Truth:
        """Compare what was said with what is true when nothing is on its way any more.

        Raises:
            AssertionError: something untrue was said.
        """
        truth = await self.settled()
        for each in said:
            assert not (found := contradiction(each, truth)), found
        return truth

    async def judge_repeats(self, *said: object) -> Truth:
        """The same, of calls with one key: that one was not sent says nothing about the others."""
        return await self.judge(*[each for each in said if not isinstance(each, pv.NotSent)])

    async def judge_undoing(self, *said: object) -> int:
        """The same, of what was said about its undoing."""
        undone = await self.undone()
        for each in said:
            found = contradiction(each, Truth(undone))
            assert not found or isinstance(each, pv.Accepted), f"Of the undoing: {found}"
        return undone

    def cannot_tell(self, said: object, *, undoing: bool = False) -> bool:
        """Whether a look-up that works by the reference says honestly that it has none.

        ``NotFound`` would not be honest: of a sender that has died, the ledger takes it for absent in the end.
        """
        method, name = ("lookup_compensation", "undo_reference") if undoing else ("lookup", "reference")
        blind = pv.takes(self.bench.provider(), method, name) and not getattr(self, name)
        return blind and doubtful(said) and not isinstance(said, pv.NotFound)

    async def found(self, look: Callable[[], Awaitable[object]]) -> object:
        """Look until it finds what was done, at most as long as the bench says that this takes."""
        return await looked(look, happened, self.bench.visible_in)


async def looked(look: Callable[[], Awaitable[object]], wanted: Callable[[object], bool], within: float) -> object:
    """Look again and again, until the answer is one that is wanted or the seconds are over; give the last answer."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    said = await look()
    while not wanted(said) and loop.time() < deadline:
        await asyncio.sleep(POLL)
        said = await look()
    return said


def same_reference(said: object, reference: str) -> bool:
    """Whether an answer that says that it happened names it as before."""
    return isinstance(said, pv.Confirmed | pv.Accepted) and str(said.reference) == reference
