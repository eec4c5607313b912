"""Reported failures, effects, for every way that an outside system can be found out about: EF-01, EF-03 and EF-07."""

import asyncio
from typing import Any

import pytest

from tenure import (
    Accepted,
    Complete,
    Confirmed,
    Declined,
    Escalate,
    InDoubt,
    NotFound,
    Policy,
    Provider,
    Sealed,
    Team,
    Tenure,
)
from tenure import Transfer as Handover
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol.vocabulary import EffectState
from tenure.runtime.outcomes import Outcome
from tests.runtime.harness import SHORT_LEASE, Line, in_phase, until

STRATEGIES = ["idempotent", "look-up", "sealing", "job", "none"]
QUICK = Policy(name="quick", grace_ms=100)
HOUR = 3_600


class Store(Provider):
    """Takes orders. What has landed is in ``orders``, whatever the caller came to know of it.

    Attributes:
        answers: while it is not set, no call is answered. lands: while it is not set, requests are on their way.
        calls: the key of each. orders: key and sku of each that has landed. ready: jobs have ended.
    """

    name = "store"

    def __init__(self) -> None:
        self.answers, self.lands = asyncio.Event(), asyncio.Event()
        self.calls: list[str] = []
        self.orders: list[tuple[str, Any]] = []
        self.sealed: set[str] = set()
        self.ready = False
        self._under_way: list[asyncio.Task[Any]] = []

    async def apply(self, request: Any, *, key: str) -> Any:
        self.calls.append(key)
        landing = asyncio.create_task(self._land(key, request))
        self._under_way.append(landing)
        await asyncio.shield(landing)
        await self.answers.wait()
        return Declined("sealed") if key in self.sealed else self.known(key)

    async def _land(self, key: str, request: Any) -> None:
        await self.lands.wait()
        if key not in self.sealed and not (self.idempotent_for and self.known(key)):
            self.orders.append((key, request["sku"]))

    def known(self, key: str) -> Any:
        """The answer that the record gives."""
        found = [number for number, (landed, _) in enumerate(self.orders, 1) if landed == key]
        return Confirmed(reference=f"order-{found[0]}") if found else None

    async def settle(self) -> None:
        """Let everything land that is still on its way."""
        self.lands.set()
        self.answers.set()
        await asyncio.gather(*self._under_way)


class Idempotent(Store):
    """Answers a repeated key from its record."""

    idempotent_for = HOUR


class Searchable(Store):
    """Can be asked about a key."""

    async def lookup(self, request: Any, *, key: str) -> Any:
        del request
        return self.known(key) or NotFound()


class Sealing(Store):
    """Can be told that a key is over."""

    async def seal(self, request: Any, *, key: str) -> Any:
        del request
        found = self.known(key)
        if found is None:
            self.sealed.add(key)
        return found or Sealed()


class Jobs(Searchable):
    """Takes jobs on, and can be asked about them."""

    def known(self, key: str) -> Any:
        found = super().known(key)
        return found if found is None or self.ready else Accepted(found.reference)


def store_with(strategy: str) -> Store:
    kinds = {"idempotent": Idempotent, "look-up": Searchable, "sealing": Sealing, "job": Jobs, "none": Store}
    return kinds[strategy]()


async def order(
    own: Tenure[Any], store: Store, text: str, *, sku: str = "shoe", timeout: float | None = 0.1, patience: float = 0
) -> Outcome:
    """Ask for the shoe, in some words."""
    asked = {"sku": sku, "text": text}
    return await own.effect(store, asked, key="customer-07:shoe", compare=("sku",), timeout=timeout, patience=patience)


def name(outcome: Outcome) -> str:
    return type(outcome).__name__


def order_is_there_once(store: Store, strategy: str) -> None:
    """One order, whatever the strategy; only a system that answers from its record is called again with its key."""
    assert [sku for _, sku in store.orders] == ["shoe"]
    assert len(set(store.calls)) == 1
    assert len(store.calls) == 1 or strategy == "idempotent"


async def state_of(ledger: Ledger, task_id: str) -> EffectState:
    (effect,) = await ledger.effects(task_id)
    return effect.state


# --- EF-01 ----------------------------------------------------------------------------------------------------------

