"""Remote work: its provider's status is its only end, and asking it to stop is none."""

import asyncio
from typing import Any, cast

import pytest

from tenure.protocol.settings import Policy
from tenure.protocol.vocabulary import WorkEnd
from tenure.runtime.jobs import CoroutineJob, Outcome, RemoteJob
from tenure.runtime.jobs import remote as module
from tenure.runtime.jobs.remote import Reply
from tests.runtime.jobs.stubborn import BRIEF, retired, until


class Far:
    """What runs elsewhere. ``answers`` to a request to stop; ``ended`` once its status is to say so."""

    def __init__(self, answers: Any = "accepted") -> None:
        self.answers = answers
        self.ended: Outcome | None = None
        self.silent = False
        self.looks = 0
        self.asked = 0

    async def status(self) -> Outcome | None:
        self.looks += 1
        if self.silent:
            raise ConnectionError
        return self.ended

    async def stop(self) -> Reply:
        self.asked += 1
        if self.answers == "hangs":
            await asyncio.Event().wait()
        if self.answers == "raises":
            raise ConnectionError
        return cast("Reply", self.answers)


async def started(far: Far, policy: Policy = BRIEF, *, stop: bool = True) -> RemoteJob:
    job = RemoteJob(
        "far", "k1", status=far.status, stop=far.stop if stop else None, work_id="w", name="task k", policy=policy
    )
    await job.start()
    return job


async def ended(job: RemoteJob, far: Far, outcome: Outcome) -> Outcome:
    far.ended = outcome
    found = await job.wait(5)
    assert found is not None
    return found


async def test_its_end_is_what_its_status_says() -> None:
    far = Far()
    job = await started(far)
    assert job.survivors() == ("far k1",)
    assert (await ended(job, far, Outcome(WorkEnd.RETURNED, 7))).value == 7
    assert job.survivors() == ()
    assert far.asked == 0


async def test_a_status_that_cannot_be_had_is_asked_for_again() -> None:
    far = Far()
    far.silent = True
    job = await started(far)
    await until(lambda: far.looks >= 2)
    assert job.outcome is None
    far.silent = False
    assert (await ended(job, far, Outcome(WorkEnd.CANCELLED))).how is WorkEnd.CANCELLED


@pytest.mark.parametrize(
    ("answers", "delivered"),
    [("accepted", True), ("refused", False), ("unknown", False), ("raises", False), ("hangs", False)],
)
async def test_a_request_to_stop_is_delivered_when_it_was_taken_and_never_an_end(
    *, answers: Any, delivered: bool
) -> None:
    far = Far(answers)
    job = await started(far)
    found = await retired(job)
    assert (found.ended, [each.work_id for each in found.unseen]) == ({}, ["w"])
    assert (job.delivered, job.outcome) == (delivered, None)
    assert 1 <= far.asked <= 2, "asked, and once more at the end of the grace"
    await ended(job, far, Outcome(WorkEnd.CANCELLED))


async def test_one_that_cannot_be_asked_is_only_watched() -> None:
    far = Far()
    job = await started(far, stop=False)
    assert not job.request_cancel()
    assert (await retired(job)).unseen == (job,)
    assert (far.asked, job.delivered) == (0, False)
    await ended(job, far, Outcome(WorkEnd.RETURNED))


async def test_a_request_that_is_not_answered_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.05)
    far = Far("hangs")
    job = await started(far)
    before = asyncio.all_tasks()
    job.request_cancel()
    (asking,) = asyncio.all_tasks() - before
    assert await asyncio.wait({asking}, timeout=2) == ({asking}, set())
    assert (job.delivered, job.outcome) == (False, None)
    await ended(job, far, Outcome(WorkEnd.RETURNED))


async def test_whoever_asks_it_to_stop_does_not_wait_for_the_answer() -> None:
    """A coroutine that asks is over when it returns: the request is not its own work."""
    far = Far("hangs")
    job = await started(far)

    async def asks() -> str:
        job.request_cancel()
        return "asked"

    asking = CoroutineJob(asks(), work_id="a", name="asks", policy=BRIEF)
    await asking.start()
    outcome = await asking.wait(2)
    assert outcome is not None
    assert outcome.value == "asked"
    await ended(job, far, Outcome(WorkEnd.RETURNED))
