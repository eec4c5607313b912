"""The routing graph in force: asked in every commit that hands something over, and named in it (SE-03, BL-03)."""

from typing import Any

import pytest
from msgspec.structs import replace

from tenure.protocol import events as ev
from tenure.protocol.graph import (
    AgentKind,
    AgentNode,
    Budgets,
    Deadlines,
    Edge,
    EdgeKind,
    Graph,
    PolicyNode,
    Termination,
    Tool,
)
from tenure.protocol.settings import CRITICAL, Limits, Settings
from tenure.protocol.state import Candidate
from tenure.protocol.vocabulary import Gate, HandoffState, OfferKind, Phase, Reason
from tests.protocol.graphs import THREE, delegate, graph_of, transfer
from tests.protocol.world import Owner, World


def under(graph: Graph, agent: str = "a", **settings: object) -> Owner:
    world = World(**settings)
    return world.owned_by(agent, graph=world.save(graph))


def test_an_unknown_version_is_refused() -> None:
    with World().refuses("unknown_graph"):
        World().submit("a", graph="f" * 64)
    a = under(THREE)
    a.world.graphs.clear()
    with a.world.refuses("unknown_graph"):
        a.turn("t:b")


def test_a_task_is_offered_to_agents_of_the_graph_only() -> None:
    world = World()
    with world.refuses("unknown_agent"):
        world.submit("nobody", graph=world.save(THREE))
    partner = graph_of(delegate("a", "p"), agents={"p": AgentNode(kind=AgentKind.PARTNER)})
    with world.refuses("route_forbidden"):
        world.submit("p", graph=world.save(partner))


def test_a_transfer_needs_its_edge() -> None:
    a = under(graph_of(transfer("a", "b"), delegate("a", "c")))
    with a.world.refuses("route_forbidden"):
        a.transfer("c")
    with a.world.refuses("unknown_agent"):
        a.transfer("forged")
    with a.world.refuses("self_transfer"):
        a.transfer("a")
    with a.world.refuses("route_forbidden"):
        a.transfer("b", "c")
    a.transfer("b")
    assert a.world.newest(ev.HandoffInitiated).graph == a.world.task.graph


def test_a_partner_never_owns_a_task() -> None:
    graph = graph_of(
        transfer("a", "p"), delegate("a", "p"), agents={"a": AgentNode(), "p": AgentNode(kind=AgentKind.PARTNER)}
    )
    a = under(graph)
    with a.world.refuses("route_forbidden"):
        a.transfer("p")
    a.delegate("t.1", "p")
    assert a.world.tasks["t.1"].owner == "p"


def test_a_delegation_needs_its_edge() -> None:
    a = under(graph_of(delegate("a", "b"), transfer("a", "c")))
    with a.world.refuses("route_forbidden"):
        a.delegate("t.1", "c")
    a.delegate("t.1", "b")
    assert a.world.newest(ev.DelegationOpened).graph == a.world.tasks["t.1"].graph == a.world.task.graph


def test_a_wildcard_delegates_to_everybody_else() -> None:
    a = under(THREE)
    with a.world.refuses("route_forbidden"):
        a.delegate("t.1", "a")
    a.delegate("t.1", "c")
    assert list(THREE.targets("a", THREE.edges[2].kind)) == ["b", "c"]


def test_another_trigger_than_the_edge_s_is_no_such_edge() -> None:
    a = under(graph_of(transfer("a", "b", trigger="classification")))
    with a.world.refuses("route_forbidden"):
        a.decide(a.to("b", trigger="whim"))
    a.decide(a.to("b", trigger="classification"))
    assert a.world.hops() == [("b", "TRANSFERRED")]


def test_an_edge_raises_the_gate_and_never_lowers_it() -> None:
    a = under(graph_of(transfer("a", "b", gate=Gate.STOPPED)))
    a.transfer("b", gate=Gate.ROUTING_RETIRED)
    assert a.world.task.hops[-1].gate is Gate.STOPPED
    a = under(graph_of(transfer("a", "b", gate=Gate.ROUTING_RETIRED)))
    a.transfer("b", gate=Gate.SETTLED)
    assert a.world.task.hops[-1].gate is Gate.SETTLED


def test_an_edge_has_deadlines_of_its_own() -> None:
    a = under(graph_of(transfer("a", "b", pickup_ms=700, ack_ms=300)))
    a.transfer("b")
    assert a.world.due() == a.world.now + 700
    a.world.claim("b")
    assert a.world.due() == a.world.now + 300


