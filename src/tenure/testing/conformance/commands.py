"""Rules of commands: one transaction each, ids first, guards, many at once, callers that go away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tenure.errors import Refused, Unavailable
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.commands import Receipt
from tenure.protocol.events import event_tag
from tenure.protocol.vocabulary import Phase, WaitOn
from tenure.testing.conformance.base import Rules, VirtualClock
from tenure.testing.conformance.driver import Driver, body, candidates, payload


class CommandRules(Rules):
    """Submit, hand over, complete; repeat, collide, cancel."""

    async def test_a_handoff_from_submission_to_completion(self, driver: Driver, ledger: Ledger) -> None:
        assert (await driver.submit("a")).phase is Phase.OFFERED
        assert (await driver.acknowledge("a", "w1")).phase is Phase.ACTIVE
        assert (await driver.transfer("b")).phase is Phase.OFFERED
        assert (await driver.acknowledge("b", "w2")).phase is Phase.ACTIVE
        receipt = await driver.complete()
        events = await ledger.events(task_id="t")
        assert [event_tag(record.event) for record in events] == [
            "task.submitted",
            "offer.issued",
            "offer.claimed",
            "offer.acknowledged",
            "tenure.granted",
            "tenure.retiring",
            "handoff.initiated",
            "routing.retired",
            "execution.stopped",
            "effects.settled",
            "tenure.ended",
            "offer.issued",
            "offer.claimed",
            "offer.acknowledged",
            "tenure.granted",
            "tenure.retiring",
            "routing.retired",
            "execution.stopped",
            "effects.settled",
            "tenure.ended",
            "task.completed",
        ]
        assert [record.seq for record in events] == list(range(1, 22))
        assert (receipt.revision, receipt.epoch, receipt.phase) == (21, events[-1].epoch, Phase.COMPLETED)
        assert len({record.digest for record in events}) == 21

    async def test_a_repeated_command_gets_its_recorded_answer(self, driver: Driver, ledger: Ledger) -> None:
        await driver.submit("a")
        task = await driver.task()
        assert task.offer is not None
        command = driver.make(cmd.Acknowledge, epoch=task.epoch, agent="a", instance="w1", digest=task.offer.payload)
        first = await ledger.execute(command)
        await driver.transfer("b")
        await driver.acknowledge("b", "w2")
        position = (await ledger.events())[-1].position
        assert await ledger.execute(command) == first
        assert (await driver.task()).epoch > first.epoch
        assert await ledger.events(after=position) == []
        assert await ledger.refusals() == []

    async def test_a_command_id_belongs_to_one_command(self, driver: Driver, ledger: Ledger) -> None:
        await driver.submit("a", command_id="once")
        with pytest.raises(Refused) as caught:
            await driver.do(cmd.Send, command_id="once", message=body("hello"))
        assert caught.value.code == "command_conflict"
        assert (await driver.task()).received == 0
        other = Driver(ledger, "u")
        assert (await other.submit("a", command_id="once")).status == "done"

    async def test_an_id_of_a_refused_command_is_free(self, driver: Driver) -> None:
        with pytest.raises(Refused):
            await driver.do(cmd.Send, command_id="once", message=body("hello"))
        await driver.submit("a")
        assert (await driver.do(cmd.Send, command_id="once", message=body("hello"))).status == "done"

    @pytest.mark.parametrize(
        ("root_id", "task_id", "command_id"),
        [("t", "u", "c"), ("t", "u.1", "c"), ("t.1", "t.1", "c"), ("", "", "c"), ("t", "t", "")],
    )
    async def test_ids_must_belong_together(self, ledger: Ledger, root_id: str, task_id: str, command_id: str) -> None:
        command = cmd.Submit(
            command_id=command_id,
            root_id=root_id,
            task_id=task_id,
            candidates=candidates("a"),
            payload=payload(task_id),
        )
        with pytest.raises(Refused) as caught:
            await ledger.execute(command)
        assert caught.value.code == "invalid"
        assert await ledger.events() == []

    async def test_a_child_belongs_to_its_tree(self, driver: Driver) -> None:
        await driver.owned()
        with pytest.raises(Refused) as caught:
            await driver.own(cmd.Delegate, child_id="u.1", candidates=candidates("c"), payload=payload("u.1"))
        assert caught.value.code == "invalid"

    async def test_an_unknown_task_is_said_to_be_unknown(self, driver: Driver, ledger: Ledger) -> None:
        with pytest.raises(Refused) as caught:
            await driver.do(cmd.Expire)
        assert caught.value.code == "unknown_task"
        assert (await ledger.task("t"), await ledger.row("t"), await ledger.tree("t")) == (None, None, None)

    async def test_a_child_ends_and_wakes_its_parent_in_one_commit(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        await driver.delegate("t.1")
        with pytest.raises(Refused) as caught:
            await driver.delegate("t.1")
        assert caught.value.code == "task_exists"
        wait = dec.WaitFor(on=WaitOn.CHILD, within_ms=60_000, child_id="t.1")
        await driver.own(cmd.Retire, decision=wait, quiet=True)
        await driver.acknowledge("c", "w2", "t.1")
        await driver.complete("t.1", result="found")
        parent, child = await driver.task(), await driver.task("t.1")
        assert (child.phase, parent.phase) == (Phase.COMPLETED, Phase.OFFERED)
        assert [(entry.outcome, entry.result) for entry in parent.children] == [("completed", child.result)]
        tree = await ledger.tree("t")
        assert tree is not None
        assert (tree.tasks, tree.unfinished, tree.delegations, tree.stopped) == (2, 1, 1, False)

    async def test_a_stopped_tree_opens_no_task(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        await driver.do(cmd.StopTree, by="customer-07")
        with pytest.raises(Refused) as caught:
            await driver.delegate("t.1")
        assert caught.value.code == "tree_stopped"
        tree = await ledger.tree("t")
        assert tree is not None
        assert tree.stopped

    async def test_a_hundred_commands_at_once_on_one_task(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        before = (await driver.task()).revision
        sends = [driver.do(cmd.Send, message=body(n, f"nonce {n}")) for n in range(100)]
        receipts = await asyncio.gather(*sends)
        assert sorted(receipt.revision for receipt in receipts) == list(range(before + 1, before + 101))
        messages = await ledger.messages("t")
        assert [message.n for message in messages] == list(range(1, 101))
        assert sorted(message.body.value() for message in messages if message.body) == list(range(100))

    async def test_of_many_claims_one_wins(self, driver: Driver) -> None:
        await driver.submit("a", "b", broadcast=True)
        claims = [driver.do(cmd.Claim, epoch=1, agent="ab"[n % 2], instance=f"w{n}") for n in range(50)]
        answers = await asyncio.gather(*claims, return_exceptions=True)
        won = [answer for answer in answers if isinstance(answer, Receipt)]
        lost = [answer.code for answer in answers if isinstance(answer, Refused)]
        assert (len(won), lost) == (1, ["already_claimed"] * 49)

    async def test_a_caller_that_goes_away_takes_nothing_back(self, driver: Driver, ledger: Ledger) -> None:
        await driver.submit("a")
        commands = [driver.make(cmd.Send, message=body(n, f"nonce {n}")) for n in range(20)]
        callers = [asyncio.ensure_future(ledger.execute(command)) for command in commands]
        await asyncio.sleep(0)
        for caller in callers[::2]:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        repeated = await asyncio.gather(*(ledger.execute(command) for command in commands))
        assert len({receipt.revision for receipt in repeated}) == 20
        assert (await driver.task()).received == 20

    async def test_a_thread_executes_without_a_loop(self, driver: Driver, ledger: Ledger) -> None:
        await driver.submit("a")
        command = driver.make(cmd.Send, message=body("hello"))
        receipt = await asyncio.to_thread(ledger.execute_blocking, command)
        assert (await ledger.execute(command), receipt.revision) == (receipt, 3)
        with pytest.raises(Refused):
            await asyncio.to_thread(ledger.execute_blocking, driver.make(cmd.Expire))

    async def test_refusals_are_in_the_audit_and_nowhere_else(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        before = await driver.task()
        with pytest.raises(Refused):
            await driver.do(cmd.Expire, command_id="early")
        (note,) = await ledger.refusals()
        assert (note.command, note.family, note.code, note.command_id) == ("expire", "refused", "not_due", "early")
        assert (note.root_id, note.task_id, note.position, note.epoch, note.instance) == ("t", "t", 1, 0, "")
        with pytest.raises(Refused):
            await driver.own(cmd.See, upto=5)
        (later,) = await ledger.refusals(after=note.position)
        assert (later.command, later.code, later.epoch, later.instance) == ("see", "input_order", 2, "w1")
        assert await ledger.refusals(task_id="t", limit=1) == [note]
        assert await ledger.refusals(task_id="u") == []
        assert await driver.task() == before

    async def test_what_changes_nothing_is_not_recorded(self, driver: Driver) -> None:
        await driver.submit("a")
        claim = {"epoch": 1, "agent": "a", "instance": "w1"}
        await driver.do(cmd.Claim, **claim)
        await driver.do(cmd.Claim, command_id="again", **claim)
        assert (await driver.do(cmd.Send, command_id="again", message=body("hello"))).status == "done"

    async def test_a_closed_ledger_says_so(self, tmp_path: Path, clock: VirtualClock) -> None:
        ledger = self.open(tmp_path, clock)
        driver = Driver(ledger)
        await driver.submit("a")
        position = (await ledger.events())[-1].position
        waiter = asyncio.ensure_future(ledger.wait(position, 30))
        await asyncio.sleep(0.01)
        await ledger.close()
        assert await waiter == position
        await ledger.close()
        calls = [
            ledger.execute(driver.make(cmd.Expire)),
            ledger.task("t"),
            ledger.wait(0, 0),
            ledger.verify(),
            asyncio.to_thread(ledger.heartbeat, []),
        ]
        for call in calls:
            with pytest.raises(Unavailable) as caught:
                await call
            assert caught.value.code == "ledger_closed"
