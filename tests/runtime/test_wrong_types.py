"""What a user hands over in another type than the declared one: refused or named a failure, never kept unreadable."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import pytest

from tenure import (
    Accepted,
    Complete,
    Confirmed,
    Done,
    Escalate,
    GiveBack,
    InDoubt,
    Policy,
    Provider,
    Settings,
    Team,
    Tenure,
    Transfer,
    Wait,
)
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol.vocabulary import Phase, Reason

DECISIONS: dict[str, Any] = {
    "a reason that is none": GiveBack("because"),  # type: ignore[arg-type]
    "a party that is not in a tuple": Escalate("may I?", who="person:operator"),  # type: ignore[arg-type]
    "a time that is no number": Escalate("may I?", within="soon"),  # type: ignore[arg-type]
    "an unknown thing to wait for": Wait("godot", 1),  # type: ignore[arg-type]
    "a wait without its time": Wait("time", None),  # type: ignore[arg-type]
    "an unknown gate": Transfer("other", gate="shut"),  # type: ignore[arg-type]
    "a receiver that is no name": Transfer(5),  # type: ignore[arg-type]
    "a fact that is none": Transfer("other", done=("sent",)),  # type: ignore[arg-type]
    "half a character": Complete("\ud800"),
}


@pytest.mark.parametrize("name", DECISIONS)
async def test_a_decision_of_wrong_types_is_a_failure_of_its_handler(ledger: Ledger, name: str) -> None:
    team = Team("wrong", ledger=ledger)

    @team.agent(entry=True, may_transfer={"other": "it is told to"})
    async def first(own: Tenure[Any]) -> Any:
        return DECISIONS[name]

    @team.agent
    async def other(own: Tenure[Any]) -> Complete[str]:
        return Complete("never")

    async with team.worker():
        task = await team.submit(goal="decide")
        state = await task.reached({Phase.ESCALATED}, timeout=8)
    assert state.question is not None
    assert state.question.reason is Reason.RAISED
    assert state.takeovers == 0
    assert [row.task.task_id for row in await ledger.tasks()] == [task.task_id]


async def test_words_of_an_error_that_are_no_unicode_are_kept_escaped(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "tenure.worker")  # a report with them could not be sent between processes
    team = Team("wrong", ledger=ledger, settings=Settings(on_failure="fail"))

    @team.agent
    async def first(own: Tenure[Any]) -> Complete[None]:
        raise FileNotFoundError("caf\udce9.txt" + "x" * 10_000)

    async with team.worker():
        task = await team.submit(goal="open it")
        found = await task.result(timeout=8)
    assert found.value["error"].startswith("FileNotFoundError: caf\\udce9.txt")
    assert len(found.value["error"]) < 5_000


async def test_what_is_sent_in_another_type_is_refused_and_changes_nothing(ledger: Ledger) -> None:
    team = Team("wrong", ledger=ledger)

    @team.agent
    async def first(own: Tenure[Any]) -> Complete[None]:
        return Complete()

    with pytest.raises(Refused, match=r"Expected `str`, got `int` - at `\$\.conversation`"):
        await team.submit(goal="talk", conversation=7)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="has no JSON form"):
        await team.submit(goal="half a \ud800")
    task = await team.submit(goal="talk")
    for attempt in (
        task.send("hello", sender=7),  # type: ignore[arg-type]
        task.cancel(by=7),  # type: ignore[arg-type]
        task.answer("q", by=7),  # type: ignore[arg-type]
    ):
        with pytest.raises(Refused) as refused:
            await attempt
        assert refused.value.code == "invalid"
    assert (await task.state()).revision == 2


@pytest.mark.parametrize("wrong", [{"lease_ms": 15e3}, {"lease_ms": 1500.5}, {"on_lost": "whoever"}])
async def test_settings_of_wrong_types_are_refused(ledger: Ledger, wrong: dict[str, Any]) -> None:
    async def first(own: Tenure[Any]) -> Complete[None]:
        return Complete()

    async def submitted() -> None:
        team = Team("wrong", ledger=ledger, settings=Settings(**wrong))
        team.agent(first)
        await team.submit(goal="run")

    with pytest.raises(Refused) as refused:
        await submitted()
    assert refused.value.code == "invalid"
    assert await ledger.tasks() == []


class Numbers(Provider):
    """An outside system that names things by numbers."""

    name = "numbers"

    async def apply(self, request: Any, *, key: str) -> Any:
        return Confirmed(request, 17) if request else Accepted(18)  # type: ignore[arg-type]


async def test_a_number_as_a_reference_is_kept_as_text(ledger: Ledger) -> None:
    team, seen = Team("wrong", ledger=ledger), []

    @team.agent
    async def first(own: Tenure[Any]) -> Complete[None]:
        seen.append(await own.effect(Numbers(), 1, key="one"))
        seen.append(await own.effect(Numbers(), 0, key="two", patience=0))
        return Complete()

    async with team.worker():
        task = await team.submit(goal="order")
        await task.result(timeout=8)
    done, doubt = seen
    assert isinstance(done, Done)
    assert done.reference == "17"
    assert isinstance(doubt, InDoubt)
    assert [effect.reference for effect in await ledger.effects(task.task_id)] == ["17", "18"]


async def test_a_policy_of_wrong_types_is_refused_before_anything_is_sent(ledger: Ledger) -> None:
    team, codes = Team("wrong", ledger=ledger), []

    @team.agent
    async def first(own: Tenure[Any]) -> Complete[None]:
        half = Policy(name="half", grace_ms=1.5)  # type: ignore[arg-type]
        with pytest.raises(Refused) as refused:
            await own.effect(Numbers(), 1, key="one", policy=half)
        codes.append(refused.value.code)
        return Complete()

    async with team.worker():
        task = await team.submit(goal="order")
        await task.result(timeout=8)
    assert codes == ["invalid"]
    assert await ledger.effects(task.task_id) == []


@dataclass
class Odd:
    """A type whose own check fails with what nobody expects of a check."""

    number: int

    def __post_init__(self) -> None:
        raise KeyError("no such thing")


async def test_an_input_type_that_raises_anything_declines_the_offer(ledger: Ledger) -> None:
    team = Team("wrong", ledger=ledger)

    @team.agent
    async def first(own: Tenure[Odd]) -> Complete[None]:
        return Complete()

    async with team.worker():
        task = await team.submit({"number": 1}, goal="check")
        state = await task.reached({Phase.ESCALATED}, timeout=8)
    assert state.question is not None
    assert state.question.reason is Reason.CAPABILITY


async def test_a_fault_before_the_grant_is_not_tried_again_at_once(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    team, tries = Team("wrong", ledger=ledger), 0

    @team.agent
    async def first(own: Tenure[Any]) -> Complete[None]:
        return Complete()

    def broken(body: Any) -> Any:
        nonlocal tries
        tries += 1
        raise KeyError("a fault of ours")

    monkeypatch.setattr("tenure.runtime.serving.decode_payload", broken)
    async with team.worker():
        await team.submit(goal="start")
        await asyncio.sleep(0.4)
    assert tries == 1
    assert "a fault of ours" in caplog.text
