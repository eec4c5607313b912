"""The thread behind a queue: batches, loops that end, callers that come late."""

import asyncio
import threading
import time
from concurrent.futures import Future

import pytest

from tenure.errors import Unavailable
from tenure.ledger.sqlite.lane import MOST, Desk, Job, Lane


class Counting(Desk[list[int]]):
    def __init__(self) -> None:
        self.batches: list[int] = []

    def serve(self, jobs: list[Job[list[int]]]) -> None:
        self.batches.append(len(jobs))
        for job in jobs:
            job.value = job.work(self.batches)


def current_threads() -> int:
    return sum(thread.name == "counting" for thread in threading.enumerate())


async def test_what_one_loop_asks_for_in_one_turn_is_one_batch() -> None:
    desk = Counting()
    lane: Lane[list[int]] = Lane("counting", lambda: desk)
    await asyncio.gather(*(lane.call(len) for _ in range(50)))
    assert desk.batches == [50]
    await asyncio.gather(*(lane.call(len) for _ in range(2 * MOST + 1)))
    assert desk.batches == [50, MOST, MOST, 1]
    await lane.stop()
    assert current_threads() == 0


async def test_batches_of_threads_are_joined_up_to_the_limit() -> None:
    desk = Counting()
    lane: Lane[list[int]] = Lane("counting", lambda: desk)
    gate = threading.Event()
    blocked = lane.call(lambda _: gate.wait(5))
    first = asyncio.ensure_future(blocked)
    await asyncio.sleep(0.01)
    threads = [asyncio.to_thread(lane.call_blocking, len) for _ in range(4)]
    others = [asyncio.ensure_future(thread) for thread in threads]
    await asyncio.sleep(0.05)
    stopping = asyncio.ensure_future(lane.stop())
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *others, stopping)
    assert desk.batches[0] == 1
    assert sum(desk.batches) == 5


async def test_who_comes_after_the_end_is_turned_away() -> None:
    lane: Lane[list[int]] = Lane("counting", Counting)
    waiting = asyncio.ensure_future(lane.call(len))
    await asyncio.sleep(0)
    await lane.stop()
    await lane.stop()
    assert await waiting == 1
    with pytest.raises(Unavailable):
        await lane.call(len)
    lane._stopping = False  # as for somebody who had looked just before the end
    with pytest.raises(Unavailable) as caught:
        await lane.call(len)
    assert caught.value.code == "ledger_closed"


async def test_a_desk_that_raises_fails_its_jobs_and_goes_on() -> None:
    class Broken(Counting):
        def serve(self, jobs: list[Job[list[int]]]) -> None:
            super().serve(jobs)
            if len(self.batches) == 1:
                raise ZeroDivisionError

    lane: Lane[list[int]] = Lane("counting", Broken)
    with pytest.raises(ZeroDivisionError):
        await lane.call(len)
    assert await lane.call(len) == 2
    await lane.stop()


def test_what_opening_raises_the_opener_gets() -> None:
    def refuse() -> Counting:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Lane("counting", refuse)


def test_a_loop_that_has_ended_is_not_waited_for() -> None:
    lane: Lane[list[int]] = Lane("counting", Counting)
    started = threading.Event()

    def slow(_: list[int]) -> None:
        started.set()
        time.sleep(0.05)

    async def leave() -> None:
        task = asyncio.ensure_future(lane.call(slow))
        await asyncio.sleep(0)
        await asyncio.to_thread(started.wait)
        task.cancel()

    asyncio.run(leave())
    assert lane.call_blocking(len) == 2
    asyncio.run(lane.stop())


async def test_a_desk_needs_to_serve_and_nothing_else() -> None:
    class Idle(Desk[None]):
        def serve(self, jobs: list[Job[None]]) -> None:
            for job in jobs:
                job.value = "served"

    desk = Idle()
    desk.idle()
    desk.close()
    assert desk.pause is None
    job: Job[None] = Job(lambda _: None, Future(), None)
    desk.serve([job])
    assert job.value == "served"
