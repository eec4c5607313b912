"""Reported failures, durability and resuming: DR-01, DR-03 and DR-05."""

import asyncio
from typing import Any

import pytest

from tenure import Complete, Escalate, Settings, Team, Tenure, Transfer
from tenure.errors import Fenced, Refused
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import HandoffState, OfferKind, Phase, Reason
from tenure.runtime.ids import new_id
from tenure.runtime.recovery import Recovery, recover
from tests.runtime.harness import Desk, Line, events, in_phase, until
from tests.runtime.processes import Workers, workers
from tests.runtime.program import team_in

__all__ = ["workers"]

# --- DR-01 ----------------------------------------------------------------------------------------------------------

POINTS = {
    "after the transfer is stored, before the switch": ("before:Release", {"work": True}, HandoffState.INITIATED),
    "after the switch is recorded, before B's start": ("after:Release", {"work": True}, HandoffState.TRANSFERRED),
    "switched in one commit, before B's start": ("after:Retire", {}, HandoffState.TRANSFERRED),
}


@pytest.mark.parametrize("point", POINTS)
async def test_dr_01_a_crash_in_the_middle_of_a_handoff_completes_the_switch_once(workers: Workers, point: str) -> None:
    """DR-01, points 1 and 2: kill the process there, restart, resume, and feed one message."""
    crash, data, state = POINTS[point]
    crashing = await workers.start("--crash", crash)
    handle = await team_in(workers.folder, workers.ledger).submit(data, goal="g")
    await asyncio.wait_for(crashing.wait(), 10)
    task = await handle.state()
    (hop,) = task.hops
    assert (hop.state, hop.receiver, hop.payload) == (state, "b", task.payload), "a record of it exists"
    await workers.start()
    await handle.send("one message")
    assert (await handle.result(15)).value == ["b", "one message"]
    granted = [each.agent for each in await events(workers.ledger, handle.task_id, ev.TenureGranted)]
    assert granted == ["a", "b"], "the switch was completed once"
    assert len(await events(workers.ledger, handle.task_id, ev.HandoffInitiated)) == 1


@pytest.mark.may_block  # the handler writes its log as it does in a process of its own
async def test_dr_01_a_target_that_was_asked_is_asked_again_and_not_started_twice(workers: Workers) -> None:
    """DR-01, point 4: killed after the target's start-up was asked for, before its acknowledgement."""
    settings = Settings(lease_ms=1_200, ack_ms=900)
    team = team_in(workers.folder, workers.ledger)
    async with team.worker(name="a-only", agents=["a"]):
        handle = await team.submit({}, goal="g", settings=settings)

        async def transferred() -> bool:
            return any(hop.state == HandoffState.TRANSFERRED for hop in (await handle.state()).hops)

        await until(transferred)
    crashing = await workers.start("--crash", "before:Acknowledge", "--hook")
    await asyncio.wait_for(crashing.wait(), 10)
    task = await handle.state()
    assert task.offer is not None
    assert task.offer.pickup is not None, "picked up, and not acknowledged"
    await workers.start("--hook")
    await handle.send("one message")
    assert (await handle.result(15)).value == ["b", "one message"]
    assert len(workers.folder.lines("asked")) == 2, "asked again"
    assert [line[1] for line in workers.folder.lines("began")] == ["a", "b"], "and started once"


async def test_dr_01_a_target_that_cannot_start_returns_the_task_with_the_reason(ledger: Ledger) -> None:
    """DR-01, point 3: the target's start raises; routing returns to the source."""
    team = Team("t", ledger=ledger)
    runs: list[str] = []

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        runs.append("a")
        if own.payload.trigger != "return":
            return Transfer("b")
        message = await own.receive(timeout=5)
        assert message is not None
        return Complete([own.payload.summary, message.value])

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        runs.append("b")
        raise RuntimeError("cannot start")

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.send("one message")
        assert (await handle.result(10)).value == ["raised: RuntimeError: cannot start", "one message"]
    assert runs == ["a", "b", "a"]
    (ended,) = await events(ledger, handle.task_id, ev.HandoffEnded)
    assert (ended.state, ended.reason) == (HandoffState.FAILED_RETURNED, Reason.RAISED)