FOUND_OUT = {"idempotent": "Done", "look-up": "Done", "sealing": "Done", "job": "InDoubt", "none": "InDoubt"}
"""What the second request is answered with when the first has landed and its answer was lost."""


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("who", ["next turn", "next owner", "child"])
async def test_ef_01_the_same_intent_in_other_words_is_answered_or_refused(
    ledger: Ledger, strategy: str, who: str
) -> None:
    """EF-01: the reply is aborted when the order has landed; the next turn, owner or a child repeats the request."""
    store = store_with(strategy)
    store.lands.set()
    team = Team("t", ledger=ledger)

    async def again(own: Tenure[Any]) -> str:
        store.answers.set()
        return name(await order(own, store, "Please, the shoe!", patience=0.2))

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Handover[Any] | Complete[Any]:
        reply = own.spawn(order(own, store, "I want that shoe"), policy=QUICK)

        async def landed() -> bool:
            return bool(store.orders)

        await until(landed)
        reply.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reply

        async def answered() -> bool:
            return not own.effects.running

        await until(answered)
        if who == "next owner":
            return Handover("b")
        return Complete((await own.delegate("b")).value if who == "child" else await again(own))

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete(await again(own))

    async with team.worker(reconcile=False):
        handle = await team.submit(goal="g")
        answer = (await handle.result(10)).value
    order_is_there_once(store, strategy)
    state = await state_of(ledger, handle.task_id)
    if who == "child" and not state.settled:
        assert answer == "InDoubt", "another task answers for it, and nothing is called"
    else:
        assert answer == FOUND_OUT[strategy]
    assert state in (EffectState.CONFIRMED, EffectState.ACCEPTED, EffectState.IN_DOUBT), "never failed, never absent"


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_ef_01_other_words_that_are_compared_are_a_conflict_also_from_a_child(
    ledger: Ledger, strategy: str
) -> None:
    """EF-01: nobody has said which fields are the intent, so that other words are another request under its key."""
    store = store_with(strategy)
    store.lands.set()
    store.answers.set()
    team = Team("t", ledger=ledger)

    async def refused(own: Tenure[Any]) -> str:
        with pytest.raises(Refused) as caught:
            await own.effect(store, {"sku": "shoe", "text": "Please, the shoe!"}, key="customer-07:shoe")
        return caught.value.code

    @team.agent(entry=True)
    async def a(own: Tenure[Any]) -> Complete[Any]:
        await own.effect(store, {"sku": "shoe", "text": "I want that shoe"}, key="customer-07:shoe", patience=0)
        return Complete([await refused(own), (await own.delegate("child")).value])

    @team.agent
    async def child(own: Tenure[Any]) -> Complete[Any]:
        return Complete(await refused(own))

    async with team.worker(reconcile=False):
        assert (await (await team.submit(goal="g")).result(10)).value == ["intent_conflict"] * 2
    assert (len(store.calls), len(store.orders)) == (1, 1)


