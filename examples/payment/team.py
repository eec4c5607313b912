"""A team that pays, and a bank that pays and loses its answer. ``docs/tutorial/open-payment.md`` tells it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tenure import Complete, Confirmed, Done, InDoubt, NotFound, Provider, Team, Tenure, Transfer

BOOK, OPEN = Path("bank-book.txt"), Path("bank-is-open")
"""What the bank has done, a line for each call; and whether anybody there answers questions."""


class Bank(Provider):
    """It pays at once. Its answer does not arrive, and until it opens it cannot be asked."""

    name = "bank"

    async def apply(self, request: Any, *, key: str) -> Confirmed:
        """Pay, and lose the answer."""
        await asyncio.to_thread(_book, f"{key} {request['cents']}\n")
        raise TimeoutError("no answer within 30 s")

    async def lookup(self, request: Any, *, key: str) -> Confirmed | NotFound:
        """What the book says of a key, once somebody is there to read it."""
        del request
        lines = await asyncio.to_thread(_read)
        found = any(line.startswith(key) for line in lines)
        return Confirmed(reference=f"booking-{key[:6]}") if found else NotFound()


def _book(line: str) -> None:
    with BOOK.open("a", encoding="utf-8") as book:
        book.write(line)


def _read() -> list[str]:
    if not OPEN.exists():
        raise ConnectionError("503, try again later")
    return BOOK.read_text(encoding="utf-8").splitlines() if BOOK.exists() else []


bank = Bank()
team = Team("shop", ledger="sqlite:///tenure.db", providers=[bank])


async def pay(own: Tenure[Any], note: str) -> str:
    """Pay what the invoice says, and say in a word what is known of it afterwards."""
    request = {"cents": own.input["cents"], "note": note}
    outcome = await own.effect(bank, request, key=own.input["invoice"], compare=("cents",), patience=0)
    match outcome:
        case Done():
            return "paid"
        case InDoubt(answerable=who):
            return f"in doubt, {who} answers for it"
        case _:
            return "not paid"


@team.agent(entry=True, may_transfer={"billing": "billing answers for payments from here on"})
async def triage(own: Tenure[dict[str, Any]]) -> Transfer[dict[str, Any]]:
    """Pay and hand over, whatever is known of the payment."""
    known = await pay(own, "Invoice of May, with thanks")
    return Transfer("billing", own.input, summary=f"The invoice is {known}.", trigger="stage_done")


@team.agent
async def billing(own: Tenure[dict[str, Any]]) -> Complete[dict[str, Any]]:
    """See what is open, and try everything that could pay twice."""
    open_effects = [[fact.what, fact.outcome] for fact in own.in_flight.effects]
    again = await pay(own, "Invoice of May, with thanks")
    reworded = await pay(own, "our debt, second try, URGENT")
    delegated = await own.delegate("assistant", own.input, goal="Pay the invoice")
    return Complete({"open": open_effects, "again": again, "reworded": reworded, "delegated": delegated.value})


@team.agent
async def assistant(own: Tenure[dict[str, Any]]) -> Complete[str]:
    """Pay, in a task of its own."""
    return Complete(await pay(own, "for my colleague"))