# --- DR-03 ----------------------------------------------------------------------------------------------------------


def with_questions(ledger: Ledger, desk: Desk, runs: list[int]) -> Team:
    """e1 -> ask -> e2 -> ask -> e3, in one handler that starts again from its first line each time."""
    team = Team("t", ledger=ledger)

    @team.agent
    async def node(own: Tenure[Any]) -> Escalate | Complete[Any]:
        runs.append(own.epoch)
        answers: list[Any] = own.state or []
        while (message := await own.receive(timeout=0)) is not None:
            answers = [*answers, message.value["choice"]]
        await own.save(answers)
        references = []
        for n in range(3):
            done = await own.effect(desk, {"step": n}, key=f"step-{n}")
            references.append(done.effect_id)
            if n < 2 and len(answers) <= n:
                return Escalate(f"question {n + 1}?")
        return Complete([answers, len(set(references))])

    return team


async def test_dr_03_each_effect_is_done_once_however_often_the_node_resumes(ledger: Ledger) -> None:
    """DR-03: a restart between each question and its answer; the second question gets two answers."""
    desk = Desk()
    runs: list[int] = []
    team = with_questions(ledger, desk, runs)
    handle = await team.submit(goal="g")
    asked: list[str] = []
    for n, answer in enumerate(("yes", "no")):
        async with with_questions(ledger, desk, runs).worker(name=f"w{n}"):
            task = await in_phase(handle, "escalated")
        assert task.question is not None
        asked.append(task.question.question_id)
        await handle.answer(asked[-1], by="person:operator", choice=answer)
        with pytest.raises(Refused) as caught:
            await handle.answer(asked[-1], by="person:operator", choice="again")
        assert (caught.value.code, caught.value.next_action) == ("already_answered", "use_result")
        with pytest.raises(Refused):
            await handle.answer(asked[0], by="person:operator", choice="for the first question")
    async with with_questions(ledger, desk, runs).worker(name="w9"):
        assert (await handle.result(10)).value == [["yes", "no"], 3]
    assert len(runs) == 3, "it started from its first line three times"
    assert len(desk.calls) == len(desk.acts) == 3, "e1, e2 and e3 once each"
    assert len(set(asked)) == 2


async def test_dr_03_what_happens_outside_the_effect_gate_is_repeated_and_the_limits_say_so(ledger: Ledger) -> None:
    """DR-03: code before the pause with effects of its own cannot be protected, and the documentation says that."""
    from pathlib import Path

    team = Team("t", ledger=ledger)
    outside: list[str] = []

    @team.agent
    async def node(own: Tenure[Any]) -> Escalate | Complete[Any]:
        outside.append("sent a mail by hand")
        return Escalate("go on?") if await own.receive(timeout=0) is None else Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        task = await in_phase(handle, "escalated")
        assert task.question is not None
        await handle.answer(task.question.question_id, by="person:operator")
        await handle.result(10)
    assert len(outside) == 2
    limits = await asyncio.to_thread((Path(__file__).parents[2] / "docs/explanation/limits.md").read_text)
    assert "outside `own.effect`" in limits


# --- DR-05 ----------------------------------------------------------------------------------------------------------

HUNDRED = 100


class Blinking(Line):
    """A store that fails for a while after so many reports."""

    def __init__(self, ledger: Ledger, after: int) -> None:
        super().__init__(ledger)
        self.left = after

    async def execute(self, command: cmd.Command) -> cmd.Receipt:
        if isinstance(command, cmd.ReportDeath):
            self.left -= 1
            if self.left < 0:
                self.cut()
        self._pass("execute")
        return await self.far.execute(command)


async def hundred_of_a_dead_worker(workers: Workers) -> None:
    """100 tasks that a worker owns, and then that worker is killed."""
    team = team_in(workers.folder, workers.ledger)
    settings = Settings(lease_ms=60_000)
    await asyncio.gather(*(team.submit({}, goal="g", to="holder", settings=settings) for _ in range(HUNDRED)))
    first = await workers.start(name="x")
    await workers.began("holder", HUNDRED, within=20)
    await workers.kill(first)


