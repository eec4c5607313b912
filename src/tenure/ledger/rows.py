"""From what a backend has stored to what the interface answers; shared by the backends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenure.errors import Fenced, Refused
from tenure.ledger.api import Beat, Beaten, Instance, Recorded, Refusal, TaskRow
from tenure.ledger.commit import Held
from tenure.protocol.decide import decide_heartbeat
from tenure.protocol.events import decode_event
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import Phase


def recorded(row: Sequence[Any]) -> Recorded:
    """An event's row (see :data:`tenure.ledger.commit.EventRow`) as a record."""
    position, root_id, task_id, seq, epoch, digest, event = row
    return Recorded(
        position=position,
        root_id=root_id,
        task_id=task_id,
        seq=seq,
        epoch=epoch,
        event=decode_event(event),
        digest=digest.hex(),
    )


def task_row(task: Task, position: int, lease_until: int, due_at: int | None, now: int) -> TaskRow:
    """A task in a list, with how long its deadline has passed by ``now``."""
    overdue = 0 if due_at is None else max(0, now - due_at)
    return TaskRow(task=task, position=position, overdue_ms=overdue, lease_until=lease_until)


def beat(held: Held | None, heartbeat: Beat, now: int) -> Beaten:
    """What a heartbeat leads to: a new end of the lease, or the code of its error."""
    try:
        until = decide_heartbeat(held.task if held else None, heartbeat.epoch, heartbeat.instance, now)
    except (Fenced, Refused) as error:
        return Beaten(task_id=heartbeat.task_id, epoch=heartbeat.epoch, error=error.code)
    task = held.task if held else None
    return Beaten(
        task_id=heartbeat.task_id,
        epoch=heartbeat.epoch,
        lease_until=until,
        cancel=task is not None and task.phase is Phase.CANCEL_REQUESTED,
        asked=bool(task and task.tenure and task.tenure.asked_at),
        received=task.received if task else 0,
    )


def beat_refusal(heartbeat: Beat, answer: Beaten, root_id: str, now: int, position: int = 0) -> Refusal:
    """The audit's note of a heartbeat that was fenced or met no task."""
    return Refusal(
        position=position,
        at=now,
        root_id=root_id,
        task_id=heartbeat.task_id,
        command_id="",
        command="heartbeat",
        family="fenced" if answer.error == "stale_epoch" else "refused",
        code=answer.error,
        detail="",
        epoch=heartbeat.epoch,
        instance=heartbeat.instance,
    )


def erasure(task_id: str, root_id: str, count: int, by: str, reason: str, now: int, position: int = 0) -> Refusal:
    """The audit's note of an erasure."""
    return Refusal(
        position=position,
        at=now,
        root_id=root_id,
        task_id=task_id,
        command_id="",
        command="erase",
        family="erased",
        code="erased",
        detail=f"{count} bodies. {reason}".strip(),
        epoch=0,
        instance=by,
    )


def name_taken(other: Instance, now: int) -> Refused:
    """The error for a name that a live instance has."""
    silent = other.seen_at + other.lease_ms + 1 - now
    detail = (
        f"{other.name} is {other.instance_id} on {other.host} (pid {other.pid}); free after {silent} ms of silence."
    )
    return Refused("worker_name_taken", detail, instance_id=other.instance_id, free_in_ms=silent)


def unknown_body(root_id: str, digest: str) -> Refused:
    """The error for a body that the ledger never had."""
    return Refused("invalid", f"The tree {root_id!r} never had a body {digest!r}.")
