"""Owned work of every kind and policy: what ends is seen, what does not end is said so, nothing is a hostage."""

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tenure import Complete, Policy, Settings, Team, Tenure, Transfer
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.payload import Fact
from tenure.protocol.vocabulary import Gate, Reason, WorkEnd, WorkKind
from tenure.runtime.handle import TaskHandle
from tests.runtime.harness import BRIEF, alive, events, in_phase, names, owned_by, until
from tests.runtime.jobs.stubborn import DEAF_PROGRAM, leader_of, python

HELPER = Policy(name="brief helper", grace_ms=100, booked=False)
STRICT = Policy(name="strict", grace_ms=100, gate=Gate.SETTLED)


def handing_over(ledger: Ledger, start: Any, **settings: Any) -> tuple[Team, list[Tenure[Any]]]:
    """A team whose first agent starts something and hands over; the second completes with what it finds in flight."""
    team = Team("t", ledger=ledger, settings=Settings(**settings))
    seen: list[Tenure[Any]] = []

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        if own.epoch > 2:
            seen.append(own)
            return Complete("it came back")
        await start(own)
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        seen.append(own)
        return Complete("b was here")

    return team, seen


async def run_over(team: Team) -> tuple[TaskHandle, float]:
    """Run it to its end; the handle, and the seconds that the handover took."""
    loop = asyncio.get_running_loop()
    handle = await team.submit(goal="g")
    began = loop.time()
    assert (await handle.result(20)).value == "b was here"
    return handle, loop.time() - began


async def stops_of(ledger: Ledger, handle: TaskHandle) -> list[tuple[WorkEnd, bool]]:
    return [(each.how, each.late) for each in await events(ledger, handle.task_id, ev.WorkStopped)]


# --- works that behave ----------------------------------------------------------------------------------------------


