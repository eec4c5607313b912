"""Coroutines: their own task and whatever was started in their context; over only when all of it is."""

import asyncio
import contextvars
import gc
import inspect
import sys
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tenure.protocol.settings import Policy
from tenure.protocol.vocabulary import WorkEnd, WorkKind
from tenure.runtime.jobs import CoroutineJob, Job, outside, retire, this_host
from tests.runtime.jobs.stubborn import BRIEF, MIDDLE, Asked, retired, until


async def started(work: Any, name: str = "work", policy: Policy = BRIEF, **rest: Any) -> CoroutineJob:
    job = CoroutineJob(work, work_id=name, name=name, policy=policy, **rest)
    await job.start()
    await asyncio.sleep(0)  # its first step is done
    return job


def how(job: Job) -> WorkEnd | None:
    return job.outcome.how if job.outcome is not None else None


async def for_ever() -> None:
    await asyncio.Event().wait()


async def deaf(release: asyncio.Event) -> str:
    """Loop that swallows every cancellation."""
    while not release.is_set():
        try:
            await release.wait()
        except asyncio.CancelledError:
            continue
    return "released"


async def test_what_it_returned_and_what_it_raised_are_told_apart() -> None:
    async def give() -> int:
        return 7

    async def fail() -> None:
        raise ValueError("no")

    good, bad = await started(give()), await started(fail)
    first, second = await good.wait(5), await bad.wait(5)
    assert first is not None
    assert second is not None
    assert (first.how, first.value, first.error) == (WorkEnd.RETURNED, 7, None)
    assert (second.how, second.value, str(second.error)) == (WorkEnd.RAISED, None, "no")


@pytest.mark.parametrize("pause", [False, True])
async def test_one_that_exits_ends_itself_and_not_the_loop_that_runs_others(*, pause: bool) -> None:
    async def leave() -> None:
        if pause:
            await asyncio.sleep(0)
        sys.exit(3)

    async def leave_when_asked() -> None:
        try:
            await for_ever()
        except asyncio.CancelledError:
            sys.exit(4)

    for job in (await started(leave()), await started(leave_when_asked())):
        job.request_cancel()
        outcome = await job.wait(5)
        assert outcome is not None
        assert (outcome.how, type(outcome.error).__name__) == (WorkEnd.RAISED, "Exited")


async def test_it_runs_in_this_process_and_is_of_the_kind_it_was_made() -> None:
    job = await started(for_ever, kind=WorkKind.HANDLER)
    assert (job.kind, job.locator) == (WorkKind.HANDLER, this_host())


async def test_an_obedient_one_is_cancelled_and_the_delivery_is_known() -> None:
    job, asked = await started(for_ever, "obedient", MIDDLE), Asked()
    done = await retire([job], on_cancel=asked)
    assert done.ended["obedient"].how is WorkEnd.CANCELLED
    assert asked.told == [("obedient", True)]


async def test_a_request_is_no_delivery_and_a_delivery_no_end() -> None:
    release = asyncio.Event()
    job = await started(deaf(release))
    assert job.request_cancel() is False
    await until(lambda: job.delivered)
    assert job.request_cancel() is True
    assert job.outcome is None
    release.set()
    assert await job.wait(5)


async def test_the_second_request_does_not_disturb_the_cleanup_that_the_first_began() -> None:
    disturbed = []

    async def tidy() -> None:
        try:
            await for_ever()
        finally:
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                disturbed.append(1)

    job = await started(tidy)
    for _ in range(5):
        job.request_cancel()
        await asyncio.sleep(0)
    await job.wait(5)
    assert (how(job), disturbed) == (WorkEnd.CANCELLED, [])


async def test_a_loop_that_swallows_cancellation_is_unseen_and_reported_when_it_ends() -> None:
    """CA-03, variant: the handler catches the cancellation and loops."""
    release = asyncio.Event()
    seen: list[object] = []
    job = await started(deaf(release), "deaf")
    job.on_end(seen.append)
    done = await retired(job)
    assert (done.ended, done.unseen) == ({}, (job,))
    assert (job.outcome, job.survivors(), seen) == (None, ("task deaf",), [])
    release.set()
    await until(lambda: seen == [job])
    assert (how(job), job.survivors()) == (WorkEnd.RETURNED, ())


