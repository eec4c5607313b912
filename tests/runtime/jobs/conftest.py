"""No test leaves a process behind: what jobs started is killed at the end, by its group and by its mark."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

import pytest

from tenure.runtime.jobs import ProcessJob, survivors_of
from tenure.runtime.jobs.aside import aside
from tenure.runtime.jobs.base import WATCHED


@pytest.fixture(autouse=True)
async def nothing_left_behind() -> AsyncIterator[None]:
    before = set(WATCHED)
    yield
    for job in WATCHED - before:
        if not isinstance(job, ProcessJob) or job.locator is None:
            continue
        for process in await aside(partial(survivors_of, job.locator, job.work_id)) or ():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        assert await job.wait(5), f"{job!r} is still there: {job.survivors()}"
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
