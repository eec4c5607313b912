"""The rows of a batch's commands, which wait for its end: then each statement runs once for all of them."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from tenure.ledger.commit import EffectWrite, Plan, TaskWrite, effect_columns, encode_receipt, residual_of
from tenure.ledger.shelf import Conflict
from tenure.ledger.sqlite.statements import statements

Row = tuple[Any, ...]

encode = msgspec.json.Encoder().encode

GUARDED = ("change_task", "add_task", "change_effect", "add_effect")
"""Each row changes one row of the file, or none when it is not as it was read."""
UNGUARDED = (
    "add_event",
    "set_tree",
    "add_body",
    "add_input",
    "set_conversation",
    "close_offer",
    "open_offer",
    "drop",
    "hold",
    "add_command",
)
"""Rows that need no guard: whoever holds the task's revision is alone with them."""


class Waiting:
    """Plans that are not in the file yet, at most one of each tree: so no two of their rows are about the same thing.

    Whoever reads rows of a tree or a conversation that is here flushes first.

    Attributes:
        roots: the trees that have a plan here. conversations: those that shall point to another task.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self.roots: set[str] = set()
        self.conversations: set[str] = set()
        self._connection = connection
        self._many = connection.cursor().executemany
        self._sql = statements("write")
        self._rows: dict[str, list[Row]] = {name: [] for name in (*GUARDED, *UNGUARDED)}

    def add(self, plan: Plan) -> None:
        """Let a plan wait."""
        rows, root_id = self._rows, plan.root_id
        self.roots.add(root_id)
        for change in plan.tasks:
            self._task(change)
        for effect in plan.effects:
            self._effect(effect)
        rows["add_event"] += plan.events
        if plan.tree is not None:
            rows["set_tree"].append((root_id, encode(plan.tree)))
        for body in plan.bodies:
            rows["add_body"].append((root_id, body.digest, body.nonce, body.content))
        rows["add_input"] += plan.inputs
        if plan.conversation:
            self.conversations.add(plan.conversation)
            rows["set_conversation"].append((plan.conversation, root_id))
        for task_id in plan.closed:
            rows["close_offer"].append((root_id, task_id))
        rows["open_offer"] += plan.opened
        rows["drop"] += plan.dropped
        rows["hold"] += plan.held
        receipt = encode_receipt(plan.receipt)
        rows["add_command"].append((root_id, plan.command_id, plan.command_digest, receipt))

    def _task(self, change: TaskWrite) -> None:
        """A task's row, guarded by the revision that was read."""
        task = change.task
        state = (
            task.revision,
            task.phase,
            change.due_at,
            change.lease_until,
            residual_of(task),
            change.head,
            encode(task),
        )
        if change.before:
            self._rows["change_task"].append((*state, task.root_id, task.task_id, change.before))
        else:
            self._rows["add_task"].append((change.position, task.root_id, task.task_id, *state))

    def _effect(self, change: EffectWrite) -> None:
        """An effect's row, guarded by the version that was read."""
        effect, columns = change.effect, effect_columns(change.effect)
        if change.before:
            row = (*columns[4:], encode(effect), effect.root_id, effect.effect_id, change.before)
            self._rows["change_effect"].append(row)
        else:
            self._rows["add_effect"].append((change.position, *columns, encode(effect)))

    def flush(self) -> None:
        """Write everything that waits. Whoever catches an error of this ends the transaction.

        Raises:
            Conflict: a guard did not match. A key is unique, so each row changes one row at most: if the sum is
                right, every one of them is.
        """
        for name in GUARDED:
            rows = self._rows[name]
            if rows:
                before = self._connection.total_changes()
                self._many(self._sql[name], rows)
                if self._connection.total_changes() - before != len(rows):
                    raise Conflict
        for name in UNGUARDED:
            rows = self._rows[name]
            if rows:
                self._many(self._sql[name], rows)
        self.forget()

    def forget(self) -> None:
        """Let go of everything: it is written, or its transaction is undone."""
        self.roots.clear()
        self.conversations.clear()
        for rows in self._rows.values():
            rows.clear()
