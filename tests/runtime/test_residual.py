"""Residual work: on the books from its declaration on, in every later payload, and closed by what is seen."""

import asyncio
from typing import Any

from tenure import Complete, GiveBack, Policy, Team, Tenure, Transfer
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import EvidenceKind, WorkState
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
