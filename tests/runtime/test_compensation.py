"""``own.compensate``: its limits, what the next owner is told of it, and what it never claims."""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from tenure import (
    Compensation,
    Complete,
    Confirmed,
    Declined,
    Escalate,
    Failed,
    Inconclusive,
    NotFound,
    NotSent,
    Provider,
    Team,
    Tenure,
    Transfer,
)
from tenure.errors import Refused
from tenure.ledger import Ledger, open_ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import Phase, Purpose
from tenure.runtime import undoing
from tests.runtime.harness import Window, events


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(undoing, "PAUSE", 0.0)


class Plan(Struct, frozen=True):
    """How one effect goes: its call, and what each attempt to undo it does."""

    apply: str = "ok"
    undo: tuple[str, ...] = ("ok",)


class World(Provider):
    """An outside system that does as planned, and knows what is in force there.

    Of calls: ``ok``; ``lost`` acts and loses the answer; ``down`` fails before it acts; ``refuse``; ``unsent``.
    """

    name = "world"

    def __init__(self, plans: dict[str, Plan]) -> None:
        self.plans = plans
        self.in_force: set[str] = set()
        self.undone: list[str] = []
        self._undos: dict[str, int] = {}

    async def apply(self, request: Any, *, key: str) -> Any:
        return self._act(self.plans[request].apply, lambda: self.in_force.add(request))

    def _act(self, word: str, act: Any) -> Any:
        if word == "unsent":
            raise NotSent("not connected")
        if word == "refuse":
            return Declined("no")
        if word == "fail":
            return Failed("it did not work")
        if word in ("ok", "lost"):
            act()
        if word == "ok":
            return Confirmed(reference="ref")
        raise ConnectionError("reset")

    def undo(self, name: str) -> Any:
        script, n = self.plans[name].undo, self._undos.get(name, 0)
        self._undos[name] = n + 1

        def act() -> None:
            assert name in self.in_force, f"{name} was undone twice"
            self.in_force.remove(name)
            self.undone.append(name)

        return self._act(script[min(n, len(script) - 1)], act)


class Way(World):
    """One with a way back."""

    async def compensate(self, request: Any, *, key: str) -> Any:
        return self.undo(request)


class Seeing(Way):
    """One that can also be asked, of effects and of their undoing."""

    async def lookup(self, request: Any, *, key: str) -> Any:
        return Confirmed(reference="ref") if request in self.in_force else Inconclusive()

    async def lookup_compensation(self, request: Any, *, key: str) -> Any:
        return Confirmed() if request in self.undone else NotFound(final=True)


async def undone(ledger: Ledger, world: Provider, requests: list[Any], *scopes: str) -> Compensation:
    """Make the effects of one task, and undo them: those of each scope, one after the other, or all."""
    team = Team("t", ledger=ledger, providers=[world])
    told: list[Compensation] = []

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        for request in requests:
            with own.scope(str(request).partition("/")[0]):
                await own.effect(world, request, key=str(request), patience=0)
        told.extend([await own.compensate(scope) for scope in scopes or (None,)])
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(20)).outcome == "completed"
        recorded = (await handle.facts()).effects.compensation
    assert recorded in ("", told[-1].state) or scopes, "the ledger says the same, or nothing was begun"
    return told[-1]


def states(found: Compensation) -> list[tuple[str, str]]:
    return [(each.tool, each.state) for each in found.effects]


async def test_where_only_a_scope_was_undone_the_task_as_a_whole_is_not(ledger: Ledger) -> None:
    world = Way({name: Plan() for name in ("x/1", "y/1")})
    team = Team("t", ledger=ledger, providers=[world])

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        for name in ("x", "y"):
            with own.scope(name):
                await own.effect(world, f"{name}/1", key=name)
        return Complete((await own.compensate("x")).state)

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "compensated"
        assert (await handle.facts()).effects.compensation == "partially_compensated"


async def test_what_is_to_be_undone_is_not_made_to_happen_first(ledger: Ledger) -> None:
    class Idempotent(Window):
        idempotent_for = 60

        async def compensate(self, request: Any, *, key: str) -> Any:
            return Confirmed()

    desk = Idempotent("down")
    team = Team("t", ledger=ledger, providers=[desk])

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        await own.effect(desk, "a", key="a", patience=0)
        before = len(desk.calls)
        found = await own.compensate()
        return Complete([len(desk.calls) - before, states(found)])

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == [0, [["desk", "in_doubt"]]]


async def test_a_compensation_that_nobody_can_tell_of_is_not_made_again(ledger: Ledger) -> None:
    world = Way({"a": Plan("ok", ("down", "ok"))})
    found = await undone(ledger, world, ["a"])
    assert (found.state, states(found)) == ("partially_compensated", [("world", "compensating")])
    assert (found.effects[0].next_action, world.in_force) == ("reconcile", {"a"})
    assert "ConnectionError" in found.effects[0].reason


async def test_its_tries_are_bounded_and_the_reason_is_told(ledger: Ledger) -> None:
    world = Way({"a": Plan("ok", ("refuse",))})
    found = await undone(ledger, world, ["a"])
    (a,) = found.effects
    assert (found.state, a.state, a.reason, a.next_action) == (
        "partially_compensated",
        "compensation_failed",
        "Its compensation failed. no",
        "ask",
    )
    assert world._undos == {"a": undoing.TRIES}


