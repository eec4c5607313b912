"""States that the writer has decoded or written, kept so that the next command need not decode them again.

They are what stands in the file for exactly as long as SQLite's own page cache is: until another connection commits
(``PRAGMA data_version``, read under the write lock, changes) or until what was written here is undone.
https://www.sqlite.org/pragma.html#pragma_data_version
"""

from __future__ import annotations

from typing import TypeVar

from tenure.ledger.commit import Held, Plan
from tenure.protocol.state import Tree

T = TypeVar("T")

MOST = 1_000
"""Tasks, and trees, that are remembered at most: those that came last."""


class Remembered:
    """Unfinished tasks and trees by id, and instances that have not ended. Whoever uses it holds the write lock."""

    def __init__(self) -> None:
        self.tasks: dict[str, Held] = {}
        self.trees: dict[str, Tree] = {}
        self.alive: set[str] = set()

    def task(self, held: Held) -> None:
        """Remember a task that was read or written; one that has ended is hardly asked for again."""
        _keep(self.tasks, held.task.task_id, held, ended=held.task.phase.ended)

    def tree(self, tree: Tree) -> None:
        """Remember a tree that was read or written."""
        _keep(self.trees, tree.root_id, tree, ended=not tree.unfinished)

    def plan(self, plan: Plan) -> None:
        """Remember what a plan makes of its tasks and its tree."""
        for change in plan.tasks:
            self.task(Held(change.task, change.lease_until, change.head))
        if plan.tree is not None:
            self.tree(plan.tree)

    def forget(self) -> None:
        """Forget everything."""
        self.tasks.clear()
        self.trees.clear()
        self.alive.clear()


def _keep(known: dict[str, T], key: str, value: T, *, ended: bool) -> None:
    known.pop(key, None)
    if not ended:
        known[key] = value
        if len(known) > MOST:
            del known[next(iter(known))]