# --- EF-03 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_ef_03_what_has_landed_before_the_time_out_is_found_out_and_not_charged_again(
    ledger: Ledger, strategy: str
) -> None:
    """EF-03: the gateway gives up after the charge. A is told what is known, B finds out what can be."""
    store = store_with(strategy)
    store.lands.set()
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Handover[Any]:
        return Handover("b", name(await order(own, store, "pay")))

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        told = [fact.outcome for fact in own.in_flight.effects]
        store.answers.set()
        return Complete([own.input, told, name(await order(own, store, "pay", patience=0.3))])

    async with team.worker(reconcile=False):
        handle = await team.submit(goal="g")
        first, told, second = (await handle.result(10)).value
    known = strategy in ("look-up", "sealing")
    assert (first, told) == (("Done", []) if known else ("InDoubt", ["unknown"])), "never failed"
    assert second == FOUND_OUT[strategy]
    order_is_there_once(store, strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_ef_03_what_lands_after_the_next_request_is_one_charge_all_the_same(
    ledger: Ledger, strategy: str
) -> None:
    """EF-03: the request is still on its way when B is asked to pay. "Not found" then is no leave to charge again."""
    store = store_with(strategy)
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Handover[Any]:
        return Handover("b", name(await order(own, store, "pay")))

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        second = await order(own, store, "pay")
        await store.settle()
        return Complete([own.input, name(second), name(await order(own, store, "pay", patience=0.3))])

    async with team.worker(reconcile=False):
        handle = await team.submit(goal="g")
        first, second, third = (await handle.result(10)).value
    absent = "Refused" if strategy == "sealing" else "InDoubt"
    assert (first, second) == (absent, absent), "absent is what was sealed, and nothing else"
    assert third == FOUND_OUT[strategy]
    if strategy != "sealing":
        order_is_there_once(store, strategy)
        return
    assert [sku for _, sku in store.orders] == ["shoe"], "what was sealed came too late"
    assert len(set(store.calls)) == len(store.calls), "a sealed key is not used again"


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_ef_03_attempts_at_the_same_time_are_one_call(ledger: Ledger, strategy: str) -> None:
    """EF-03, variant: two attempts of one tenure and one of its child, all before the first answer."""
    store = store_with(strategy)
    team = Team("t", ledger=ledger)

    @team.agent(entry=True)
    async def parent(own: Tenure[Any]) -> Complete[Any]:
        one, two, other = await asyncio.gather(
            order(own, store, "pay", timeout=10), order(own, store, "Pay!", timeout=10), own.delegate("child")
        )
        assert one == two
        return Complete([name(one), other.value])

    @team.agent
    async def child(own: Tenure[Any]) -> Complete[Any]:
        outcome = await order(own, store, "pay, child", timeout=10)
        await store.settle()
        return Complete(name(outcome))

    async with team.worker(reconcile=False):
        answers = (await (await team.submit(goal="g")).result(10)).value
    assert answers == ["InDoubt" if strategy == "job" else "Done", "InDoubt"]
    assert (len(store.calls), len(store.orders)) == (1, 1)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_ef_03_the_same_key_for_something_else_is_a_conflict_while_open_and_afterwards(
    ledger: Ledger, strategy: str
) -> None:
    """EF-03, variant: same key, another request; from the tenure and from its child, before and after the answer."""
    store = store_with(strategy)
    team = Team("t", ledger=ledger)

    async def refused(own: Tenure[Any]) -> str:
        with pytest.raises(Refused) as caught:
            await order(own, store, "pay", sku="boot")
        return caught.value.code

    @team.agent(entry=True)
    async def parent(own: Tenure[Any]) -> Complete[Any]:
        first = own.spawn(order(own, store, "pay", timeout=10), policy=QUICK)

        async def called() -> bool:
            return bool(store.calls)

        await until(called)
        codes = [await refused(own), (await own.delegate("child", key="1")).value]
        await store.settle()
        await first
        return Complete([*codes, await refused(own), (await own.delegate("child", key="2")).value])

    @team.agent
    async def child(own: Tenure[Any]) -> Complete[Any]:
        return Complete(await refused(own))

    async with team.worker(reconcile=False):
        assert (await (await team.submit(goal="g")).result(10)).value == ["intent_conflict"] * 4
    order_is_there_once(store, "look-up")


# --- EF-07 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_ef_07_after_the_loss_of_a_host_nothing_is_started_a_second_time(ledger: Ledger, strategy: str) -> None:
    """EF-07: A's host loses contact while its order is under way; B takes the task over and asks for the same."""
    store = store_with(strategy)
    store.lands.set()
    if strategy == "job":
        store.answers.set()  # its id is known when the host is lost
    line = Line(ledger)

    async def clerk(own: Tenure[Any]) -> Complete[Any] | Escalate:
        if own.epoch == 2:
            await order(own, store, "start", timeout=None)
            await asyncio.Event().wait()
        told = [[fact.outcome, fact.reference] for fact in own.in_flight.effects]
        store.answers.set()
        outcomes = [await order(own, store, "start", patience=0.2)]
        store.ready = True
        outcomes.append(await order(own, store, "start", patience=0.2))
        if isinstance(outcomes[1], InDoubt):
            return Escalate("Was it started?")
        return Complete([told, *map(name, outcomes)])

    one, two = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    for team in (one, two):
        team.agent(clerk)
    async with one.worker(name="w1", drain=0, reconcile=False):
        handle = await two.submit(goal="g")

        async def under_way() -> bool:
            effects = await ledger.effects(handle.task_id)
            return bool(store.orders and effects) and (strategy != "job" or bool(effects[0].reference))

        await until(under_way)
        (before,) = await ledger.effects(handle.task_id)
        line.cut()
        async with two.worker(name="w2", reconcile=False):
            task = await in_phase(handle, "completed", "escalated")
        line.mend()
    (effect,) = await ledger.effects(handle.task_id)
    assert effect.effect_id == before.effect_id, "who executes has changed, and not the record"
    order_is_there_once(store, strategy)
    if strategy == "none":
        assert (task.phase, task.answerable) == ("escalated", "person:operator")
        assert [each.state for each in (await handle.facts()).effects.open] == ["in_doubt"]
        return
    told, second, third = (await handle.result(1)).value
    assert told == [["unknown", "order-1" if strategy == "job" else ""]]
    assert (second, third) == (FOUND_OUT[strategy], "Done")
