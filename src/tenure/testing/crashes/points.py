"""Where a fault strikes, and how: hooks in the line to the outside system and in the ledger, none in the library."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine, Sequence
from enum import StrEnum
from multiprocessing.connection import Connection
from typing import Any, TypeVar, cast

from tenure.errors import OutcomeUnknown
from tenure.ledger import Beat, Beaten, Ledger
from tenure.protocol import commands as cmd
from tenure.protocol.vocabulary import EffectState, Purpose
from tenure.runtime.clock import uptime_ms
from tenure.runtime.jobs import outside
from tenure.testing.crashes.outside import Message, Outside, Reply

T = TypeVar("T")

LATE_MS = 200
"""How long a request is on its way that is struck in mid-call."""

IN_FLIGHT_MS = 350
"""How long a request can be on its way, as the providers that know it say."""

GIVE_UP = 20.0
"""Seconds after which a struck process stops waiting for what is to happen to it; the cell is red then."""

POLL = 0.02


class Point(StrEnum):
    """A moment of a call. Those of an undoing are the same moments of a compensation."""

    BEFORE_INTENT = "before-intent"
    AFTER_INTENT = "after-intent"
    BEFORE_SEND = "before-send"
    MID_CALL = "mid-call"
    LOST_REQUEST = "lost-request"
    AFTER_ACT = "after-act"
    BEFORE_RECORD = "before-record"
    UNDO_BEFORE_INTENT = "undo-before-intent"
    UNDO_AFTER_INTENT = "undo-after-intent"
    UNDO_BEFORE_SEND = "undo-before-send"
    UNDO_MID_CALL = "undo-mid-call"
    UNDO_LOST_REQUEST = "undo-lost-request"
    UNDO_AFTER_ACT = "undo-after-act"
    UNDO_BEFORE_RECORD = "undo-before-record"

    @property
    def undoing(self) -> bool:
        """Whether it is a moment of a compensation."""
        return self.startswith(_UNDO)

    @property
    def undo(self) -> Point:
        """The same moment of a compensation."""
        return Point(f"{_UNDO}{self}")

    @property
    def words(self) -> str:
        """What the point means."""
        return _WORDS[Point(self.removeprefix(_UNDO))]


_UNDO = "undo-"

_WORDS = {
    Point.BEFORE_INTENT: "the intent is about to be committed",
    Point.AFTER_INTENT: "the intent is committed, the runtime has not begun the call",
    Point.BEFORE_SEND: "the provider is called, and nothing stops the request any more; it has not left",
    Point.MID_CALL: "the request has left and lands later",
    Point.LOST_REQUEST: "the request has left and never lands",
    Point.AFTER_ACT: "the provider has acted, its answer is not there yet",
    Point.BEFORE_RECORD: "the answer is there and not recorded",
}


class Fault(StrEnum):
    """What strikes."""

    KILL = "kill"
    LOST_ANSWER = "lost-answer"
    CANCEL = "cancel"
    HAND_OVER = "hand-over"
    REVERSE = "reverse"
    STALL = "stall"

    @property
    def words(self) -> str:
        """What the fault means."""
        return _FAULTS[self]


_FAULTS = {
    Fault.KILL: "SIGKILL",
    Fault.LOST_ANSWER: "the provider's answer is lost; at the ledger's points, the ledger's",
    Fault.CANCEL: "the task is cancelled",
    Fault.HAND_OVER: "the owner hands the task over while the call runs",
    Fault.REVERSE: "a person takes the task back; the old owner has not noticed and goes on",
    Fault.STALL: "SIGSTOP past the lease, SIGCONT when the next owner has done what it can",
}


class Striker:
    """Strikes once, in the first worker, when the cell's point is reached.

    What it tells the driver over ``wire``: ``struck``; then, if it waits, what made it go on: ``cancelled``,
    ``released``, or ``never`` when nothing did.
    """

    def __init__(self, point: Point, fault: Fault, wire: Connection) -> None:
        """On a running event loop."""
        self.point = point
        self.fault = fault
        self.struck = asyncio.Event()
        self.quiet = threading.Lock()
        self._wire = wire
        self._cancelled = asyncio.Event()
        self._released = asyncio.Event()
        self._under_way: set[asyncio.Task[Any]] = set()
        asyncio.get_running_loop().add_reader(wire.fileno(), self._hear)

    def _hear(self) -> None:
        asyncio.get_running_loop().remove_reader(self._wire.fileno())
        self._released.set()  # a word, or the end of the driver

    def due(self, point: Point) -> bool:
        """Whether the fault strikes at this point: the first time that it is reached."""
        return point is self.point and not self.struck.is_set()

    async def at(self, point: Point, lost: Exception) -> None:
        """Come to a point. Raises ``lost`` when it strikes there and is a lost answer."""
        if not self.due(point):
            return
        self.struck.set()
        self._wire.send("struck")
        match self.fault:
            case Fault.KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            case Fault.STALL:
                with self.quiet:  # a process that is frozen with the file's lock would stop everybody else too
                    os.kill(os.getpid(), signal.SIGSTOP)
            case Fault.LOST_ANSWER:
                raise lost
            case Fault.CANCEL | Fault.HAND_OVER:
                await self._go_on(self._cancelled, "cancelled")
            case Fault.REVERSE:
                with self.quiet:  # no heartbeat tells it what has happened meanwhile
                    await self._go_on(self._released, "released")

    async def _go_on(self, event: asyncio.Event, word: str) -> None:
        """Wait for what is to happen here, and say whether it did."""
        try:
            await asyncio.wait_for(event.wait(), GIVE_UP)
        except TimeoutError:
            word = "never"
        self._wire.send(word)

    async def unstoppable(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something that goes on when its caller is cancelled, like a thread or a request that has left."""
        task = asyncio.get_running_loop().create_task(work, context=outside())
        self._under_way.add(task)
        task.add_done_callback(self._over)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._cancelled.set()
            raise

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # whoever was there to see it has seen it

    async def at_rest(self) -> None:
        """Wait until everything unstoppable has ended."""
        while self._under_way:
            await asyncio.wait(set(self._under_way))


