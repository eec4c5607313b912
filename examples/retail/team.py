"""The retail team: a triage agent and three specialists who change orders, returns and accounts at a shop's service.

    tenure run examples/retail/team.py --input examples/retail/tickets.jsonl

What a model would decide is recorded in each ticket, in order; everything else is what a real team would do. Reads
are made by whoever has the ticket. A write is made by the specialist who answers for it, as an effect at the service:
once, whatever is killed, lost or late on the way. A ticket that needs two specialists goes from the first straight to
the second: going back through triage would add a handoff and no decision.

The service is a process of its own. The team starts it beside the ledger and stops it again, unless ``RETAIL_URL``
names one that runs already: then several workers can share it. A second run on the same ledger finds the tickets'
tasks and the shop's books as the first one left them, and changes neither.

========================  =============================================================================
environment               meaning
========================  =============================================================================
``RETAIL_URL``            the service to use, instead of starting one
``RETAIL_TIMEOUT``        seconds that a worker waits for each step of a request; 5 by default
``RETAIL_LEASE``          seconds that a worker may act without a heartbeat; 15 by default
========================  =============================================================================
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from examples.retail.client import NotFound, NotSent, OutcomeUnknown, RetailClient, RetailError
from examples.retail.expected import TRANSFER_TO_PERSON, Call, Ticket
from examples.retail.provider import Retail, Write
from examples.retail.service.launch import launch
from tenure import Complete, Done, Escalate, Held, InDoubt, Refused, Settings, Team, Tenure, Transfer, Wait

DATA = Path(__file__).with_name("data.json")
SHOP = "shop"
"""The namespace of the service on which this example's own tickets work, all of them on the same books."""

READ_ATTEMPTS = 5
"""Times that a read is sent, over some 3 s plus its time-outs, before the ticket waits for a better moment."""

LATER = 1.0
"""Seconds that a ticket waits, owned by its agent but without a lease, until the service may be well again."""

PATIENCE = 10.0
"""Seconds that a write is looked into before the ticket waits for a better moment to go on with that."""

DOUBTS_BEFORE_A_PERSON = 100
"""Times that a write is looked into, `PATIENCE` each, before a person is asked what became of it."""

WATCH_EVERY = 0.5

team = Team(
    "retail",
    ledger="sqlite:///tenure.db",
    graph=Path(__file__).with_name("team.toml"),
    settings=Settings(
        lease_ms=int(float(os.environ.get("RETAIL_LEASE", "15")) * 1000),
        # A worker that is lost is no reason to bother a person: its ticket starts again, its effects answer from the
        # record. Only a ticket that loses every worker it is given for hours is one to look at.
        takeovers=1000,
    ),
)
retail = Retail()

SPECIALISTS = {name: node.tools for name, node in team.graph.agents.items() if node.tools}
"""Who answers for which write. It is their authority, too: the ledger refuses any other tool."""


class Case(msgspec.Struct, frozen=True):
    """What is handed from agent to agent: the ticket, its books, and how far the sender came.

    Attributes:
        ticket: its name. ns: the service's namespace that it works on. request: what the customer wants.
        decisions: recorded in place of a model's. at: number of the first one that was not made yet.
    """

    ticket: str
    ns: str
    request: str
    decisions: tuple[Call, ...]
    at: int = 0


class Progress(msgspec.Struct, frozen=True):
    """The task's state document, saved after each write: what a restarted handler relies on.

    Attributes:
        at: number of the first decision that was not made yet. doubts: how often the write there was not settled.
        refused: the writes that the service's rules forbade, with the reason.
    """

    at: int = 0
    doubts: int = 0
    refused: tuple[str, ...] = ()


Decided = Transfer[Case] | Complete[Progress] | Escalate | Wait


@team.agent
async def triage(own: Tenure[Case]) -> Decided:
    """Look the customer and the orders up, then hand the ticket to whoever answers for the first write."""
    # Not waited for and not needed to go on: it ends when the ticket is handed over, if not before.
    _ = own.spawn(catalogue(own.input.ns), policy="helper")
    return await go_on(own)


@team.agent
async def orders(own: Tenure[Case]) -> Decided:
    """Cancel and change what has not left yet."""
    return await watched(own)


@team.agent
async def returns(own: Tenure[Case]) -> Decided:
    """Take back and exchange what was delivered."""
    return await watched(own)


@team.agent
async def accounts(own: Tenure[Case]) -> Decided:
    """Change what the customer's account says."""
    return await watched(own)


async def watched(own: Tenure[Case]) -> Decided:
    """Go on with a ticket while a work in the background watches what the next write is about."""
    subject = next((call.arguments for call in own.input.decisions[own.input.at :] if call.writes), None)
    if subject is not None:
        _ = own.spawn(watch(own.input.ns, subject), policy="local", name="watch")
    return await go_on(own)


async def go_on(own: Tenure[Case]) -> Decided:
    """Make the recorded decisions, one after the other, as far as they are this agent's."""
    try:
        await retail.client.open_namespace(own.input.ns, attempts=READ_ATTEMPTS)
        return await _decisions(own)
    except (NotSent, OutcomeUnknown):
        return Wait(on="time", within=LATER)


async def _decisions(own: Tenure[Case]) -> Decided:
    case = own.input
    progress = msgspec.convert(own.state or {}, Progress)
    progress = msgspec.structs.replace(progress, at=max(progress.at, case.at))
    for number in range(progress.at, len(case.decisions)):
        call = case.decisions[number]
        if call.tool == TRANSFER_TO_PERSON:
            if not await answered(own):
                return ask_person(case, call)
        elif (other := specialist_for(call)) not in ("", own.agent):
            return hand_over(case, number, other, call)
        elif not call.writes:
            await read(case.ns, call)
        else:
            outcome = await write(own, number, call)
            if isinstance(outcome, Held):
                return outcome.wait
            if isinstance(outcome, InDoubt):
                return await in_doubt(own, number, progress, outcome)
            refused = (*progress.refused, f"{call.tool}: {outcome.reason}") if isinstance(outcome, Refused) else ()
            progress = Progress(at=number + 1, refused=refused or progress.refused)
            await own.save(progress)
    return Complete(progress)