async def test_a_coroutine_a_thread_and_a_process_bring_their_results(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    async def five() -> int:
        return 5

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        one = await own.spawn(five(), name="five")
        two = await own.spawn(five)
        three = await own.thread(lambda x: x * 2, 6, name="twelve")
        four = await own.process(sys.executable, "-S", "-c", "raise SystemExit(3)")
        return Complete([one, two, three, four])

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == [5, 5, 12, 3]
    started = await events(ledger, handle.task_id, ev.WorkStarted)
    assert [each.kind for each in started] == [
        WorkKind.COROUTINE,
        WorkKind.COROUTINE,
        WorkKind.THREAD,
        WorkKind.PROCESS,
    ]
    assert [how for how, _ in await stops_of(ledger, handle)] == [WorkEnd.RETURNED] * 3 + [WorkEnd.EXITED]
    assert (await handle.state()).works == ()


async def test_a_work_is_on_the_books_before_it_runs(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    found: list[bool] = []

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        async def look() -> None:
            task = await ledger.task(own.task_id)
            assert task is not None
            me = asyncio.current_task()
            assert me is not None
            found.append(me.get_name() in [work.name for work in task.works])

        await own.spawn(look(), policy="local", name="booked")
        await own.spawn(look(), policy="helper", name="counted")
        return Complete()

    async with team.worker():
        await (await team.submit(goal="g")).result(10)
    assert found == [True, False], "helpers get no row"


async def test_what_a_work_raises_is_raised_where_it_is_awaited(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    async def wrong() -> None:
        raise ValueError("wrong")

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        with pytest.raises(ValueError, match="wrong"):
            await own.spawn(wrong())
        with pytest.raises(FileNotFoundError):
            await own.process("/no/such/program")
        return Complete("went on")

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "went on"
    assert [how for how, _ in await stops_of(ledger, handle)] == [WorkEnd.RAISED, WorkEnd.RAISED]


@pytest.mark.parametrize("policy", ["local", "external", "critical", BRIEF])
async def test_a_work_that_obeys_is_stopped_before_the_next_owner_starts(ledger: Ledger, policy: Any) -> None:
    async def start(own: Tenure[Any]) -> None:
        _ = own.spawn(asyncio.Event().wait(), policy=policy, name="patient")
        await own.save()

    team, seen = handing_over(ledger, start)
    async with team.worker():
        handle, seconds = await run_over(team)
    assert seconds < 3
    found = await names(ledger, handle.task_id)
    assert found.index("WorkStopped") < found.index("ExecutionStopped") < found.index("TenureEnded")
    assert "ResidualDeclared" not in found
    assert [(fact.what, fact.outcome) for fact in seen[0].in_flight.ended] == [("patient", "failed")]
    requested = await events(ledger, handle.task_id, ev.CancellationRequested)
    assert [each.delivered for each in requested] == [False, True], "asked and delivered are two facts"


async def test_a_thread_that_takes_the_question_stops(ledger: Ledger) -> None:
    def patient(stop: threading.Event) -> str:
        stop.wait(30)
        return "asked"

    async def start(own: Tenure[Any]) -> None:
        _ = own.thread(patient, policy="local")
        await own.save()

    team, _ = handing_over(ledger, start)
    async with team.worker():
        handle, _ = await run_over(team)
    assert await stops_of(ledger, handle) == [(WorkEnd.RETURNED, False)]
    assert "ExecutionStopped" in await names(ledger, handle.task_id)


async def test_a_process_group_is_ended_as_a_whole(ledger: Ledger, tmp_path: Path) -> None:
    ready = tmp_path / "ready"

    async def start(own: Tenure[Any]) -> None:
        _ = own.process(*leader_of(DEAF_PROGRAM, ready, stays=True), policy=Policy(name="p", grace_ms=1_000))
        await until(_exists(ready))

    team, _ = handing_over(ledger, start)
    async with team.worker():
        handle, _ = await run_over(team)
    assert await stops_of(ledger, handle) == [(WorkEnd.KILLED, False)]
    assert not await alive(int(ready.read_text()))


def _exists(path: Path) -> Any:
    async def look() -> bool:
        return await asyncio.to_thread(path.exists)

    return look


# --- works that do not end ------------------------------------------------------------------------------------------


class Released:
    """Lets what does not want to end go at the end of a test, from any thread."""

    def __init__(self) -> None:
        self.go = threading.Event()

    async def deaf(self) -> str:
        while not self.go.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        return "at last"

    async def shielding(self) -> str:
        while True:
            try:
                return await asyncio.shield(self.deaf())
            except asyncio.CancelledError:
                continue

    def thread(self) -> str:
        self.go.wait(30)
        return "at last"


@pytest.fixture
def released() -> Any:
    made = Released()
    yield made
    made.go.set()


@pytest.mark.parametrize("kind", ["deaf", "shielding", "thread"])
async def test_what_is_not_seen_to_end_is_residual_and_never_a_hostage(
    ledger: Ledger, released: Released, kind: str
) -> None:
    async def start(own: Tenure[Any]) -> None:
        if kind == "thread":
            _ = own.thread(released.thread, policy=BRIEF, name=kind)
        else:
            _ = own.spawn(getattr(released, kind)(), policy=BRIEF, name=kind)
        await own.save()

    team, seen = handing_over(ledger, start)
    async with team.worker():
        handle, seconds = await run_over(team)
        assert seconds < 5
        found = await names(ledger, handle.task_id)
        assert "ExecutionStopped" not in found[: found.index("TenureEnded")]
        assert [(fact.what, fact.outcome) for fact in seen[0].in_flight.works] == [(kind, "unknown")]
        facts = await handle.facts()
        assert [(each.name, each.state) for each in facts.termination.residual] == [(kind, "residual")]
        assert facts.answerable == "person:operator", "somebody answers for it after the end of the task"

        released.go.set()

        async def off_the_books() -> bool:
            return not (await handle.state()).works

        await until(off_the_books)
    assert await stops_of(ledger, handle) == [(WorkEnd.RETURNED, True)]
    stopped = (await events(ledger, handle.task_id, ev.WorkStopped))[0]
    body = await ledger.body(handle.task_id, stopped.result)
    assert body is not None
    assert body.value() == "at last"


async def test_a_helper_that_does_not_end_is_counted_and_has_no_row(ledger: Ledger, released: Released) -> None:
    async def start(own: Tenure[Any]) -> None:
        _ = own.spawn(released.deaf(), policy=HELPER)
        await own.save()

    team, _ = handing_over(ledger, start)
    async with team.worker():
        handle, seconds = await run_over(team)
    assert seconds < 5
    declared = (await events(ledger, handle.task_id, ev.ResidualDeclared))[0]
    assert (declared.unseen, declared.works) == (1, ())
    found = await names(ledger, handle.task_id)
    assert "WorkStarted" not in found
    assert "ExecutionStopped" not in found[: found.index("TenureEnded")]


async def test_helpers_that_end_are_not_mentioned(ledger: Ledger) -> None:
    async def start(own: Tenure[Any]) -> None:
        _ = own.spawn(asyncio.Event().wait(), policy=HELPER)
        await own.save()

    team, _ = handing_over(ledger, start)
    async with team.worker():
        handle, _ = await run_over(team)
    found = await names(ledger, handle.task_id)
    assert "ExecutionStopped" in found[: found.index("TenureEnded")]
    assert "ResidualDeclared" not in found


async def test_what_a_handler_leaves_running_is_booked_asked_to_end_and_not_called_stopped(
    ledger: Ledger, released: Released
) -> None:
    left: list[asyncio.Task[Any]] = []

    async def start(own: Tenure[Any]) -> None:
        left.append(asyncio.create_task(released.deaf()))

    team, seen = handing_over(ledger, start)
    async with team.worker():
        handle, seconds = await run_over(team)
        assert seconds < 5
        assert [(fact.what, fact.outcome) for fact in seen[0].in_flight.works] == [("left running by a", "unknown")]
        found = await names(ledger, handle.task_id)
        assert "ExecutionStopped" not in found[: found.index("TenureEnded")]
        released.go.set()

        async def off_the_books() -> bool:
            return not (await handle.state()).works

        await until(off_the_books)
    assert (await stops_of(ledger, handle))[-1][1]


async def test_what_a_handler_leaves_running_and_that_obeys_is_seen_to_end(ledger: Ledger) -> None:
    left: list[asyncio.Task[Any]] = []

    async def start(own: Tenure[Any]) -> None:
        left.append(asyncio.create_task(asyncio.sleep(60)))

    team, _ = handing_over(ledger, start)
    async with team.worker():
        handle, _ = await run_over(team)
    assert left[0].cancelled()
    found = await names(ledger, handle.task_id)
    assert "ExecutionStopped" in found[: found.index("TenureEnded")]


async def test_a_grandchild_that_survives_is_reported_with_its_identity(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kill does not reach it here: the runtime looks instead of assuming that its signals worked."""
    ready = tmp_path / "ready"
    real = os.killpg
    monkeypatch.setattr(os, "killpg", lambda group, number: real(group, 0))

    async def start(own: Tenure[Any]) -> None:
        _ = own.process(*python(DEAF_PROGRAM, ready), policy=BRIEF, name="tool")
        await until(_exists(ready))

    team, seen = handing_over(ledger, start)
    async with team.worker():
        handle, seconds = await run_over(team)
        assert seconds < 6
        assert [(fact.what, fact.outcome) for fact in seen[0].in_flight.works] == [("tool", "unknown")]
        (residual,) = (await handle.facts()).termination.residual
        pid = int(ready.read_text())
        assert (residual.seen_now, residual.cancel_delivered) == ("alive", True)
        assert any(str(pid) in name for name in residual.survivors)
        real(pid, signal.SIGKILL)

        async def off_the_books() -> bool:
            return not (await handle.state()).works

        await until(off_the_books)
    assert (await stops_of(ledger, handle))[-1] == (WorkEnd.KILLED, True)


@pytest.mark.may_block
async def test_a_handler_that_blocks_the_loop_keeps_its_lease_and_its_decision(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(lease_ms=300))

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        time.sleep(0.7)  # noqa: ASYNC251 - what the test is about
        return Complete("done")

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "done"
    assert [each.forced for each in await events(ledger, handle.task_id, ev.TenureEnded)] == [False]


# --- critical work is a gate ----------------------------------------------------------------------------------------


async def test_critical_work_that_does_not_end_brings_a_transfer_back(ledger: Ledger, released: Released) -> None:
    async def start(own: Tenure[Any]) -> None:
        _ = own.spawn(released.deaf(), policy=STRICT, name="transfer of money")
        await own.save()

    team, seen = handing_over(ledger, start, gate_ms=200, lease_ms=1_000)
    async with team.worker():
        handle = await team.submit(goal="g")
        await owned_by(handle, "a")

        async def returned() -> bool:
            return bool(seen)

        await until(returned)
        assert seen[0].agent == "a"
        assert [(fact.what, fact.outcome) for fact in seen[0].in_flight.works] == [("transfer of money", "unknown")]
        released.go.set()
        assert (await handle.result(10)).value == "it came back"
    ended = (await events(ledger, handle.task_id, ev.HandoffEnded))[0]
    assert ended.reason == Reason.GATE_TIMEOUT


async def test_critical_work_that_ends_late_lets_the_receiver_in(ledger: Ledger, released: Released) -> None:
    async def start(own: Tenure[Any]) -> None:
        _ = own.spawn(released.deaf(), policy=STRICT, name="transfer of money")
        await own.save()

    team, seen = handing_over(ledger, start)
    async with team.worker():
        handle = await team.submit(goal="g")

        async def acknowledged() -> bool:
            return "OfferAcknowledged" in (await names(ledger, handle.task_id))[6:]

        await until(acknowledged)
        assert seen == [], "nobody acts while the gate waits"
        released.go.set()
        assert (await handle.result(10)).value == "b was here"
    assert [fact.outcome for fact in seen[0].in_flight.ended] == ["done"]


async def test_critical_work_keeps_a_task_from_completing_and_then_a_person_is_asked(
    ledger: Ledger, released: Released
) -> None:
    team = Team("t", ledger=ledger, settings=Settings(gate_ms=200, lease_ms=1_000))

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        _ = own.spawn(released.deaf(), policy=STRICT)
        await own.save()
        return Complete("early")

    async with team.worker():
        handle = await team.submit(goal="g")
        task = await in_phase(handle, "escalated")
        assert task.question is not None
        assert task.question.reason == Reason.GATE_TIMEOUT


# --- what is refused ------------------------------------------------------------------------------------------------


async def test_misuse_of_works_is_refused_and_nothing_runs(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(retire_ms=10_000, open_items=1))
    codes: list[str] = []
    ran: list[str] = []

    async def run(name: str) -> None:
        ran.append(name)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        for policy in ("imagined", "critical"):
            with pytest.raises(Refused) as caught:
                await own.spawn(run(policy), policy=policy)
            codes.append(caught.value.code)
        hold = own.spawn(asyncio.Event().wait())
        with pytest.raises(Refused) as caught:
            await own.spawn(run("one too many"))
        codes.append(caught.value.code)
        hold.cancel()
        return Complete()

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).outcome == "completed"
    assert codes == ["misuse", "deadline_below_grace", "backlog_full"]
    assert ran == []


async def test_a_work_that_is_started_while_its_tenure_retires_never_runs_unowned(ledger: Ledger) -> None:
    late: list[str] = []

    async def start(own: Tenure[Any]) -> None:
        async def second() -> None:
            late.append("ran")

        async def first() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                with pytest.raises(Refused) as caught:
                    _ = own.spawn(second())
                late.append(caught.value.code)

        _ = own.spawn(first())
        await own.save()

    team, _ = handing_over(ledger, start)
    async with team.worker():
        await run_over(team)
    assert late == ["retiring"]


async def test_an_exit_code_other_than_zero_is_not_done(ledger: Ledger) -> None:
    from tenure.protocol.state import Ending
    from tenure.runtime.content import to_body
    from tenure.runtime.payloads import _ended

    class Bodies:
        async def body(self, root_id: str, digest: str) -> Any:
            return to_body(int(digest))

    team = Team("t", ledger=ledger)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        return Complete()

    task = await (await team.submit(goal="g")).state()
    facts: list[Fact] = [
        await _ended(Bodies(), task, Ending(work_id="w", name="tool", agent="a", how=WorkEnd.EXITED, result=code))  # type: ignore[arg-type]  # reads one body
        for code in ("0", "3")
    ]
    assert [fact.outcome for fact in facts] == ["done", "failed"]


async def test_what_a_process_wrote_is_at_its_handle(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        command = own.process(sys.executable, "-c", "print('forty-two')", policy="local")
        thread = own.thread(lambda: None, name="nothing")
        code = await command
        await thread
        assert command.output is not None
        return Complete([code, command.output.stdout.decode().strip(), thread.output])

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(15)).value == [0, "forty-two", None]