async def test_cancellation_is_delivered_a_bounded_number_of_times() -> None:
    release, count = asyncio.Event(), 0

    async def counting() -> None:
        nonlocal count
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                count += 1

    job = await started(counting)
    await retired(job)
    await retired(job)
    for _ in range(10):
        job.insist()
        await asyncio.sleep(0)
    assert count == 2
    release.set()
    await job.wait(5)


async def test_a_cleanup_longer_than_the_grace_is_unseen_and_not_interrupted_for_ever() -> None:
    """CA-03, variant: the handler delays its cleanup beyond the grace time."""
    proceed = asyncio.Event()

    async def slow() -> None:
        try:
            await for_ever()
        finally:
            await deaf(proceed)

    job = await started(slow, "slow")
    done = await retired(job)
    assert done.unseen == (job,)
    proceed.set()
    await job.wait(5)
    assert how(job) is WorkEnd.CANCELLED


async def test_a_cancellation_lost_in_the_cycle_in_which_the_inner_work_ends_claims_nothing() -> None:
    """CA-03: judged by the task having ended, in whatever cycle the request came."""
    steps: list[int] = []

    async def try_offset(cycles: int) -> tuple[CoroutineJob, bool]:
        gate = asyncio.Event()

        async def handler() -> None:
            await asyncio.wait_for(gate.wait(), 60)
            steps.append(cycles)
            await for_ever()

        job = await started(handler, f"offset-{cycles}", MIDDLE)
        await asyncio.sleep(0.01)
        gate.set()
        for _ in range(cycles):
            await asyncio.sleep(0)
        before = cycles in steps
        job.request_cancel()
        await asyncio.sleep(0.01)
        went_on = cycles in steps and not before
        assert (job.outcome is None) == bool(job.survivors())
        assert how(job) in {None, WorkEnd.CANCELLED}
        done = await retired(job)
        assert done.ended[job.work_id].how is WorkEnd.CANCELLED
        return job, went_on and job._insisted > 0

    results = await asyncio.gather(*(try_offset(cycles) for cycles in range(6)))
    if sys.version_info < (3, 12):  # where wait_for still loses it: the second delivery is what ended these
        assert any(lost for _, lost in results)


async def test_shielded_work_keeps_the_job_from_being_over_though_its_own_task_is() -> None:
    """CA-03, variant: the handler shields its inner work."""
    release = asyncio.Event()

    async def shielding() -> None:
        await asyncio.shield(asyncio.create_task(deaf(release), name="inside"))

    job = await started(shielding, "shielding")
    done = await retired(job)
    assert (done.ended, done.unseen, job.survivors()) == ({}, (job,), ("task inside",))
    release.set()
    await job.wait(5)
    assert how(job) is WorkEnd.CANCELLED


async def test_shielded_work_that_ends_in_the_first_half_of_the_grace_ends_undisturbed() -> None:
    result: list[str] = []

    async def inside() -> None:
        await asyncio.sleep(0.05)
        result.append("done")

    async def shielding() -> None:
        await asyncio.shield(inside())

    done = await retired(await started(shielding, "shielding", MIDDLE))
    assert (list(done.ended), result) == (["shielding"], ["done"])


async def test_a_detached_child_outlives_a_result_but_not_unseen() -> None:
    """OW-03: what was started behind the handle's back belongs to the job in whose context it was started."""

    async def detaching() -> str:
        task = asyncio.create_task(for_ever(), name="detached")
        task.add_done_callback(lambda _: None)
        return "result"

    job = await started(detaching, "detaching", MIDDLE)
    assert await job.wait(0.02) is None
    assert job.survivors() == ("task detached",)
    done = await retired(job)
    assert (done.ended["detaching"].how, done.ended["detaching"].value) == (WorkEnd.RETURNED, "result")


async def test_grandchildren_started_while_it_ends_are_seen_too() -> None:
    release = asyncio.Event()
    kept: list[Any] = []

    async def child() -> None:
        kept.append(asyncio.create_task(deaf(release), name="grandchild"))

    async def parent() -> None:
        kept.append(asyncio.create_task(child()))

    job = await started(parent)
    await until(lambda: job.survivors() == ("task grandchild",))
    assert job.outcome is None
    release.set()
    assert await job.wait(5)


