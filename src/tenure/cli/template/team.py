"""A small team: triage looks at a request, billing pays it back.

Run it with ``tenure run team.py --input tasks.jsonl``, then look at what happened with ``tenure tasks``, ``tenure show
TASK`` and ``tenure verify``.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from msgspec import Struct

from tenure import (
    Complete,
    Confirmed,
    Done,
    Escalate,
    Held,
    InDoubt,
    NotFound,
    Provider,
    Refused,
    Team,
    Tenure,
    Transfer,
    Wait,
)

BOOKS = Path(__file__).parent / "refunds"
MOST = 10_000  # cents that are paid back without asking a person

team = Team("shop", ledger="sqlite:///tenure.db")


class Request(Struct):
    """What a customer wants."""

    order: str
    cents: int
    words: str


class RefundCase(Struct):
    """What billing needs to know."""

    order: str
    cents: int


class Refunds(Provider):
    """The outside system: a file for each refund, named by its idempotency key. Put your own system's calls here."""

    name = "refunds"
    idempotent_for = 86_400  # seconds for which a repeated key is answered from the record

    async def apply(self, request: Any, *, key: str) -> Confirmed:
        """Pay back, once for each key."""
        return await asyncio.to_thread(self._write, self._file(key), request)

    async def lookup(self, request: Any, *, key: str) -> Confirmed | NotFound:
        """Say what is on record under a key."""
        del request
        file = self._file(key)
        return Confirmed(reference=file.stem) if await asyncio.to_thread(file.exists) else NotFound()

    def _file(self, key: str) -> Path:
        return BOOKS / f"{key}.json"

    def _write(self, file: Path, request: Any) -> Confirmed:
        BOOKS.mkdir(exist_ok=True)
        try:
            with file.open("x") as book:
                json.dump(request, book)
        except FileExistsError:
            pass  # paid back before, under this key
        return Confirmed(reference=file.stem)


refunds = Refunds()


@team.agent(entry=True, may_transfer={"billing": "billing decides on refunds and answers for them"})
async def triage(own: Tenure[Request]) -> Transfer[RefundCase] | Complete[str]:
    """Hand what costs money to billing; answer the rest."""
    if not own.input.cents:
        return Complete("answered")
    return Transfer(
        "billing", RefundCase(own.input.order, own.input.cents), summary=own.input.words, trigger="classification"
    )


@team.agent
async def billing(own: Tenure[RefundCase]) -> Complete[str] | Escalate | Wait:
    """Pay back what is small, ask a person for the rest."""
    case = own.input
    if case.cents > MOST:
        answer = await own.receive(timeout=0)  # there is none before the question was put
        if answer is None:
            return Escalate(f"Pay back {case.cents} cents of order {case.order}?", allowed=("yes", "no"))
        if answer.value["choice"] == "no":
            return Complete("not paid back: a person said no")
    outcome = await own.effect(
        refunds, {"order": case.order, "cents": case.cents}, tool="refund", key=case.order, policy="external"
    )
    match outcome:
        case Done(reference=reference):
            return Complete(f"paid back: {reference}")
        case Refused(reason=reason):
            return Complete(f"not paid back: {reason}")
        case InDoubt():
            return Escalate(f"Was order {case.order} paid back?", evidence=outcome.reference)
        case Held():
            return outcome.wait  # only where the team's graph wants an approval for the tool


def task_of(line: dict[str, Any]) -> dict[str, Any]:
    """A line of the input as arguments of ``team.submit``. With a task id, a second run finds the same tasks."""
    return {
        "task_id": f"request-{line['request']}",
        "goal": line["words"],
        "data": Request(order=line["order"], cents=line["cents"], words=line["words"]),
    }
