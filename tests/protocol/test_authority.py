"""Authority: which effects an agent may make, and up to which numbers. It only ever gets narrower."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import Refused
from tenure.protocol.authority import beyond, grant_of, limits_for, parse, tools_of, within
from tenure.protocol.graph import AgentNode, Tool
from tenure.protocol.state import Candidate
from tests.protocol.graphs import delegate, graph_of, transfer
from tests.protocol.world import World, body

TOOLS = ("refund", "note", "delete")
LIMITS = st.dictionaries(st.sampled_from(["cents", "count"]), st.integers(-5, 5), max_size=2)
GRANTS = st.dictionaries(st.sampled_from([*TOOLS, "*"]), LIMITS, max_size=3).map(
    lambda table: tuple(grant_of(tool, limits) for tool, limits in table.items())
)


def allows(authority: tuple[str, ...], tool: str, request: Any) -> bool:
    limits = limits_for(authority, tool)
    return limits is not None and not beyond(limits, request)


@given(GRANTS, GRANTS, st.sampled_from(TOOLS), st.integers(-6, 6), st.integers(-6, 6))
def test_what_both_allow_is_allowed_and_nothing_else(
    asked: tuple[str, ...], held: tuple[str, ...], tool: str, cents: int, count: int
) -> None:
    request = {"cents": cents, "count": count}
    both = allows(asked, tool, request) and allows(held, tool, request)
    assert allows(within(asked, held), tool, request) == both


@given(GRANTS)
def test_an_authority_is_within_itself(authority: tuple[str, ...]) -> None:
    assert within(authority, authority) == authority
    assert tools_of(authority) == {parse(grant)[0] for grant in authority}


@pytest.mark.parametrize("grant", ["", "a b", "refund(", "refund()", "refund(cents)", "refund(cents<5)", "refund(<=5)"])
def test_what_is_no_grant_is_refused(grant: str) -> None:
    with pytest.raises(Refused, match="not well formed"):
        parse(grant)


def test_a_grant_has_one_form() -> None:
    assert parse("refund( count<=2 , cents <= 5.5,cents<=9)") == ("refund", (("cents", 5.5), ("count", 2)))
    assert parse("refund(a<=1,)") == ("refund", (("a", 1),))


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"cents": 5}, ""),
        ({"cents": 6}, "the limit is 5"),
        ({"cents": math.nan}, "the limit is 5"),
        ({}, "names no number"),
        ({"cents": "5"}, "names no number"),
        ({"cents": True}, "names no number"),
        ([5], "names no number"),
    ],
)
def test_a_field_that_is_missing_or_no_number_is_beyond_every_limit(request_: Any, why: str) -> None:
    assert why in beyond({"cents": 5}, request_)
    assert bool(beyond({"cents": 5}, request_)) == bool(why)


def test_a_limit_may_be_of_a_nested_field() -> None:
    assert beyond({"amount.cents": 5}, {"amount": {"cents": 4}}) == ""
    assert beyond({"amount.cents": 5}, {"amount": 4})


def test_the_grant_s_limit_and_the_tool_s_hold_both() -> None:
    small = AgentNode(tools=("refund(cents<=50)",))
    graph = graph_of(transfer("a", "b"), agents={"a": small}, tools={"refund": Tool(limits={"n": 1})})
    world = World()
    a = world.owned_by("a", graph=world.save(graph))
    with world.refuses("limit_exceeded"):
        a.intend("e1", request=body({"cents": 51, "n": 1}))
    with world.refuses("limit_exceeded"):
        a.intend("e1", request=body({"cents": 50, "n": 2}))
    with world.refuses("tool_not_allowed"):
        a.intend("e1", tool="delete")
    a.intend("e1", request=body({"cents": 50, "n": 1}))


def test_a_delegation_narrows_through_every_level() -> None:
    graph = graph_of(
        delegate("a", "b"),
        delegate("b", "c"),
        agents={
            "a": AgentNode(tools=("refund(cents<=50)", "note")),
            "b": AgentNode(),
            "c": AgentNode(tools=("refund(cents<=80)", "delete")),
        },
    )
    world = World()
    a = world.owned_by("a", graph=world.save(graph))
    with world.refuses("authority_widened"):
        a.delegate("t.1", "b", authority=("delete",))
    a.delegate("t.1", "b", authority=("refund",))
    b = world.ack("b", task_id="t.1")
    b.delegate("t.2", "c")
    world.ack("c", task_id="t.2")
    tenure = world.tasks["t.2"].tenure
    assert tenure is not None
    assert tenure.authority == ("refund(cents<=50)",)


def test_a_return_gives_the_sender_its_own_authority_back() -> None:
    world = World()
    a = world.submit(Candidate(agent="a", authority=("refund(cents<=9)",))).ack("a")
    a.transfer(Candidate(agent="b", authority=("note",)))
    world.ack("b").give_back()
    world.ack("a")
    assert world.task.tenure is not None
    assert world.task.tenure.authority == ("refund(cents<=9)",)