async def test_a_job_started_inside_another_is_not_its_child() -> None:
    inner: list[CoroutineJob] = []

    async def outer() -> None:
        inner.append(await started(for_ever, "inner"))

    job = await started(outer, "outer")
    assert await job.wait(5)
    assert inner[0].outcome is None
    await retired(inner[0])


async def test_a_task_of_the_runtime_started_outside_does_not_count() -> None:
    kept: list[Any] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        kept.append(loop.create_task(for_ever(), context=outside()))

    job = await started(work)
    assert await job.wait(5)
    kept[0].cancel()


async def test_a_task_factory_of_somebody_else_stays_in_use() -> None:
    loop = asyncio.get_running_loop()
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **rest: Any) -> Any:
        made.append(coro.__qualname__)
        return asyncio.Task(coro, loop=loop, **rest)

    loop.set_task_factory(factory)
    kept: list[Any] = []

    async def parent() -> None:
        kept.append(asyncio.create_task(for_ever(), name="child"))

    job = await started(parent)
    await until(lambda: job.survivors() == ("task child",))
    assert made[-1] == "for_ever"
    await retired(job)


async def test_context_goes_in_and_does_not_come_out() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")
    variable.set("outer")

    async def work() -> str:
        before = variable.get()
        variable.set("inner")
        return before

    job = await started(work)
    outcome = await job.wait(5)
    assert outcome is not None
    assert (outcome.value, variable.get()) == ("outer", "outer")


async def test_it_is_not_collected_while_it_runs_and_nobody_holds_it() -> None:
    release = asyncio.Event()
    ended: list[Any] = []

    async def start() -> weakref.ref[Job]:
        job = await started(deaf(release))
        job.on_end(lambda job: ended.append(job.outcome))
        return weakref.ref(job)

    reference = await start()
    gc.collect()
    assert reference() is not None
    release.set()
    await until(lambda: ended)


async def test_one_asked_before_its_start_is_cancelled_at_once() -> None:
    steps: list[int] = []

    async def work() -> None:
        steps.append(1)

    job = CoroutineJob(work(), work_id="early", name="early", policy=BRIEF)
    assert job.request_cancel() is False
    await job.start()
    await job.wait(5)
    assert (how(job), steps) == (WorkEnd.CANCELLED, [])


async def test_one_that_is_never_started_is_discarded_without_a_warning() -> None:
    job = CoroutineJob(for_ever(), work_id="never", name="never", policy=BRIEF)
    job.discard()
    with pytest.raises(RuntimeError, match="not started"):
        await job.wait(0)


async def test_libraries_that_look_into_a_task_see_the_coroutine() -> None:
    job = await started(for_ever())
    assert job._task is not None
    looked_at: Any = job._task.get_coro()
    assert inspect.getcoroutinestate(looked_at) == inspect.CORO_SUSPENDED
    assert "for_ever" in repr(job._task)
    assert job._task.get_stack()
    await retired(job)


async def test_it_starts_once() -> None:
    job = await started(for_ever)
    with pytest.raises(RuntimeError, match="before"):
        await job.start()
    await retired(job)


async def test_whoever_listens_late_is_told_and_whoever_raises_harms_nobody() -> None:
    reported: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    seen: list[Job] = []

    def broken(job: Job) -> None:
        raise ValueError("listener")

    job = await started(for_ever)
    job.on_end(broken)
    job.on_end(seen.append)
    await retired(job)
    job.on_end(seen.append)
    await until(lambda: len(seen) == 2)
    assert [str(error) for error in reported] == ["listener"]


async def test_waiting_is_bounded_and_cancelling_it_leaves_the_job_alone() -> None:
    job = await started(for_ever)
    assert await job.wait(0) is None
    waiting: list[Callable[[], Awaitable[Any]]] = [job.wait] * 3
    tasks = [asyncio.ensure_future(wait()) for wait in waiting]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert job.outcome is None
    await retired(job)
