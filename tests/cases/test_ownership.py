"""Reported failures, ownership: OW-01, OW-03 and OW-05."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenure import Complete, Escalate, Team, Tenure, Transfer
from tenure.errors import Fenced, Refused
from tenure.ledger import Beat, Ledger
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import HandoffState, WorkEnd
from tenure.runtime.content import to_body
from tenure.runtime.ids import new_id
from tests.runtime.harness import BRIEF, SHORT_LEASE, Desk, Line, alive, events, in_phase, names, owned_by, until
from tests.runtime.jobs.stubborn import DAEMON_PROGRAM, leader_of
from tests.runtime.processes import Workers, workers
from tests.runtime.program import team_in

__all__ = ["workers"]


# --- OW-01 ----------------------------------------------------------------------------------------------------------


async def test_ow_01_a_stalled_attempt_of_the_same_worker_name_changes_nothing_when_it_wakes(workers: Workers) -> None:
    """OW-01: W pauses past its lease, another process of the same name takes attempt 2, attempt 1 wakes up."""
    ledger = workers.ledger
    first = await workers.start(name="w")
    handle = await team_in(workers.folder, ledger).submit({}, goal="g", to="holder")
    await workers.began("holder")
    workers.pause(first)

    async def free() -> bool:  # the name is taken until the instance was silent for its whole lease
        (instance,) = [each for each in await ledger.instances() if each.name == "w"]
        return await asyncio.to_thread(ledger.now_blocking) > instance.seen_at + instance.lease_ms

    await until(free)
    await workers.start(name="w")
    await workers.began("holder", 2)
    second = (await owned_by(handle, "holder")).tenure
    assert second is not None
    workers.resume(first)

    async def cancelled() -> list[Any]:
        return workers.folder.lines("cancelled")

    await until(cancelled)
    after = await handle.state()
    assert (after.tenure, after.epoch) == (second, second.epoch), "attempt 2 is the only execution owner"
    superseded = (await handle.facts()).termination.residual
    assert [(work.work_id, work.state) for work in superseded] == [("handler:2", "residual")]
    workers.touch("go")
    assert (await handle.result(10)).value == second.epoch

    async def kept() -> list[Any]:
        return await events(ledger, handle.task_id, ev.LateRecorded)

    (late,) = await until(kept)
    body = await ledger.body(handle.task_id, late.body)
    assert body is not None
    assert (late.command, late.epoch, body.value()) == ("retire:complete", 2, 2), "its result is kept aside"
    assert (await handle.result(1)).value == second.epoch

    async def ended() -> bool:
        return not (await handle.state()).works

    await until(ended)


async def test_ow_01_each_operation_of_the_superseded_attempt_is_refused_on_its_epoch(ledger: Ledger) -> None:
    """OW-01: heartbeat, release, write result and final event of attempt 1, one by one."""
    line = Line(ledger)
    began = asyncio.Event()

    async def a(own: Tenure[Any]) -> Complete[Any]:
        began.set()
        await asyncio.Event().wait()
        return Complete()

    one, two = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    one.agent(a)
    two.agent(a)
    async with one.worker(name="w1", drain=0):
        handle = await two.submit(goal="g")
        await asyncio.wait_for(began.wait(), 5)
        first = (await handle.state()).tenure
        assert first is not None
        line.cut()
        async with two.worker(name="w2", drain=0):

            async def taken_over() -> bool:
                task = await handle.state()
                return task.tenure is not None and task.tenure.epoch > first.epoch

            await until(taken_over)
            before = await handle.state()
            beat = Beat(task_id=handle.task_id, epoch=first.epoch, instance=first.instance)
            (beaten,) = await asyncio.to_thread(ledger.heartbeat, [beat])
            assert beaten.error == "stale_epoch"

            def say(kind: Any, **fields: Any) -> Any:
                fields |= {"epoch": first.epoch, "instance": first.instance}
                return ledger.execute(
                    kind(command_id=new_id("c"), root_id=handle.task_id, task_id=handle.task_id, **fields)
                )

            with pytest.raises(Fenced):
                await say(cmd.Advance, document=to_body("overwritten"))
            assert (await say(cmd.Release, routes_retired=True)).status == "late"
            written = await say(cmd.Retire, decision=dec.CompleteWith(result=to_body("late")), quiet=True)
            assert written.status == "late"
            after = await handle.state()
            assert (after.tenure, after.epoch, after.document, after.phase) == (
                before.tenure,
                before.epoch,
                before.document,
                before.phase,
            )
        line.mend()
    kept = [each.command for each in await events(ledger, handle.task_id, ev.LateRecorded)]
    assert kept[:2] == ["release", "retire:complete"]


async def test_ow_01_a_failed_heartbeat_counts_as_lost_authority_before_the_lease_can_expire(ledger: Ledger) -> None:
    """OW-01: a database error on the heartbeat while attempt 1 is still running."""
    line = Line(ledger)
    began = asyncio.Event()
    desk = Desk()
    met: list[str] = []

    team = Team("t", ledger=line.ledger, settings=SHORT_LEASE)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            with pytest.raises(Fenced) as caught:
                await own.effect(desk, 1, key="k")
            met.append(caught.value.code)
        return Complete()

    async with team.worker(drain=0):
        handle = await team.submit(goal="g")
        await asyncio.wait_for(began.wait(), 5)
        line.cut()

        async def stopped() -> bool:
            return bool(met)

        await until(stopped)
        row = await ledger.row(handle.task_id)
        assert row is not None
        assert row.lease_until > await asyncio.to_thread(ledger.now_blocking), "its lease has not ended yet"
        line.mend()
    assert (met, desk.calls) == (["lease_lost"], [])


# --- OW-03 ----------------------------------------------------------------------------------------------------------


class Activities:
    """What an owner has started: in its scope, in the process, detached; two with a stop hook that blocks."""

    def __init__(self, ready: Path) -> None:
        self.ready = ready
        self.began = asyncio.Event()
        self.release = asyncio.Event()
        self.ended: list[str] = []
        self.background: list[asyncio.Task[None]] = []

    async def in_scope(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("scope")

    async def with_a_blocking_hook(self, own: Tenure[Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            with pytest.raises(Fenced):
                await own.save("written by the old owner")
            self.ended.append("fenced")
            while not self.release.is_set():
                try:
                    await self.release.wait()  # 30 s in the report: longer than anybody waits for it here
                except asyncio.CancelledError:
                    continue

    async def started(self) -> bool:
        return await asyncio.to_thread(self.ready.exists)

    async def handler(self, own: Tenure[Any]) -> Complete[Any]:
        if own.epoch > 2:
            return Complete(sorted(fact.what for fact in own.in_flight.works))
        _ = own.spawn(self.in_scope(), policy=BRIEF, name="scope")
        _ = own.spawn(self.with_a_blocking_hook(own), policy=BRIEF, name="hook")
        _ = own.process(*leader_of(DAEMON_PROGRAM, self.ready, stays=True), policy=BRIEF, name="detached")
        self.background.append(asyncio.create_task(self.with_a_blocking_hook(own)))
        await until(self.started)
        self.began.set()
        await asyncio.Event().wait()
        return Complete()


async def test_ow_03_the_loss_of_ownership_ends_what_was_started_under_it_or_lists_it(
    ledger: Ledger, tmp_path: Path
) -> None:
    """OW-03: one activity in the scope, one bound to the process, one detached; a stop hook that blocks."""
    line = Line(ledger)
    old = Activities(tmp_path / "ready")
    one, two = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    for team in (one, two):
        team.agent(name="a")(old.handler)
    loop = asyncio.get_running_loop()
    async with one.worker(name="w1", drain=0):
        handle = await two.submit(goal="g")
        await asyncio.wait_for(old.began.wait(), 10)
        line.cut()
        cut_at = loop.time()
        async with two.worker(name="w2"):
            found = (await handle.result(10)).value
            assert loop.time() - cut_at < 5, "blocking hooks do not delay fencing"
            assert found == ["a", "detached", "hook", "scope"], "B is told, while A's end is unobserved"
            line.mend()

            async def listed() -> bool:
                left = (await handle.facts()).termination.residual
                return sorted(work.name for work in left) == ["a", "hook"]

            await until(listed)
            residual = (await handle.facts()).termination.residual
            assert {(work.epoch, work.state) for work in residual} == {(2, "residual")}
            assert sorted(old.ended) == ["fenced", "fenced", "scope"]
            assert (await handle.state()).document == ""
            old.release.set()

            async def ended_at_last() -> bool:
                return not (await handle.state()).works

            await until(ended_at_last)
    assert not await alive(int(await asyncio.to_thread(old.ready.read_text)))


# --- OW-05 ----------------------------------------------------------------------------------------------------------


async def human(own: Tenure[Any]) -> Escalate | Complete[Any]:
    message = await own.receive(timeout=0)
    if message is None:
        return Escalate(own.input["ask"], who=("person-1",))
    return Complete(message.value["choice"])


async def with_the_answer(own: Tenure[Any]) -> Complete[Any]:
    (question,) = own.in_flight.delegations
    return Complete((await own.join(question.child_id)).value)


async def ask_late(own: Tenure[Any], asked: list[str], go: asyncio.Event) -> None:
    """Ask when the transfer is decided already, undisturbed by the request to end."""
    while not go.is_set():
        try:
            await go.wait()
        except asyncio.CancelledError:
            continue
    with pytest.raises(Refused) as caught:
        await own.open("human", {"ask": "too late"}, key="late")
    asked.append(caught.value.code)


async def test_ow_05_ownership_stays_with_the_sender_until_its_activity_has_ended(ledger: Ledger) -> None:
    """OW-05: transfer(to=B) and ask_human run at the same time; the question is raised one step later."""
    team = Team("t", ledger=ledger)
    asked: list[str] = []
    go = asyncio.Event()

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        asked.append(await own.open("human", {"ask": "which colour?"}, key="ask"))

        _ = own.spawn(ask_late(own, asked, go), name="ask_human")
        await own.save()
        return Transfer("b")

    team.agent(human)
    team.agent(name="b")(with_the_answer)

    async with team.worker():
        handle = await team.submit(goal="g")

        async def pending() -> bool:
            return bool((await handle.state()).hops)

        await until(pending)
        task = await handle.state()
        facts = await handle.facts()
        assert task.tenure is not None
        assert (task.hops[0].state, facts.execution.owner, facts.routing.receiver) == (HandoffState.INITIATED, "a", "a")
        child = team.task(asked[0])
        question = (await in_phase(child, "escalated")).question
        assert question is not None
        go.set()
        await owned_by(handle, "b")
        await child.answer(question.question_id, by="person-1", choice="green")
        assert (await handle.result(10)).value == "green"
    assert asked[1:] == ["retiring"]
    found = await names(ledger, handle.task_id)
    switched = found.index("TenureEnded")
    assert (
        found.index("HandoffInitiated") < found.index("WorkStopped") < switched < found.index("OfferIssued", switched)
    )
    (stopped,) = await events(ledger, handle.task_id, ev.WorkStopped)
    started = (await events(ledger, handle.task_id, ev.WorkStarted))[0]
    assert (stopped.work_id, stopped.how, stopped.late) == (started.work_id, WorkEnd.RETURNED, False)
    ended = [each for each in await ledger.events(task_id=handle.task_id) if isinstance(each.event, ev.WorkStopped)]
    assert ended[0].epoch == task.tenure.epoch, "what A did carries A's epoch"


async def check_attribution(ledger: Ledger, task_id: str, epoch: int) -> None:
    """What A did ended before the switch and carries A's epoch."""
    found = await names(ledger, task_id)
    switched = found.index("TenureEnded")
    offered = found.index("OfferIssued", switched)
    assert found.index("HandoffInitiated") < found.index("WorkStopped") < switched < offered
    (ended,) = [each for each in await ledger.events(task_id=task_id) if isinstance(each.event, ev.WorkStopped)]
    assert isinstance(ended.event, ev.WorkStopped)
    assert (ended.event.how, ended.event.late, ended.epoch) == (WorkEnd.RETURNED, False, epoch)


async def test_ow_05_the_pending_transfer_is_the_same_when_the_state_is_read_again(workers: Workers) -> None:
    """OW-05: persisted at that point, then the process is gone: the ledger finishes what A had decided."""
    first = await workers.start("--crash", "before:Release")
    handle = await team_in(workers.folder, workers.ledger).submit({"work": True}, goal="g")
    await first.wait()
    task = await handle.state()
    assert task.tenure is not None
    assert (task.tenure.agent, task.hops[0].state, task.phase) == ("a", HandoffState.INITIATED, "active")
    await workers.start()
    await handle.send("hello")
    assert (await handle.result(10)).value == ["b", "hello"]
    assert [line[1] for line in workers.folder.lines("began")] == ["a", "b"]
