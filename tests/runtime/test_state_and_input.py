"""What survives a crash, and the way of a message: in order, consumed once, marked when it was shown before."""

import asyncio
from typing import Any

import pytest

from tenure import Complete, Team, Tenure, Transfer, Wait
from tenure.errors import Fenced, Refused
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import OfferKind
from tests.runtime.harness import SHORT_LEASE, Line, events, owned_by, until


async def test_state_survives_the_loss_of_its_tenure(ledger: Ledger) -> None:
    line = Line(ledger)
    saved = asyncio.Event()
    states: list[Any] = []

    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        states.append(own.state)
        if own.state is None:
            await own.save({"step": 1})
            saved.set()
            await asyncio.Event().wait()
        return Complete(own.state["step"] + 1)

    first, second = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    first.agent(clerk)
    second.agent(clerk)
    async with first.worker(name="w1", drain=0.1):
        handle = await second.submit(goal="g")
        await asyncio.wait_for(saved.wait(), 5)
        line.cut()
        async with second.worker(name="w2"):
            assert (await handle.result(10)).value == 2
        line.mend()
    assert states == [None, {"step": 1}]
    kinds = [each.kind for each in await events(ledger, handle.task_id, ev.OfferIssued)]
    assert kinds == [OfferKind.START, OfferKind.TAKEOVER]


async def test_saving_commits_a_turn(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    consumed: list[int] = []

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        await own.save("a")
        await own.receive(timeout=5)
        task = await ledger.task(own.task_id)
        assert task is not None
        consumed.append(task.consumed)
        await own.save()
        task = await ledger.task(own.task_id)
        assert task is not None
        assert task.tenure is not None
        consumed.append(task.consumed)
        assert (own.state, task.tenure.turn) == ("a", 2)
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.send("x")
        assert (await handle.result(10)).outcome == "completed"
    assert consumed == [0, 1]


async def test_messages_come_in_order_and_each_is_consumed_once(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        got = [await own.receive(timeout=5) for _ in range(2)]
        assert all(message is not None and not message.redelivered for message in got)
        return Transfer("b", [message.value for message in got if message])

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        got = await own.receive(timeout=5)
        assert got is not None
        assert await own.receive(timeout=0) is None
        return Complete([*own.input, (got.n, got.value, got.redelivered, got.sender)])

    async with team.worker():
        handle = await team.submit(goal="g")
        for text in ("one", "two", "three"):
            await handle.send(text, sender="customer-07")
        assert (await handle.result(10)).value == ["one", "two", [3, "three", False, "customer-07"]]
    task = await handle.state()
    assert (task.received, task.seen, task.consumed) == (3, 3, 3)


async def test_what_a_lost_tenure_was_shown_is_redelivered_and_marked(ledger: Ledger) -> None:
    line = Line(ledger)
    shown = asyncio.Event()

    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        first = await own.receive(timeout=5)
        assert first is not None
        if not first.redelivered:
            shown.set()
            await asyncio.Event().wait()
        second = await own.receive(timeout=5)
        assert second is not None
        return Complete([[each.value, each.redelivered] for each in (first, second)])

    one, two = (Team("t", ledger=way, settings=SHORT_LEASE) for way in (line.ledger, ledger))
    one.agent(clerk)
    two.agent(clerk)
    async with one.worker(name="w1", drain=0.1):
        handle = await two.submit(goal="g", message="first")
        await asyncio.wait_for(shown.wait(), 5)
        line.cut()
        await handle.send("second")
        async with two.worker(name="w2"):
            assert (await handle.result(10)).value == [["first", True], ["second", False]]
        line.mend()


async def test_a_failed_tenure_consumes_no_more_than_it_has_committed(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "decides"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        if own.payload.trigger != "return":
            return Transfer("b")
        got = await own.receive(timeout=5)
        assert got is not None
        return Complete([got.n, got.value, got.redelivered])

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        await own.receive(timeout=5)
        await own.save()
        await own.receive(timeout=5)
        raise RuntimeError("lost its way")

    async with team.worker():
        handle = await team.submit(goal="g", message="one")
        await handle.send("two")
        assert (await handle.result(10)).value == [2, "two", True]


async def test_a_route_takes_messages_until_its_tenure_retires_and_is_closed_then(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        got = []
        async with own.route("chat") as route:
            async for message in route:
                got.append(message.value)
                if message.value == "go":
                    break
        return Transfer("b", got)

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.input)

    async with team.worker():
        handle = await team.submit(goal="g")
        await owned_by(handle, "a")

        async def routed() -> bool:
            return bool((await handle.facts()).routing.routes)

        await until(routed)
        assert (await handle.facts()).routing.receiver == "a"
        for text in ("x", "go"):
            await handle.send(text)
        assert (await handle.result(10)).value == ["x", "go"]
    assert len(await events(ledger, handle.task_id, ev.RouteClosed)) == 1


async def test_a_route_left_open_is_retired_with_the_tenure_and_its_unread_input_goes_on(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    heard: list[Any] = []

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        opened = asyncio.Event()

        async def listen() -> None:
            async with own.route("chat") as route:
                opened.set()
                heard.extend([message.value async for message in route])

        _ = own.spawn(listen())
        await opened.wait()
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        got = await own.receive(timeout=5)
        assert got is not None
        return Complete(got.value)

    async with team.worker():
        handle = await team.submit(goal="g")
        await owned_by(handle, "b")
        await handle.send("for b")
        assert (await handle.result(10)).value == "for b"
    assert heard == []
    retired = (await events(ledger, handle.task_id, ev.RoutingRetired))[0]
    assert len(retired.routes) == 1
    granted = await events(ledger, handle.task_id, ev.TenureGranted)
    assert retired.at <= granted[1].at, "no grant before the routes are retired"


async def test_asking_for_input_after_the_loss_raises_and_never_spins(ledger: Ledger) -> None:
    line = Line(ledger)
    begun = asyncio.Event()
    met: list[str] = []

    async def stubborn(own: Tenure[Any]) -> Complete[Any]:
        begun.set()
        while True:
            try:
                await own.receive(timeout=0.05)
            except asyncio.CancelledError:
                continue
            except Fenced as error:
                met.append(error.code)
                raise

    team = Team("t", ledger=line.ledger, settings=SHORT_LEASE)
    team.agent(stubborn)
    async with team.worker(drain=0.1):
        await team.submit(goal="g")
        await asyncio.wait_for(begun.wait(), 15)
        line.cut()

        async def told() -> bool:
            return bool(met)

        await until(told)
        line.mend()
    assert met[0] == "lease_lost"


async def test_input_for_a_task_that_has_ended_is_refused_and_a_full_backlog_says_wait(ledger: Ledger) -> None:
    from tenure import Settings

    team = Team("t", ledger=ledger, settings=Settings(unread=2))

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        return Complete()

    handle = await team.submit(goal="g")
    await handle.send(1)
    await handle.send(2)
    with pytest.raises(Refused) as caught:
        await handle.send(3)
    assert (caught.value.code, caught.value.next_action) == ("backlog_full", "wait")
    async with team.worker():
        await handle.result(10)
    with pytest.raises(Refused) as caught:
        await handle.send(4)
    assert caught.value.code == "task_ended"


async def test_a_waiting_task_resumes_with_its_state(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent
    async def clerk(own: Tenure[Any]) -> Wait | Complete[Any]:
        if own.state is None:
            await own.save({"asked": True})
            return Wait("input", within=60)
        return Complete(own.state)

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.send("anything")
        assert (await handle.result(10)).value == {"asked": True}
