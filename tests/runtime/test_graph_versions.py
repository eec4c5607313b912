"""Versions of a routing graph: a task keeps its own until it is moved, and each step is judged by the one in force."""

from typing import Any

import pytest
from msgspec.structs import replace

from tenure import Complete, Nudged, Team, Tenure, Transfer, Wait
from tenure.errors import Refused
from tenure.graph import AgentNode, Edge, Fallback, Graph, Turns
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.graph import AgentKind
from tenure.protocol.vocabulary import Reason
from tests.runtime.harness import events, in_phase

EDGE: dict[str, Any] = {"kind": "transfer", "because": "it answers"}
OLD = Graph(
    team="t",
    entry="a",
    agents={"a": AgentNode(), "b": AgentNode(), "c": AgentNode()},
    edges=(Edge(source="a", target="c", **EDGE),),
    turns=Turns(nudges=0),
    fallback=Fallback(failure="fail"),
)
NEW = replace(OLD, edges=(Edge(source="a", target="b", **EDGE),))


def versioned(ledger: Ledger, graph: Graph) -> Team:
    """A waits for a word and transfers to whom it names."""
    team = Team("t", ledger=ledger, graph=graph)

    @team.agent
    async def a(own: Tenure[Any]) -> Wait | Transfer[Any]:
        message = await own.receive(timeout=0)
        return Wait("input", within=60) if message is None else Transfer(message.value)

    async def receiver(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.agent)

    for name in "bc":
        team.agent(name=name)(receiver)
    return team


@pytest.mark.parametrize("to", ["c", "b"])
async def test_a_worker_with_a_newer_graph_serves_an_old_task_by_the_old_edges(ledger: Ledger, to: str) -> None:
    """A task keeps its version across a restart of the workers; what is new holds for new tasks."""
    old, new = versioned(ledger, OLD), versioned(ledger, NEW)
    async with old.worker(name="w1"):
        handle = await old.submit(goal="g")
        await in_phase(handle, "waiting")
    async with new.worker(name="w2"):
        await handle.send(to)
        result = await handle.result(10)
        fresh = await new.submit(goal="g")
        await in_phase(fresh, "waiting")
        await fresh.send("b")
        assert (await fresh.result(10)).value == "b"
    if to == "c":
        assert result.value == "c"
    else:
        assert (result.outcome, result.reason) == ("failed", Reason.ROUTE_FORBIDDEN)
        assert "a may not transfer to b; it may to c" in result.value["error"]
    issued = await events(ledger, handle.task_id, ev.OfferIssued)
    assert {one.graph for one in issued} == {OLD.digest}, "each routing decision names the version in force"
    assert {one.graph for one in await events(ledger, fresh.task_id, ev.HandoffInitiated)} == {NEW.digest}
    assert {saved.digest for saved in await ledger.graphs()} == {OLD.digest, NEW.digest}


async def test_an_adopted_version_holds_from_the_next_step_on(ledger: Ledger) -> None:
    old, new = versioned(ledger, OLD), versioned(ledger, NEW)
    async with old.worker(name="w1"):
        handle = await old.submit(goal="g")
        await in_phase(handle, "waiting")
        with pytest.raises(Refused) as caught:
            await handle.adopt(NEW.digest, by="person:lead")
        assert caught.value.code == "unknown_graph", "only what was saved can be adopted"
        assert await new.save_graph() == await new.save_graph() == NEW.digest
        await handle.adopt(NEW.digest, by="person:lead", reason="c has left")
        await handle.send("b")
        assert (await handle.result(10)).value == "b", "also by a worker whose own graph is the old one"
    (adopted,) = await events(ledger, handle.task_id, ev.GraphAdopted)
    assert (adopted.graph, adopted.by, adopted.reason) == (NEW.digest, "person:lead", "c has left")
    (moved,) = await events(ledger, handle.task_id, ev.HandoffInitiated)
    assert moved.graph == NEW.digest


async def test_a_version_without_the_owner_is_not_adopted(ledger: Ledger) -> None:
    team = versioned(ledger, OLD)
    without = Graph(team="t", entry="b", agents={"b": AgentNode()})
    await ledger.save_graph(without)
    handle = await team.submit(goal="g")
    before = await handle.state()
    with pytest.raises(Refused) as caught:
        await handle.adopt(without.digest, by="person:lead")
    assert caught.value.code == "unknown_agent"
    assert await handle.state() == before


async def test_an_edge_that_is_removed_while_its_task_runs_is_refused_and_changes_nothing(ledger: Ledger) -> None:
    """The owner was granted under the old version; what it asks for is judged by the one in force."""
    closed = replace(OLD, edges=(), turns=Turns(nudges=1))
    await ledger.save_graph(closed)
    team = Team("t", ledger=ledger, graph=replace(OLD, edges=(*OLD.edges, Edge(source="a", target="b"))))
    codes: list[str] = []

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        task = team.task(own.task_id)
        await task.adopt(closed.digest, by="person:lead")
        before = await task.state()
        for target in ("b", "nobody", "a"):
            with pytest.raises(Refused) as caught:
                await own.delegate(target)
            codes.append(caught.value.code)
        assert await task.state() == before, "a refusal leaves state and epoch as they were"
        nudged = await own.turn([Transfer("c")])
        assert isinstance(nudged, Nudged)
        codes.append(nudged.rejected[0].code)
        after = await task.state()
        assert (after.epoch, after.owner, after.hop_count, after.transfers) == (before.epoch, "a", 0, 0)
        return Complete()

    async with team.worker(agents=["a"]):
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).outcome == "completed"
    assert codes == ["route_forbidden", "unknown_agent", "route_forbidden", "route_forbidden"]
    assert await events(ledger, handle.task_id, ev.HandoffInitiated, ev.DelegationOpened) == []


async def test_a_partner_never_owns_a_task_and_may_be_delegated_to(ledger: Ledger) -> None:
    agents = {"a": AgentNode(), "p": AgentNode(kind=AgentKind.PARTNER)}
    graph = Graph(team="t", entry="a", agents=agents, edges=(Edge(source="a", target="p"),), turns=Turns(nudges=1))
    team = Team("t", ledger=ledger, graph=graph)
    codes: list[str] = []

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        nudged = await own.turn([Transfer("p")])
        assert isinstance(nudged, Nudged)
        codes.extend(one.code for one in nudged.rejected)
        return Complete((await own.delegate("p", 3)).value)

    @team.agent
    async def p(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.input + 1)

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == 4
        with pytest.raises(Refused) as caught:
            await team.submit(goal="g", to="p")
    assert (codes, caught.value.code) == (["route_forbidden"], "route_forbidden")
    assert (await handle.state()).hop_count == 0
