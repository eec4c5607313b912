"""Reported failures, cancellation: CA-01, CA-03 and CA-05."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tenure import Cancelled, Complete, Inconclusive, InDoubt, Policy, Provider, Team, Tenure, Transfer
from tenure.errors import Fenced
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import EffectState, Purpose, WorkEnd
from tenure.runtime.recovery import recover
from tests.runtime.harness import SHORT_LEASE, Desk, alive, events, names, until
from tests.runtime.processes import Workers, kill_session_of, workers
from tests.runtime.program import team_in, tool

__all__ = ["workers"]

QUICK = Policy(name="quick", grace_ms=100)


# --- CA-01 ----------------------------------------------------------------------------------------------------------


class Locking(Provider):
    """A remote tool that holds a lock for as long as it runs. ``transport`` says what becomes of a cancel message."""

    name = "X"

    def __init__(self, transport: str) -> None:
        self.transport = transport
        self.calls = 0
        self.held = False
        self.cancels = 0

    async def apply(self, request: Any, *, key: str) -> Any:
        self.calls += 1
        self.held = True
        await asyncio.Event().wait()

    async def cancel(self, request: Any, *, key: str) -> Any:
        self.cancels += 1
        if self.transport == "drops it":
            raise ConnectionError("the message was dropped")
        if self.transport == "acknowledges it":
            return Inconclusive("cancel acknowledged, still running")
        self.held = False
        return Cancelled()


def handing_over_while(tool: Locking, ledger: Ledger, *, timeout: float | None) -> Team:
    """A calls the tool and hands over; B wants the same lock and then, to see what happens, the same tool."""
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        call = own.spawn(
            own.effect(tool, 1, key="k", policy=QUICK, timeout=timeout, patience=0.1), policy=QUICK, name="call X"
        )

        async def called() -> bool:
            return tool.calls == 1

        await until(called)
        if timeout is not None:
            assert isinstance(await call, InDoubt)
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        told = [[fact.what, fact.outcome] for fact in own.in_flight.effects]
        again = await own.effect(tool, 1, key="k", patience=0.1, timeout=0.2)
        return Complete([told, type(again).__name__])

    return team


@pytest.mark.parametrize("transport", ["drops it", "acknowledges it"])
@pytest.mark.parametrize("timeout", [None, 0.1])
async def test_ca_01_a_cancelled_call_is_open_until_its_end_is_observed(
    ledger: Ledger, transport: str, timeout: float | None
) -> None:
    """CA-01: the cancel message is dropped, or acknowledged by a tool that keeps running; also after a time-out."""
    tool = Locking(transport)
    team = handing_over_while(tool, ledger, timeout=timeout)
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == [[["X", "unknown"]], "InDoubt"], "B is told that the lock may be held"
    assert tool.calls == 1, "no retry while the first call is unresolved"
    assert tool.held
    found = await names(ledger, handle.task_id)
    assert "EffectsSettled" not in found, "the handoff is not reported as clean"
    assert [each.state for each in await ledger.effects(handle.task_id)] == [EffectState.IN_DOUBT]
    if timeout is None:
        assert tool.cancels == 1, "the request to cancel was sent"
        attempts = await events(ledger, handle.task_id, ev.EffectAttempted)
        assert attempts[0].purpose == Purpose.CANCEL
    (open_effect,) = (await handle.facts()).effects.open
    assert open_effect.state == "in_doubt"


async def test_ca_01_only_an_observed_end_settles_it(ledger: Ledger) -> None:
    """CA-01: the tool confirms that it has ended; then, and only then, B finds nothing open."""
    tool = Locking("ends")
    team = handing_over_while(tool, ledger, timeout=None)
    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == [[], "Refused"]
    assert (tool.calls, tool.cancels, tool.held) == (1, 1, False)
    assert [each.state for each in await ledger.effects(handle.task_id)] == [EffectState.CANCELLED]


# --- CA-03 ----------------------------------------------------------------------------------------------------------


class Stubborn:
    """A handler that survives its cancellation in one of the reported ways, then tries to act."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.desk = Desk()
        self.go = asyncio.Event()
        self.inner: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[Any] | None = None
        self.own: Tenure[Any] | None = None
        self.fenced: list[str] = []

    async def handler(self, own: Tenure[Any]) -> Complete[Any]:
        self.task, self.own = asyncio.current_task(), own
        try:
            await self._wait()
        finally:
            if self.way == "delays its cleanup":
                await self._deaf()
        await self._deaf()
        try:
            await own.effect(self.desk, 1, key="k")
        except Fenced as error:
            self.fenced.append(error.code)
        return Complete("as if never cancelled")

    async def _wait(self) -> None:
        if self.way == "loses it in a timed wait":
            await timed_wait(self.inner, 30)
        elif self.way == "shields its inner work":
            inner = asyncio.ensure_future(self._deaf())
            while not inner.done():
                try:
                    await asyncio.shield(inner)
                except asyncio.CancelledError:
                    continue
        else:
            await self._deaf() if self.way == "catches it and loops" else await asyncio.Event().wait()

    async def _deaf(self) -> None:
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                continue