def test_what_an_edge_does_not_let_its_receiver_do_is_refused() -> None:
    a = under(graph_of(transfer("a", "b", termination=(Termination.RETURN,))))
    a.transfer("b")
    b = a.world.ack("b")
    with a.world.refuses("route_forbidden"):
        b.complete()
    b.give_back()
    assert a.world.task.offer is not None
    assert a.world.task.offer.kind is OfferKind.RETURN


def test_a_return_that_the_edge_excludes_goes_to_a_person() -> None:
    a = under(graph_of(transfer("a", "b", termination=(Termination.END,))))
    a.transfer("b")
    b = a.world.ack("b")
    b.give_back()
    assert a.world.phase() is Phase.ESCALATED


def test_whoever_came_by_no_edge_of_the_graph_may_end_the_task() -> None:
    a = under(graph_of(transfer("a", "b", termination=(Termination.RETURN,)), delegate("a", "c")))
    a.transfer("b")
    a.world.ack("b").escalate()
    a.world.answer("q1", action="reassign", agent="c")
    a.world.ack("c").complete()
    assert a.world.phase() is Phase.COMPLETED


def test_the_tools_of_agent_and_edge_bound_what_a_receiver_may_use() -> None:
    nodes = {"b": AgentNode(tools=("refund(cents<=500)", "note"))}
    a = under(graph_of(transfer("a", "b", tools=("refund",)), agents={"a": AgentNode(), **nodes}))
    a.transfer(Candidate(agent="b", authority=("refund", "note", "delete")))
    a.world.ack("b")
    assert a.world.task.tenure is not None
    assert a.world.task.tenure.authority == ("refund(cents<=500)",)


def test_a_person_reassigns_within_the_graph() -> None:
    a = under(graph_of(transfer("a", "b"), agents={"b": AgentNode(tools=("note",))}))
    a.escalate()
    with a.world.refuses("unknown_agent"):
        a.world.answer("q1", action="reassign", agent="forged")
    a.world.answer("q1", action="reassign", agent="b")
    a.world.ack("b")
    assert a.world.task.tenure is not None
    assert a.world.task.tenure.authority == ("note",)


def test_a_task_keeps_its_version_until_it_is_told_to_move() -> None:
    old, new = graph_of(transfer("a", "b"), transfer("a", "c")), graph_of(transfer("a", "c"), delegate("a", "b"))
    a = under(old)
    a.world.save(new)
    assert a.world.task.graph == old.digest
    moved = replace(new, budgets=Budgets(transfers=3), deadlines=Deadlines(lease_ms=9))
    assert a.world.adopt(moved).status == "done"
    assert a.world.adopt(moved).status == "already"
    assert (a.world.task.graph, a.world.task.settings.transfers) == (moved.digest, 3)
    assert a.world.task.settings.lease_ms == Settings().lease_ms
    with a.world.refuses("route_forbidden"):
        a.transfer("b")
    a.transfer("c")
    assert a.world.newest(ev.OfferIssued).graph == moved.digest


def test_a_child_of_a_partner_is_moved_too() -> None:
    graph = graph_of(delegate("a", "p"), agents={"p": AgentNode(kind=AgentKind.PARTNER)})
    a = under(graph)
    a.delegate("t.1", "p")
    newer = replace(graph, budgets=Budgets(transfers=3))
    a.world.adopt(newer, "t.1")
    assert a.world.tasks["t.1"].graph == newer.digest


def test_a_version_without_the_owner_is_not_adopted_nor_is_none() -> None:
    a = under(THREE)
    with a.world.refuses("unknown_agent"):
        a.world.adopt(graph_of(transfer("x", "y")))
    with a.world.refuses("invalid"):
        a.world.adopt_nothing()


def test_a_version_is_not_adopted_while_the_task_changes_hands() -> None:
    a = under(THREE)
    other = graph_of(transfer("a", "b"), transfer("a", "c"))
    a.turn("t:b")
    with a.world.refuses("transfer_decided"):
        a.world.adopt(other)
    a = under(THREE)
    a.work("w")
    a.transfer("b", quiet=False)
    with a.world.refuses("retiring"):
        a.world.adopt(other)
    a.release("w")
    a.world.adopt(other)
    assert a.world.task.graph == other.digest


