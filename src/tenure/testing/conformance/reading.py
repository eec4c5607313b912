"""Rules of reading: lists in order, pages, conversations, input, who holds what."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol.body import Body
from tenure.protocol.decisions import EscalateTo
from tenure.protocol.vocabulary import EffectState, Phase, WorkEnd
from tenure.testing.conformance.base import Rules
from tenure.testing.conformance.driver import Driver, body


class ReadingRules(Rules):
    """What was written is read back."""

    async def test_tasks_are_listed_in_order_of_submission(self, ledger: Ledger) -> None:
        for name in ("t3", "t1", "t2"):
            await Driver(ledger, name).owned()
        await Driver(ledger, "t1").complete(command_id="end")
        rows = await ledger.tasks()
        assert [row.task.task_id for row in rows] == ["t3", "t1", "t2"]
        assert await ledger.tasks(limit=1) == rows[:1]
        assert await ledger.tasks(after=rows[0].position) == rows[1:]
        assert await ledger.tasks(phases=[Phase.ACTIVE]) == [rows[0], rows[2]]
        assert await ledger.tasks(phases=[Phase.ACTIVE, Phase.COMPLETED]) == rows
        assert await ledger.tasks(phases=[Phase.ACTIVE, Phase.COMPLETED], after=rows[0].position, limit=1) == [rows[1]]
        assert await ledger.tasks(phases=[Phase.FAILED]) == []
        assert await ledger.row("t1") == rows[1]

    async def test_tasks_of_a_tree(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        await Driver(ledger, "u").owned()
        await driver.delegate("t.2")
        await driver.delegate("t.1")
        rows = await ledger.tasks(root_id="t")
        assert [row.task.task_id for row in rows] == ["t", "t.2", "t.1"]
        assert await ledger.tasks(root_id="t", phases=[Phase.OFFERED], limit=1) == rows[1:2]
        assert await ledger.tasks(root_id="t", after=rows[1].position) == rows[2:]

    async def test_a_conversation_points_to_its_newest_task(self, ledger: Ledger) -> None:
        first, second = Driver(ledger, "t1"), Driver(ledger, "t2")
        assert await ledger.conversation("chat-991") == ""
        await first.owned(conversation="chat-991")
        with pytest.raises(Refused) as caught:
            await second.submit("a", conversation="chat-991")
        assert (caught.value.code, caught.value.facts["task_id"]) == ("conversation_open", "t1")
        assert await ledger.conversation("chat-991") == "t1"
        await first.complete()
        assert await ledger.conversation("chat-991") == "t1"
        await second.submit("a", conversation="chat-991")
        assert await ledger.conversation("chat-991") == "t2"

    async def test_input_is_read_in_order(self, driver: Driver, ledger: Ledger) -> None:
        await driver.submit("a", message=body("first"))
        for n in range(2, 6):
            await driver.do(cmd.Send, message=body(n, f"nonce {n}"), sender="customer-07")
        messages = await ledger.messages("t")
        assert [message.n for message in messages] == [1, 2, 3, 4, 5]
        assert [message.sender for message in messages] == ["submit", *["customer-07"] * 4]
        assert messages[0].body == body("first")
        assert (messages[0].digest, messages[0].at) == (body("first").digest, (await driver.task()).at)
        assert await ledger.messages("t", after=2, limit=2) == messages[2:4]
        assert await ledger.messages("u") == []

    async def test_an_answer_without_content_is_input_too(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        asked = EscalateTo(question_id="q1", body=body("May I?"), who=("person:operator",))
        await driver.own(cmd.Retire, decision=asked, quiet=True)
        await driver.do(cmd.Answer, question_id="q1", by="person:operator", choice="yes")
        (message,) = await ledger.messages("t")
        assert (message.question_id, message.sender, message.digest, message.body) == (
            "q1",
            "person:operator",
            "",
            None,
        )

    async def test_bodies_are_kept_once_and_only_if_an_event_names_them(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        await driver.intend("e1", request=body("one", "n1"), intent="i")
        with pytest.raises(Refused):
            await driver.intend("e2", request=body("two", "n2"), intent="i")
        await driver.do(cmd.Send, message=body("one", "n1"))
        assert await ledger.body("t", body("one", "n1").digest) == Body(b'"one"', "n1")
        for root_id, digest in (("t", body("two", "n2").digest), ("u", body("one", "n1").digest)):
            with pytest.raises(Refused) as caught:
                await ledger.body(root_id, digest)
            assert caught.value.code == "invalid"

    async def test_tenure_pickup_work_and_sender_are_held(self, driver: Driver, ledger: Ledger) -> None:
        await driver.submit("a")
        await driver.do(cmd.Claim, epoch=1, agent="a", instance="w1")
        assert await ledger.held_by("w1") == ["t"]
        await driver.acknowledge("a", "w1")
        await driver.work("x")
        await driver.intend("e1")
        await driver.transfer("b", quiet=False)
        await driver.own(cmd.Release, routes_retired=True)
        await driver.acknowledge("b", "w2")
        assert (await ledger.held_by("w1"), await ledger.held_by("w2")) == (["t"], ["t"])
        await driver.do(cmd.EndWork, work_id="x", instance="w1", how=WorkEnd.RETURNED)
        assert await ledger.held_by("w1") == ["t"]
        await driver.outcome("e1", EffectState.CONFIRMED)
        assert await ledger.held_by("w1") == []
        other = Driver(ledger, "s")
        await other.owned("a", "w2")
        assert await ledger.held_by("w2") == ["s", "t"]
        await driver.complete()
        assert await ledger.held_by("w2") == ["s"]

    async def test_verification_tells_heads_and_counts(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        await driver.delegate("t.1")
        found = await ledger.verify()
        assert (found.events, found.tasks, found.erased) == (8, 2, 0)
        heads = {record.task_id: record.digest for record in await ledger.events()}
        assert found.heads == heads
        await driver.do(cmd.Send, message=body("hello"))
        assert (await ledger.verify()).heads["t"] != heads["t"]

    async def test_readers_and_writers_do_not_wait_for_each_other(self, ledger: Ledger) -> None:
        drivers = [Driver(ledger, f"t{n}") for n in range(20)]
        results = await asyncio.gather(
            *(driver.owned() for driver in drivers), *(ledger.tasks() for _ in range(20)), ledger.verify()
        )
        assert len(results) == 41
        assert len(await ledger.tasks()) == 20
