"""``tenure verify``: check a ledger against itself."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from tenure.cli.options import json_option, read_ledger_option, with_ledger
from tenure.cli.problems import FOUND
from tenure.cli.progress import progress
from tenure.cli.talk import emit, emit_json, plural
from tenure.errors import Refused
from tenure.ledger import Ledger, Verification

TICK = 0.25
UNKNOWN = "not determinable"


@click.command()
@read_ledger_option
@click.option(
    "--heads", is_flag=True, help="Also print the newest chain digest of each task, to be published elsewhere."
)
@json_option("Print one object.")
def verify(url: str, *, heads: bool, json: bool) -> int:
    """Check the file, every task's chain of digests, and that replaying its events gives its stored state.

    Exit code: 0 when chain, replay and file are as they were written and no content is missing without an erasure; 1
    otherwise, also for a file that is too damaged to be read.
    """
    try:
        found = with_ledger(url, _verified)
    except Refused as error:
        if error.code != "corrupt_file":
            raise
        found = _unreadable(str(error))
    fields: dict[str, Any] = {"ledger": url, **msgspec.to_builtins(found)}
    if not heads:
        fields.pop("heads")
    if json:
        emit_json(fields)
    else:
        emit(_text(fields))
    broken = found.chain != "verified" or found.replay != "equal" or found.file != "sound" or found.missing
    return FOUND if broken else 0


def _unreadable(problem: str) -> Verification:
    """Of what could not be read, nothing is said."""
    return Verification(
        chain=UNKNOWN,
        replay=UNKNOWN,
        file="damaged",
        events=0,
        tasks=0,
        erased=0,
        missing=0,
        heads={},
        problems=(problem,),
    )


async def _verified(ledger: Ledger) -> Verification:
    reached = (0, 0)

    def note(checked: int, events: int) -> None:
        nonlocal reached
        reached = checked, events

    verifying = asyncio.ensure_future(ledger.verify(note))
    with progress("verifying") as shown:
        while not verifying.done():
            await asyncio.wait({verifying}, timeout=TICK)
            shown.show(*reached, "events")
    return await verifying


def _text(fields: dict[str, Any]) -> str:
    lines = [
        f"chain    {fields['chain']}",
        f"replay   {fields['replay']}",
        f"file     {fields['file']}",
        f"content  {fields['erased']} erased, {fields['missing']} missing without an erasure",
        f"checked  {plural(fields['events'], 'event')} of {plural(fields['tasks'], 'task')} in {fields['ledger']}",
    ]
    lines += [f"problem  {problem}" for problem in fields["problems"]]
    lines += [f"head     {task_id} {digest}" for task_id, digest in fields.get("heads", {}).items()]
    return "\n".join(lines)