async def test_who_may_not_use_a_tool_may_not_undo_what_it_did(ledger: Ledger) -> None:
    world = Way({"a": Plan()})
    team = Team("t", ledger=ledger, providers=[world])

    @team.agent(entry=True, may_transfer={"b": "goes on"}, tools=("world",))
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        await own.effect(world, "a", key="a")
        return Transfer("b")

    @team.agent(tools=("other",))
    async def b(own: Tenure[Any]) -> Complete[Any]:
        found = await own.compensate()
        (effect,) = found.effects
        return Complete([found.state, effect.state, "may not use world" in effect.reason])

    async with team.worker():
        value = (await (await team.submit(goal="g")).result(10)).value
    assert value == ["partially_compensated", "confirmed", True]
    assert world.in_force == {"a"}


async def test_a_later_owner_undoes_what_an_earlier_one_did(ledger: Ledger) -> None:
    world = Way({"a": Plan()})
    team = Team("t", ledger=ledger, providers=[world])
    met: list[Any] = []

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        await own.effect(world, "a", key="a")
        return Transfer("b")

    @team.agent(may_transfer={"c": "goes on"})
    async def b(own: Tenure[Any]) -> Transfer[Any]:
        met.append([(fact.outcome, fact.data) for fact in own.payload.done])
        assert (await own.compensate()).state == "compensated"
        return Transfer("c")

    @team.agent
    async def c(own: Tenure[Any]) -> Complete[Any]:
        met.append([(fact.outcome, fact.data) for fact in own.payload.done])
        return Complete()

    async with team.worker():
        await (await team.submit(goal="g")).result(10)
    assert met == [[("done", None)], [("failed", {"state": "compensated", "undone_as": "ref"})]], (
        "undone is not done, and not merely failed"
    )


async def test_a_failed_undoing_is_in_flight_for_the_next_owner_and_not_among_what_is_done(ledger: Ledger) -> None:
    world = Way({"a": Plan("ok", ("refuse",))})
    team = Team("t", ledger=ledger, providers=[world])

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        await own.effect(world, "a", key="a")
        return Transfer("b")

    @team.agent(may_transfer={"c": "goes on"})
    async def b(own: Tenure[Any]) -> Transfer[Any]:
        assert own.payload.done[0].outcome == "done"
        await own.compensate()
        return Transfer("c")

    @team.agent
    async def c(own: Tenure[Any]) -> Complete[Any]:
        return Complete([len(own.payload.done), [(fact.outcome, fact.data) for fact in own.in_flight.effects]])

    async with team.worker():
        value = (await (await team.submit(goal="g")).result(10)).value
    assert value == [0, [["unknown", {"state": "compensation_failed"}]]]


async def test_two_at_once_undo_each_effect_once(ledger: Ledger) -> None:
    world = Way({"a": Plan(), "b": Plan()})
    team = Team("t", ledger=ledger, providers=[world])

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        for name in "ab":
            await own.effect(world, name, key=name)
        return Complete([each.state for each in await asyncio.gather(own.compensate(), own.compensate())])

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == ["compensated", "compensated"]
    attempts = await events(ledger, handle.task_id, ev.EffectAttempted)
    assert [each.purpose for each in attempts] == [Purpose.COMPENSATE] * 2


async def test_a_call_under_way_is_waited_for_before_anything_is_undone(ledger: Ledger) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    class Slow(Way):
        async def apply(self, request: Any, *, key: str) -> Any:
            began.set()
            await go.wait()
            return await super().apply(request, key=key)

    world = Slow({"a": Plan()})
    team = Team("t", ledger=ledger, providers=[world])

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        making = own.spawn(own.effect(world, "a", key="a"))
        await began.wait()
        asyncio.get_running_loop().call_later(0.02, go.set)
        found = await own.compensate()
        await making
        return Complete(found.state)

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == "compensated"
    assert not world.in_force


async def test_a_tenure_that_retires_undoes_nothing(ledger: Ledger) -> None:
    world = Way({"a": Plan()})
    team = Team("t", ledger=ledger, providers=[world])
    refused: list[str] = []

    @team.agent
    async def a(own: Tenure[Any]) -> Escalate:
        await own.effect(world, "a", key="a")

        async def late() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                try:
                    await own.compensate()
                except Refused as error:
                    refused.append(error.code)

        _ = own.spawn(late())
        await asyncio.sleep(0)
        return Escalate("?")

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.reached({Phase.ESCALATED}, 10)
    assert (refused, world.in_force) == (["retiring"], {"a"})


async def test_a_provider_whose_way_back_cannot_be_called_leaves_a_doubt_and_no_open_call(ledger: Ledger) -> None:
    class Wrong(World):
        async def compensate(self, request: Any) -> Any:
            return Confirmed()

    found = await undone(ledger, Wrong({"a": Plan()}), ["a"])
    assert (found.state, found.effects[0].state) == ("partially_compensated", "compensating")
    assert "TypeError" in found.effects[0].reason


CALLS = st.sampled_from(["ok", "lost", "down", "refuse", "unsent"])
UNDOS = st.lists(st.sampled_from(["ok", "lost", "down", "refuse", "fail", "unsent"]), min_size=1, max_size=3)
PLANS = st.lists(st.builds(Plan, CALLS, UNDOS.map(tuple)), max_size=4)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from([World, Way, Seeing]), plans=PLANS)
def test_compensated_is_never_said_unless_everything_is_undone(kind: type[World], plans: list[Plan]) -> None:
    world = kind({str(n): plan for n, plan in enumerate(plans)})

    async def run() -> Compensation:
        async with open_ledger("memory://") as ledger:
            return await undone(ledger, world, list(world.plans))

    found = asyncio.run(run())
    if world.in_force:
        assert found.state == "partially_compensated"
    if found.state == "compensated":
        assert found.effects
        assert all(each.state == "compensated" for each in found.effects)
    if found.state == "nothing_to_compensate":
        assert not found.effects