class Line:
    """The way to the outside system. Without a striker nothing happens on it."""

    def __init__(self, system: Outside, striker: Striker | None) -> None:
        """Many lines may lead to one system."""
        self.system = system
        self._striker = striker

    async def ask(self, message: Message) -> Reply:
        """Post a request and wait for its answer.

        Raises:
            TimeoutError: no answer came; nothing is known.
        """
        striker = self._striker
        if striker is None or message.method not in ("apply", "compensate"):
            return await self._call(message, uptime_ms())
        return await striker.unstoppable(self._struck(message, striker))

    async def _struck(self, message: Message, striker: Striker) -> Reply:
        lost = TimeoutError("the answer was lost")
        points = (Point.BEFORE_SEND, Point.MID_CALL, Point.LOST_REQUEST, Point.AFTER_ACT)
        if message.method == "compensate":
            points = (points[0].undo, points[1].undo, points[2].undo, points[3].undo)
        before_send, mid_call, lost_request, after_act = points
        await striker.at(before_send, lost)
        if striker.due(mid_call):
            number = await self._post(message, uptime_ms() + LATE_MS)
            await striker.at(mid_call, lost)
            return await self._answered(number)
        if striker.due(lost_request):
            await self._post(message, None)
            await striker.at(lost_request, lost)
            raise lost
        reply = await self._call(message, uptime_ms())
        await striker.at(after_act, lost)
        return reply

    async def _call(self, message: Message, lands_at: int) -> Reply:
        return await self._answered(await self._post(message, lands_at))

    async def _post(self, message: Message, lands_at: int | None) -> int:
        return await asyncio.to_thread(self.system.post, message, lands_at=lands_at)

    async def _answered(self, number: int) -> Reply:
        while True:  # between processes there is nothing but polling
            reply = await asyncio.to_thread(self.system.answer, number)
            if reply is not None:
                return reply
            await asyncio.sleep(POLL)


class StruckLedger:
    """A ledger at whose commands the fault may strike: before and after an intent, before an outcome."""

    def __init__(self, far: Ledger, striker: Striker) -> None:
        """Everything else goes through as it is."""
        self._far = far
        self._striker = striker

    @property
    def ledger(self) -> Ledger:
        """This, as what it stands for."""
        return cast("Ledger", self)

    async def execute(self, command: cmd.Command) -> cmd.Receipt:
        """As the ledger's. Like there, a command that was handed over is decided whatever becomes of the caller."""
        before, after = _points_of(command)
        if not any(point is not None and self._striker.due(point) for point in (before, after)):
            return await self._far.execute(command)
        return await self._striker.unstoppable(self._struck(command, before, after))

    async def _struck(self, command: cmd.Command, before: Point | None, after: Point | None) -> cmd.Receipt:
        lost = OutcomeUnknown("commit_unknown", "The ledger's answer was lost.")
        if before is not None:
            await self._striker.at(before, lost)
        receipt = await self._far.execute(command)
        if after is not None:
            await self._striker.at(after, lost)
        return receipt

    def heartbeat(self, beats: Sequence[Beat], instance_id: str = "") -> list[Beaten]:
        """As the ledger's, and never while the process is about to be frozen."""
        with self._striker.quiet:
            return self._far.heartbeat(beats, instance_id)

    def execute_blocking(self, command: cmd.Command) -> cmd.Receipt:
        """As the ledger's, and never while the process is about to be frozen."""
        with self._striker.quiet:
            return self._far.execute_blocking(command)

    def __getattr__(self, name: str) -> Any:
        """Whatever else a ledger does."""
        return getattr(self._far, name)


def _points_of(command: cmd.Command) -> tuple[Point | None, Point | None]:
    """The points before and after a command."""
    match command:
        case cmd.Intend():
            return Point.BEFORE_INTENT, Point.AFTER_INTENT
        case cmd.AttemptEffect(purpose=Purpose.COMPENSATE):
            return Point.UNDO_BEFORE_INTENT, Point.UNDO_AFTER_INTENT
        case cmd.RecordOutcome(state=EffectState.COMPENSATED | EffectState.COMPENSATION_FAILED):
            return Point.UNDO_BEFORE_RECORD, None
        case cmd.RecordOutcome(state=state) if state is not EffectState.IN_DOUBT:
            return Point.BEFORE_RECORD, None
        case _:
            return None, None
