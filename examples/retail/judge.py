"""What a run has come to, measured where it shows: at the service what was done, in the ledger what is claimed.

Nothing here takes the word of a worker. The service's own log says how often each write was applied; the rules, run
once over the recorded writes, say what should have come of it; the ledger must claim no settlement that the service
does not have, and its chain must verify.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from examples.retail.client import RetailClient
from examples.retail.expected import Ticket, compare, duplicates, expect
from examples.retail.rules import Books, Changes
from tenure.ledger import Ledger, Recorded, TaskRow, Verification
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import EffectState, HandoffState, OfferKind, Phase, WorkState

PAGE = 500


@dataclass(frozen=True)
class Work:
    """What was to be done: the books before, and which tickets work on which namespace of the service, in order."""

    data: Books
    tickets: dict[str, list[Ticket]]

    @property
    def all_tickets(self) -> list[Ticket]:
        """The tickets of all namespaces."""
        return [ticket for tickets in self.tickets.values() for ticket in tickets]


class AtService(msgspec.Struct, kw_only=True):
    """Measured at the service, and compared with the state that the recorded writes give, each applied once.

    Attributes:
        writes_attempted: writes with a record there, applied or refused, each key once.
        writes_applied: real changes of the books. duplicates: those beyond what was recorded.
        differences: one line per field that is not as it should be. state_equal: there is none.
        answers_lost, delayed: faults that it really committed.
        references: its names for what it applied.
    """

    writes_attempted: int = 0
    writes_applied: int = 0
    writes_refused: int = 0
    duplicates: int = 0
    differences: list[str] = []
    answers_lost: int = 0
    delayed: int = 0
    references: list[str] = []

    @property
    def state_equal(self) -> bool:
        """Whether each namespace is as it should be."""
        return not self.differences


class Story(msgspec.Struct):
    """What the events of all tasks tell, read one by one.

    Attributes:
        handoffs: transfers whose receiver came to own the task. takeovers: tenures that were lost and offered again.
        returned: hops that ended before the task did, by reason: a handler that raised, a receiver that never came.
        in_doubt: how often an outcome was not known. ownerless: provider calls of somebody who did not own the task.
    """

    handoffs: int = 0
    takeovers: int = 0
    returned: dict[str, int] = {}
    in_doubt: int = 0
    ownerless: list[str] = []
    offered: dict[str, OfferKind] = {}
    owners: dict[str, tuple[int, str]] = {}
    """Epoch and instance of each task's tenure, while it has one."""

    def add(self, entry: Recorded) -> None:
        """Take the next event in."""
        task_id = entry.task_id
        match entry.event:
            case ev.OfferIssued(kind=kind, attempt=attempt):
                self.offered[task_id] = kind
                self.takeovers += kind is OfferKind.TAKEOVER and attempt == 1
            case ev.TenureGranted(instance=instance):
                self.handoffs += self.offered[task_id] is OfferKind.TRANSFER
                if task_id in self.owners:
                    self.ownerless.append(f"{task_id}: {entry.seq} grants a second tenure beside one")
                self.owners[task_id] = (entry.epoch, instance)
            case ev.TenureEnded():
                del self.owners[task_id]
            case ev.HandoffEnded(state=HandoffState.FAILED_RETURNED | HandoffState.TIMED_OUT, reason=reason):
                self.returned[reason] = self.returned.get(reason, 0) + 1
            case ev.EffectObserved(state=EffectState.IN_DOUBT):
                self.in_doubt += 1
            case ev.EffectIntended(epoch=epoch, instance=instance) | ev.EffectAttempted(epoch=epoch, instance=instance):
                if self.owners.get(task_id) != (epoch, instance):
                    self.ownerless.append(f"{task_id}: {entry.seq} is a call of {instance} under epoch {epoch}")
            case _:
                pass


class InLedger(msgspec.Struct, kw_only=True):
    """Read from the ledger.

    Attributes:
        phases: number of tasks by phase. escalated: the tickets that wait for a person. unfinished: those that are
            neither ended nor with a person, or were never submitted.
        story: what the events tell. effects: number by state. references: the service's names of the confirmed ones.
        residual: works not seen to end, now. running: other open works. fenced: commands of owners that were none.
    """

    phases: dict[str, int]
    escalated: list[str]
    unfinished: list[str]
    story: Story
    effects: dict[str, int]
    references: list[str]
    residual: int
    running: int
    fenced: int
    verified: Verification


