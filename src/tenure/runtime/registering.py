"""How a process makes itself known, so that its death can be observed later."""

from __future__ import annotations

import asyncio

from tenure.errors import NextAction, Unavailable
from tenure.ledger import Instance, Ledger
from tenure.runtime.clock import uptime_ms
from tenure.runtime.ids import jitter
from tenure.runtime.jobs import this_host
from tenure.runtime.recovery import free_name

START_SECONDS = 30
POLL = 1.0


async def register(ledger: Ledger, *, instance_id: str, name: str, lease_ms: int) -> None:
    """Make this process known as an instance, patiently: another may hold a file's write lock while it is frozen.

    Raises:
        Refused: ``worker_name_taken``.
        Unavailable: the ledger has taken nothing for half a minute, or will not.
    """
    here = this_host()
    instance = Instance(
        instance_id=instance_id,
        name=name,
        host=here.host,
        boot=here.boot,
        pid=here.pid,
        started=here.started,
        lease_ms=lease_ms,
    )
    give_up = uptime_ms() + START_SECONDS * 1000
    while True:
        try:
            await free_name(ledger, name)
            await asyncio.to_thread(ledger.register, instance)
            return
        except Unavailable as error:
            if error.next_action is not NextAction.RETRY or uptime_ms() >= give_up:
                raise
        await asyncio.sleep(jitter(POLL))
