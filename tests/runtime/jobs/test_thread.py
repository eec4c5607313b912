"""Functions on threads: they can be asked, not cancelled, and hold up nothing."""

import asyncio
import contextvars
import functools
import subprocess
import sys
import threading
from typing import Any

import pytest

from tenure.protocol.settings import Policy
from tenure.protocol.vocabulary import WorkEnd
from tenure.runtime.jobs import ThreadJob, retire, this_host
from tenure.runtime.jobs.thread import takes_stop
from tests.runtime.jobs.stubborn import BRIEF, MIDDLE, Asked, retired, until


async def started(function: Any, *args: Any, name: str = "work", policy: Policy = BRIEF) -> ThreadJob:
    job = ThreadJob(function, args, work_id=name, name=name, policy=policy)
    await job.start()
    return job


async def test_what_it_returned_and_what_it_raised_are_told_apart() -> None:
    good, bad = await started(divmod, 7, 2), await started(divmod, 7, 0)
    first, second = await good.wait(5), await bad.wait(5)
    assert first is not None
    assert second is not None
    assert (first.how, first.value) == (WorkEnd.RETURNED, (3, 1))
    assert (second.how, type(second.error)) == (WorkEnd.RAISED, ZeroDivisionError)
    assert good.locator == this_host()


async def test_a_thread_that_asks_whether_to_stop_is_stopped_and_the_delivery_is_known() -> None:
    def patient(stop: threading.Event) -> str:
        return "asked" if stop.wait(10) else "never asked"

    asked = Asked()
    done = await retire([await started(patient, policy=MIDDLE)], on_cancel=asked)
    assert (done.ended["work"].how, done.ended["work"].value) == (WorkEnd.RETURNED, "asked")
    assert asked.told == [("work", True)]


async def test_a_thread_that_cannot_be_cancelled_is_unseen_and_reported_when_it_ends() -> None:
    """OW-03: a blocking hook delays nothing, and is never called stopped while it blocks."""
    release, asked = threading.Event(), Asked()
    seen: list[object] = []
    job = await started(release.wait, 20, name="blocking")
    job.on_end(seen.append)
    done = await retire([job], on_cancel=asked)
    assert (done.ended, done.unseen, asked.told) == ({}, (job,), [("blocking", False)])
    assert (job.survivors(), job.outcome, seen) == (("thread blocking",), None, [])
    release.set()
    await until(lambda: seen == [job])
    assert job.survivors() == ()


async def test_many_hanging_threads_do_not_use_up_the_executor() -> None:
    release = threading.Event()
    jobs = [await started(release.wait, 20, name=f"hanging-{n}") for n in range(40)]
    assert await asyncio.wait_for(asyncio.to_thread(lambda: "served"), 5) == "served"
    release.set()
    for job in jobs:
        assert await job.wait(5)


async def test_context_goes_in() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")
    variable.set("outer")
    outcome = await (await started(variable.get)).wait(5)
    assert outcome is not None
    assert outcome.value == "outer"


def test_a_thread_that_never_ends_holds_neither_the_loop_nor_the_interpreter() -> None:
    program = (
        "import asyncio, threading\n"
        "from tenure.protocol.settings import HELPER\n"
        "from tenure.runtime.jobs import ThreadJob\n"
        "async def main():\n"
        "    job = ThreadJob(threading.Event().wait, work_id='w', name='n', policy=HELPER)\n"
        "    await job.start()\n"
        "    print(job.outcome)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"None", b"")


def with_stop(first: int, *, stop: threading.Event | None = None) -> None: ...


def without(first: int, **rest: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "expected"),
    [
        (with_stop, (1,), {}, True),
        (with_stop, (1,), {"stop": None}, False),
        (functools.partial(with_stop, 1), (), {}, True),
        (without, (1,), {}, False),
        (slice, (1, 2), {}, False),
        (with_stop, (1, 2, 3), {}, False),
    ],
)
def test_only_a_parameter_named_stop_takes_the_question(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], expected: object
) -> None:
    assert takes_stop(function, args, kwargs) is expected


async def test_an_end_after_the_loop_is_closed_harms_nobody() -> None:
    release = threading.Event()

    def other_loop() -> ThreadJob:
        async def main() -> ThreadJob:
            return await started(release.wait, 20)

        return asyncio.run(main())

    job = await asyncio.to_thread(other_loop)
    thread = job._thread
    assert thread is not None
    release.set()
    await asyncio.to_thread(thread.join, 5)
    assert (thread.is_alive(), job.outcome) == (False, None)


async def test_a_thread_that_cannot_be_started_never_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    job = ThreadJob(print, work_id="w", name="n", policy=BRIEF)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="new thread"):
        await job.start()
    assert job.outcome is not None
    assert job.outcome.how is WorkEnd.RAISED
    await retired(job)
