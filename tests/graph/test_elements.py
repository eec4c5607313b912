"""Every edge has its four elements, and what is a default is marked as one."""

from __future__ import annotations

import pytest

from tenure.graph import AgentKind, AgentNode, Deadlines, Edge, EdgeKind, Graph, PolicyNode, Termination, Tool
from tenure.graph.elements import Elements, elements
from tenure.protocol.settings import Settings
from tenure.protocol.vocabulary import Gate

ALL = ("trigger", "payload", "gate", "pickup_ms", "ack_ms", "termination")


def one(edge: Edge, **more: object) -> Elements:
    agents = {"a": AgentNode(), "b": AgentNode(accepts="Case"), **more.pop("agents", {})}  # type: ignore[dict-item]  # by name
    (found,) = elements(Graph(team="t", entry="a", agents=agents, edges=(edge,), **more))  # type: ignore[arg-type]  # by name
    return found


def transfer(**more: object) -> Edge:
    return Edge(source="a", target="b", kind=EdgeKind.TRANSFER, **more)  # type: ignore[arg-type]  # by name


def test_what_an_edge_does_not_say_is_filled_and_marked() -> None:
    found = one(transfer(because="b answers"))
    assert found.defaults == ALL
    assert (found.trigger, found.payload, found.gate) == ("", "Case", Gate.ROUTING_RETIRED)
    assert (found.pickup_ms, found.ack_ms) == (Settings().pickup_ms, Settings().ack_ms)
    assert found.termination == (Termination.END, Termination.RETURN, Termination.ESCALATE)
    assert found.because == "b answers"


def test_what_an_edge_says_stands_and_is_no_default() -> None:
    said = transfer(
        trigger="classification",
        payload="Other",
        gate=Gate.SETTLED,
        pickup_ms=7,
        ack_ms=8,
        termination=(Termination.END,),
    )
    found = one(said)
    assert found.defaults == ()
    assert (found.trigger, found.payload, found.gate) == ("classification", "Other", Gate.SETTLED)
    assert (found.pickup_ms, found.ack_ms, found.termination) == (7, 8, (Termination.END,))


def test_a_delegation_returns_and_has_no_gate() -> None:
    found = one(Edge(source="a", target="b"))
    assert (found.kind, found.gate, found.termination) == (EdgeKind.DELEGATE, None, (Termination.RETURN,))


def test_an_empty_termination_was_said() -> None:
    found = one(transfer(termination=()))
    assert found.termination == ()
    assert "termination" not in found.defaults


def test_deadlines_are_those_of_the_graph() -> None:
    found = one(transfer(ack_ms=5), deadlines=Deadlines(pickup_ms=1_234, ack_ms=4_321))
    assert (found.pickup_ms, found.ack_ms) == (1_234, 5)
    assert "pickup_ms" in found.defaults
    assert "ack_ms" not in found.defaults


def test_a_delegation_to_everybody_is_one_row_that_any_payload_may_take() -> None:
    graph = Graph(
        team="t", agents={name: AgentNode(accepts="X") for name in "abc"}, edges=(Edge(source="a", target="*"),)
    )
    (found,) = elements(graph)
    assert (found.target, found.payload) == ("*", "")


@pytest.mark.parametrize(
    ("tools", "policy", "gate"),
    [
        (None, "critical", Gate.SETTLED),  # all of the task's tools, so this one too
        (("*",), "critical", Gate.SETTLED),
        (("pay(cents<=5)",), "critical", Gate.SETTLED),
        (("other",), "critical", Gate.ROUTING_RETIRED),
        ((), "critical", Gate.ROUTING_RETIRED),
        (("pay",), "external", Gate.ROUTING_RETIRED),
        (("pay",), "mine", Gate.STOPPED),
        (("pay",), "no such class", Gate.ROUTING_RETIRED),
        (("no grant at all(",), "critical", Gate.ROUTING_RETIRED),
    ],
)
def test_the_class_of_a_tool_that_the_sender_may_use_raises_the_gate(
    tools: tuple[str, ...] | None, policy: str, gate: Gate
) -> None:
    found = one(
        transfer(),
        agents={"a": AgentNode(tools=tools)},
        tools={"pay": Tool(policy=policy)},
        policies={"mine": PolicyNode(grace_ms=1_000, gate=Gate.STOPPED)},
    )
    assert found.gate is gate


def test_an_edge_does_not_lower_the_gate() -> None:
    found = one(transfer(gate=Gate.STOPPED), tools={"pay": Tool(policy="critical")})
    assert found.gate is Gate.SETTLED


def test_a_graph_with_errors_has_elements_too() -> None:
    graph = Graph(team="t", agents={"p": AgentNode(kind=AgentKind.PARTNER)}, edges=(Edge(source="x", target="y"),))
    assert [(each.source, each.target) for each in elements(graph)] == [("x", "y")]
