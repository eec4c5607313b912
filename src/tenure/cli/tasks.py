"""``tenure tasks``: what is on the books."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click
from msgspec import Struct

from tenure.cli.options import json_option, read_ledger_option, with_ledger
from tenure.cli.talk import emit, emit_json, say, seconds
from tenure.ledger import Ledger, TaskRow
from tenure.protocol.vocabulary import Phase, WorkState


class TaskLine(Struct, kw_only=True):
    """A task in the list. Times are milliseconds since the Unix epoch, by the ledger's clock.

    Attributes:
        overdue_ms: above zero when a deadline has passed and nobody has acted on it.
        open_effects: without settling evidence. running, residual: works that were not seen to end.
    """

    task_id: str
    phase: str
    owner: str
    answerable: str
    epoch: int
    overdue_ms: int
    open_effects: int
    running: int
    residual: int
    unread: int
    open_hops: int
    reason: str
    parent: str
    conversation: str
    created_at: int
    at: int
    position: int


_COLUMNS = ("task", "phase", "owner", "answerable", "overdue", "open effects", "running", "residual", "reason")


@click.command()
@click.option(
    "--phase",
    multiple=True,
    type=click.Choice([phase.value for phase in Phase]),
    help="Only tasks in this phase; may be given several times.",
)
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="POSITION", help="Go on behind this position.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Most tasks to list.")
@read_ledger_option
@json_option('Print one object: "tasks", and "next", the position for --after (null: that was all).')
def tasks(phase: tuple[str, ...], after: int, limit: int, url: str, *, json: bool) -> int:
    """List the tasks of a ledger, in the order of their submission."""

    async def read(ledger: Ledger) -> list[TaskRow]:
        return await ledger.tasks(phases=[Phase(each) for each in phase], after=after, limit=limit)

    rows = with_ledger(url, read)
    lines = [_line(row) for row in rows]
    onward = rows[-1].position if len(rows) == limit else None
    if json:
        emit_json({"tasks": lines, "next": onward})
        return 0
    _print(lines)
    if onward is not None:
        say(f"there may be more: --after {onward}")
    return 0


def _line(row: TaskRow) -> TaskLine:
    task = row.task
    residual = sum(work.state is WorkState.RESIDUAL for work in task.works)
    return TaskLine(
        task_id=task.task_id,
        phase=str(task.phase),
        owner=task.owner,
        answerable=task.answerable,
        epoch=task.epoch,
        overdue_ms=row.overdue_ms,
        open_effects=len(task.effects),
        running=len(task.works) - residual,
        residual=residual,
        unread=len(task.unread),
        open_hops=len(task.hops),
        reason=str(task.reason),
        parent=task.parent,
        conversation=task.conversation,
        created_at=task.created_at,
        at=task.at,
        position=row.position,
    )


def _cells(line: TaskLine) -> tuple[str, ...]:
    overdue = seconds(line.overdue_ms) if line.overdue_ms > 0 else "-"
    counts = (str(line.open_effects), str(line.running), str(line.residual))
    return (line.task_id, line.phase, line.owner, line.answerable, overdue, *counts, line.reason or "-")


def _print(lines: Iterable[TaskLine]) -> None:
    """A table where a person looks at it, else columns with a tab between them."""
    rows = [_cells(line) for line in lines]
    if not sys.stdout.isatty():
        emit("\n".join("\t".join(row) for row in (_COLUMNS, *rows)))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None)
    for name in _COLUMNS:
        column: dict[str, Any] = {"justify": "right"} if name in _COLUMNS[5:8] else {}
        table.add_column(name, **column)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