def test_a_candidate_whose_edge_is_gone_is_not_asked_next() -> None:
    a = under(graph_of(transfer("a", "b"), transfer("a", "c"), transfer("a", "d")))
    a.transfer("b", "c", "d")
    a.world.adopt(graph_of(transfer("a", "b"), transfer("a", "d"), delegate("a", "c")))
    a.world.decline("b")
    assert a.world.task.offer is not None
    assert [entry.agent for entry in a.world.task.offer.open_to] == ["d"]


def test_a_decided_transfer_whose_edge_is_gone_is_not_carried_out_for_the_dead() -> None:
    a = under(THREE)
    a.turn("t:b")
    # Nobody can adopt meanwhile; a version that lost its edge is how a damaged ledger would look.
    damaged = Graph(team="t", entry="a", agents=THREE.agents)
    damaged.__dict__["digest"] = THREE.digest
    a.world.graphs[THREE.digest] = damaged
    a.world.dies("a1")
    assert a.world.task.offer is not None
    assert a.world.task.offer.kind is OfferKind.TAKEOVER


def test_plain_words_are_taken_for_the_members_that_they_are() -> None:
    said: dict[str, Any] = {"kind": "transfer", "gate": "settled", "termination": ["end"]}
    edge = Edge(source="a", target="b", because="b answers for it", **said)
    assert (edge.kind is EdgeKind.TRANSFER, edge.gate is Gate.SETTLED) == (True, True)
    assert edge.termination == (Termination.END,)
    kinds: dict[str, Any] = {"kind": "partner"}
    assert AgentNode(**kinds).kind is AgentKind.PARTNER
    gate: dict[str, Any] = {"gate": "stopped"}
    assert PolicyNode(grace_ms=1, **gate).gate is Gate.STOPPED
    with pytest.raises(ValueError, match="move"):
        Edge(source="a", target="b", **{**said, "kind": "move"})


def test_a_return_needs_no_edge() -> None:
    a = under(graph_of(transfer("a", "b")))
    a.transfer("b")
    a.world.ack("b").give_back()
    assert a.world.newest(ev.HandoffEnded).state is HandoffState.FAILED_RETURNED
    a.world.ack("a")
    assert a.world.task.owner == "a"


def test_nested_runs_have_what_is_left_of_the_budgets() -> None:
    a = under(THREE, transfers=3, delegations=5, nudges=1, repeats=4, turn_delegations=3)
    a.transfer("b")
    a.world.ack("b").transfer("a", h="h2")
    again = a.world.ack("a")
    again.delegate("t.1", "b", settings=Settings(transfers=99, delegations=99, nudges=9, repeats=9))
    settings = a.world.tasks["t.1"].settings
    assert (settings.transfers, settings.delegations, settings.turn_delegations) == (1, 5, 3)
    assert (settings.nudges, settings.repeats) == (1, 4)


def test_depth_and_agents_of_the_tree_are_enforced_when_a_child_opens_its_own() -> None:
    """BL-03: a copy that delegates to copies of itself stops at the limits, with a typed refusal."""
    graph = graph_of(delegate("a", "a"))
    world = World()
    a = world.owned_by("a", graph=world.save(graph), limits=Limits(depth=2, agents=3))
    a.delegate("t.1", "a")
    first = world.ack("a", task_id="t.1", instance="a2")
    first.delegate("t.2", "a")
    second = world.ack("a", task_id="t.2", instance="a3")
    with world.refuses("delegation_limit_exceeded") as caught:
        second.delegate("t.3", "a")
    assert "depth" in str(caught[0])
    with world.refuses("delegation_limit_exceeded") as caught:
        first.delegate("t.4", "a")
    assert "agents" in str(caught[0])


def test_a_graph_says_what_it_says_and_the_defaults_fill_the_rest() -> None:
    graph = replace(
        THREE,
        budgets=Budgets(depth=1, tree_delegations=2, agents=3),
        policies={"critical": PolicyNode(grace_ms=9, gate=Gate.STOPPED)},
        tools={"refund": Tool(policy="critical")},
    )
    assert graph.limits(Limits()) == Limits(depth=1, delegations=2, agents=3)
    assert graph.settings(Settings()) == Settings()
    critical = graph.policy("critical")
    assert critical is not None
    assert (critical.grace_ms, critical.gate) == (9, Gate.STOPPED)
    assert THREE.policy("critical") == CRITICAL
    assert THREE.policy("none such") is None
    assert graph.digest != THREE.digest
    assert Edge(source="a", target="b").ends == (Termination.RETURN,)
    assert THREE.rank("a", "c") < THREE.rank("a", "a") == len(THREE.edges)
    assert Reason.OSCILLATION in Reason
