"""``tenure residual``: work that was not seen to end, and a person's word on the end of one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from tenure.cli.options import json_option, read_ledger_option, with_ledger
from tenure.cli.problems import Misused
from tenure.cli.talk import emit, emit_json, say, when
from tenure.errors import Refused
from tenure.protocol.state import Task, Work
from tenure.protocol.vocabulary import EvidenceKind, WorkEnd, WorkState

if TYPE_CHECKING:
    from tenure.ledger import Ledger


class ResidualLine(Struct, kw_only=True):
    """One residual work. Times are milliseconds since the Unix epoch, by the ledger's clock.

    Attributes:
        where: host and process group, or provider and reference; empty when it was never located.
        seen_now: ``alive``, ``gone`` or ``not determinable``, looked up from this host at this moment.
        survivors: what is alive of a process group.
    """

    work_id: str
    task_id: str
    name: str
    kind: str
    policy: str
    agent: str
    instance: str
    answerable: str
    phase: str
    started_at: int
    where: str
    seen_now: str
    survivors: tuple[str, ...]


_COLUMNS = ("work", "task", "name", "kind", "policy", "agent", "answerable", "since", "where", "seen now")


@click.command()
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="POSITION", help="Go on behind this position.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Most tasks to list.")
@click.option("--close", "work_id", default="", metavar="WORK", help="Attest that this work has ended.")
@click.option("--task", "task_id", default="", metavar="TASK", help="Only works of this task; needed with --close.")
@click.option("--by", default="", metavar="WHO", help="With --close: who has found it.")
@click.option("--reason", default="", metavar="TEXT", help="With --close: what was found, and how.")
@read_ledger_option
@json_option('Print one object: "residual", and "next", the position for --after (null: that was all).')
def residual(after: int, limit: int, work_id: str, task_id: str, by: str, reason: str, url: str, *, json: bool) -> int:
    """List the work that was not seen to end when its tenure did, of ended tasks too.

    A worker on the same host closes what it sees to be gone, and one that knows the provider closes remote work by the
    provider's status. What nobody can see, a person closes with --close, --task, --by and --reason; it then stands on
    the books as `attested`, which is no observed end.
    """
    if work_id:
        return _close(url, task_id, work_id, by, reason, json=json)
    if by or reason:
        raise Misused("--by and --reason belong to --close.", code="usage", hint="name the work with --close WORK")

    async def read(ledger: Ledger) -> tuple[list[ResidualLine], int | None]:
        if task_id:
            return await _lines([await _task(ledger, task_id)]), None
        rows = await ledger.residual(after=after, limit=limit)
        return await _lines([row.task for row in rows]), rows[-1].position if len(rows) == limit else None

    lines, onward = with_ledger(url, read)
    if json:
        emit_json({"residual": lines, "next": onward})
        return 0
    emit("\n".join("\t".join(row) for row in (_COLUMNS, *(_cells(line) for line in lines))))
    if onward is not None:
        say(f"there may be more: --after {onward}")
    return 0


def _cells(line: ResidualLine) -> tuple[str, ...]:
    what = (line.work_id, line.task_id, line.name, line.kind, line.policy, line.agent, line.answerable)
    alive = f": {', '.join(line.survivors)}" if line.survivors else ""
    return (*what, when(line.started_at), line.where or "-", line.seen_now + alive)


async def _task(ledger: Ledger, task_id: str) -> Task:
    task = await ledger.task(task_id)
    if task is None:
        raise Refused("unknown_task", repr(task_id))
    return task


async def _lines(tasks: list[Task]) -> list[ResidualLine]:
    return [await _line(task, work) for task in tasks for work in task.works if work.state is WorkState.RESIDUAL]


async def _line(task: Task, work: Work) -> ResidualLine:
    from tenure.runtime.facts import look

    seen, survivors = await asyncio.to_thread(look, work)
    return ResidualLine(
        work_id=work.work_id,
        task_id=task.task_id,
        name=work.name,
        kind=str(work.kind),
        policy=work.policy.name,
        agent=work.agent,
        instance=work.instance,
        answerable=task.answerable,
        phase=str(task.phase),
        started_at=work.started_at,
        where=_where(work),
        seen_now=seen,
        survivors=survivors,
    )


def _where(work: Work) -> str:
    place = work.locator
    if place is None:
        return ""
    if place.provider:
        return f"{place.provider} {place.reference}"
    return f"{place.host} group {place.group}" if place.group else f"{place.host} process {place.pid}"


def _close(url: str, task_id: str, work_id: str, by: str, reason: str, *, json: bool) -> int:
    """Take a person's word that a residual work has ended."""
    for option, value in (("--task", task_id), ("--by", by), ("--reason", reason)):
        if not value.strip():
            raise Misused(f"--close needs {option}.", code="usage", hint="say which, who has found it, and how")

    async def work(ledger: Ledger) -> None:
        from tenure.runtime.content import to_body
        from tenure.runtime.residual import Ended, close_work

        task = await _task(ledger, task_id)
        found = next((each for each in task.works if each.work_id == work_id), None)
        if found is None:
            raise Refused("unknown_work", f"{work_id} is not on the books of {task_id}; it may have ended meanwhile.")
        if found.state is not WorkState.RESIDUAL:
            raise Refused("wrong_phase", f"{work_id} is {found.state}: its owner still watches it.")
        said = Ended(
            how=WorkEnd.ATTESTED, evidence=EvidenceKind.ATTESTATION, result=to_body({"reason": reason, "by": by})
        )
        if not await close_work(ledger, task, found, said, by=by):
            raise Refused("unknown_work", f"{work_id} has ended meanwhile.")

    with_ledger(url, work)
    if json:
        emit_json({"ledger": url, "task_id": task_id, "work_id": work_id, "end": "attested", "by": by})
    else:
        emit(f"{work_id} of {task_id} is off the books, attested by {by}. Nobody has observed its end.")
    return 0
