"""Retiring jobs: asked all at once, each waited for at most its grace, what is not seen to end is said so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from tenure.runtime.jobs.base import Job, Outcome, outside

CYCLES = 3
"""Cycles of the loop in which a request usually reaches a coroutine; what is known then is what is told."""


class Retired(Struct, frozen=True):
    """What was observed.

    Attributes:
        ended: outcome by work id. unseen: not seen to end in their grace. They may still run and are still watched:
        :meth:`Job.on_end` tells later, :meth:`Job.survivors` what is known to be alive.
    """

    ended: dict[str, Outcome]
    unseen: tuple[Job, ...]


async def retire(jobs: Sequence[Job], *, on_cancel: Callable[[Job, bool], Awaitable[None] | None]) -> Retired:
    """Ask every job to end and observe which did.

    Three attempts at most per job: the request, and :meth:`Job.insist` at half and at three quarters of its grace
    (the last one only for a process whose members multiplied while they were killed). Time: the longest grace,
    plus what ``on_cancel`` takes beyond it, plus the time in which somebody blocks the loop, when nothing can be
    observed and nothing is claimed.

    Args:
        jobs: started ones; those that have ended already are only collected.
        on_cancel: called once for each job that was asked, with whether the request is known to have been delivered.
            Runs while the graces pass. Its errors are raised here, after all observation.
    """
    asked = [job for job in jobs if job.outcome is None]
    for job in asked:
        job.request_cancel()
    loop = asyncio.get_running_loop()
    context = outside()
    tasks = [loop.create_task(_observe(job), context=context) for job in asked]
    tasks.append(loop.create_task(_tell(asked, on_cancel), context=context))
    try:
        await asyncio.wait(tasks)
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    ended = {job.work_id: job.outcome for job in jobs if job.outcome is not None}
    return Retired(ended, tuple(job for job in jobs if job.outcome is None))


async def _observe(job: Job) -> None:
    quarter = job.policy.grace_ms / 4_000
    for patience in (2 * quarter, quarter):
        if await job.wait(patience) is not None:
            return
        job.insist()
    await job.wait(quarter)


async def _tell(jobs: Sequence[Job], on_cancel: Callable[[Job, bool], Awaitable[None] | None]) -> None:
    for _ in range(CYCLES):
        await asyncio.sleep(0)
    for job in jobs:
        told = on_cancel(job, job.delivered)
        if told is not None:
            await told
