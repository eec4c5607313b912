"""The providers of the matrix: one for each thing that an outside system may offer against a doubt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from tenure import Accepted, Cancelled, Confirmed, Declined, Inconclusive, NotFound, Provider, Sealed
from tenure.runtime.provider import Answer
from tenure.testing.crashes.outside import FOREVER, Message, Outside, Reply, Rules
from tenure.testing.crashes.points import IN_FLIGHT_MS, Line

JOB_MS = 150
SHORT_MS = 500


class Plain(Provider):
    """Can do it, and nothing else: what became of a call is for a person to find out."""

    name = "outside"

    def __init__(self, line: Line) -> None:
        """The outside system is at the other end of the line."""
        self.line = line

    async def apply(self, request: Any, *, key: str) -> Answer:
        """Do it."""
        return answer_of(await self.ask("apply", request, key))

    async def ask(self, method: str, request: Any, key: str, reference: str = "") -> Reply:
        """Make one request."""
        return await self.line.ask(Message(method, key, request["order"], reference))


class Idempotent(Plain):
    """Answers a repeated key from its record, also that of an undoing."""

    idempotent_for = 3600
    undo_idempotent_for = 3600
    in_flight_limit = IN_FLIGHT_MS / 1000

    async def compensate(self, request: Any, *, key: str, reference: str) -> Answer:
        """Undo the act of that name."""
        return undone_of(await self.ask("compensate", request, key, reference))


class Forgetful(Plain):
    """Answers a repeated key from its record for a moment only, which is over before anybody takes over."""

    idempotent_for = SHORT_MS / 1000
    in_flight_limit = IN_FLIGHT_MS / 1000


class Looked(Plain):
    """Can be asked what became of a key; a repeated one acts again."""

    in_flight_limit = IN_FLIGHT_MS / 1000

    async def lookup(self, request: Any, *, key: str) -> Answer:
        """Ask."""
        return answer_of(await self.ask("lookup", request, key))


class Jobs(Plain):
    """Takes jobs on, which act when they end; each can be asked for, and cancelled while it runs."""

    in_flight_limit = IN_FLIGHT_MS / 1000

    async def lookup(self, request: Any, *, key: str, reference: str) -> Answer:
        """Ask for a job by its id, or by the key if that was lost."""
        return answer_of(await self.ask("lookup", request, key, reference))

    async def cancel(self, request: Any, *, key: str, reference: str) -> Answer:
        """Cancel it, and see whether that came in time. One that is not there may still be on its way."""
        reply = await self.ask("cancel", request, key, reference)
        return Inconclusive("no such job so far") if reply.kind == "nothing" else answer_of(reply)


class Undoable(Looked):
    """Can be asked, and can undo what it did."""

    async def compensate(self, request: Any, *, key: str, reference: str) -> Answer:
        """Undo the act of that name."""
        return undone_of(await self.ask("compensate", request, key, reference))

    async def lookup_compensation(self, request: Any, *, key: str) -> Answer:
        """Ask what became of the undoing."""
        return answer_of(await self.ask("lookup_compensation", request, key))


class Transaction(Plain):
    """The act and a row with its key are one transaction; a tombstone in the row's place keeps it from happening."""

    in_flight_limit = IN_FLIGHT_MS / 1000

    async def lookup(self, request: Any, *, key: str) -> Answer:
        """Ask."""
        return answer_of(await self.ask("lookup", request, key))

    async def seal(self, request: Any, *, key: str) -> Answer:
        """Put the tombstone there, unless it is done."""
        return answer_of(await self.ask("seal", request, key))


def answer_of(reply: Reply) -> Answer:
    """A reply as evidence."""
    match reply.kind:
        case "done":
            return Confirmed(reference=reply.reference)
        case "accepted":
            return Accepted(reply.reference)
        case "refused":
            return Declined("the key is sealed")
        case "cancelled":
            return Cancelled(reply.reference)
        case "sealed":
            return Sealed()
        case "nothing":
            return NotFound()
        case _:
            return Inconclusive(reply.kind)


def undone_of(reply: Reply) -> Answer:
    """The reply to an undoing as evidence."""
    return Declined("no such act") if reply.kind == "nothing" else answer_of(reply)


class Strategy(Struct, frozen=True, kw_only=True):
    """A kind of provider and the rules of the system behind it."""

    name: str
    provider: Callable[[Line], Plain]
    rules: Rules

    def system(self, folder: Path) -> Outside:
        """The system in a folder."""
        return Outside(folder / "outside.db", self.rules)

    @property
    def words(self) -> str:
        """What it can do, in a sentence."""
        return " ".join((self.provider.__doc__ or "").split())


STRATEGIES = {
    each.name: each
    for each in (
        Strategy(name="idempotent", provider=Idempotent, rules=Rules(window_ms=3_600_000)),
        Strategy(name="forgetful", provider=Forgetful, rules=Rules(window_ms=SHORT_MS)),
        Strategy(name="look-up", provider=Looked, rules=Rules()),
        Strategy(name="job", provider=Jobs, rules=Rules(job_ms=JOB_MS)),
        Strategy(name="compensation", provider=Undoable, rules=Rules()),
        Strategy(name="transaction", provider=Transaction, rules=Rules(window_ms=FOREVER, tombstones=True)),
        Strategy(name="none", provider=Plain, rules=Rules()),
    )
}
