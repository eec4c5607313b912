"""Verification of a ledger's file, on a connection of its own and from one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apsw

from tenure.ledger.api import Verification
from tenure.ledger.commit import Held
from tenure.ledger.sqlite.connection import open_reader, translate
from tenure.ledger.sqlite.statements import statements
from tenure.ledger.sqlite.store import decode_effect, decode_task, decode_tree
from tenure.ledger.verifying import Verifier
from tenure.protocol.body import Body


def verify_file(path: str, vfs: str = "", progress: Callable[[int, int], None] | None = None) -> Verification:
    """Check file, chain, replay and bodies of a ledger; ``progress`` as in :meth:`tenure.ledger.api.Ledger.verify`.

    Raises:
        Refused: ``corrupt_file`` when it cannot even be read to its end.
        Unavailable: the file cannot be used now.
    """
    connection = open_reader(path, vfs=vfs)
    try:
        connection.execute("BEGIN")
        return _Check(connection, progress).run()
    except apsw.Error as error:
        raise translate(error, path) from None
    finally:
        connection.close(force=True)


class _Check:
    def __init__(self, connection: apsw.Connection, progress: Callable[[int, int], None] | None) -> None:
        self._connection = connection
        self._sql = statements("verify")
        (events,) = next(self._rows("count_events"))
        self._verifier = Verifier(events, progress)

    def _rows(self, name: str, *values: Any) -> Iterator[Any]:
        return iter(self._connection.execute(self._sql[name], values))

    def run(self) -> Verification:
        damage = [text for (text,) in self._rows("integrity") if text != "ok"]
        tasks = sum(self._tree(root_id, state) for root_id, state in self._rows("trees"))
        (stored,) = next(self._rows("count_tasks"))
        if stored != tasks:
            self._verifier.stray(f"{stored - tasks} tasks belong to no tree.")
        return self._verifier.finding(file="damaged" if damage else "sound", damage=damage)

    def _tree(self, root_id: str, state: bytes) -> int:
        verifier, count = self._verifier, 0
        verifier.open_tree(root_id)
        for row, lease_until, head, due_at, revision, phase in self._rows("tasks_of_tree", root_id):
            task = decode_task(row)
            effects = [decode_effect(found) for (found,) in self._rows("effects_of_task", root_id, task.task_id)]
            verifier.task(
                Held(task, lease_until, head), due_at, self._rows("events_of_task", root_id, task.task_id), effects
            )
            if (revision, phase) != (task.revision, task.phase.value):
                verifier.stray(f"{task.task_id}: its row says revision {revision}, {phase}; its state does not.")
            count += 1
        bodies = (
            (digest, None if content is None else Body(content, nonce or ""))
            for digest, nonce, content in self._rows("bodies_of_tree", root_id)
        )
        verifier.close_tree(decode_tree(state), bodies)
        return count
