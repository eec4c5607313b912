"""Reported failures, effects: EF-01, EF-03 and EF-07."""

import asyncio
from typing import Any

import pytest

from tenure import (
    Complete,
    Confirmed,
    Done,
    InDoubt,
    NotFound,
    Policy,
    Provider,
    Team,
    Tenure,
    Transfer,
)
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import EffectState, Reason
from tests.runtime.harness import SHORT_LEASE, Jobs, Line, events, until

QUICK = Policy(name="quick", grace_ms=100)


class Shop(Provider):
    """Takes an order after a while, whatever becomes of the caller; can be asked about a key."""

    name = "shop"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.calls: list[Any] = []
        self.orders: dict[str, Any] = {}
        self.landed = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()

    async def apply(self, request: Any, *, key: str) -> Any:
        self.calls.append(request)
        landing = asyncio.create_task(self._land(key, request))
        self._under_way.add(landing)
        await asyncio.shield(landing)
        return Confirmed(request, f"order-{len(self.orders)}")

    async def _land(self, key: str, request: Any) -> None:
        await asyncio.sleep(self.seconds)
        assert key not in self.orders, "ordered twice"
        self.orders[key] = request
        self.landed.set()

    async def lookup(self, request: Any, *, key: str) -> Any:
        return Confirmed(self.orders[key], "order-1") if key in self.orders else NotFound()


# --- EF-01 ----------------------------------------------------------------------------------------------------------


async def test_ef_01_an_interrupted_reply_does_not_lose_the_order(ledger: Ledger) -> None:
    """EF-01: the reply is aborted right after the commit; the next turn repeats the request in other words."""
    shop = Shop(0.05)
    team = Team("t", ledger=ledger)

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        async def reply(text: str) -> Any:
            asked = {"sku": "shoe", "text": text}
            outcome = await own.effect(shop, asked, key="customer-07:shoe", compare=("sku",))
            await asyncio.sleep(0.3)  # still speaking
            return outcome

        speaking = own.spawn(reply("I want that shoe"), policy=QUICK)
        await shop.landed.wait()
        speaking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await speaking
        again = await own.spawn(reply("Please, the shoe!"), policy=QUICK)
        assert isinstance(again, Done)
        return Complete(again.reference)  # from the record, or from the one call if that is not recorded yet

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "order-1"
    assert (len(shop.calls), len(shop.orders)) == (1, 1), "one order at the provider"
    assert [each.state for each in await ledger.effects(handle.task_id)] == [EffectState.CONFIRMED]


async def test_ef_01_a_handoff_right_after_the_commit_takes_the_record_along(ledger: Ledger) -> None:
    """EF-01, variant: instead of an interruption, a handoff to B happens then and B receives the request."""
    shop = Shop(0.05)
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        asked = {"sku": "shoe", "text": "I want that shoe"}
        _ = own.spawn(own.effect(shop, asked, key="customer-07:shoe", compare=("sku",)), policy=QUICK)
        await shop.landed.wait()
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        known = [fact for fact in (*own.payload.done, *own.in_flight.ended) if fact.what == "shop"]
        asked = {"sku": "shoe", "text": "Please, the shoe!"}
        again = await own.effect(shop, asked, key="customer-07:shoe", compare=("sku",))
        assert isinstance(again, Done)
        return Complete([[fact.outcome, fact.reference] for fact in known] + [[again.repeated, again.reference]])

    async with team.worker():
        value = (await (await team.submit(goal="g")).result(10)).value
    assert value == [["done", "order-1"], [True, "order-1"]]
    assert len(shop.calls) == 1


# --- EF-03 ----------------------------------------------------------------------------------------------------------