async def test_dr_05_recovery_is_counted_completely_and_retried_until_nothing_is_left(workers: Workers) -> None:
    """DR-05: 100 tasks of a dead X; the store fails in the middle of their recovery."""
    await hundred_of_a_dead_worker(workers)
    blinking = Blinking(workers.ledger, after=40)
    swept = await recover(blinking.ledger, by="r")
    assert (swept.found, swept.recovered, swept.open, len(swept.failed)) == (HUNDRED, 40, 0, 60)
    assert all("cut" in cause for cause in swept.failed.values()), "listed with the cause"
    assert len(swept.unfinished) == 1, "and so is the instance whose end could not be noted"
    again = await recovered_after(blinking)
    assert (again.found, again.recovered, again.open, again.failed) == (60, 60, 0, {})
    rows = await workers.ledger.tasks(limit=200)
    assert len(rows) == HUNDRED
    for row in rows:
        assert row.task.tenure is None
        assert row.task.offer is not None, "offered again, with a deadline"
        assert row.task.offer.kind == OfferKind.TAKEOVER
        assert row.task.works == ()


async def recovered_after(blinking: Blinking) -> Recovery:
    """The store is back: sweep again until nothing has failed, as a worker does."""
    blinking.mend()
    blinking.left = HUNDRED

    async def clean() -> Recovery | None:
        swept = await recover(blinking.ledger, by="r")
        return None if swept.failed else swept

    found = await until(clean)
    assert found is not None
    return found


async def test_dr_05_a_worker_retries_by_itself_and_says_how_far_it_is(workers: Workers) -> None:
    """DR-05: the same inside a worker: nothing is swallowed, nothing stays with the dead owner."""
    await hundred_of_a_dead_worker(workers)
    blinking = Blinking(workers.ledger, after=40)
    team = team_in(workers.folder, blinking.ledger)
    async with team.worker(name="r", agents=["b"], drain=0) as worker:

        async def failed() -> bool:
            return len(worker.recovery.failed) == 60

        await until(failed)
        blinking.left = HUNDRED
        blinking.mend()

        async def nothing_left() -> bool:
            rows = await workers.ledger.tasks(limit=200)
            return not worker.recovery.failed and not any(row.task.tenure for row in rows)

        await until(nothing_left)
    assert all(row.task.phase == Phase.OFFERED for row in await workers.ledger.tasks(limit=200))


async def test_dr_05_an_owner_that_only_drains_cannot_take_back_what_was_recovered(ledger: Ledger) -> None:
    """DR-05, variant: X was not dead but draining under the same identity; its incarnation is another."""
    line = Line(ledger)
    began = asyncio.Event()
    settings = Settings(lease_ms=600)

    async def job(own: Tenure[Any]) -> Complete[Any]:
        began.set()
        if own.epoch > 2:
            return Complete("recovered")
        await asyncio.Event().wait()
        return Complete("never")

    one, two = (Team("t", ledger=way, settings=settings) for way in (line.ledger, ledger))
    one.agent(job)
    two.agent(job)
    async with one.worker(name="x", drain=0) as draining:
        handle = await two.submit(goal="g")
        await asyncio.wait_for(began.wait(), 5)
        assert (await recover(ledger, by="r")).found == 0, "a live process is not dead"
        with pytest.raises(Refused) as caught:
            async with two.worker(name="x"):
                pass
        assert caught.value.code == "worker_name_taken"
        line.cut()

        async def silent() -> bool:
            (instance,) = await ledger.instances()
            return await asyncio.to_thread(ledger.now_blocking) > instance.seen_at + instance.lease_ms

        await until(silent)
        async with two.worker(name="x") as incarnation:
            assert (await handle.result(10)).value == "recovered"
            assert incarnation.instance != draining.instance
        with pytest.raises((Fenced, Refused)):
            await ledger.execute(
                cmd.Advance(
                    command_id=new_id("c"),
                    root_id=handle.task_id,
                    task_id=handle.task_id,
                    epoch=2,
                    instance=draining.instance,
                )
            )
        line.mend()
    assert (await handle.result(1)).value == "recovered"