async def timed_wait(inner: asyncio.Future[int], timeout: float) -> int:
    """Wait as ``asyncio.wait_for`` did before Python 3.12: cancelled in the cycle in which it completes, it returns."""
    try:
        await asyncio.wait({inner}, timeout=timeout)
    except asyncio.CancelledError:
        if not inner.done():
            raise
    return inner.result()


@pytest.mark.parametrize(
    "way", ["loses it in a timed wait", "catches it and loops", "shields its inner work", "delays its cleanup"]
)
async def test_ca_03_whoever_survives_its_cancellation_is_reported_as_running_and_fenced(
    ledger: Ledger, way: str
) -> None:
    """CA-03: cancelled in the cycle in which the inner work completes; caught; shielded; cleanup beyond the grace."""
    stubborn = Stubborn(way)
    team = Team("t", ledger=ledger, settings=SHORT_LEASE)

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        if own.epoch == 2:
            return Transfer("b")
        return Complete([[fact.what, fact.outcome] for fact in own.in_flight.works])

    team.agent(name="b")(stubborn.handler)
    loop = asyncio.get_running_loop()
    async with team.worker():
        handle = await team.submit(goal="g")

        async def running() -> bool:
            return stubborn.task is not None

        await until(running)
        await asyncio.sleep(0.02)
        task = await handle.state()
        if way == "loses it in a timed wait" and stubborn.task is not None:
            stubborn.inner.set_result(1)
            stubborn.task.cancel()  # the reported cycle
        began = loop.time()
        await handle.reverse(task.hops[0].handoff_id, by="person-1")
        assert (await handle.result(10)).value == [["b", "unknown"]], "the handoff carries it as residual work"
        assert loop.time() - began < 6, "it does not wait for ever"
        (residual,) = (await handle.facts()).termination.residual
        assert (residual.kind, residual.state, residual.name) == ("handler", "residual", "b")
        found = await names(ledger, handle.task_id)
        second = len(found) - 1 - found[::-1].index("RoutingFenced")
        assert "ExecutionStopped" not in found[second : found.index("OfferIssued", second)], "it claims no success"

        async def asked() -> bool:
            return stubborn.own is not None and stubborn.own.hold.error is not None

        await until(asked)
        stubborn.go.set()

        async def ended() -> bool:
            return not (await handle.state()).works

        await until(ended)
    assert stubborn.desk.calls == []
    acted = way != "delays its cleanup"  # that one is cancelled once its cleanup is over
    assert len(stubborn.fenced) == acted, "what it did later was fenced"
    (stopped,) = await events(ledger, handle.task_id, ev.WorkStopped)
    assert stopped.late


# --- CA-05 ----------------------------------------------------------------------------------------------------------