async def measure_service(client: RetailClient, work: Work, dump: Path | None = None) -> AtService:
    """Read the service's log and state; with `dump`, leave ``<ticket>.json`` there: orders and users that changed."""
    status = await client.status()
    counted: Mapping[str, int] = status["counted"]
    found = AtService(
        writes_attempted=status["applied"] + status["refused"],
        writes_applied=status["applications"],
        writes_refused=status["refused"],
        answers_lost=counted.get("fault.lose", 0),
        delayed=counted.get("fault.slow", 0) + counted.get("fault.late", 0),
    )
    for ns, tickets in work.tickets.items():
        expected = expect(work.data, [call for ticket in tickets for call in ticket.writes])
        changes, log = await client.changes(ns), await client.log(ns)
        found.differences += [f"{ns}: {line}" for line in compare(changes, expected.changes)]
        found.duplicates += duplicates((row.digest for row in log), expected)
        found.references += [(await client.lookup(ns, row.key)).reference or "" for row in log]
        if dump is not None:
            write_dump(dump, tickets, changes)
    return found


def write_dump(folder: Path, tickets: Sequence[Ticket], changes: Changes) -> None:
    """Leave ``<ticket>.json`` for each ticket of a namespace: what changed there, in the shape of the data file."""
    folder.mkdir(parents=True, exist_ok=True)
    content = msgspec.json.format(msgspec.json.encode(changes), indent=1)
    for ticket in tickets:
        (folder / f"{ticket.ticket}.json").write_bytes(content + b"\n")


async def measure_ledger(ledger: Ledger, work: Work) -> InLedger:
    """Read what the ledger claims, and verify it."""
    rows = [row async for row in all_tasks(ledger)]
    wanted = {ticket.ticket for ticket in work.all_tickets}
    resting = {row.task.task_id for row in rows if at_rest(row)}
    effects = [effect for row in rows for effect in await ledger.effects(row.task.task_id)]
    works = Counter(one.state is WorkState.RESIDUAL for row in rows for one in row.task.works)
    story = Story()
    async for entry in _all_events(ledger):
        story.add(entry)
    return InLedger(
        phases=dict(Counter(str(row.task.phase) for row in rows)),
        escalated=sorted(row.task.task_id for row in rows if row.task.phase is Phase.ESCALATED),
        unfinished=sorted(wanted - resting),
        story=story,
        effects=dict(Counter(str(effect.state) for effect in effects)),
        references=[effect.reference for effect in effects if effect.state is EffectState.CONFIRMED],
        residual=works[True],
        running=works[False],
        fenced=await _count_fenced(ledger),
        verified=await ledger.verify(),
    )


def at_rest(row: TaskRow) -> bool:
    """Whether a task has ended, or waits for a person."""
    return row.task.phase.ended or row.task.phase is Phase.ESCALATED


async def all_tasks(ledger: Ledger) -> AsyncIterator[TaskRow]:
    """Every task of the ledger, in order of submission."""
    position = 0
    while rows := await ledger.tasks(after=position, limit=PAGE):
        for row in rows:
            yield row
        position = rows[-1].position


async def _all_events(ledger: Ledger) -> AsyncIterator[Recorded]:
    position = 0
    while entries := await ledger.events(after=position, limit=PAGE):
        for entry in entries:
            yield entry
        position = entries[-1].position


async def _count_fenced(ledger: Ledger) -> int:
    fenced = position = 0
    while refusals := await ledger.refusals(after=position, limit=PAGE):
        fenced += sum(refusal.family == "fenced" for refusal in refusals)
        position = refusals[-1].position
    return fenced


def problems(work: Work, service: AtService, ledger: InLedger) -> list[str]:
    """Everything that is not as it must be, one sentence each; an empty list is a run without fault."""
    expected = [
        expect(work.data, [call for one in tickets for call in one.writes]) for tickets in work.tickets.values()
    ]
    applied, refused = sum(len(one.applied) for one in expected), sum(len(one.refused) for one in expected)
    persons = sorted(ticket.ticket for ticket in work.all_tickets if ticket.ends_with_person)
    completed = len(work.all_tickets) - len(persons)
    settled = {state: number for state, number in (("confirmed", applied), ("refused", refused)) if number}
    verified = ledger.verified
    checks: dict[str, tuple[Any, Any]] = {
        "writes applied at the service": (service.writes_applied, applied),
        "writes refused at the service": (service.writes_refused, refused),
        "duplicates at the service": (service.duplicates, 0),
        "differences from the expected state": (service.differences, []),
        "tickets lost or not at rest": (ledger.unfinished, []),
        "tickets with a person": (ledger.escalated, persons),
        "tickets completed": (ledger.phases.get("completed", 0), completed),
        "effects by state": (ledger.effects, settled),
        "references that the ledger claims and the service has": (
            sorted(ledger.references),
            sorted(service.references),
        ),
        "calls by somebody who did not own the task": (ledger.story.ownerless, []),
        "works not seen to end": (ledger.residual + ledger.running, 0),
        "chain": (verified.chain, "verified"),
        "replay": (verified.replay, "equal"),
        "file": (verified.file, "sound"),
        "findings of the verification": (verified.problems, ()),
    }
    return [f"{what}: {found!r}, should be {wanted!r}" for what, (found, wanted) in checks.items() if found != wanted]