async def test_ef_03_a_time_out_is_an_open_outcome_that_the_next_owner_looks_up(ledger: Ledger) -> None:
    """EF-03: the gateway gives up before the provider answers with success; B is asked to pay."""
    shop = Shop(0.3)
    team = Team("t", ledger=ledger)
    met: list[Any] = []

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        met.append(await own.effect(shop, {"cents": 900}, key="A17", timeout=0.1, patience=0.05))
        return Transfer("b", {"pay": "A17"})

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        met.extend(own.in_flight.effects)
        outcome = await own.effect(shop, {"cents": 900}, key=own.input["pay"], timeout=0.1)
        assert isinstance(outcome, Done)
        return Complete(outcome.reference)

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "order-1"
    assert isinstance(met[0], InDoubt), "unknown, never failed"
    assert [(fact.what, fact.outcome) for fact in met[1:]] == [("shop", "unknown")]
    assert (len(shop.calls), len(shop.orders)) == (1, 1), "one charge at the provider"
    assert len({effect.intent for effect in await ledger.effects(handle.task_id)}) == 1


async def test_ef_03_two_attempts_with_one_key_at_the_same_time_are_one_call(ledger: Ledger) -> None:
    """EF-03, variant: two attempts with the same key start within 10 ms, also from two tasks of one tree."""
    shop = Shop(0.1)
    team = Team("t", ledger=ledger)

    @team.agent(entry=True)
    async def parent(own: Tenure[Any]) -> Complete[Any]:
        one, two, other = await asyncio.gather(
            own.effect(shop, {"cents": 900}, key="A17"),
            own.effect(shop, {"cents": 900}, key="A17"),
            own.delegate("child"),
        )
        assert isinstance(one, Done)
        assert one == two
        return Complete(other.value)

    @team.agent
    async def child(own: Tenure[Any]) -> Complete[Any]:
        return Complete(type(await own.effect(shop, {"cents": 900}, key="A17", patience=0.1)).__name__)

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value in ("InDoubt", "Done")
    assert (len(shop.calls), len(shop.orders)) == (1, 1)


async def test_ef_03_the_same_key_with_another_amount_is_a_conflict(ledger: Ledger) -> None:
    """EF-03, variant: same key, different amount; while it is open and after it is settled."""
    shop = Shop(0.1)
    team = Team("t", ledger=ledger)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        first = own.spawn(own.effect(shop, {"cents": 900}, key="A17"))
        await asyncio.sleep(0.02)
        codes = []
        for wait_first in (False, True):
            if wait_first:
                await first
            with pytest.raises(Refused) as caught:
                await own.effect(shop, {"cents": 901}, key="A17")
            codes.append(caught.value.code)
        return Complete(codes)

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == ["intent_conflict"] * 2
    assert len(shop.calls) == 1


# --- EF-07 ----------------------------------------------------------------------------------------------------------


class StatusOnly(Provider):
    """Remote jobs that can be asked for and not cancelled."""

    name = "jobs"

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    async def apply(self, request: Any, *, key: str) -> Any:
        return await self.jobs.apply(request, key=key)

    async def lookup(self, request: Any, *, key: str, reference: str) -> Any:
        return await self.jobs.lookup(request, key=key, reference=reference)


class Blind(Provider):
    """Remote jobs that can be neither asked for nor cancelled."""

    name = "jobs"

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    async def apply(self, request: Any, *, key: str) -> Any:
        return await self.jobs.apply(request, key=key)


async def lost_with_a_job(ledger: Ledger, provider: Provider, second: Any) -> tuple[Any, Any]:
    """A starts a job and its host loses contact; ``second`` is what the next owner does. Its result and the task."""
    line = Line(ledger)
    started = asyncio.Event()

    async def worker_of_jobs(own: Tenure[Any]) -> Any:
        if own.epoch > 2:
            return await second(own)
        outcome = await own.effect(provider, {"run": 1}, key="job", patience=0)
        assert isinstance(outcome, InDoubt)
        assert outcome.reference == "job-1"
        started.set()
        await asyncio.Event().wait()
        return Complete()

    one, two = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    for team in (one, two):
        team.agent(name="a")(worker_of_jobs)
    async with one.worker(name="w1", drain=0):
        handle = await two.submit(goal="g")
        await asyncio.wait_for(started.wait(), 5)
        line.cut()
        async with two.worker(name="w2"):

            async def taken_over() -> bool:
                task = await handle.state()
                return task.epoch > 2 and (task.tenure is not None or task.phase != "offered")

            await until(taken_over)

            async def over() -> Any:
                task = await handle.state()
                return task if task.phase in ("completed", "escalated") else None

            task = await until(over)
        line.mend()
    return handle, task


