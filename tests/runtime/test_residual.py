"""Residual work: on the books from its declaration on, in every later payload, and closed by what is seen."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tenure import Complete, Confirmed, GiveBack, NotFound, Policy, Provider, Team, Tenure, Transfer
from tenure.ledger import Instance, Ledger
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.settings import LOCAL
from tenure.protocol.state import Locator
from tenure.protocol.vocabulary import EvidenceKind, WorkEnd, WorkKind, WorkState
from tenure.runtime import residual
from tenure.runtime.jobs import this_host
from tenure.runtime.recovery import recover
from tenure.runtime.residual import watch_residual
from tenure.testing.conformance import Driver
from tests.runtime.harness import BRIEF, events, until

LET_GO = Policy(name="helper", grace_ms=100, booked=False)


async def stubborn(release: asyncio.Event) -> str:
    """Work that does not heed its cancellation."""
    while not release.is_set():
        try:
            await release.wait()
        except asyncio.CancelledError:
            continue
    return "late"


async def test_it_is_in_the_payload_of_every_later_hop_until_it_was_seen_to_end(ledger: Ledger) -> None:
    release, kept = asyncio.Event(), list[Any]()
    seen: list[tuple[str, list[tuple[str, str, str]]]] = []
    team = Team("t", ledger=ledger)

    def note(own: Tenure[Any]) -> None:
        seen.append((own.agent, [(fact.what, fact.outcome, fact.by) for fact in own.in_flight.works]))

    @team.agent(entry=True, may_transfer={"b": "it goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        note(own)
        if own.in_flight.works:
            return Complete()
        kept.append(own.spawn(stubborn(release), policy=BRIEF, name="search"))
        await asyncio.sleep(0)
        return Transfer("b")

    @team.agent(may_transfer={"c": "it goes on"})
    async def b(own: Tenure[Any]) -> Transfer[Any] | GiveBack:
        note(own)
        return Transfer("c") if len(seen) == 2 else GiveBack()

    @team.agent
    async def c(own: Tenure[Any]) -> GiveBack:
        note(own)
        return GiveBack()

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(20)
        assert seen == [
            ("a", []),
            *((agent, [("search", "unknown", "a")]) for agent in ("b", "c", "b", "a")),
        ], "over transfers and returns"
        (row,) = await ledger.residual()
        assert [work.state for work in row.task.works] == [WorkState.RESIDUAL], "of an ended task too"
        release.set()

        async def closed() -> bool:
            return not await ledger.residual()

        await until(closed)
    (stopped,) = await events(ledger, handle.task_id, ev.WorkStopped)
    assert (stopped.late, stopped.evidence) == (True, EvidenceKind.ENDED)


async def test_a_helper_is_counted_and_makes_no_rows(ledger: Ledger) -> None:
    release, kept = asyncio.Event(), list[Any]()
    team = Team("t", ledger=ledger)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        kept.append(own.spawn(stubborn(release), policy=LET_GO, name="helper"))
        await asyncio.sleep(0)
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(20)
        task = await handle.state()
        assert (task.works, task.unseen) == ((), 1)
        assert await ledger.residual() == []
        assert await events(ledger, handle.task_id, ev.WorkStarted, ev.WorkStopped) == []
        release.set()


# --- what a watcher sees --------------------------------------------------------------------------------------------


async def leave_behind(ledger: Ledger, root_id: str, kind: WorkKind, locator: Locator | None) -> None:
    """A completed task with a work that was not seen to end."""
    speaker = Driver(ledger, root_id)
    await speaker.owned()
    await speaker.own(cmd.StartWork, work_id=f"w-{root_id}", kind=kind, name="job", policy=LOCAL, locator=locator)
    await speaker.complete()
    tenure = (await speaker.task()).tenure
    assert tenure is not None
    await speaker.do(cmd.Release, epoch=tenure.epoch, instance="w1", routes_retired=True)


async def left(ledger: Ledger) -> list[str]:
    return [row.task.task_id for row in await ledger.residual()]


class Asked(Provider):
    """Its status of anything is what it is told to say."""

    name = "jobs"

    def __init__(self, says: Callable[[str], Any]) -> None:
        self.says = says

    async def status(self, reference: str) -> Any:
        answer = self.says(reference)
        return await answer if asyncio.iscoroutine(answer) else answer


def remote(reference: str) -> Locator:
    return Locator(provider="jobs", reference=reference)


async def test_a_status_whose_value_has_no_json_form_shows_the_end_all_the_same(ledger: Ledger) -> None:
    for name in ("t", "u"):
        await leave_behind(ledger, name, WorkKind.REMOTE, remote(name))
    found = {"t": Confirmed(object()), "u": Confirmed("fine")}
    assert await watch_residual(ledger, {"jobs": Asked(found.__getitem__)}, by="w2") == 2
    (stopped,) = await events(ledger, "t", ev.WorkStopped)
    assert (stopped.how, stopped.evidence, stopped.result) == (WorkEnd.RETURNED, EvidenceKind.STATUS, "")


def leave() -> Any:
    raise SystemExit(1)


@pytest.mark.parametrize(
    "says", [NotFound, leave, lambda: Confirmed, lambda: None], ids=["not found", "exits", "a type", "none"]
)
async def test_what_is_no_status_shows_no_end(ledger: Ledger, says: Callable[[], Any]) -> None:
    await leave_behind(ledger, "t", WorkKind.REMOTE, remote("j"))
    assert await watch_residual(ledger, {"jobs": Asked(lambda _: says())}, by="w2") == 0
    assert await left(ledger) == ["t"]


async def test_a_provider_that_knows_that_nothing_is_there_any_more_shows_that_it_is_gone(ledger: Ledger) -> None:
    await leave_behind(ledger, "t", WorkKind.REMOTE, remote("j"))
    assert await watch_residual(ledger, {"jobs": Asked(lambda _: NotFound(final=True))}, by="w2") == 1
    (stopped,) = await events(ledger, "t", ev.WorkStopped)
    assert (stopped.how, stopped.evidence, stopped.by) == (WorkEnd.VANISHED, EvidenceKind.STATUS, "w2")


async def test_statuses_that_never_come_hold_up_nobody_for_longer_than_one_of_them(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residual, "STATUS_SECONDS", 0.05)
    waiting: list[str] = []

    async def never(reference: str) -> Any:
        waiting.append(reference)
        await asyncio.Event().wait()

    for name in ("s", "t", "u"):
        await leave_behind(ledger, name, WorkKind.REMOTE, remote(name))
    hanging = Asked(lambda name: Confirmed() if name == "u" else never(name))
    assert await watch_residual(ledger, {"jobs": hanging}, by="w2") == 1
    assert (waiting, await left(ledger)) == (["s", "t"], ["s", "t"])


def instance_on(boot: str) -> Instance:
    here = this_host()
    return Instance(
        instance_id="w1", name="w1", host=here.host, boot=boot, pid=here.pid, started=here.started, lease_ms=1
    )


@pytest.mark.parametrize("way", ["watched", "recovered"])
@pytest.mark.parametrize("located", [True, False])
async def test_when_the_host_was_started_anew_a_group_of_before_is_gone_located_or_not(
    ledger: Ledger,
    way: str,
    located: bool,  # noqa: FBT001
) -> None:
    earlier = "an-earlier-boot/1"
    await asyncio.to_thread(ledger.register, instance_on(earlier))
    place = replace(this_host(), boot=earlier, group=this_host().pid) if located else None
    await leave_behind(ledger, "t", WorkKind.PROCESS, place)
    if way == "watched":
        assert await watch_residual(ledger, {}, by="w2") == 1
    else:
        swept = await recover(ledger, by="w2")
        assert (swept.found, swept.recovered, swept.open) == (1, 1, 0)
    (stopped,) = await events(ledger, "t", ev.WorkStopped)
    assert (stopped.how, stopped.evidence, stopped.by) == (WorkEnd.VANISHED, EvidenceKind.GONE, "w2")


async def test_a_group_that_was_never_located_is_not_gone_because_its_worker_is(ledger: Ledger) -> None:
    dead = replace(instance_on(this_host().boot), started=1)  # another process has its number by now
    await asyncio.to_thread(ledger.register, dead)
    await leave_behind(ledger, "t", WorkKind.PROCESS, None)
    assert await watch_residual(ledger, {}, by="w2") == 0
    swept = await recover(ledger, by="w2")
    assert (swept.found, swept.recovered, swept.open) == (1, 0, 1)
    assert await left(ledger) == ["t"]