def beats(path: Path) -> Any:
    async def there() -> int:
        if not await asyncio.to_thread(path.exists):
            return 0
        return int((await asyncio.to_thread(path.read_text)).split()[0])

    return there


async def test_ca_05_a_tool_call_that_was_killed_leaves_no_survivor_unreported(ledger: Ledger, tmp_path: Path) -> None:
    """CA-05 (a): the call times out and is cancelled; the grandchild ignores that, and is named."""
    team = Team("t", ledger=ledger)
    path = tmp_path / "beats"
    seen: list[Any] = []

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        work = own.process(*tool(path), policy=Policy(name="tool", grace_ms=2_000), name="tool")
        pid = await until(beats(path))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await work
        work.cancel()
        await asyncio.sleep(0.2)
        (running,) = (await team.task(own.task_id).facts()).termination.running
        seen.append((pid, running.seen_now, any(str(pid) in name for name in running.survivors), work.outcome))
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete([fact.outcome for fact in own.in_flight.works])

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(15)).value == []
    ((pid, seen_now, named, outcome),) = seen
    assert (seen_now, named, outcome) == ("alive", True, None), "kill is not assumed to have worked"
    assert not await alive(pid), "the whole group was observed dead before B started"
    (stopped,) = await events(ledger, handle.task_id, ev.WorkStopped)
    assert (stopped.how, stopped.late) == (WorkEnd.KILLED, False)


@pytest.mark.parametrize("reaches", [True, False])
async def test_ca_05_after_a_handoff_the_group_is_observed_dead_or_its_survivor_listed(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reaches: bool
) -> None:
    """CA-05 (b): A hands off and its tools are closed; B is not told so when a survivor is alive."""
    team = Team("t", ledger=ledger)
    path = tmp_path / "beats"
    pids: list[int] = []

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        grace = Policy(name="tool", grace_ms=1_000 if reaches else 300)
        _ = own.process(*tool(path), policy=grace, name="tool")
        pids.append(await until(beats(path)))
        if not reaches:
            monkeypatch.setattr(os, "killpg", lambda group, number: None)
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete([[fact.what, fact.outcome] for fact in own.in_flight.works])

    async with team.worker():
        handle = await team.submit(goal="g")
        told = (await handle.result(15)).value
        if reaches:
            assert told == []
            assert not await alive(pids[0])
        else:
            assert told == [["tool", "unknown"]]
            (residual,) = (await handle.facts()).termination.residual
            assert residual.seen_now == "alive"
            assert any(str(pids[0]) in name for name in residual.survivors)
            monkeypatch.undo()
            kill_session_of(pids[0])

            async def ended() -> bool:
                return not (await handle.state()).works

            await until(ended)


async def test_ca_05_recovery_finds_the_group_of_a_host_process_that_was_killed(workers: Workers) -> None:
    """CA-05 (c): A's host process is killed hard and restarted; the group is found and reported as orphaned."""
    first = await workers.start()
    handle = await team_in(workers.folder, workers.ledger).submit({"start": ["process"]}, goal="g", to="holder")
    pid = await workers.beating()

    async def located() -> bool:
        return any(work.locator and work.locator.group for work in (await handle.state()).works)

    await until(located)
    await workers.kill(first)
    swept = await recover(workers.ledger, by="w2")
    assert (swept.found, swept.recovered, swept.open, swept.failed) == (1, 0, 1, {})
    (orphan,) = (await handle.facts()).termination.residual
    assert (orphan.name, orphan.seen_now) == ("process", "alive")
    assert any(str(pid) in name for name in orphan.survivors)
    os.killpg(os.getpgid(pid), signal.SIGKILL)

    async def gone() -> bool:
        return not await alive(pid)

    await until(gone)
    swept = await recover(workers.ledger, by="w2")
    assert (swept.found, swept.recovered, swept.open) == (1, 1, 0)
    assert (await handle.state()).works == ()
