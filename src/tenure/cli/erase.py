"""``tenure erase``: delete the content of a task that has ended."""

from __future__ import annotations

import sys

import click

from tenure.cli.options import json_option, read_ledger_option, with_ledger
from tenure.cli.problems import Misused
from tenure.cli.talk import emit, emit_json
from tenure.errors import Refused
from tenure.ledger import Ledger


@click.command()
@click.argument("task_id", metavar="TASK")
@click.option("--by", required=True, metavar="WHO", help="Who orders it; noted in the audit.")
@click.option("--reason", default="", help="Why; noted in the audit.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@read_ledger_option
@json_option("Print one object.")
def erase(task_id: str, by: str, reason: str, *, yes: bool, url: str, json: bool) -> int:
    """Delete the content of an ended task: payloads, messages, results, evidence.

    What stays are the events, which name content by digests only, so that `tenure verify` still holds. It cannot be
    undone.
    """
    if not by.strip():
        raise Misused("--by is empty.", code="usage", hint="name who orders it")
    if not yes:
        _ask(task_id)

    async def work(ledger: Ledger) -> int:
        if await ledger.task(task_id) is None:
            raise Refused("unknown_task", repr(task_id))
        return await ledger.erase(task_id, by=by, reason=reason)

    number = with_ledger(url, work)
    if json:
        emit_json({"ledger": url, "task_id": task_id, "erased": number, "by": by, "reason": reason})
    else:
        bodies = "1 body" if number == 1 else f"{number} bodies"
        emit(f"{bodies} of {task_id} erased")
    return 0


def _ask(task_id: str) -> None:
    if not sys.stdin.isatty():
        raise Misused("Nobody can be asked whether to erase.", code="not_confirmed", hint="add --yes")
    click.confirm(f"Erase the content of {task_id} for good?", abort=True, err=True)
