"""``tenure show``: one task, its four facts apart."""

from __future__ import annotations

from typing import Any

import click

from tenure.cli.options import json_option, read_ledger_option, with_ledger
from tenure.cli.talk import emit, emit_json


@click.command()
@click.argument("task_id", metavar="TASK")
@read_ledger_option
@json_option("Print one object.")
def show(task_id: str, url: str, *, json: bool) -> int:
    """Show one task: who may act, who receives, what was seen to end, what exists outside.

    Also its hops, open effects, residual work, who answers for them, and what is overdue. Works of this host are looked
    up at this moment.
    """
    from tenure.cli.picture import Picture, picture_of
    from tenure.cli.portrait import portrait
    from tenure.ledger import Ledger

    async def read(ledger: Ledger) -> tuple[Picture, int]:
        return await picture_of(ledger, task_id), await _now(ledger)

    picture, now = with_ledger(url, read)
    if json:
        emit_json(picture)
    else:
        emit(portrait(picture, now))
    return 0


async def _now(ledger: Any) -> int:
    import asyncio

    now: int = await asyncio.to_thread(ledger.now_blocking)
    return now
