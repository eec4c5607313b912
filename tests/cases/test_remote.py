"""Reported failures of what runs elsewhere: CA-07."""

import asyncio
from copy import copy
from typing import Any

import pytest

from tenure import (
    Accepted,
    Cancelled,
    Complete,
    Confirmed,
    Declined,
    Failed,
    Policy,
    Provider,
    Settings,
    Team,
    Tenure,
)
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import EvidenceKind, Gate, Phase, WorkEnd
from tenure.runtime.residual import watch_residual
from tenure.runtime.works import RemoteFailed
from tests.runtime.harness import events, in_phase, until

QUICK = Policy(name="quick", grace_ms=300)


class Remote(Provider):
    """A remote agent's work, by its name there.

    Attributes:
        hook: what its cancellation does: ``ends`` the work, is ``empty`` (says yes and does nothing), or is ``lost``.
        state: how the work stands: ``running``, ``parked``, ``completed``, ``cancelled`` or ``failed``.
    """

    name = "remote"

    def __init__(self, hook: str = "ends", state: str = "running") -> None:
        self.hook = hook
        self.state = state
        self.stops = 0

    async def apply(self, request: Any, *, key: str) -> Any:
        del request, key
        return Accepted("k-1")

    async def status(self, reference: str) -> Any:
        assert reference == "k-1"
        match self.state:
            case "completed":
                return Confirmed({"found": 7})
            case "cancelled":
                return Cancelled("k-1")
            case "failed":
                return Failed("out of memory")
            case _:
                return Accepted("k-1")

    async def stop(self, reference: str) -> Any:
        self.stops += 1
        if self.hook == "lost":
            raise ConnectionError("the message was lost")
        if self.hook == "ends" and self.state in ("running", "parked"):
            self.state = "cancelled"
        return Accepted(reference)


def owning(remote: Remote, ledger: Ledger, **settings: Any) -> tuple[Team, asyncio.Event]:
    """One agent that owns the remote work and waits until it is asked to stop."""
    began = asyncio.Event()
    team = Team("t", ledger=ledger, providers=[remote], settings=Settings(**settings))

    @team.agent
    async def caller(own: Tenure[Any]) -> Complete[Any]:
        work = own.remote(remote, "k-1", policy=QUICK)
        began.set()
        return Complete(await work)

    return team, began


async def stopped(ledger: Ledger, task_id: str) -> list[tuple[str, str]]:
    """How each remote work ended, and what has shown it."""
    found = [one for one in await events(ledger, task_id, ev.WorkStopped) if not one.work_id.startswith("handler:")]
    return [(str(one.how), str(one.evidence)) for one in found]


@pytest.mark.parametrize("state", ["running", "parked"])
async def test_ca_07_cancelled_only_once_the_remote_agent_says_that_it_is(ledger: Ledger, state: str) -> None:
    """CA-07 (a), (b): mid-run and while parked. The terminal state is written once, from the remote status."""
    remote = Remote(state=state)
    team, began = owning(remote, ledger)
    async with team.worker():
        handle = await team.submit(goal="g")
        await began.wait()
        assert await handle.cancel(by="customer-07") == "cancel_requested", "accepted, and no more than that"
        assert (await handle.result(20)).outcome == "cancelled"
    assert remote.state == "cancelled"
    assert await stopped(ledger, handle.task_id) == [("cancelled", "status")]


async def test_ca_07_completed_in_the_instant_of_the_cancellation_keeps_its_result(ledger: Ledger) -> None:
    """CA-07 (c): B completes while the request to stop is on its way: one of the two, and the result is kept."""
    remote = Remote()
    team, began = owning(remote, ledger)
    async with team.worker():
        handle = await team.submit(goal="g")
        await began.wait()
        remote.state = "completed"
        await handle.cancel(by="customer-07")
        assert (await handle.result(20)).outcome in ("cancelled", "completed")
        (end,) = [one for one in await events(ledger, handle.task_id, ev.WorkStopped) if one.result]
        body = await ledger.body(handle.task_id, end.result)
    assert (end.how, end.evidence) == (WorkEnd.RETURNED, EvidenceKind.STATUS)
    assert body is not None
    assert body.value() == {"found": 7}


