"""A handler returns one decision. Each kind, what a wrong one leads to, and what the ledger refuses."""

from typing import Any

import pytest
from msgspec import Struct

from tenure import Artifact, Complete, Escalate, Fact, GiveBack, Settings, Team, Tenure, Transfer, Wait
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import HandoffState, OfferKind, Reason
from tests.runtime.harness import events, in_phase, names, owned_by, until

FAIL = Settings(on_failure="fail")


class Order(Struct):
    number: str


class Refund(Struct):
    number: str
    cents: int


# --- Transfer and Complete ------------------------------------------------------------------------------------------


async def test_a_transfer_hands_over_facts_and_the_receiver_completes(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    seen: list[Tenure[Refund]] = []

    @team.agent(entry=True, may_transfer={"billing": "decides on refunds"})
    async def triage(own: Tenure[Order]) -> Transfer[Refund]:
        return Transfer(
            "billing",
            Refund(own.input.number, 500),
            summary="wants it back",
            trigger="classification",
            constraints=("no more than 10 euro",),
            decisions=("it is a refund",),
            done=(Fact(id="call-1", what="looked the order up", outcome="done", by="triage"),),
            artifacts=(Artifact(id="mail", uri="file:///mail.eml"),),
            open_questions=("is it used?",),
        )

    @team.agent
    async def billing(own: Tenure[Refund]) -> Complete[Any]:
        seen.append(own)
        return Complete({"paid": own.input.cents})

    async with team.worker():
        handle = await team.submit(Order("A1"), goal="refund A1", constraints=("be polite",))
        result = await handle.result(10)
    assert (result.outcome, result.value) == ("completed", {"paid": 500})
    own = seen[0]
    assert (own.goal, own.agent, own.input) == ("refund A1", "billing", Refund("A1", 500))
    assert own.payload.constraints == ("be polite", "no more than 10 euro")
    assert (own.payload.summary, own.payload.trigger, own.payload.hop) == ("wants it back", "classification", 1)
    assert [fact.id for fact in own.payload.done] == ["call-1"]
    assert [each.id for each in own.payload.artifacts] == ["mail"]
    assert own.payload.open_questions == ("is it used?",)


async def test_with_nothing_left_to_retire_the_whole_change_of_owner_is_one_commit(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "decides"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(10)
    stated = (await events(ledger, handle.task_id, ev.TenureRetiring))[0]
    ended = (await events(ledger, handle.task_id, ev.TenureEnded))[0]
    assert stated.at == ended.at
    assert (await names(ledger, handle.task_id))[5:11] == [
        "TenureRetiring",
        "HandoffInitiated",
        "RoutingRetired",
        "ExecutionStopped",
        "EffectsSettled",
        "TenureEnded",
    ]


async def test_all_open_hops_complete_with_the_task(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "decides"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        return Transfer("b", 1)

    @team.agent(may_transfer={"c": "decides better"})
    async def b(own: Tenure[Any]) -> Transfer[Any]:
        return Transfer("c", own.input + 1)

    @team.agent
    async def c(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.input + 1)

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == 3
    task = await handle.state()
    assert (task.hop_count, [hop.state for hop in task.hops]) == (2, [HandoffState.COMPLETED] * len(task.hops))


# --- GiveBack and failure -------------------------------------------------------------------------------------------


async def test_a_give_back_returns_to_the_sender_with_its_own_input_and_the_reason(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    seen: list[Tenure[Any]] = []

    @team.agent(entry=True, may_transfer={"billing": "decides"})
    async def triage(own: Tenure[Order]) -> Transfer[Refund] | Complete[Any]:
        seen.append(own)
        return Transfer("billing", Refund("A1", 5)) if len(seen) == 1 else Complete("kept")

    @team.agent
    async def billing(own: Tenure[Refund]) -> GiveBack:
        return GiveBack(Reason.PERMISSION, "not above 3 cents")

    async with team.worker():
        handle = await team.submit(Order("A1"), goal="g")
        assert (await handle.result(10)).value == "kept"
    assert seen[1].input == Order("A1")
    assert seen[1].payload.trigger == "return"
    assert seen[1].payload.summary == "permission: not above 3 cents"
    ended = (await events(ledger, handle.task_id, ev.HandoffEnded))[0]
    assert (ended.state, ended.reason) == (HandoffState.FAILED_RETURNED, Reason.PERMISSION)


async def test_a_give_back_without_a_sender_goes_to_a_person_or_ends_by_policy(ledger: Ledger) -> None:
    async def a(own: Tenure[Any]) -> GiveBack:
        return GiveBack(Reason.CAPABILITY, "cannot")

    team = Team("t", ledger=ledger)
    team.agent(a)
    async with team.worker():
        asked = await in_phase(await team.submit(goal="g"), "escalated")
        handle = await team.submit(goal="g", settings=FAIL)
        result = await handle.result(10)
    assert asked.question is not None
    assert asked.question.reason == Reason.CAPABILITY
    assert (result.outcome, result.reason, result.value) == ("failed", "capability", {"error": "cannot"})


async def test_a_handler_that_raises_is_returned_to_its_sender_with_what_it_raised(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    summaries: list[str] = []

    @team.agent(entry=True, may_transfer={"b": "decides"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        summaries.append(own.payload.summary)
        return Transfer("b") if len(summaries) == 1 else Complete("alone")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        raise KeyError("no such order")

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == "alone"
    assert summaries == ["", "raised: KeyError: 'no such order'"]


async def test_a_handler_that_raises_without_a_sender_fails_by_policy(ledger: Ledger) -> None:
    async def a(own: Tenure[Any]) -> Complete[Any]:
        raise ValueError("broken")

    team = Team("t", ledger=ledger)
    team.agent(a)
    async with team.worker():
        await in_phase(await team.submit(goal="g"), "escalated")
        result = await (await team.submit(goal="g", settings=FAIL)).result(10)
    assert (result.outcome, result.reason, result.value) == ("failed", "raised", {"error": "ValueError: broken"})


@pytest.mark.parametrize("wrong", [None, "done", {"to": "b"}, Complete])
async def test_what_is_no_decision_is_a_failure_that_names_the_five(ledger: Ledger, wrong: Any) -> None:
    team = Team("t", ledger=ledger, settings=FAIL)

    @team.agent
    async def a(own: Tenure[Any]) -> Any:
        return wrong

    async with team.worker():
        result = await (await team.submit(goal="g")).result(10)
    assert result.outcome == "failed"
    assert "return Transfer, Complete, GiveBack, Escalate or Wait" in result.value["error"]


async def test_a_result_without_json_form_is_a_failure(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=FAIL)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        return Complete(object())

    async with team.worker():
        result = await (await team.submit(goal="g")).result(10)
    assert "no JSON form" in result.value["error"]


async def test_a_handler_that_exits_ends_itself_and_not_the_worker(ledger: Ledger) -> None:
    import sys

    team = Team("t", ledger=ledger, settings=FAIL)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        sys.exit(3)

    async with team.worker():
        result = await (await team.submit(goal="g")).result(10)
    assert (result.outcome, result.value) == ("failed", {"error": "SystemExit: 3"})


async def test_a_handler_that_cancels_itself_is_a_failure_not_a_stop(ledger: Ledger) -> None:
    import asyncio

    team = Team("t", ledger=ledger, settings=FAIL)

    @team.agent
    async def a(own: Tenure[Any]) -> Complete[Any]:
        raise asyncio.CancelledError

    async with team.worker():
        result = await (await team.submit(goal="g")).result(10)
    assert (result.outcome, result.value) == ("failed", {"error": "RuntimeError: the handler cancelled itself"})


# --- decisions that the ledger refuses ------------------------------------------------------------------------------

TRANSCRIPT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


@pytest.mark.parametrize(
    ("decision", "code"),
    [
        (Transfer("b", "x" * 70_000), "payload_too_large"),
        (Transfer("b", {"history": TRANSCRIPT}), "raw_transcript"),
        (Wait("answer", 5), "invalid"),
        (Wait("input", 0), "invalid"),
        (Wait("child", 5), "unknown_task"),
    ],
)
async def test_a_refused_decision_is_a_failure_with_the_reason(ledger: Ledger, decision: Any, code: str) -> None:
    team = Team("t", ledger=ledger, settings=FAIL)

    @team.agent(entry=True, may_transfer={"b": "decides"})
    async def a(own: Tenure[Any]) -> Any:
        return decision

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        result = await handle.result(10)
    assert (result.outcome, result.reason) == ("failed", "raised")
    assert str(Refused(code)).split(".", maxsplit=1)[0] in result.value["error"]
    assert (await handle.state()).hop_count == 0, "a refused transfer moved nothing"


@pytest.mark.parametrize(("to", "code"), [("a", "self_transfer"), ("nobody", "unknown_agent")])
async def test_a_route_that_is_not_there_is_told_and_then_ends_the_task(ledger: Ledger, to: str, code: str) -> None:
    team = Team("t", ledger=ledger, settings=Settings(on_failure="fail", nudges=1))
    told: list[str] = []

    @team.agent(entry=True)
    async def a(own: Tenure[Any]) -> Any:
        told.append(own.nudge)
        return Transfer(to)

    async with team.worker():
        handle = await team.submit(goal="g")
        result = await handle.result(20)
    assert (result.outcome, result.reason) == ("failed", Reason.ROUTE_FORBIDDEN)
    assert str(Refused(code)).split(".", maxsplit=1)[0] in result.value["error"]
    assert result.value["path"] == ["a"]
    assert (told[0], len(told)) == ("", 2)
    assert str(Refused(code)).split(".", maxsplit=1)[0] in told[1]
    assert (await handle.state()).hop_count == 0, "a refused transfer moved nothing"


async def test_a_receiver_whose_decision_is_refused_is_returned_to_its_sender(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent(entry=True, may_transfer={"b": "decides"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        return Complete(own.payload.summary) if own.payload.trigger == "return" else Transfer("b", "x")

    @team.agent(may_transfer={"a": "knows more"})
    async def b(own: Tenure[Any]) -> Transfer[Any]:
        return Transfer("a", "x" * 70_000)

    async with team.worker():
        result = await (await team.submit(goal="g")).result(10)
    assert "larger than its limit" in result.value


async def test_used_up_transfers_are_a_failure(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(transfers=2, nudges=0, on_failure="fail"))

    @team.agent(entry=True, may_transfer={"b": "decides"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        return Complete(own.payload.summary) if own.payload.trigger == "return" else Transfer("b")

    @team.agent(may_transfer={"a": "knows more"})
    async def b(own: Tenure[Any]) -> Transfer[Any]:
        return Transfer("a")

    async with team.worker():
        handle = await team.submit(goal="g")
        result = await handle.result(10)
    assert "used up its transfers" in str(result.value)
    assert (result.reason, result.value["path"]) == (Reason.TRANSFER_LIMIT_EXCEEDED, ["a", "b", "a"])
    assert (await handle.state()).transfers == 2


# --- Escalate -------------------------------------------------------------------------------------------------------


def asking(team: Team, **more: Any) -> None:
    """An agent that asks a person first and then completes with the answer."""

    @team.agent(entry=True)
    async def clerk(own: Tenure[Any]) -> Escalate | Complete[Any]:
        message = await own.receive(timeout=0)
        if message is None:
            return Escalate("Pay it?", allowed=("yes", "no"), evidence={"cents": 9}, **more)
        return Complete({"answer": message.value, "question": message.question_id, "by": message.sender})


async def test_an_answer_resumes_the_same_agent_and_reaches_it_as_input(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    asking(team, who=("person-1",))
    async with team.worker():
        handle = await team.submit(goal="g")
        task = await in_phase(handle, "escalated")
        assert task.question is not None
        body = await ledger.body(task.root_id, task.question.body)
        assert body is not None
        assert body.value() == {"question": "Pay it?", "evidence": {"cents": 9}}
        assert (task.question.who, task.question.allowed, task.tenure) == (("person-1",), ("yes", "no"), None)
        question = task.question.question_id
        for party, choice in (("person-2", "yes"), ("person-1", "perhaps")):
            with pytest.raises(Refused) as caught:
                await handle.answer(question, by=party, choice=choice)
            assert caught.value.code == "not_allowed"
        await handle.answer(question, by="person-1", choice="yes", words="but slowly")
        result = await handle.result(10)
    assert result.value == {
        "answer": {"choice": "yes", "words": "but slowly"},
        "question": question,
        "by": "person-1",
    }


async def test_an_answer_may_reassign_the_task(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    asking(team)

    @team.agent
    async def other(own: Tenure[Any]) -> Complete[Any]:
        message = await own.receive(timeout=1)
        assert message is not None
        return Complete(["other", message.value["choice"]])

    async with team.worker():
        handle = await team.submit(goal="g")
        task = await in_phase(handle, "escalated")
        assert task.question is not None
        await handle.answer(
            task.question.question_id, by="person:operator", action="reassign", agent="other", choice="yes"
        )
        assert (await handle.result(10)).value == ["other", "yes"]


async def test_an_answer_may_abort_the_task(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    asking(team)
    async with team.worker():
        handle = await team.submit(goal="g")
        task = await in_phase(handle, "escalated")
        assert task.question is not None
        await handle.answer(task.question.question_id, by="person:operator", action="abort", choice="no")
        result = await handle.result(10)
    assert (result.outcome, result.reason) == ("failed", Reason.ABORTED)


async def test_a_question_that_nobody_answers_has_a_finite_fallback(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(lease_ms=1_000))
    asking(team, within=0.15)
    async with team.worker():
        result = await (await team.submit(goal="g")).result(10)
    assert (result.outcome, result.reason) == ("failed", Reason.ESCALATION_EXPIRED)


# --- Wait -----------------------------------------------------------------------------------------------------------


async def test_a_wait_for_input_keeps_the_task_without_a_lease_until_a_message_comes(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent
    async def clerk(own: Tenure[Any]) -> Wait | Complete[Any]:
        message = await own.receive(timeout=0)
        return Wait("input", within=60) if message is None else Complete(message.value)

    async with team.worker():
        handle = await team.submit(goal="g")
        task = await in_phase(handle, "waiting")
        facts = await handle.facts()
        assert (task.tenure, task.owner, facts.execution.lease_until) == (None, "clerk", 0)
        await handle.send("size 42")
        assert (await handle.result(10)).value == "size 42"
    kinds = [each.kind for each in await events(ledger, handle.task_id, ev.OfferIssued)]
    assert kinds == [OfferKind.START, OfferKind.RESUME]


async def test_a_message_that_came_before_the_wait_wakes_it_at_once(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    rounds = 0

    @team.agent
    async def clerk(own: Tenure[Any]) -> Wait | Complete[Any]:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            await team.task(own.task_id).send("early")
            return Wait("input", within=60)
        message = await own.receive(timeout=0)
        assert message is not None
        return Complete(message.value)

    async with team.worker():
        assert (await (await team.submit(goal="g")).result(10)).value == "early"


async def test_a_wait_for_time_wakes_by_the_watchdog(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger, settings=Settings(lease_ms=1_000))
    rounds = 0

    @team.agent
    async def clerk(own: Tenure[Any]) -> Wait | Complete[Any]:
        nonlocal rounds
        rounds += 1
        return Wait("time", within=0.1) if rounds == 1 else Complete(rounds)

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(10)).value == 2
    issued = await events(ledger, handle.task_id, ev.OfferIssued)
    assert issued[-1].reason == Reason.WAKE_TIME


async def test_a_wait_for_a_child_wakes_with_its_result(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)
    rounds: list[str] = []

    @team.agent(entry=True)
    async def clerk(own: Tenure[Any]) -> Wait | Complete[Any]:
        child = await own.open("helper", 20, key="half")
        rounds.append(child)
        if len(rounds) == 1:
            return Wait("child", within=60, child=child)
        return Complete((await own.join(child)).value)

    @team.agent
    async def helper(own: Tenure[Any]) -> Wait | Complete[Any]:
        message = await own.receive(timeout=0)
        return Wait("input", within=60) if message is None else Complete(own.input + message.value)

    async with team.worker():
        handle = await team.submit(goal="g")
        await in_phase(handle, "waiting")
        await team.task(rounds[0]).send(3)
        assert (await handle.result(10)).value == 23
    assert rounds[0] == rounds[1], "the same key is the same child"
    assert (await handle.state()).children == ()


async def test_a_wait_for_an_answer_carries_its_question(ledger: Ledger) -> None:
    team = Team("t", ledger=ledger)

    @team.agent
    async def clerk(own: Tenure[Any]) -> Wait | Complete[Any]:
        message = await own.receive(timeout=0)
        if message is None:
            return Wait("answer", within=60, question=Escalate("Really?", who=("person-1",)))
        return Complete(message.value["choice"])

    async with team.worker():
        handle = await team.submit(goal="g")
        task = await in_phase(handle, "waiting")
        assert task.question is not None
        await handle.answer(task.question.question_id, by="person-1", choice="really")
        assert (await handle.result(10)).value == "really"


async def test_a_reversed_handoff_takes_the_task_from_its_receiver(ledger: Ledger) -> None:
    import asyncio

    team = Team("t", ledger=ledger, settings=Settings(lease_ms=1_000))
    stopped = asyncio.Event()

    @team.agent(entry=True, may_transfer={"b": "decides"})
    async def a(own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        return Complete("back") if own.epoch > 2 else Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return Complete("never")

    async with team.worker():
        handle = await team.submit(goal="g")
        task = await owned_by(handle, "b")
        await handle.reverse(task.hops[0].handoff_id, by="person-1", reason="wrong desk")
        assert (await handle.result(10)).value == "back"
        async with asyncio.timeout(5):
            await stopped.wait()

        async def off_the_books() -> bool:
            return not (await handle.state()).works

        await until(off_the_books)
