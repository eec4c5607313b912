"""Going in circles is told from getting on by what the ledger has seen done, not by counting and not by words."""

import asyncio
from typing import Any

import pytest

from tenure import Complete, Done, Fact, Settings, Team, Tenure, Transfer, Wait
from tenure.ledger import Ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import OfferKind, Phase, Reason
from tests.runtime.harness import SHORT_LEASE, Desk, Line, events, in_phase

PATH = ["a", "b", "a", "b", "a"]
"""With ``repeats=1`` each edge is used twice in vain; A's third try is refused."""


def ping_pong(ledger: Ledger, says: Any, played: list[str], **settings: Any) -> Team:
    """A and B hand the task to each other. ``says`` gives the transfer of each round, and may do something first."""
    team = Team("t", ledger=ledger, settings=Settings(**({"repeats": 1, "nudges": 0, "transfers": 99} | settings)))

    async def player(own: Tenure[Any]) -> Any:
        played.append(own.agent)
        return await says(own, "b" if own.agent == "a" else "a", len(played))

    for name, other in {"a": "b", "b": "a"}.items():
        team.agent(name=name, may_transfer={other: "it is for the other"}, may_delegate=["d"])(player)

    @team.agent
    async def boss(own: Tenure[Any]) -> Complete[Any]:
        return Complete([own.agent, own.input, own.state, [fact.id for fact in own.payload.done]])

    @team.agent
    async def d(own: Tenure[Any]) -> Complete[Any]:
        return Complete(own.input)

    return team


async def rewritten(own: Tenure[Any], other: str, n: int) -> Transfer[Any]:
    """The same request in other words each time."""
    return Transfer(other, f"please look at it, version {n}", summary=f"I am not in charge ({n}).")


async def saved_again(own: Tenure[Any], other: str, n: int) -> Transfer[Any]:
    """A state document that is written in each round, and has the same content."""
    await own.save({"customer": "customer-07", "since": 3})
    return Transfer(other, own.input, summary=f"round {n}")


async def stated_again(own: Tenure[Any], other: str, n: int) -> Transfer[Any]:
    """A fact that is stated in each round under the same id, with another text."""
    fact = Fact(id="checked", what=f"looked at it for the {n}. time", outcome="done")
    return Transfer(other, own.input, done=(fact,), decisions=(f"decision {n}",), open_questions=(f"who? {n}",))


async def worked_again(own: Tenure[Any], other: str, n: int) -> Transfer[Any]:
    """A helper that runs in each round, and finds the same each time."""
    await own.spawn(asyncio.sleep(0), name="search")
    return Transfer(other, own.input)


IN_VAIN = {one.__name__: one for one in (rewritten, saved_again, stated_again, worked_again)}


@pytest.mark.parametrize("what", IN_VAIN)
async def test_circles_end_with_reason_and_path_whatever_is_said_in_them(ledger: Ledger, what: str) -> None:
    played: list[str] = []
    team = ping_pong(ledger, IN_VAIN[what], played, on_failure="fail")
    async with team.worker():
        handle = await team.submit("q", goal="g")
        result = await handle.result(10)
    assert (result.outcome, result.reason) == ("failed", Reason.OSCILLATION)
    assert result.value["path"] == played == PATH
    assert "a → b was used 2 times and nothing came of it: a → b → a → b → a." in result.value["error"]
    assert (await handle.state()).transfers == 4


async def test_an_effect_that_answers_from_the_record_is_progress_once(ledger: Ledger) -> None:
    """The first round has brought something; from then on nothing has, and the count begins there."""
    played: list[str] = []
    desk = Desk()

    async def effected_again(own: Tenure[Any], other: str, n: int) -> Transfer[Any]:
        outcome = await own.effect(desk, {"n": 1}, key="k")
        assert isinstance(outcome, Done)
        return Transfer(other, own.input, summary=str(n))

    team = ping_pong(ledger, effected_again, played, on_failure="fail")
    async with team.worker():
        handle = await team.submit("q", goal="g")
        result = await handle.result(10)
    assert (result.reason, result.value["path"]) == (Reason.OSCILLATION, PATH)
    assert len(desk.acts) == 1


@pytest.mark.parametrize("nudges", [0, 1])
async def test_it_is_told_first_and_then_a_person_is_asked(ledger: Ledger, nudges: int) -> None:
    """With the task's fallback as who answers, an owner, and all that was known."""
    played: list[str] = []
    told: list[str] = []

    async def says(own: Tenure[Any], other: str, n: int) -> Any:
        told.append(own.nudge)
        return Complete("resumed") if own.payload.summary == "stop" or n > 6 else await rewritten(own, other, n)

    team = ping_pong(ledger, says, played, nudges=nudges, fallback="person:lead")
    async with team.worker():
        handle = await team.submit("q", goal="g")
        task = await in_phase(handle, Phase.ESCALATED)
        assert task.question is not None
        assert (task.question.reason, task.question.who) == (Reason.OSCILLATION, ("person:lead",))
        assert (task.owner, task.answerable, task.hop_count) == ("a", "person:lead", 4)
        assert task.hops == (), "all of them have ended with that question"
        body = await ledger.body(task.root_id, task.question.body)
        assert body is not None
        assert body.value()["path"] == PATH
        assert played == PATH + ["a"] * nudges
        assert [bool(text) for text in told] == [False] * 5 + [True] * nudges
        if nudges:
            assert "goes in circles" in told[5]
            assert told[5].endswith("or give the task back.")
        await handle.answer(task.question.question_id, by="person:lead", action="reassign", agent="boss")
        assert (await handle.result(10)).value[0] == "boss"


