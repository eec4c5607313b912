"""What should have happened: the recorded writes of each ticket, each applied exactly once.

Used to check the service after a run, whatever was killed, lost or delayed on the way. Works on two kinds of input:
the folder of the tau2 retail tickets (`load_tau2`) and the tickets of this example (`load_tickets`).

    python examples/retail/expected.py PATH-OF-THE-TAU2-FOLDER
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

if __name__ == "__main__":  # run as a file: the repository is what the package is found from
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.retail.rules import OPERATIONS, Applied, Books, Changes, Record, apply, digest

TRANSFER_TO_PERSON = "transfer_to_human_agents"


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One recorded decision: who made it, which tool it calls, and with what."""

    tool: str
    arguments: dict[str, Any]
    agent: str = ""

    @property
    def writes(self) -> bool:
        """Whether the call changes the books when the rules allow it."""
        return self.tool in OPERATIONS


class Ticket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One customer's request with the decisions that stand in place of a model."""

    ticket: str
    request: str
    conversation: str
    decisions: tuple[Call, ...]

    @property
    def writes(self) -> tuple[Call, ...]:
        """The recorded writes, in order."""
        return tuple(call for call in self.decisions if call.writes)

    @property
    def ends_with_person(self) -> bool:
        """Whether the record hands the customer to a person."""
        return any(call.tool == TRANSFER_TO_PERSON for call in self.decisions)


@dataclass(frozen=True)
class Expected:
    """The end state of one ticket, and which of its writes were applied or refused on the way."""

    changes: Changes
    applied: tuple[Call, ...]
    refused: tuple[tuple[Call, str], ...]
    """Each refused write with the reason."""


@dataclass
class _Ledger:
    """The books while the writes go over them: only what changed is held twice."""

    base: Books
    orders: dict[str, Record] = field(default_factory=dict)
    users: dict[str, Record] = field(default_factory=dict)

    def books(self) -> Books:
        return Books(self.base.products, {**self.base.users, **self.users}, {**self.base.orders, **self.orders})

    def changes(self) -> Changes:
        return Changes(differing(self.orders, self.base.orders), differing(self.users, self.base.users))


def load_data(path: Path) -> Books:
    """Read a data file: ``{"products": {…}, "users": {…}, "orders": {…}}``."""
    data = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, Record]])
    return Books(data["products"], data["users"], data["orders"])


def load_tickets(path: Path) -> list[Ticket]:
    """Read tickets of this example: one JSON object per line."""
    return [msgspec.json.decode(line, type=Ticket) for line in path.read_bytes().splitlines() if line.strip()]


def load_tau2(folder: Path) -> tuple[Books, list[Ticket]]:
    """Read the benchmark's folder (``db.json``, ``tasks.json``): the books and the tickets in file order.

    A ticket is named by its ``id``; the ids of its recorded actions are not used, some carry another ticket's number.
    """
    tasks = msgspec.json.decode((folder / "tasks.json").read_bytes(), type=list[dict[str, Any]])
    return load_data(folder / "db.json"), [_tau2_ticket(task) for task in tasks]


def _tau2_ticket(task: Mapping[str, Any]) -> Ticket:
    actions = task["evaluation_criteria"]["actions"]
    calls = tuple(Call(tool=action["name"], arguments=action["arguments"]) for action in actions)
    request = task["user_scenario"]["instructions"]["reason_for_call"]
    return Ticket(task["id"], request, f"tau2-{task['id']}", calls)


def expect(data: Books, writes: Iterable[Call]) -> Expected:
    """Apply `writes` to a copy of `data` in order, each exactly once, and say what that gives."""
    ledger = _Ledger(data)
    applied: list[Call] = []
    refused: list[tuple[Call, str]] = []
    for call in writes:
        outcome = apply(ledger.books(), call.tool, call.arguments)
        if isinstance(outcome, Applied):
            ledger.orders.update(outcome.orders)
            ledger.users.update(outcome.users)
            applied.append(call)
        else:
            refused.append((call, outcome.reason))
    return Expected(ledger.changes(), tuple(applied), tuple(refused))


def differing(records: Mapping[str, Record], base: Mapping[str, Record]) -> dict[str, Record]:
    """Return the records that are not equal to the ones of the same id in `base`."""
    return {name: record for name, record in records.items() if record != base.get(name)}


def compare(changes: Changes, expected: Changes) -> list[str]:
    """Return one line per difference between what changed and what should have; an empty list means equal."""
    lines = []
    for kind in ("orders", "users"):
        found, wanted = getattr(changes, kind), getattr(expected, kind)
        for name in sorted({*found, *wanted}):
            lines += _differences(f"{kind}/{name}", found.get(name), wanted.get(name))
    return lines


def _differences(where: str, found: Record | None, wanted: Record | None) -> list[str]:
    if found is None or wanted is None:
        return [] if found == wanted else [f"{where}: {'missing' if found is None else 'should not have changed'}"]
    names = sorted({*found, *wanted})
    return [
        f"{where}: {name} is {found.get(name)!r}, should be {wanted.get(name)!r}"
        for name in names
        if found.get(name) != wanted.get(name)
    ]


def duplicates(digests: Iterable[str], expected: Expected) -> int:
    """Count the applications of a namespace (the `digest` of each row of its log) beyond those that were expected."""
    found = Counter(digests)
    wanted = Counter(digest(call.tool, call.arguments) for call in expected.applied)
    return (found - wanted).total()


def summary(data: Books, tickets: Sequence[Ticket]) -> dict[str, Any]:
    """Count what the record holds and what applying it gives, each ticket on its own copy of the data."""
    results = {ticket.ticket: expect(data, ticket.writes) for ticket in tickets}
    refusals = [
        {"ticket": name, "tool": call.tool, "reason": reason}
        for name, result in results.items()
        for call, reason in result.refused
    ]
    return {
        "tickets": len(tickets),
        "actions": sum(len(ticket.decisions) for ticket in tickets),
        "writes": sum(len(ticket.writes) for ticket in tickets),
        "applied": sum(len(result.applied) for result in results.values()),
        "refused": len(refusals),
        "end_with_person": sum(ticket.ends_with_person for ticket in tickets),
        "refusals": refusals,
    }


def main(arguments: Sequence[str]) -> int:
    """Print the summary of a tau2 folder as JSON."""
    if len(arguments) != 1 or not (Path(arguments[0]) / "tasks.json").is_file():
        print("usage: expected.py FOLDER   (a folder that holds tasks.json and db.json)", file=sys.stderr)
        return 2
    print(json.dumps(summary(*load_tau2(Path(arguments[0]))), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
