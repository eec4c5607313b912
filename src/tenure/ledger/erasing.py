"""Which bodies go when a task is erased."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.errors import Refused
from tenure.ledger.bodies import bodies_in
from tenure.protocol.events import decode_event
from tenure.protocol.state import Task


def check_erasable(task: Task | None, task_id: str) -> None:
    """Refuse to erase what is still needed.

    Raises:
        Refused: ``unknown_task``; ``wrong_phase`` while the task has not ended.
    """
    if task is None:
        raise Refused("unknown_task", task_id)
    if not task.phase.ended:
        raise Refused("wrong_phase", f"It is {task.phase}; only an ended task can be erased.")


def digests_of(events: Iterable[bytes]) -> set[str]:
    """Digests of all bodies that stored events refer to."""
    return {digest for event in events for digest in bodies_in(decode_event(event))}
