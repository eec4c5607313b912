"""Counts what was accepted in a tree from its events alone, and compares it with every limit and stored counter."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from tenure.ledger import Ledger, Recorded
from tenure.protocol import events as ev
from tenure.protocol.settings import Limits, Settings
from tenure.protocol.state import Task, Tree

LIMITS = frozenset({"depth", "tree", "agents", "delegations", "turn", "transfers"})
"""Names of the limits: of a tree, then of a task, of a turn, and again of a task."""


class Counted(Struct, kw_only=True):
    """What one task has used.

    Attributes:
        turn: delegations of the turn that goes on. decided: id of the transfer that a turn has decided.
        moved: the tenure has made its transfer.
    """

    settings: Settings
    depth: int
    transfers: int = 0
    delegations: int = 0
    turn: int = 0
    decided: str = ""
    moved: bool = False


class Tally:
    """Takes the records of one tree in order of the feed.

    Attributes:
        problems: one sentence per limit that was overshot, and per counter that is another one.
        reached: names of limits that were used up to the last.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.reached: set[str] = set()
        self.tasks: dict[str, Counted] = {}
        self.opened = 0
        self.running = 0
        self._limits = Limits()

    def take(self, records: Iterable[Recorded]) -> None:
        """Count."""
        for record in records:
            event = record.event
            if isinstance(event, ev.TaskSubmitted):
                self._submitted(event)
            elif isinstance(event, ev.TaskCompleted | ev.TaskFailed | ev.TaskCancelled):
                self.running -= 1
            else:
                self._of_task(record.task_id, self.tasks[record.task_id], event)

    def _within(self, task_id: str, name: str, count: int, limit: int) -> None:
        if count > limit:
            self.problems.append(f"{task_id}: {name} is {count}, the limit is {limit}")
        if count == limit:
            self.reached.add(name)

    def _submitted(self, event: ev.TaskSubmitted) -> None:
        task_id, parent = event.task_id, self.tasks.get(event.parent)
        if parent is None:
            self._limits = event.limits
        else:
            self.opened += 1
            left = parent.settings.transfers - parent.transfers
            if event.settings.transfers > left or event.depth != parent.depth + 1:
                self.problems.append(f"{task_id}: it has not inherited depth and budgets")
        self.running += 1
        self._within(task_id, "depth", event.depth, self._limits.depth)
        self._within(task_id, "tree", self.opened, self._limits.delegations)
        self._within(task_id, "agents", self.running, self._limits.agents)
        self.tasks[task_id] = Counted(settings=event.settings, depth=event.depth)

    def _of_task(self, task_id: str, counted: Counted, event: ev.Event) -> None:
        settings = counted.settings
        if isinstance(event, ev.TenureGranted):
            counted.turn, counted.decided, counted.moved = 0, "", False
        elif isinstance(event, ev.Advanced | ev.TurnDecided):
            counted.turn = 0
            if isinstance(event, ev.TurnDecided):
                self._decided(task_id, counted, event)
        elif isinstance(event, ev.DelegationOpened):
            counted.delegations += 1
            counted.turn += 1
            self._within(task_id, "delegations", counted.delegations, settings.delegations)
            self._within(task_id, "turn", counted.turn, settings.turn_delegations)
            self._nothing_decided(task_id, counted)
        elif isinstance(event, ev.HandoffInitiated):
            counted.transfers += 1
            self._within(task_id, "transfers", counted.transfers, settings.transfers)
            if counted.moved or counted.decided not in ("", event.handoff_id):
                self.problems.append(f"{task_id}: {event.handoff_id} is a second transfer of one tenure")
            counted.moved = True

    def _decided(self, task_id: str, counted: Counted, event: ev.TurnDecided) -> None:
        self._nothing_decided(task_id, counted)
        counted.decided = event.pending.handoff_id if event.pending else ""

    def _nothing_decided(self, task_id: str, counted: Counted) -> None:
        if counted.decided or counted.moved:
            self.problems.append(f"{task_id}: something began after its transfer was decided")

    def compare(self, tree: Tree | None, tasks: Iterable[Task]) -> None:
        """Compare with the stored counters."""
        stored = (tree.tasks, tree.delegations, tree.unfinished) if tree else ()
        if stored != (self.opened + 1, self.opened, self.running):
            self.problems.append(f"the tree says {stored}, its events {self.opened} and {self.running}")
        for task in tasks:
            counted = self.tasks.pop(task.task_id)
            said = (task.transfers, task.delegated, task.tenure.delegated if task.tenure else counted.turn)
            if said != (counted.transfers, counted.delegations, counted.turn):
                self.problems.append(f"{task.task_id}: its state says {said}, its events {counted}")
        self.problems += [f"{task_id}: it is in the events only" for task_id in self.tasks]


async def tally(ledger: Ledger, root_id: str) -> Tally:
    """Count a tree."""
    found = Tally()
    found.take(record for record in await ledger.events(limit=1_000_000) if record.root_id == root_id)
    rows = await ledger.tasks(root_id=root_id, limit=1_000_000)
    found.compare(await ledger.tree(root_id), [row.task for row in rows])
    return found
