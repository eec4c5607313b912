"""Retiring: all at once, bounded, and nothing claimed that was not seen."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from tenure.protocol.settings import Policy
from tenure.runtime.jobs import CoroutineJob, Job, ThreadJob, retire
from tests.runtime.jobs.stubborn import BRIEF, MIDDLE, OBEDIENT_PROGRAM, Asked, pid_in, python, retired, started


async def for_ever() -> None:
    await asyncio.Event().wait()


async def coroutine(work_id: str, policy: Policy = MIDDLE) -> CoroutineJob:
    job = CoroutineJob(for_ever, work_id=work_id, name=work_id, policy=policy)
    await job.start()
    await asyncio.sleep(0)
    return job


async def hanging(work_id: str, policy: Policy, release: threading.Event) -> ThreadJob:
    job = ThreadJob(release.wait, (20,), work_id=work_id, name=work_id, policy=policy)
    await job.start()
    return job


async def test_everything_started_under_an_ownership_is_asked_and_what_stays_is_named(tmp_path: Path) -> None:
    """OW-03: bound to the scope, to a process and blocking: the first two end, the third is listed, none waits."""
    release = threading.Event()
    ready = tmp_path / "ready"
    jobs = [
        await coroutine("scope"),
        await started(python(OBEDIENT_PROGRAM, ready), "process", MIDDLE),
        await hanging("blocking", BRIEF, release),
    ]
    await pid_in(ready)
    asked = Asked()
    done = await retire(jobs, on_cancel=asked)
    assert sorted(done.ended) == [jobs[1].work_id, "scope"]
    assert [job.work_id for job in done.unseen] == ["blocking"]
    assert asked.told == [("scope", True), (jobs[1].work_id, True), ("blocking", False)]
    release.set()
    assert await jobs[2].wait(5)


async def test_graces_pass_side_by_side() -> None:
    release = threading.Event()
    jobs = [await hanging(f"hanging-{n}", BRIEF, release) for n in range(20)]
    loop = asyncio.get_running_loop()
    before = loop.time()
    done = await retired(*jobs)
    assert len(done.unseen) == 20
    assert BRIEF.grace_ms / 1000 <= loop.time() - before < 20 * BRIEF.grace_ms / 1000
    release.set()
    for job in jobs:
        await job.wait(5)


async def test_what_ended_before_is_collected_and_not_asked() -> None:
    job = await coroutine("first")
    await retired(job)
    asked = Asked()
    done = await retire([job], on_cancel=asked)
    assert (list(done.ended), asked.told) == (["first"], [])


async def test_nothing_to_retire_is_retired_at_once() -> None:
    done = await retired()
    assert (done.ended, done.unseen) == ({}, ())


async def test_a_slow_note_of_the_request_costs_nobody_its_grace() -> None:
    jobs = [await coroutine("first"), await coroutine("second")]
    ended_when_noted: list[bool] = []

    async def note(job: Job, delivered: bool) -> None:  # noqa: FBT001 - as `retire` calls it
        await job.wait(5)
        ended_when_noted.append(job.outcome is not None)

    done = await retire(jobs, on_cancel=note)
    assert (sorted(done.ended), ended_when_noted) == (["first", "second"], [True, True])


async def test_a_note_that_fails_is_raised_after_all_was_observed() -> None:
    job = await coroutine("first")

    def fail(job: Job, delivered: bool) -> None:  # noqa: FBT001 - as `retire` calls it
        raise ConnectionError("ledger")

    with pytest.raises(ConnectionError):
        await retire([job], on_cancel=fail)
    assert job.outcome is not None


async def test_a_cancelled_retirement_leaves_the_jobs_asked_and_watched() -> None:
    release = threading.Event()
    job = await hanging("hanging", MIDDLE, release)
    retiring = asyncio.create_task(retired(job))
    await asyncio.sleep(0.01)
    retiring.cancel()
    await asyncio.wait([retiring])
    assert (retiring.cancelled(), job.outcome) == (True, None)
    release.set()
    assert await job.wait(5)


def block(seconds: float) -> None:
    """What a handler does that does not know better."""
    time.sleep(seconds)


@pytest.mark.may_block
async def test_a_blocked_loop_delays_observation_and_claims_nothing_meanwhile() -> None:
    seen: list[Job] = []
    job, other = await coroutine("first"), ThreadJob(lambda: 1, work_id="second", name="second", policy=MIDDLE)
    await other.start()
    other.on_end(seen.append)
    job.request_cancel()
    block(0.1)
    assert (job.outcome, other.outcome, seen) == (None, None, [])
    done = await retired(job, other)
    assert sorted(done.ended) == ["first", "second"]
    assert seen == [other]
