"""``tenure events``: the feed, from a position on."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from tenure.cli.options import json_option, open_existing, read_ledger_option
from tenure.cli.stopping import Stop, run_stoppable
from tenure.cli.talk import emit, when
from tenure.errors import Refused
from tenure.ledger import Ledger, Recorded
from tenure.protocol.events import event_tag

PAGE = 1_000
POLL = 1.0
HIDDEN = {"event", "at", "v", "settings", "limits", "policy"}
"""Fields that the text form leaves out: they are told elsewhere in the line, or are long; --json has them."""


@click.command()
@click.argument("task_id", metavar="[TASK]", required=False, default="")
@click.option("--follow", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=0,
    metavar="POSITION",
    help="Go on behind this position: the first column, or the last line's field position.",
)
@click.option("--limit", type=click.IntRange(min=1), default=None, help="End after so many events.")
@read_ledger_option
@json_option("Print an object a line.")
def events(task_id: str, *, follow: bool, after: int, limit: int | None, url: str, json: bool) -> int:
    """Print the events of a ledger, or of one task, oldest first.

    The position of the last line is the cursor to go on from; no event that becomes visible later is skipped. Ctrl-C
    ends --follow with exit code 0.
    """
    ledger = open_existing(url)

    async def work(stop: Stop) -> int:
        async with ledger:
            await _print(ledger, stop, task_id=task_id, follow=follow, after=after, limit=limit, as_json=json)
        return 0

    return run_stoppable(work, first="")


async def _print(
    ledger: Ledger, stop: Stop, *, task_id: str, follow: bool, after: int, limit: int | None, as_json: bool
) -> None:
    if task_id and await ledger.task(task_id) is None:
        raise Refused("unknown_task", repr(task_id))
    left = limit
    while not stop.requested.is_set():
        page = await ledger.events(after=after, task_id=task_id, limit=PAGE if left is None else min(PAGE, left))
        if page:
            emit("\n".join(_json(recorded) if as_json else _text(recorded) for recorded in page))
            after = page[-1].position
            left = None if left is None else left - len(page)
        elif follow:
            await _more(ledger, stop, after)
        if left == 0 or (not page and not follow):
            return


async def _more(ledger: Ledger, stop: Stop, after: int) -> None:
    """Wait for another commit, a signal, or the poll."""
    import asyncio

    waits = [asyncio.ensure_future(ledger.wait(after, POLL)), asyncio.ensure_future(stop.requested.wait())]
    await asyncio.wait(waits, timeout=POLL, return_when=asyncio.FIRST_COMPLETED)
    for each in waits:
        each.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


def _json(recorded: Recorded) -> str:
    return msgspec.json.encode(recorded).decode()


def _text(recorded: Recorded) -> str:
    event = recorded.event
    fields: dict[str, Any] = msgspec.to_builtins(event)
    told = " ".join(f"{name}={_value(value)}" for name, value in fields.items() if name not in HIDDEN and _said(value))
    place = f"{recorded.position} {when(event.at)} {recorded.task_id} #{recorded.seq} epoch {recorded.epoch}"
    return f"{place} {event_tag(event)} {told}".rstrip()


def _said(value: object) -> bool:
    return value not in ("", None, [], {})


def _value(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
