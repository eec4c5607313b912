"""Approvals: bound to exact arguments, a person and a time; inherited downwards, and in no other direction (SE-01)."""

from typing import Any

from tenure.protocol import decisions as dec
from tenure.protocol import events as ev
from tenure.protocol.approvals import AskedApproval
from tenure.protocol.graph import Tool
from tenure.protocol.settings import HOUR
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Phase, WaitOn
from tests.protocol.graphs import delegate, graph_of, transfer
from tests.protocol.world import Owner, World, body

GRAPH = graph_of(transfer("a", "b"), delegate("a", "*"), delegate("b", "c"), tools={"del": Tool(approval=True)})


def owner() -> Owner:
    world = World()
    return world.owned_by("a", graph=world.save(GRAPH))


def delete(who: Owner, effect_id: str = "e1", arguments: str = "row 7", key: str = "k") -> Any:
    return who.intend(effect_id, key, tool="del", arguments=arguments)


def ask(who: Owner, question_id: str = "q1", arguments: str = "row 7") -> None:
    approval = AskedApproval(tool="del", intent="k", arguments=arguments)
    question = dec.EscalateTo(question_id=question_id, body=body("may I?"), approval=approval)
    who.decide(dec.WaitFor(on=WaitOn.ANSWER, within_ms=60_000, question=question))


def test_se_01_the_call_is_held_for_root_child_grandchild_and_sibling() -> None:
    a = owner()
    with a.world.refuses("approval_required"):
        delete(a)
    a.delegate("t.1", "b")
    sibling = a.world.ack("b", task_id="t.1", instance="b5")
    a.delegate("t.2", "b")
    b = a.world.ack("b", task_id="t.2", instance="b6")
    for child in (sibling, b):
        with a.world.refuses("approval_required"):
            delete(child)
    b.delegate("t.3", "c")
    grandchild = a.world.ack("c", task_id="t.3")
    with a.world.refuses("approval_required"):
        delete(grandchild)


def test_an_approval_is_for_exactly_what_was_asked() -> None:
    a = owner()
    ask(a)
    with a.world.refuses("not_allowed"):
        a.world.answer("q1", choice="yes")
    a.world.answer("q1", choice="approve")
    again = a.world.ack("a")
    with a.world.refuses("approval_required"):
        delete(again, arguments="row 8")
    with a.world.refuses("approval_required"):
        delete(again, key="another")
    delete(again)
    assert a.world.newest(ev.EffectIntended).approval == "q1"


def test_a_refusal_stands_as_long_as_an_approval_would() -> None:
    a = owner()
    ask(a)
    a.world.answer("q1", choice="refuse")
    again = a.world.ack("a")
    with a.world.refuses("not_approved"):
        delete(again)
    a.world.now += HOUR
    with a.world.refuses("approval_required"):
        delete(again)


def test_an_approval_lapses() -> None:
    a = owner()
    ask(a)
    a.world.answer("q1", choice="approve")
    again = a.world.ack("a")
    a.world.now += HOUR
    with a.world.refuses("approval_required"):
        delete(again)
    ask(again, "q2")
    a.world.answer("q2", choice="approve")
    assert [one.question_id for one in a.world.task.approvals] == ["q2"]


def test_an_approval_goes_down_and_along_and_nowhere_else() -> None:
    a = owner()
    ask(a)
    a.world.answer("q1", choice="approve")
    again = a.world.ack("a")
    again.delegate("t.1", "b")
    child = a.world.ack("b", task_id="t.1", instance="b7")
    assert [one.question_id for one in a.world.tasks["t.1"].approvals] == ["q1"]
    ask(child, "q2", "row 9")
    a.world.answer("q2", choice="approve", task_id="t.1")
    assert [one.question_id for one in a.world.task.approvals] == ["q1"]
    again.transfer("b")
    delete(a.world.ack("b"))
    assert a.world.newest(ev.EffectIntended).approval == "q1"


def test_an_expired_question_is_no_refusal() -> None:
    a = owner()
    ask(a)
    a.world.expire()
    assert (a.world.task.approvals, a.world.phase()) == ((), Phase.OFFERED)
    again = a.world.ack("a")
    with a.world.refuses("approval_required"):
        delete(again)


def test_an_effect_that_is_proven_absent_needs_its_approval_still() -> None:
    a = owner()
    ask(a)
    a.world.answer("q1", choice="approve")
    again = a.world.ack("a")
    delete(again)
    a.world.outcome("e1", EffectState.ABSENT, EvidenceKind.NOT_SENT)
    a.world.now += HOUR
    with a.world.refuses("approval_required"):
        delete(again, "e2")
