"""A simulated outside system and the way to it, with providers that tell the truth about it.

Nothing waits for a time: a request is a task that travels some steps of the loop, and goes on when its caller is gone.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tenure import Accepted, Cancelled, Confirmed, Declined, Inconclusive, NotFound, NotSent, Provider, Sealed
from tenure.testing.providers import Bench, Fault, Struck

LIMIT = 1000
HOUR = 3600.0


class ServerError(Exception):
    """An answer of the kind 5xx."""


@dataclass
class Order:
    """One deed: done at once, or a job that is ``running`` until it is ``done`` or ``cancelled``."""

    key: str
    request: Any
    reference: str
    state: str
    undone: int = 0


@dataclass
class System:
    """Orders by keys. ``dedupes``: a repeated key is answered from the record. ``jobs``: an order takes its time."""

    dedupes: bool = False
    undo_dedupes: bool = False
    jobs: bool = False
    orders: list[Order] = field(default_factory=list)
    sealed: set[str] = field(default_factory=set)
    undos: dict[str, str] = field(default_factory=dict)
    under_way: set[str] = field(default_factory=set)
    fault: Fault | None = None
    struck: Struck | None = None
    released: asyncio.Event = field(default_factory=asyncio.Event)
    flying: set[asyncio.Task[None]] = field(default_factory=set)

    # --- the way --------------------------------------------------------------------------------------------------

    async def call(self, handle: Callable[[], Any], *, acts: bool = True) -> Any:
        """Send a request and wait for its answer. Whoever stops waiting does not stop the request."""
        fault = self.fault if acts else None
        await asyncio.sleep(0)
        if fault is Fault.UNREACHABLE:
            self.strike()
            raise ConnectionRefusedError
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._deliver(handle, fault, answer))
        self.flying.add(task)
        task.add_done_callback(self.flying.discard)
        return await asyncio.shield(answer)

    async def _deliver(self, handle: Callable[[], Any], fault: Fault | None, answer: asyncio.Future[Any]) -> None:
        await asyncio.sleep(0)
        if fault not in (None, Fault.DEAF):
            self.strike()
        if fault is Fault.HELD_UP:
            await self.released.wait()
        said = handle()
        if fault is Fault.TWICE:
            said = handle()
        await asyncio.sleep(0)
        if fault is Fault.SLOW_ANSWER:
            await self.released.wait()
        if answer.done():
            return
        match fault:
            case Fault.LOST_ANSWER:
                answer.set_exception(ConnectionResetError())
            case Fault.ERROR_AFTER:
                answer.set_exception(ServerError(503))
            case _:
                answer.set_result(said)
        answer.exception()  # nobody need be there to hear it

    def strike(self) -> None:
        assert self.struck is not None
        self.struck.strike()

    async def arrived(self) -> None:
        """Wait until nothing is on its way."""
        while self.flying:
            await asyncio.wait(set(self.flying))

    # --- the system -----------------------------------------------------------------------------------------------

    def order(self, key: str, request: Any) -> Order | str:
        """Do it; or say ``refused``, ``sealed`` or ``conflict``."""
        if request["cents"] > LIMIT:
            return "refused"
        if key in self.sealed:
            return "sealed"
        known = self.find(key)
        if self.dedupes and known is not None:
            return known if known.request == request else "conflict"
        made = Order(key, request, f"r-{len(self.orders) + 1}", "running" if self.jobs else "done")
        self.orders.append(made)
        return made

    def find(self, key: str) -> Order | None:
        return next((order for order in self.orders if order.key == key), None)

    def seal(self, key: str) -> Order | None:
        """Let nothing with this key in any more, unless it is there."""
        known = self.find(key)
        if known is None:
            self.sealed.add(key)
        return known

    def cancel(self, key: str) -> Order | None:
        """Take note of a cancellation, and heed it unless deaf."""
        known = self.find(key)
        if self.fault is Fault.DEAF:
            self.strike()
        elif known is not None and known.state == "running":
            known.state = "cancelled"
        return known

    def undo(self, key: str, reference: str) -> str:
        """Undo an order under a key of its own; give the reference of the undoing."""
        if self.undo_dedupes and key in self.undos:
            return self.undos[key]
        (order,) = [each for each in self.orders if each.reference == reference]
        order.undone += 1
        self.undos[key] = f"u-{len(self.undos) + 1}"
        return self.undos[key]


class SimBench(Bench):
    """The system on a bench, with providers of one kind."""

    gives_up_after = 0.0
    patience = 5.0

    def __init__(self, kind: Callable[[System], Provider], system: System) -> None:
        self.kind = kind
        self.system = system

    def provider(self) -> Provider:
        return self.kind(self.system)

    def request(self, n: int) -> Any:
        return {"cents": n}

    def refused(self, n: int) -> Any:
        return {"cents": LIMIT + n}

    async def acts(self, request: Any, key: str) -> int:
        return self._count(request, key, "done")

    async def running(self, request: Any, key: str) -> int:
        return self._count(request, key, "running")

    def _count(self, request: Any, key: str, state: str) -> int:
        found = [order for order in self.system.orders if (order.key, order.request) == (key, request)]
        return [order.state for order in found].count(state)

    async def finish(self, request: Any, key: str) -> None:
        for order in self.system.orders:
            if (order.key, order.state) == (key, "running"):
                order.state = "done"

    async def undone(self, request: Any, key: str) -> int:
        return sum(order.undone for order in self.system.orders if order.key == key)

    async def quiet(self) -> None:
        await self.system.arrived()

    @asynccontextmanager
    async def fault(self, fault: Fault) -> AsyncIterator[Struck]:
        self.system.fault, self.system.struck, self.system.released = fault, Struck(), asyncio.Event()
        try:
            yield self.system.struck
        finally:
            self.system.fault = None
            self.system.released.set()
            await self.system.arrived()


class Plain(Provider):
    """It can only call."""

    name = "shop"

    def __init__(self, system: System) -> None:
        self.system = system

    async def send(self, handle: Callable[[], Any]) -> Any:
        try:
            return await self.system.call(handle)
        except ConnectionRefusedError as error:
            raise NotSent("the connection was refused") from error

    async def apply(self, request: Any, *, key: str) -> Any:
        return self.answer(await self.send(lambda: self.system.order(key, request)))

    def answer(self, said: Order | str) -> Any:
        match said:
            case "refused":
                return Declined("above the limit")
            case Order(reference=reference, state="done"):
                return Confirmed(reference=reference)
            case Order(reference=reference, state="cancelled"):
                return Cancelled(reference)
            case Order(reference=reference):
                return Accepted(reference)
            case _:
                return Inconclusive(str(said))


class Keyed(Plain):
    idempotent_for = HOUR


class Looking(Plain):
    async def lookup(self, request: Any, *, key: str) -> Any:
        found = await self.system.call(lambda: self.system.find(key), acts=False)
        return NotFound() if found is None else self.answer(found)


class LookingByReference(Plain):
    """It has no record of keys: without the reference it cannot tell."""

    async def lookup(self, request: Any, *, key: str, reference: str) -> Any:
        if not reference:
            return Inconclusive("the reference is not known")
        orders = self.system.orders
        found = await self.system.call(lambda: next((o for o in orders if o.reference == reference), None), acts=False)
        return Inconclusive("no such reference") if found is None else self.answer(found)


class Sealing(Plain):
    async def seal(self, request: Any, *, key: str) -> Any:
        found = await self.system.call(lambda: self.system.seal(key), acts=False)
        return Sealed() if found is None else self.answer(found)


class Cancelling(Looking):
    async def cancel(self, request: Any, *, key: str) -> Any:
        """That it was taken note of is no end; that its state is ``cancelled`` is one."""
        found = await self.system.call(lambda: self.system.cancel(key), acts=False)
        return Inconclusive("no such job") if found is None else self.answer(found)


class Undoing(Plain):
    async def compensate(self, request: Any, *, key: str, reference: str) -> Any:
        return Confirmed(reference=await self.send(lambda: self.system.undo(key, reference)))


class UndoingKeyed(Undoing):
    undo_idempotent_for = HOUR

    async def lookup_compensation(self, request: Any, *, key: str) -> Any:
        found = await self.system.call(lambda: self.system.undos.get(key), acts=False)
        return NotFound() if found is None else Confirmed(reference=found)


class UndoingByReference(Undoing):
    """Its look-up knows an undoing by its reference only."""

    async def lookup_compensation(self, request: Any, *, key: str, undo_reference: str) -> Any:
        done = await self.system.call(lambda: undo_reference in self.system.undos.values(), acts=False)
        return Confirmed(reference=undo_reference) if done else Inconclusive("the reference is not known")


class Everything(Keyed, Sealing, Cancelling, UndoingKeyed):
    """All at once."""