async def test_ef_07_the_loss_of_a_host_leaves_the_job_open_with_its_id_and_somebody_who_answers(
    ledger: Ledger,
) -> None:
    """EF-07, status API only: B adopts the job and polls it to its end; it is never started twice."""
    jobs = Jobs()
    told: list[Any] = []

    async def adopt(own: Tenure[Any]) -> Complete[Any]:
        told.extend([fact.what, fact.outcome, fact.reference] for fact in own.in_flight.effects)
        doubt = await own.effect(StatusOnly(jobs), {"run": 1}, key="job", patience=0.1)
        assert isinstance(doubt, InDoubt)
        told.append(doubt.answerable)
        jobs.state["job-1"] = "done"
        done = await own.effect(StatusOnly(jobs), {"run": 1}, key="job")
        assert isinstance(done, Done)
        return Complete(done.reference)

    handle, task = await lost_with_a_job(ledger, StatusOnly(jobs), adopt)
    assert (await handle.result(1)).value == "job-1"
    assert told == [["jobs", "unknown", "job-1"], "a"]
    assert len(jobs.started) == 1
    kept = [each.state for each in await events(ledger, task.task_id, ev.EffectObserved)]
    assert kept[0] == kept[1] == EffectState.ACCEPTED, "the loss of A changed execution ownership only"


@pytest.mark.parametrize("ends", ["ends", "runs on"])
async def test_ef_07_the_next_owner_may_cancel_it_with_observed_confirmation(ledger: Ledger, ends: str) -> None:
    """EF-07, cancel API: only an observed end closes the record; otherwise a second job is refused."""
    jobs = Jobs(ends)

    async def cancel(own: Tenure[Any]) -> Complete[Any]:
        outcome = await own.cancel_effect(jobs, {"run": 1}, key="job")
        again = await own.effect(jobs, {"run": 1}, key="job", patience=0.1)
        return Complete([type(outcome).__name__, type(again).__name__])

    handle, task = await lost_with_a_job(ledger, jobs, cancel)
    expected = ["Refused", "Refused"] if ends == "ends" else ["InDoubt", "InDoubt"]
    assert (await handle.result(1)).value == expected
    assert len(jobs.started) == 1
    state = EffectState.CANCELLED if ends == "ends" else EffectState.ACCEPTED
    assert [each.state for each in await ledger.effects(task.task_id)] == [state]


async def test_ef_07_without_any_status_it_is_unknown_and_a_person_is_asked(ledger: Ledger) -> None:
    """EF-07, neither: B refuses to start a second job and gives up; the state is unknown and escalated."""
    from tenure import Escalate

    jobs = Jobs()

    async def ask(own: Tenure[Any]) -> Escalate:
        doubt = await own.effect(Blind(jobs), {"run": 1}, key="job", patience=0.1)
        assert isinstance(doubt, InDoubt)
        return Escalate("What became of the job?", evidence={"job": doubt.reference})

    handle, task = await lost_with_a_job(ledger, Blind(jobs), ask)
    assert task.phase == "escalated"
    assert len(jobs.started) == 1
    (open_effect,) = (await handle.facts()).effects.open
    assert (open_effect.state, open_effect.reference) == ("accepted", "job-1")
    assert task.question is not None
    assert task.question.reason == Reason.ESCALATED