def specialist_for(call: Call) -> str:
    """The specialist who makes this decision; empty when whoever has the ticket can."""
    if call.agent in SPECIALISTS:
        return call.agent
    return next((name for name, tools in SPECIALISTS.items() if call.tool in tools), "")


def hand_over(case: Case, number: int, specialist: str, call: Call) -> Transfer[Case]:
    """Transfer the ticket to the specialist, who starts with decision `number`."""
    return Transfer(
        specialist,
        msgspec.structs.replace(case, at=number),
        summary=f"{case.ticket}: the next step is {call.tool}.",
        trigger="classification",
    )


async def write(own: Tenure[Case], number: int, call: Call) -> Done | Refused | InDoubt | Held:
    """Make one write at the service, once. Its intent is this decision of this ticket, however often it is asked."""
    case = own.input
    wanted = Write(ns=case.ns, operation=call.tool, arguments=call.arguments)
    key = f"{case.ticket}/{number}"
    return await own.effect(retail, wanted, key=key, tool=call.tool, policy="external", patience=PATIENCE)


async def in_doubt(own: Tenure[Case], number: int, progress: Progress, outcome: InDoubt) -> Wait | Escalate:
    """Come back to a write that nothing has settled yet; after a long time, ask a person to look."""
    doubts = progress.doubts + 1
    await own.save(Progress(at=number, doubts=doubts, refused=progress.refused))
    if doubts % DOUBTS_BEFORE_A_PERSON:
        return Wait(on="time", within=LATER)
    call = own.input.decisions[number]
    return Escalate(
        question=f"{own.input.ticket}: was {call.tool} done? {outcome.reason}", evidence={"effect": outcome.effect_id}
    )


def ask_person(case: Case, call: Call) -> Escalate:
    """Give the ticket to a person, as the record does."""
    summary = str(call.arguments.get("summary", "The customer needs a person."))
    return Escalate(question=f"{case.ticket}: {summary}", evidence={"ticket": case.ticket, "request": case.request})


async def answered(own: Tenure[Case]) -> bool:
    """Whether the person has answered since: the answer comes as input."""
    while (message := await own.receive(timeout=0)) is not None:
        if message.question_id:
            return True
    return False


async def read(ns: str, call: Call) -> Any:
    """Make one read; ``None`` when there is no such thing, or when it is nothing that the service knows."""
    if call.tool == "calculate":
        return None  # the recorded model's own arithmetic
    try:
        return await retail.client.read(ns, call.tool, call.arguments, attempts=READ_ATTEMPTS)
    except NotFound:
        return None


async def catalogue(ns: str) -> int:
    """A helper's look-up: how many kinds of products there are, should the customer ask."""
    try:
        return len(await retail.client.read(ns, "list_all_product_types", {}))
    except RetailError:
        return 0  # nobody waits for it


async def watch(ns: str, subject: dict[str, Any]) -> None:
    """Read the record that a write is about again and again, until the tenure ends and this with it."""
    tool, name = ("get_order_details", "order_id") if "order_id" in subject else ("get_user_details", "user_id")
    while True:
        try:
            await retail.client.read(ns, tool, {name: subject[name]})
        except NotFound:
            return
        except RetailError:
            pass  # the next look may succeed
        await asyncio.sleep(WATCH_EVERY)


def task_of(line: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `Team.submit` for one line of a file of tickets: the ticket's name is the task's id.

    Raises:
        msgspec.ValidationError: the line is no ticket.
    """
    return task_for(msgspec.convert(line, Ticket), SHOP)


def task_for(ticket: Ticket, ns: str) -> dict[str, Any]:
    """The arguments of `Team.submit` for a ticket that works on one namespace of the service."""
    case = Case(ticket=ticket.ticket, ns=ns, request=ticket.request, decisions=ticket.decisions)
    return {
        "data": case,
        "goal": ticket.request,
        "task_id": ticket.ticket,
        "conversation": ticket.conversation,
    }


@team.lifespan
@asynccontextmanager
async def service() -> AsyncIterator[None]:
    """Connect to the service for as long as a worker runs; start it and stop it, unless there is one."""
    async with _service_url() as url:
        timeout = float(os.environ.get("RETAIL_TIMEOUT", "5"))
        # On a thread: it reads the system's certificates, whether it will need them or not.
        async with await asyncio.to_thread(RetailClient, url, timeout=timeout) as client:
            retail.connect(client)
            try:
                yield
            finally:
                retail.connect(None)


@asynccontextmanager
async def _service_url() -> AsyncIterator[str]:
    if url := os.environ.get("RETAIL_URL"):
        yield url
        return
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="retail-")
    try:
        running = await asyncio.to_thread(launch, DATA, books_beside(team.ledger.url, Path(folder)))
        try:
            yield running.url
        finally:
            await asyncio.to_thread(running.stop)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


def books_beside(ledger_url: str, otherwise: Path) -> Path:
    """Where the shop's database is kept: beside a ledger that is a file, so that both are old or both are new."""
    scheme, _, rest = ledger_url.partition(":///")
    if scheme != "sqlite":
        return otherwise / "retail.db"
    ledger = Path(rest)
    return ledger.with_name(f"{ledger.stem}.retail.db")
