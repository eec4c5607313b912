"""Rules of routing graphs: versions are kept as they are, and the one in force is enforced in the commit."""

from __future__ import annotations

import pytest

from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.events import event_tag
from tenure.protocol.graph import Budgets, Deadlines, Edge, EdgeKind, Oscillation, Tool
from tenure.protocol.settings import Settings
from tenure.protocol.state import Task, Tree
from tenure.protocol.vocabulary import Gate, Phase, Reason
from tenure.testing.conformance.base import Rules, VirtualClock
from tenure.testing.conformance.driver import Driver, body, candidates, edge, payload, team

BOTH_WAYS = (edge("a", "b"), edge("b", "a"))
NOWHERE = "0" * 64
FORGED = {
    "an edge that was removed": ("b", "route_forbidden"),
    "an edge that never was": ("c", "route_forbidden"),
    "an agent that is not in the graph": ("mallory", "unknown_agent"),
    "a partner": ("partner", "route_forbidden"),
    "the owner itself": ("a", "self_transfer"),
}


async def standing(driver: Driver) -> tuple[Task, Tree | None, int, int]:
    """Everything that a refusal must leave as it was: state, counters, the feed's position, the next deadline."""
    row = await driver.ledger.row(driver.root_id)
    assert row is not None
    feed = await driver.ledger.events(limit=100_000)
    return row.task, await driver.ledger.tree(driver.root_id), feed[-1].position, row.lease_until