@pytest.mark.parametrize("hook", ["empty", "lost"])
async def test_ca_07_with_an_empty_hook_the_work_is_never_shown_as_cancelled(ledger: Ledger, hook: str) -> None:
    """CA-07: the executor's cancel does nothing. The work stays on the books until its status shows an end."""
    remote = Remote(hook)
    team, began = owning(remote, ledger)
    async with team.worker():
        handle = await team.submit(goal="g")
        await began.wait()
        await handle.cancel(by="customer-07")

        async def residual() -> Any:
            return (await handle.facts()).termination.residual

        (left,) = await until(residual)
        assert (left.kind, left.seen_now) == ("remote", "not determinable")
        assert await stopped(ledger, handle.task_id) == []
        assert remote.stops >= 1
        assert [row.task.task_id for row in await ledger.residual()] == [handle.task_id]
        assert await watch_residual(ledger, {"remote": remote}, by="w2") == 0, "it runs on"
    remote.state = "completed"
    assert await watch_residual(ledger, {}, by="w2") == 0, "who does not know the provider sees nothing"
    assert await watch_residual(ledger, {"remote": remote}, by="w2") == 1
    assert await watch_residual(ledger, {"remote": remote}, by="w3") == 0, "and once"
    assert await stopped(ledger, handle.task_id) == [("returned", "status")]
    assert await ledger.residual() == []


async def test_ca_07_of_critical_work_that_goes_on_a_person_is_asked(ledger: Ledger) -> None:
    """CA-07: nothing is shown as cancelled while it may run; after the deadline a person decides."""
    remote = Remote("empty")
    team = Team("t", ledger=ledger, providers=[remote], settings=Settings(cancel_ms=600, retire_ms=500, gate_ms=300))
    began = asyncio.Event()
    careful = Policy(name="careful", grace_ms=100, gate=Gate.STOPPED)

    @team.agent
    async def caller(own: Tenure[Any]) -> Complete[Any]:
        work = own.remote(remote, "k-1", policy=careful)
        began.set()
        return Complete(await work)

    async with team.worker():
        handle = await team.submit(goal="g")
        await began.wait()
        await handle.cancel(by="customer-07")
        task = await in_phase(handle, Phase.ESCALATED)
        assert task.question is not None
        assert "remote k-1" in [work.name for work in task.works]
        remote.state = "cancelled"
        assert await watch_residual(ledger, {"remote": remote}, by="w2") <= 1


class Unstoppable(Provider):
    """A remote agent that has no way to be cancelled."""

    name = "remote"

    async def status(self, reference: str) -> Any:
        return Accepted(reference)


class Refusing(Remote):
    """One that says no."""

    async def stop(self, reference: str) -> Any:
        return Declined("not cancelable in this state")


@pytest.mark.parametrize(
    ("remote", "reply", "outcome"),
    [
        (Remote("empty"), "accepted", None),
        (Remote("lost"), "unknown", None),
        (Refusing(), "refused", None),
        (Unstoppable(), "not_supported", None),
        (Remote("ends"), "ended", WorkEnd.CANCELLED),
        (Remote(state="completed"), "ended", WorkEnd.RETURNED),
        (Remote(state="failed"), "ended", WorkEnd.RAISED),
    ],
    ids=["an empty hook", "lost", "refused", "not supported", "ends", "completed before", "failed before"],
)
async def test_ca_07_the_reply_to_a_cancellation_states_what_is_known(
    ledger: Ledger, remote: Any, reply: str, outcome: WorkEnd | None
) -> None:
    """CA-07: accepted, not supported, already terminal. Only what the status shows is an end."""
    remote = copy(remote)
    team = Team("t", ledger=ledger, providers=[remote])

    @team.agent
    async def caller(own: Tenure[Any]) -> Complete[Any]:
        work = own.remote(remote, "k-1", policy=QUICK)
        told = await work.stop()
        task = await ledger.task(own.task_id)
        assert task is not None
        kept = [[str(each.state), each.delivered] for each in task.works]
        return Complete([told, work.outcome.how if work.outcome else None, kept if told != "ended" else None])

    async with team.worker(reconcile=False):
        handle = await team.submit(goal="g")
        value = (await handle.result(20)).value
    assert value[:2] == [reply, outcome]
    if outcome is None:
        assert value[2] == [["cancel_requested", reply == "accepted"]], "asked, and known to have arrived or not"
        assert await stopped(ledger, handle.task_id) == []
        assert len(await ledger.residual()) == 1, "never shown as cancelled"
    else:
        assert await stopped(ledger, handle.task_id) == [(str(outcome), "status")], "once"


@pytest.mark.parametrize("state", ["cancelled", "failed"])
async def test_ca_07_what_did_not_return_is_no_result(ledger: Ledger, state: str) -> None:
    """CA-07 (c): completed or cancelled and never both; who waits for the work is not told that it returned nothing."""
    remote = Remote(state=state)
    team = Team("t", ledger=ledger, providers=[remote])

    @team.agent
    async def caller(own: Tenure[Any]) -> Complete[Any]:
        with pytest.raises(RemoteFailed):
            await own.remote(remote, "k-1", policy=QUICK)
        return Complete("told")

    async with team.worker(reconcile=False):
        assert (await (await team.submit(goal="g")).result(20)).value == "told"
