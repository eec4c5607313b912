"""Reported failures, payload: PL-01 and PL-03."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from tenure import Complete, Fact, Team, Tenure, Transfer
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol import events as ev
from tenure.protocol.payload import Payload
from tenure.protocol.state import Candidate
from tenure.protocol.vocabulary import HandoffState, Reason
from tenure.runtime.payloads import encode_payload
from tests.runtime.harness import SHORT_LEASE, Desk, Line, events, names, until


def counted(own: Tenure[Any]) -> Counter[str]:
    """How often each past action occurs in everything that an agent is given."""
    books = own.in_flight
    return Counter(fact.id for fact in (*own.payload.done, *books.ended, *books.works, *books.effects))


# --- PL-01 ----------------------------------------------------------------------------------------------------------


async def test_pl_01_each_past_action_stands_once_in_every_payload_that_follows(ledger: Ledger) -> None:
    """PL-01: two tool calls, a work, a summary and a transfer; the target counts; a third agent after another hop."""
    team = Team("t", ledger=ledger)
    t1, t2 = Desk(), type("Second", (Desk,), {"name": "second desk"})()
    seen: list[tuple[Counter[str], Payload]] = []

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        await own.effect(t1, 1, key="1")
        await own.effect(t2, 2, key="2")
        _ = own.spawn(asyncio.Event().wait(), name="left over")
        await own.save()
        return Transfer(
            "b", summary="called desk and second desk", done=(Fact(id="note", what="noted", outcome="done"),)
        )

    @team.agent(may_transfer={"c": "goes on"})
    async def b(own: Tenure[Any]) -> Transfer[Any]:
        seen.append((counted(own), own.payload))
        await own.effect(t1, 1, key="1")  # answered from the record: not another action
        return Transfer("c", done=(Fact(id="note", what="noted", outcome="done"),))

    @team.agent
    async def c(own: Tenure[Any]) -> Complete[Any]:
        seen.append((counted(own), own.payload))
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(10)
    effects = {effect.effect_id for effect in await ledger.effects(handle.task_id)}
    for counter, payload in seen:
        assert set(counter.values()) == {1}
        assert len(counter) == 4
        assert effects | {"note"} <= set(counter)
        by = {fact.what: fact.by for fact in payload.done}
        assert (by["desk"], by["second desk"]) == ("a", "a"), "handing a fact on does not make it the sender's"
    assert seen[0][0].keys() == seen[1][0].keys(), "a second hop does not multiply earlier material"
    assert seen[1][1].summary == "", "nor nest it"
    ended = (await handle.state()).hops
    assert all(hop.state == HandoffState.COMPLETED for hop in ended), "the transfer itself is closed"


async def test_pl_01_an_id_that_stands_twice_is_refused_before_the_target_starts(ledger: Ledger) -> None:
    """PL-01: duplicated ids in a payload are a validation error."""
    team = Team("t", ledger=ledger)
    codes: list[str] = []

    @team.agent(entry=True, may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Complete[Any]:
        fact = Fact(id="call-1", what="called", outcome="done")
        payload = replace(own.payload, handoff_id="h-1", hop=1, done=(fact, fact))
        decision = dec.TransferTo(handoff_id="h-1", candidates=(Candidate(agent="b"),), payload=encode_payload(payload))
        with pytest.raises(Refused) as caught:
            await own.hold.say(cmd.Retire, decision=decision, quiet=True)
        codes.append(caught.value.code)
        return Complete()

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        raise AssertionError("it must not start")

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).outcome == "completed"
    assert codes == ["payload_invalid"]
    assert "HandoffInitiated" not in await names(ledger, handle.task_id)


# --- PL-03 ----------------------------------------------------------------------------------------------------------


def with_tools(ledger: Ledger, desk: Desk, seen: list[Payload], *, stuck: bool = False) -> Team:
    """A uses t1 and t2, B has only t3; a scripted model of B calls t1."""
    team = Team("t", ledger=ledger, settings=SHORT_LEASE)

    @team.agent(entry=True, tools=["t1", "t2"], may_transfer={"b": "goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        if own.payload.trigger == "return":
            return Complete(["returned", own.payload.summary])
        await own.effect(desk, 1, key="1", tool="t1")
        await own.effect(desk, 2, key="2", tool="t2")
        return Transfer("b")

    @team.agent(tools=["t3"])
    async def b(own: Tenure[Any]) -> Complete[Any]:
        seen.append(own.payload)
        if stuck and len(seen) == 1:
            await asyncio.Event().wait()
        while True:
            with pytest.raises(Refused, match="t1"):
                await own.effect(desk, 3, key="3", tool="t1")
            await asyncio.sleep(0)

    return team


async def check_tools(ledger: Ledger, handle: Any, desk: Desk, seen: list[Payload]) -> None:
    result = await handle.result(15)
    assert result.value[0] == "returned"
    assert result.value[1].startswith("capability: ")
    assert len(desk.calls) == 2, "nothing was executed with A's authority"
    done = [(fact.what, fact.outcome, fact.reference) for fact in seen[-1].done]
    assert done == [("t1", "done", "ref-1"), ("t2", "done", "ref-2")], "facts, nothing to call"
    assert not any(key in encode_payload(seen[-1]).content.decode() for key in desk.calls), "no key of a provider"
    refused = [each for each in await ledger.refusals(task_id=handle.task_id) if each.code == "tool_not_allowed"]
    assert 3 <= len(refused) < 10, "counted, and bounded"
    (ended,) = await events(ledger, handle.task_id, ev.HandoffEnded)
    assert (ended.state, ended.reason) == (HandoffState.FAILED_RETURNED, Reason.CAPABILITY)


async def test_pl_03_a_tool_of_another_agent_is_a_fact_and_not_callable(ledger: Ledger) -> None:
    """PL-03: B's model calls t1, which it saw A use: refused, not executed, counted, a bounded return."""
    desk = Desk()
    seen: list[Payload] = []
    team = with_tools(ledger, desk, seen)
    async with team.worker():
        await check_tools(ledger, await team.submit(goal="g"), desk, seen)


async def test_pl_03_the_same_after_a_restart_with_the_payload_rebuilt(ledger: Ledger) -> None:
    """PL-03, variant: B's host is lost and the payload is rebuilt from the ledger."""
    desk = Desk()
    seen: list[Payload] = []
    line = Line(ledger)
    one, two = (with_tools(way, desk, seen, stuck=True) for way in (line.ledger, ledger))
    async with one.worker(name="w1", drain=0):
        handle = await two.submit(goal="g")

        async def with_b() -> bool:
            return bool(seen)

        await until(with_b)
        line.cut()
        async with two.worker(name="w2"):
            await check_tools(ledger, handle, desk, seen)
        line.mend()
    assert seen[0] == seen[1]