async def test_a_supervisor_gets_it_with_state_input_and_facts(ledger: Ledger) -> None:
    played: list[str] = []
    team = ping_pong(ledger, saved_again, played, supervisor="boss")
    async with team.worker():
        handle = await team.submit("q", goal="g")
        result = await handle.result(10)
    assert result.value == ["boss", "q", {"customer": "customer-07", "since": 3}, []]
    (taken,) = [one for one in await events(ledger, handle.task_id, ev.OfferIssued) if one.kind == OfferKind.TAKEOVER]
    assert (taken.reason, [entry.agent for entry in taken.candidates]) == (Reason.OSCILLATION, ["boss"])
    assert (await handle.state()).transfers == 4, "no transfer is counted for it"


async def test_a_supervisor_that_is_one_of_those_who_pass_it_on_is_no_way_out(ledger: Ledger) -> None:
    played: list[str] = []
    team = ping_pong(ledger, rewritten, played, supervisor="b", fallback="person:lead")
    async with team.worker():
        handle = await team.submit("q", goal="g")
        task = await in_phase(handle, Phase.ESCALATED)
    assert task.answerable == "person:lead"


async def new_document(own: Tenure[Any], n: int) -> tuple[Fact, ...]:
    await own.save({"step": n})
    return ()


async def new_effect(own: Tenure[Any], n: int) -> tuple[Fact, ...]:
    assert isinstance(await own.effect(Desk(), {"n": n}, key=str(n)), Done)
    return ()


async def new_fact(own: Tenure[Any], n: int) -> tuple[Fact, ...]:
    return (Fact(id=f"item-{n}", what="gathered", outcome="done"),)


async def new_result(own: Tenure[Any], n: int) -> tuple[Fact, ...]:
    await own.delegate("d", n, key=str(n))
    await own.save()
    return ()


async def new_input(own: Tenure[Any], n: int) -> tuple[Fact, ...]:
    assert await own.receive(timeout=5) is not None
    return ()


@pytest.mark.parametrize("progress", [new_document, new_effect, new_fact, new_result, new_input])
async def test_a_long_chain_that_gets_on_is_not_stopped(ledger: Ledger, progress: Any) -> None:
    """Ten times over the same two edges, and something new each time."""
    played: list[str] = []

    async def says(own: Tenure[Any], other: str, n: int) -> Any:
        done = await progress(own, n)
        return Complete(n) if n == 10 else Transfer(other, "the same words", done=done)

    team = ping_pong(ledger, says, played, repeats=0, nudges=0, on_failure="fail")
    async with team.worker():
        handle = await team.submit("q", goal="g")
        if progress is new_input:
            for n in range(10):
                await handle.send(n)
        result = await handle.result(20)
    assert (result.outcome, result.value) == ("completed", 10)
    assert await events(ledger, handle.task_id, ev.TurnNudged, ev.TurnDecided) == []
    assert (await handle.state()).transfers == 9


async def test_a_run_that_begins_again_is_not_counted_twice(ledger: Ledger) -> None:
    """Handlers that are lost, or wait, before they hand over: the edge is used once for each handoff."""
    line, played, lost = Line(ledger), list[str](), asyncio.Event()

    def team_on(way: Ledger, worker: str) -> Team:
        async def says(own: Tenure[Any], other: str, n: int) -> Any:
            if worker == "w1" and own.agent == "b":
                lost.set()
                await asyncio.Event().wait()
            if own.agent == "a" and own.state is None:
                await own.save("waited")
                return Wait("time", within=0.01)
            return Transfer(other, summary=str(n))

        return ping_pong(way, says, played, on_failure="fail", lease_ms=SHORT_LEASE.lease_ms)

    one, two = team_on(line.ledger, "w1"), team_on(ledger, "w2")
    async with one.worker(name="w1", drain=0):
        handle = await two.submit("q", goal="g")
        await asyncio.wait_for(lost.wait(), 10)
        line.cut()
        async with two.worker(name="w2"):
            result = await handle.result(15)
        line.mend()
    assert (result.reason, result.value["path"]) == (Reason.OSCILLATION, PATH)
    assert played == ["a", "a", "b", "b", "a", "b", "a"], "A has waited once, B was lost once"


async def test_equal_content_of_a_state_document_has_an_equal_digest(ledger: Ledger) -> None:
    """Whoever writes it, in whatever order of its fields; in another tree it has another one."""
    team = Team("t", ledger=ledger)

    @team.agent(may_transfer={"b": "b goes on"})
    async def a(own: Tenure[Any]) -> Transfer[Any]:
        await own.save({"n": 1, "m": [2]})
        await own.save({"n": 2, "m": [2]})
        return Transfer("b")

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        await own.save({"m": [2], "n": 1})
        return Complete()

    digests = []
    async with team.worker():
        for _ in range(2):
            handle = await team.submit(goal="g")
            await handle.result(10)
            digests.append([event.document for event in await events(ledger, handle.task_id, ev.Advanced)])
    (one, two, three), (other, *_) = digests
    assert one == three != two
    assert one != other, "a digest does not tell what is the same in the tasks of different customers"
