"""A draft of one decision: events appended one by one, each evolved at once so that the next rule sees its result."""

from __future__ import annotations

from msgspec import Struct

from tenure.protocol.commands import Receipt
from tenure.protocol.events import Event
from tenure.protocol.evolve import evolve, evolve_effect, evolve_tree
from tenure.protocol.outside import Effect
from tenure.protocol.state import Books, Task, Tree
from tenure.protocol.turns import Ruling


class Change(Struct, frozen=True, gc=False):
    """One event and the task whose stream it belongs to, with that task's state after it."""

    task_id: str
    event: Event
    after: Task


class Verdict(Struct, frozen=True, kw_only=True):
    """What a command leads to.

    Attributes:
        changes: events in order; all of them are committed together.
        tasks: the touched tasks as they are afterwards, by id. effects: likewise.
        tree: the tree afterwards. receipt: the answer that is recorded with the command.
    """

    changes: tuple[Change, ...]
    tasks: dict[str, Task]
    effects: dict[str, Effect]
    tree: Tree | None
    receipt: Receipt


class Draft:
    """Mutable while one command is decided; never leaves :func:`tenure.protocol.decide.decide`."""

    def __init__(self, books: Books, now: int) -> None:
        """Start from loaded books. Time never runs backwards within a task."""
        self.books = books
        self.now = now
        for task in (books.task, books.parent):
            if task is not None and task.at > self.now:
                self.now = task.at
        self.tree = books.tree
        self.changes: list[Change] = []
        self._tasks = {task.task_id: task for task in (books.parent, books.task) if task}
        self._touched: dict[str, Task] = {}
        self._touched_effects: dict[str, Effect] = {}
        self.effects = {effect.effect_id: effect for effect in books.effects}
        self._main = books.task.task_id if books.task else ""

    @property
    def task(self) -> Task:
        """The task that the command names, as it is by now."""
        return self._tasks[self._main]

    def other(self, task_id: str) -> Task | None:
        """Another loaded task."""
        return self._tasks.get(task_id)

    def emit(self, event: Event, task_id: str = "") -> Task:
        """Append an event to a stream (the named task's by default) and evolve what it changes."""
        after = evolve(self._tasks.get(task_id or self._main), event)
        stream = after.task_id
        self._main = self._main or stream
        effect_id: str = getattr(event, "effect_id", "")
        if effect_id:
            changed = evolve_effect(self.effects.get(effect_id), event, after)
            if changed is not None:
                self.effects[effect_id] = self._touched_effects[effect_id] = changed
        self.tree = evolve_tree(self.tree, event)
        self._tasks[stream] = self._touched[stream] = after
        self.changes.append(Change(stream, event, after))
        return after

    def verdict(
        self,
        status: str = "done",
        *,
        blocked_by: tuple[str, ...] = (),
        effect: Effect | None = None,
        ruling: Ruling | None = None,
    ) -> Verdict:
        """Close the draft."""
        task = self.task
        receipt = Receipt(
            status=status,
            task_id=task.task_id,
            epoch=task.epoch,
            revision=task.revision,
            phase=task.phase,
            blocked_by=blocked_by,
            effect=effect,
            ruling=ruling,
        )
        return Verdict(
            changes=tuple(self.changes),
            tasks=self._touched,
            effects=self._touched_effects,
            tree=self.tree,
            receipt=receipt,
        )
