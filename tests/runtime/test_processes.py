"""Real workers on one file: killed, stopped past their lease and continued, started again under the same name."""

import asyncio
import os
import signal
from typing import Any

import pytest

from tenure import Settings
from tenure.errors import Refused
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import EffectState, OfferKind, Reason, WorkEnd
from tenure.runtime.handle import TaskHandle
from tenure.runtime.recovery import recover
from tests.runtime.harness import events, owned_by, until
from tests.runtime.processes import Workers, workers
from tests.runtime.program import team_in

__all__ = ["workers"]


async def submit(workers: Workers, data: Any, *, lease_ms: int = 1_200) -> TaskHandle:
    settings = Settings(lease_ms=lease_ms)
    return await team_in(workers.folder, workers.ledger).submit(data, goal="g", to="holder", settings=settings)


async def test_a_killed_worker_is_recovered_at_once_by_one_that_starts_under_its_name(workers: Workers) -> None:
    first = await workers.start()
    handle = await submit(workers, {"start": ["coroutine", "thread"]}, lease_ms=60_000)
    await workers.began("holder")

    async def booked() -> bool:
        return len((await handle.state()).works) == 2

    await until(booked)
    await workers.kill(first)
    await workers.start()
    await workers.began("holder", 2, within=5)
    ended = await events(workers.ledger, handle.task_id, ev.TenureEnded)
    assert [each.reason for each in ended] == [Reason.INSTANCE_DEAD], "seen to be dead, not merely silent"
    stopped = await events(workers.ledger, handle.task_id, ev.WorkStopped)
    assert [each.how for each in stopped] == [WorkEnd.VANISHED] * 3
    assert (await handle.state()).works == (), "a dead process proves the end of its coroutines, threads and handlers"
    workers.touch("go")
    assert (await handle.result(10)).outcome == "completed"


async def test_what_a_dead_process_does_not_prove_stays_on_the_books(workers: Workers) -> None:
    first = await workers.start()
    handle = await submit(workers, {"start": ["process"]})
    pid = await workers.beating()
    await workers.kill(first)
    await workers.start()
    await workers.began("holder", 2)

    async def looked_up() -> Any:
        return (await handle.facts()).termination.residual

    (orphan,) = await until(looked_up)
    assert (orphan.name, orphan.kind, orphan.seen_now) == ("process", "process", "alive")
    assert any(str(pid) in name for name in orphan.survivors)
    os.killpg(os.getpgid(pid), signal.SIGKILL)

    async def off_the_books() -> bool:
        await recover(workers.ledger, by="somebody")
        return not (await handle.state()).works

    await until(off_the_books)
    assert [each.how for each in await events(workers.ledger, handle.task_id, ev.WorkStopped)][-1] == WorkEnd.VANISHED


async def test_a_sweep_that_finds_nothing_new_leaves_no_refusal_behind(workers: Workers) -> None:
    first = await workers.start()
    handle = await submit(workers, {"start": ["process"]})
    await workers.beating()
    await workers.kill(first)
    for expected in (1, 1):
        swept = await recover(workers.ledger, by="somebody")
        assert (swept.found, swept.recovered, swept.open, swept.failed) == (expected, 0, expected, {})
    assert [each.command for each in await workers.ledger.refusals(task_id=handle.task_id)] == []


async def test_a_live_workers_name_is_taken_for_another_process(workers: Workers) -> None:
    await workers.start(name="w1")
    with pytest.raises(Refused) as caught:
        async with team_in(workers.folder, workers.ledger).worker(name="w1"):
            pass
    assert (caught.value.code, caught.value.next_action) == ("worker_name_taken", "fix")


async def test_a_worker_that_was_stopped_past_its_lease_wakes_up_fenced(workers: Workers) -> None:
    first = await workers.start(name="w1")
    handle = await submit(workers, {})
    await workers.began("holder")
    workers.pause(first)
    second = await workers.start(name="w2")
    await workers.began("holder", 2)
    await owned_by(handle, "holder")
    workers.touch("go")
    assert (await handle.result(10)).value > 2
    workers.resume(first)

    async def kept() -> Any:
        return await events(workers.ledger, handle.task_id, ev.LateRecorded)

    (late,) = await until(kept)
    assert (late.command, late.epoch) == ("retire:complete", 2)

    async def off_the_books() -> bool:
        return not (await handle.state()).works

    await until(off_the_books)
    assert first.returncode is second.returncode is None


async def test_an_effect_of_a_killed_worker_is_looked_up_and_not_done_again(workers: Workers) -> None:
    first = await workers.start("--loses")
    handle = await submit(workers, {"order": "A1"})

    async def acted() -> bool:
        return bool(workers.folder.lines("act"))

    await until(acted)
    await workers.kill(first)
    await workers.start()
    assert (await handle.result(15)).value[1] == "Done"
    assert len(workers.folder.lines("act")) == 1
    assert [each.state for each in await workers.ledger.effects(handle.task_id)] == [EffectState.CONFIRMED]


async def test_two_workers_share_the_tasks_and_each_is_done_once(workers: Workers) -> None:
    await asyncio.gather(workers.start(name="w1"), workers.start(name="w2"))
    workers.touch("go")
    handles = [await submit(workers, {"n": n}) for n in range(12)]
    for handle in handles:
        assert (await handle.result(20)).value == 2
        kinds = [each.kind for each in await events(workers.ledger, handle.task_id, ev.OfferIssued)]
        assert kinds == [OfferKind.START]
    assert len(workers.folder.lines("ended")) == 12
