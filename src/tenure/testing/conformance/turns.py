"""Rules of turns and approvals: one recorded decision per turn; a person's word on exact arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from tenure.errors import Fenced, Refused
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.events import TurnDecided, TurnNudged
from tenure.protocol.graph import Budgets, Graph, Tool, Turns
from tenure.protocol.settings import Limits, Settings
from tenure.protocol.vocabulary import Phase, Reason, TurnOutcome
from tenure.testing.conformance.base import Rules, VirtualClock
from tenure.testing.conformance.driver import Driver, body, edge, team

ROUTES = (edge("a", "c"), edge("a", "b"), edge("b", "a"))
REFUND = {"intent": "order A17", "arguments": "cents 4200"}


async def owned(driver: Driver, graph: Graph, **fields: Any) -> str:
    """Task ``t`` of agent ``a``, with the settings that the graph gives. Returns the graph's digest."""
    digest = await driver.ledger.save_graph(graph)
    await driver.owned("a", graph=digest, settings=graph.settings(Settings()), limits=graph.limits(Limits()), **fields)
    return digest


class TurnRules(Rules):
    """Take turns, hand back, decide, ask a person."""

    async def test_a_ruling_is_the_recorded_answer_of_its_command(self, driver: Driver, ledger: Ledger) -> None:
        await owned(driver, team(*ROUTES))
        transfer = cmd.AskedTransfer(call_id="1", decision=await driver.handoff("b"))
        tenure = (await driver.task()).tenure
        assert tenure is not None
        fields = {"epoch": tenure.epoch, "instance": tenure.instance, "asked": ("1", "2"), "transfers": (transfer,)}
        nudge = driver.make(
            cmd.TakeTurn, **fields, delegations=(cmd.AskedDelegation(call_id="2", agent="c"),), command_id="nudge"
        )
        decide = driver.make(cmd.TakeTurn, **fields, command_id="decide")
        receipts = [await ledger.execute(nudge), await ledger.execute(decide)]
        rulings = [receipt.ruling for receipt in receipts]
        assert [ruling and ruling.outcome for ruling in rulings] == [TurnOutcome.NUDGE, TurnOutcome.TRANSFER]
        assert [ruling and ruling.nudges_left for ruling in rulings] == [1, 1]
        await driver.own(cmd.Retire, decision=transfer.decision, quiet=True)
        await driver.acknowledge("b", "w2")
        position = (await ledger.events())[-1].position
        assert [await ledger.execute(nudge), await ledger.execute(decide)] == receipts
        assert ((await driver.task()).owner, await ledger.events(after=position)) == ("b", [])
        with pytest.raises(Fenced):
            await ledger.execute(driver.make(cmd.TakeTurn, **fields))
        with pytest.raises(Refused) as caught:
            await ledger.execute(driver.make(cmd.TakeTurn, **{**fields, "asked": ("1",)}, command_id="decide"))
        assert caught.value.code == "command_conflict"

    async def test_a_turn_is_recorded_before_anything_of_it_starts(self, driver: Driver, ledger: Ledger) -> None:
        digest = await owned(driver, team(*ROUTES))
        before = await driver.task()
        first = await driver.turn("call", ">b", "+c")
        assert first.ruling is not None
        assert [(one.call_id, one.code) for one in first.ruling.rejected] == [
            (">b", "ambiguous_turn"),
            ("+c", "ambiguous_turn"),
        ]
        task = await driver.task()
        assert (task.nudges, task.nudged, task.epoch) == (1, first.ruling.rejected, before.epoch)
        assert (task.hops, task.children, task.works) == ((), (), ())
        second = await driver.turn("call", ">b")
        assert second.ruling is not None
        task = await driver.task()
        assert task.tenure is not None
        assert task.tenure.pending is not None
        assert (task.tenure.pending.handoff_id, task.tenure.pending.calls_by) == ("h1", second.ruling.calls_by)
        assert (task.hops, task.transfers, task.nudged) == ((), 0, ())
        events = [record.event for record in await ledger.events(task_id="t")]
        turns = [event for event in events if isinstance(event, TurnDecided | TurnNudged)]
        assert [(type(turn), turn.n, turn.asked, turn.graph) for turn in turns] == [
            (TurnNudged, 1, ("call", ">b", "+c"), digest),
            (TurnDecided, 1, ("call", ">b"), digest),
        ]
        assert await ledger.body("t", task.tenure.pending.payload) is not None

    async def test_after_a_decided_transfer_nothing_else_begins(self, driver: Driver, ledger: Ledger) -> None:
        graph = team(*ROUTES)
        await owned(driver, graph)
        await driver.turn(">b")
        before, position = await driver.task(), (await ledger.events())[-1].position
        other = await ledger.save_graph(team())
        refused = []
        attempts: list[Callable[[], Awaitable[cmd.Receipt]]] = [
            partial(driver.delegate, "t.1"),
            partial(driver.transfer, "c"),
            partial(driver.turn, "+c"),
            driver.complete,
            partial(driver.adopt, other),
        ]
        for attempt in attempts:
            with pytest.raises(Refused) as caught:
                await attempt()
            refused.append(caught.value.code)
        assert refused == ["transfer_decided"] * 5
        assert (await driver.task(), await ledger.events(after=position)) == (before, [])
        assert (await driver.transfer("b")).phase is Phase.OFFERED

    @pytest.mark.parametrize("asked", [(">b", ">c"), (">c", ">b")])
    async def test_among_transfers_the_first_in_the_graphs_order_wins(
        self, driver: Driver, asked: tuple[str, ...]
    ) -> None:
        await owned(driver, team(*ROUTES, turns=Turns(nudges=0)))
        ruling = (await driver.turn(*asked)).ruling
        assert ruling is not None
        assert (ruling.outcome, ruling.transfer) == (TurnOutcome.TRANSFER, ">c")
        assert [(one.call_id, one.code) for one in ruling.rejected] == [(">b", "ambiguous_turn")]

    async def test_delegations_win_over_transfers_once_nudges_are_used_up(self, driver: Driver) -> None:
        await owned(driver, team(*ROUTES, turns=Turns(nudges=1)))
        outcomes = []
        for _ in range(2):
            ruling = (await driver.turn(">b", "+c", "+b")).ruling
            assert ruling is not None
            outcomes.append((ruling.outcome, [one.call_id for one in ruling.rejected]))
        assert outcomes == [(TurnOutcome.NUDGE, [">b", "+c", "+b"]), (TurnOutcome.GO, [">b"])]
        await driver.delegate("t.1")

    @pytest.mark.parametrize(
        ("asked", "budgets", "reason"),
        [
            (">mallory", Budgets(), Reason.ROUTE_FORBIDDEN),
            (">partner", Budgets(), Reason.ROUTE_FORBIDDEN),
            (">b", Budgets(transfers=0), Reason.TRANSFER_LIMIT_EXCEEDED),
            ("+c", Budgets(delegations=0), Reason.DELEGATION_LIMIT_EXCEEDED),
            ("+c", Budgets(depth=0), Reason.DELEGATION_LIMIT_EXCEEDED),
        ],
    )
    async def test_what_is_asked_for_beyond_the_nudges_ends_the_task_with_its_state_kept(
        self, driver: Driver, ledger: Ledger, asked: str, budgets: Budgets, reason: Reason
    ) -> None:
        await owned(driver, team(*ROUTES, budgets=budgets, turns=Turns(nudges=1)))
        await driver.own(cmd.Advance, document=body({"order": "A17"}))
        epoch, detail = (await driver.task()).epoch, body("asked for it twice")
        rulings = [(await driver.turn(asked, detail=detail)).ruling for _ in range(2)]
        assert [ruling and ruling.outcome for ruling in rulings] == [TurnOutcome.NUDGE, TurnOutcome.END]
        assert (await driver.task()).epoch == epoch
        await driver.own(cmd.Release, routes_retired=True)
        task = await driver.task()
        assert task.question is not None
        assert (task.phase, task.question.reason, task.question.body) == (Phase.ESCALATED, reason, detail.digest)
        assert (task.document, task.transfers, task.delegated) == (body({"order": "A17"}).digest, 0, 0)
        assert await ledger.body("t", detail.digest) == detail

    async def test_a_decided_transfer_outlives_its_instance(
        self, driver: Driver, ledger: Ledger, clock: VirtualClock
    ) -> None:
        await owned(driver, team(*ROUTES))
        await driver.turn("call", ">b")
        clock.now += Settings().lease_ms
        await driver.do(cmd.Expire)
        task = await driver.task()
        assert task.offer is not None
        assert ([entry.agent for entry in task.offer.candidates], task.transfers) == (["b"], 1)
        await driver.acknowledge("b", "w2")
        assert await ledger.body("t", task.payload) is not None

    async def test_the_part_of_a_transfer_that_was_only_decided_is_erased(self, driver: Driver, ledger: Ledger) -> None:
        await owned(driver, team(*ROUTES))
        await driver.turn(">b")
        decided = (await driver.task()).tenure
        assert decided is not None
        assert decided.pending is not None
        await driver.do(cmd.RequestCancel, by="customer-07")
        await driver.own(cmd.Retire, decision=dec.StopAsAsked(), quiet=True)
        assert (await driver.task()).phase is Phase.CANCELLED
        await ledger.erase("t", by="person:operator")
        assert await ledger.body("t", decided.pending.payload) is None

    async def test_an_approval_binds_exact_arguments_until_it_lapses(
        self, driver: Driver, ledger: Ledger, clock: VirtualClock
    ) -> None:
        await owned(driver, team(*ROUTES, tools={"refund": Tool(approval=True)}))
        with pytest.raises(Refused) as caught:
            await driver.intend("e1", **REFUND)
        assert caught.value.code == "approval_required"
        await driver.word("approve", **REFUND)
        with pytest.raises(Refused) as caught:
            await driver.intend("e1", **{**REFUND, "arguments": "cents 4300"})
        assert caught.value.code == "approval_required"
        (word,) = (await driver.task()).approvals
        assert (word.by, word.granted, word.until) == ("person:operator", True, clock.now + Settings().approval_ms)
        clock.now = word.until
        with pytest.raises(Refused) as caught:
            await driver.intend("e1", **REFUND)
        assert (caught.value.code, await ledger.effects("t")) == ("approval_required", [])
        await driver.word("approve", **REFUND)
        assert (await driver.intend("e1", **REFUND)).status == "done"

    async def test_a_refused_approval_is_a_no_until_it_lapses(self, driver: Driver, ledger: Ledger) -> None:
        await owned(driver, team(*ROUTES, tools={"refund": Tool(approval=True)}))
        await driver.word("refuse", **REFUND)
        with pytest.raises(Refused) as caught:
            await driver.intend("e1", **REFUND)
        assert (caught.value.code, await ledger.effects("t")) == ("not_approved", [])

    async def test_an_approval_goes_with_the_task_and_to_its_children(self, driver: Driver) -> None:
        await owned(driver, team(*ROUTES, tools={"refund": Tool(approval=True)}))
        await driver.word("approve", **REFUND)
        await driver.delegate("t.1")
        await driver.acknowledge("c", "w3", "t.1")
        assert (await driver.intend("e1", "t.1", **REFUND)).status == "done"
        await driver.word("approve", intent="order A18", arguments="cents 100")
        await driver.transfer("b")
        await driver.acknowledge("b", "w2")
        assert (await driver.intend("e2", intent="order A18", arguments="cents 100")).status == "done"