class GraphRules(Rules):
    """Save, list, adopt, enforce."""

    async def test_a_graph_that_is_saved_twice_is_one_version(self, ledger: Ledger, clock: VirtualClock) -> None:
        digest = await ledger.save_graph(team(*BOTH_WAYS))
        first = await ledger.graph(digest)
        clock.now += 1_000
        assert await ledger.save_graph(team(*BOTH_WAYS)) == digest == team(*BOTH_WAYS).digest
        assert await ledger.graph(digest) == first
        assert first is not None
        assert (first.digest, first.n, first.saved_at, first.graph) == (digest, 1, clock.now - 1_000, team(*BOTH_WAYS))
        assert await ledger.graphs() == [first]
        assert await ledger.graph(NOWHERE) is None

    async def test_versions_are_listed_the_newest_first(self, ledger: Ledger) -> None:
        shop = [await ledger.save_graph(team(*edges)) for edges in ((), BOTH_WAYS[:1], BOTH_WAYS)]
        other = await ledger.save_graph(team(team="desk"))
        await ledger.save_graph(team())
        everything = await ledger.graphs()
        assert [saved.digest for saved in everything] == [other, *reversed(shop)]
        assert [saved.n for saved in everything] == [4, 3, 2, 1]
        assert await ledger.graphs(limit=2) == everything[:2]
        assert await ledger.graphs(team="shop") == everything[1:]
        assert await ledger.graphs(team="shop", limit=1) == everything[1:2]
        assert await ledger.graphs(team="nobody") == []

    async def test_every_part_of_a_graph_is_kept(self, ledger: Ledger) -> None:
        kept = team(
            Edge(source="a", target="b", kind=EdgeKind.TRANSFER, because="§ → ü", gate=Gate.SETTLED, tools=("refund",)),
            tools={"refund": Tool(approval=True, limits={"cents": 4_200, "rate": 0.5})},
            budgets=Budgets(transfers=0),
            deadlines=Deadlines(lease_ms=7_000),
        )
        saved = await ledger.graph(await ledger.save_graph(kept))
        assert saved is not None
        assert (saved.graph, saved.graph.content, saved.graph.digest) == (kept, kept.content, kept.digest)

    async def test_a_version_that_was_never_saved_is_refused(self, driver: Driver, ledger: Ledger) -> None:
        with pytest.raises(Refused) as caught:
            await driver.submit("a", graph=NOWHERE)
        assert (caught.value.code, await ledger.task("t"), await ledger.events()) == ("unknown_graph", None, [])
        await driver.owned("a", graph=await ledger.save_graph(team()))
        before = await standing(driver)
        with pytest.raises(Refused) as caught:
            await driver.adopt(team(*BOTH_WAYS).digest)
        assert (caught.value.code, await standing(driver)) == ("unknown_graph", before)
        notes = [(note.command, note.family, note.code) for note in await ledger.refusals()]
        assert notes == [("submit", "refused", "unknown_graph"), ("adopt_graph", "refused", "unknown_graph")]

    async def test_a_graph_is_known_from_the_commit_that_saves_it_on(self, driver: Driver, ledger: Ledger) -> None:
        with pytest.raises(Refused):
            await driver.submit("a", graph=team().digest)
        assert (await driver.submit("a", graph=await ledger.save_graph(team()))).status == "done"

    async def test_a_newer_version_does_not_touch_a_task_of_the_older_one(self, ledger: Ledger) -> None:
        older, newer = await ledger.save_graph(team(*BOTH_WAYS)), await ledger.save_graph(team(*BOTH_WAYS[1:]))
        first, second = Driver(ledger, "t"), Driver(ledger, "u")
        await first.owned("a", graph=older)
        await second.owned("a", graph=newer)
        assert (await first.transfer("b")).phase is Phase.OFFERED
        with pytest.raises(Refused) as caught:
            await second.transfer("b")
        assert caught.value.code == "route_forbidden"
        assert ((await first.task()).graph, (await second.task()).graph) == (older, newer)

    async def test_a_task_goes_by_the_version_that_it_adopted(self, driver: Driver, ledger: Ledger) -> None:
        older = await ledger.save_graph(team(*BOTH_WAYS, budgets=Budgets(transfers=5)))
        newer = await ledger.save_graph(
            team(*BOTH_WAYS[1:], budgets=Budgets(transfers=3), deadlines=Deadlines(lease_ms=9_000))
        )
        owned = await driver.owned("a", graph=older)
        command = driver.make(cmd.AdoptGraph, graph=newer, by="person:operator", reason="reviewed")
        receipt = await ledger.execute(command)
        adopted = await driver.task()
        assert (receipt.status, adopted.graph, adopted.epoch, adopted.tenure) == (
            "done",
            newer,
            owned.epoch,
            owned.tenure,
        )
        # A running tenure counts on its lease, so that deadlines stay.
        assert (adopted.settings.transfers, adopted.settings.lease_ms) == (3, owned.settings.lease_ms)
        assert await ledger.execute(command) == receipt
        assert (await driver.adopt(newer)).status == "already"
        before = await standing(driver)
        with pytest.raises(Refused) as caught:
            await driver.transfer("b")
        assert (caught.value.code, await standing(driver)) == ("route_forbidden", before)
        await driver.adopt(older)
        assert (await driver.transfer("b")).phase is Phase.OFFERED

    async def test_a_child_goes_by_its_callers_version(self, driver: Driver, ledger: Ledger) -> None:
        older, newer = await ledger.save_graph(team()), await ledger.save_graph(team(*BOTH_WAYS))
        await driver.owned("a", graph=older)
        await driver.delegate("t.1", "b")
        await driver.adopt(newer)
        await driver.delegate("t.2", "b")
        assert [(await driver.task(name)).graph for name in ("t", "t.1", "t.2")] == [newer, older, newer]

    @pytest.mark.parametrize("what", FORGED)
    async def test_a_forged_transfer_moves_nothing(self, driver: Driver, ledger: Ledger, what: str) -> None:
        target, code = FORGED[what]
        await driver.owned("a", graph=await ledger.save_graph(team(*BOTH_WAYS)))
        await driver.adopt(await ledger.save_graph(team(*BOTH_WAYS[1:])))
        before = await standing(driver)
        with pytest.raises(Refused) as caught:
            await driver.transfer(target, command_id="forged")
        assert caught.value.code == code
        after = await standing(driver)
        assert after == before
        assert (after[0].epoch, after[0].revision) == (before[0].epoch, before[0].revision)
        (note,) = await ledger.refusals()
        assert (note.command, note.command_id, note.family, note.code) == ("retire", "forged", "refused", code)
        assert (note.task_id, note.epoch, note.instance) == ("t", before[0].epoch, "w1")

    @pytest.mark.parametrize("what", FORGED)
    async def test_a_forged_candidate_beside_an_allowed_one_moves_nothing(
        self, driver: Driver, ledger: Ledger, what: str
    ) -> None:
        target, code = FORGED[what]
        agents = ("b", "c") if what == "an edge that was removed" else ("b", target)
        await driver.owned("a", graph=await ledger.save_graph(team(*BOTH_WAYS)))
        before = await standing(driver)
        with pytest.raises(Refused) as caught:
            await driver.transfer(*agents)
        assert (caught.value.code, await standing(driver)) == (code, before)

    async def test_a_forged_delegation_moves_nothing(self, driver: Driver, ledger: Ledger) -> None:
        graph = team(edges=(Edge(source="a", target="c"), edge("a", "b")))
        await driver.owned("a", graph=await ledger.save_graph(graph))
        before = await standing(driver)
        for agent, code in (("b", "route_forbidden"), ("partner", "route_forbidden"), ("mallory", "unknown_agent")):
            with pytest.raises(Refused) as caught:
                await driver.delegate("t.1", agent)
            assert caught.value.code == code
        assert (await standing(driver), await ledger.task("t.1")) == (before, None)
        assert [note.code for note in await ledger.refusals()] == [
            "route_forbidden",
            "route_forbidden",
            "unknown_agent",
        ]

    async def test_a_partner_gets_a_delegation_and_nothing_else(self, driver: Driver, ledger: Ledger) -> None:
        graph = await ledger.save_graph(team(edge("a", "partner")))
        with pytest.raises(Refused) as caught:
            await driver.submit("partner", graph=graph)
        assert (caught.value.code, await ledger.task("t")) == ("route_forbidden", None)
        await driver.owned("a", graph=graph)
        before = await standing(driver)
        with pytest.raises(Refused) as caught:
            await driver.transfer("partner")  # not even by an edge that says so
        assert (caught.value.code, await standing(driver)) == ("route_forbidden", before)
        await driver.delegate("t.1", "partner")
        await driver.own(cmd.Retire, decision=dec.EscalateTo(question_id="q", body=body("May I?")), quiet=True)
        asked = await standing(driver)
        for agent, code in (("partner", "route_forbidden"), ("mallory", "unknown_agent")):
            with pytest.raises(Refused) as caught:
                await driver.do(cmd.Answer, question_id="q", by="person:operator", action="reassign", agent=agent)
            assert (caught.value.code, await standing(driver)) == (code, asked)

    async def test_an_offer_is_not_sent_again_by_an_edge_that_is_gone(
        self, driver: Driver, ledger: Ledger, clock: VirtualClock
    ) -> None:
        await driver.owned("a", graph=await ledger.save_graph(team(*BOTH_WAYS)))
        await driver.transfer("b")
        await driver.adopt(await ledger.save_graph(team(*BOTH_WAYS[1:])))
        clock.now += Settings().pickup_ms
        await driver.do(cmd.Expire)
        task = await driver.task()
        assert task.offer is not None
        assert ([entry.agent for entry in task.offer.candidates], task.hops) == (["a"], ())

    async def test_who_may_not_be_adopted_with(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned("a", graph=await ledger.save_graph(team()))
        without = await ledger.save_graph(team(agents={"b": team().agents["b"]}))
        before = await standing(driver)
        for graph, code in ((without, "unknown_agent"), ("", "invalid")):
            with pytest.raises(Refused) as caught:
                await driver.adopt(graph)
            assert (caught.value.code, await standing(driver)) == (code, before)
        await driver.complete()
        with pytest.raises(Refused) as caught:
            await driver.adopt(without)
        assert caught.value.code == "task_ended"

    async def test_an_edge_used_in_circles_ends_with_the_supervisor(self, driver: Driver, ledger: Ledger) -> None:
        graph = team(*BOTH_WAYS, oscillation=Oscillation(repeats=0))
        settings = graph.settings(Settings(supervisor="c", nudges=0))
        await driver.owned("a", graph=await ledger.save_graph(graph), settings=settings)
        for agent in ("b", "a"):
            await driver.transfer(agent)
            await driver.acknowledge(agent)
        before = await standing(driver)
        with pytest.raises(Refused) as caught:
            await driver.transfer("b")
        assert (caught.value.code, await standing(driver)) == ("oscillation", before)
        ruling = (await driver.turn(">b")).ruling
        assert ruling is not None
        assert (ruling.outcome, ruling.reason) == ("end", Reason.OSCILLATION)
        await driver.own(cmd.Release, routes_retired=True)
        await driver.acknowledge("c", "w3")
        task = await driver.task()
        assert (task.owner, task.transfers, task.trail) == ("c", 2, ())

    async def test_the_digest_in_force_is_in_every_routing_decision(self, driver: Driver, ledger: Ledger) -> None:
        older, newer = await ledger.save_graph(team(*BOTH_WAYS)), await ledger.save_graph(team(edge("b", "c")))
        await driver.owned("a", graph=older)
        await driver.turn(">b", "+c")
        await driver.turn("call")
        await driver.delegate("t.1", "c")
        await driver.turn(">b")
        await driver.transfer("b")
        await driver.acknowledge("b", "w2")
        await driver.adopt(newer)
        await driver.turn("+mallory")
        await driver.transfer("c")
        events = [record.event for record in await ledger.events(task_id="t")]
        told = [(event_tag(event), getattr(event, "graph", None)) for event in events]
        assert [(tag, graph) for tag, graph in told if graph is not None] == [
            ("task.submitted", older),
            ("offer.issued", older),
            ("turn.nudged", older),
            ("turn.decided", older),
            ("delegation.opened", older),
            ("turn.decided", older),
            ("handoff.initiated", older),
            ("offer.issued", older),
            ("graph.adopted", newer),
            ("turn.nudged", newer),
            ("handoff.initiated", newer),
            ("offer.issued", newer),
        ]

    async def test_without_a_graph_only_settings_and_authority_bind(self, driver: Driver) -> None:
        await driver.owned("a")
        await driver.delegate("t.1", "whoever")
        await driver.transfer("whoever")
        assert (await driver.task()).graph == ""

    async def test_a_candidate_gets_what_its_edge_and_its_node_grant(self, driver: Driver, ledger: Ledger) -> None:
        graph = team(
            Edge(source="a", target="b", kind=EdgeKind.TRANSFER, because="b decides", tools=("refund(cents<=100)",)),
            tools={"refund": Tool(limits={"cents": 50})},
        )
        await driver.owned("a", graph=await ledger.save_graph(graph))
        await driver.transfer("b")
        await driver.acknowledge("b", "w2")
        assert (await driver.task()).held_authority == ("refund(cents<=100)",)
        refused = []
        for cents, tool in ((200, "refund"), (70, "refund"), (10, "ship")):
            with pytest.raises(Refused) as caught:
                await driver.intend("e1", tool=tool, request=body({"cents": cents}))
            refused.append(caught.value.code)
        assert refused == ["limit_exceeded", "limit_exceeded", "tool_not_allowed"]
        assert (await driver.intend("e1", request=body({"cents": 50}))).status == "done"

    async def test_a_child_candidate_is_checked_like_the_first(self, driver: Driver, ledger: Ledger) -> None:
        graph = team(edges=(Edge(source="a", target="c"),))
        await driver.owned("a", graph=await ledger.save_graph(graph))
        child = {"child_id": "t.1", "candidates": candidates("c", "b"), "payload": payload("t.1")}
        with pytest.raises(Refused) as caught:
            await driver.own(cmd.Delegate, **child)
        assert (caught.value.code, await ledger.task("t.1")) == ("route_forbidden", None)
