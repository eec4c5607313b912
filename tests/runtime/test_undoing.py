"""Undoing: effect by effect, the newest first; the whole is compensated only when every one is."""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure import (
    Accepted,
    Cancelled,
    Compensation,
    Complete,
    Confirmed,
    Declined,
    Inconclusive,
    NotFound,
    Provider,
    Sealed,
    Team,
    Tenure,
    Transfer,
)
from tenure.errors import Fenced
from tenure.ledger import Ledger, open_ledger
from tenure.protocol.vocabulary import EffectState, Finding
from tenure.runtime.calls import Calls
from tests.runtime.harness import until

E = EffectState


class Shelf(Provider):
    """An outside system that books and unbooks, and does what it is told to do badly.

    Attributes:
        acts, undone: what has happened there, by key. script: answers of ``compensate``, one for each call: ``fails``,
        ``lost`` (done, and no answer), ``unknown`` (not done, and no answer); without one it works.
    """

    name = "shelf"

    def __init__(self, *script: str, name: str = "shelf") -> None:
        self.name = name
        self.acts: list[Any] = []
        self.undone: dict[str, Any] = {}
        self.calls: list[Any] = []
        self.script = list(script)

    async def apply(self, request: Any, *, key: str) -> Any:
        del key
        if request == "no":
            return Declined("not today")
        self.acts.append(request)
        if request == "?":
            raise TimeoutError
        return Confirmed(reference=f"ref-{request}")

    async def compensate(self, request: Any, *, key: str, reference: str) -> Any:
        self.calls.append((request, reference))
        step = self.script.pop(0) if self.script else ""
        if step == "fails":
            return Declined("the till is closed")
        if step != "unknown":
            assert key not in self.undone, "undone twice"
            self.undone[key] = request
        if step:
            raise TimeoutError
        return Confirmed(reference=f"un-{request}")


class Asked(Shelf):
    """One that can be asked what became of both."""

    async def lookup(self, request: Any, *, key: str) -> Any:
        del key
        return Confirmed(reference=f"ref-{request}") if request in self.acts else NotFound()

    async def lookup_compensation(self, request: Any, *, key: str) -> Any:
        return Confirmed(reference=f"un-{request}") if key in self.undone else NotFound()


class Notes(Provider):
    """What was said cannot be unsaid."""

    name = "notes"

    async def apply(self, request: Any, *, key: str) -> Any:
        del request, key
        return Confirmed()


async def undo(ledger: Ledger, *providers: Provider, asked: Any, scope: str | None = None) -> tuple[Compensation, str]:
    """One agent that makes effects (provider, request, scope) and then undoes them."""
    team = Team("t", ledger=ledger, providers=providers)
    found: list[Compensation] = []

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        for provider, request, of in asked:
            with own.scope(of):
                await own.effect(provider, request, key=str(request), patience=0)
        found.append(await own.compensate(scope))
        return Complete()

    async with team.worker(reconcile=False):
        handle = await team.submit(goal="g")
        assert (await handle.result(20)).outcome == "completed"
    return found[0], handle.task_id


def told(found: Compensation) -> list[tuple[str, str, bool]]:
    return [(each.tool, str(each.state), each.undone) for each in found.effects]


async def test_everything_is_undone_the_newest_first(ledger: Ledger) -> None:
    shelf = Shelf()
    found, task_id = await undo(ledger, shelf, asked=[(shelf, "a", ""), (shelf, "no", ""), (shelf, "b", "")])
    assert (found.state, told(found)) == ("compensated", [("shelf", "compensated", True)] * 2)
    assert shelf.calls == [("b", "ref-b"), ("a", "ref-a")], "what was refused is not undone"
    effects = {effect.reference: effect for effect in await ledger.effects(task_id)}
    assert effects["ref-a"].undo_reference == "un-a"


async def test_only_one_scope_is_undone(ledger: Ledger) -> None:
    shelf = Shelf()
    found, _ = await undo(ledger, shelf, asked=[(shelf, "a", "hotel"), (shelf, "b", "car")], scope="hotel")
    assert (found.state, shelf.calls) == ("compensated", [("a", "ref-a")])


async def test_where_nothing_happened_there_is_nothing_to_undo(ledger: Ledger) -> None:
    shelf = Shelf()
    found, _ = await undo(ledger, shelf, asked=[(shelf, "no", "")])
    assert (found.state, found.effects, shelf.calls) == ("nothing_to_compensate", (), [])


async def test_what_cannot_be_undone_makes_the_whole_partial(ledger: Ledger) -> None:
    shelf, notes = Shelf(), Notes()
    found, task_id = await undo(ledger, shelf, notes, asked=[(shelf, "a", ""), (notes, "b", "")])
    assert found.state == "partially_compensated"
    assert told(found) == [("notes", "confirmed", False), ("shelf", "compensated", True)]
    assert (found.effects[0].reason, found.effects[0].next_action) == ("notes cannot undo it.", "ask")
    facts = await Team("t", ledger=ledger).task(task_id).facts()
    assert facts.effects.compensation == "partially_compensated"


async def test_a_provider_that_the_team_does_not_name_is_told(ledger: Ledger) -> None:
    shelf = Shelf()
    found, _ = await undo(ledger, asked=[(shelf, "a", "")])
    assert (found.state, found.effects[0].next_action) == ("partially_compensated", "fix")
    assert "shelf" in found.effects[0].reason


async def test_what_failed_is_tried_again_under_a_new_key_a_few_times(ledger: Ledger) -> None:
    shelf = Shelf("fails", "fails")
    found, _ = await undo(ledger, shelf, asked=[(shelf, "a", "")])
    assert (found.state, len(shelf.calls)) == ("compensated", 3)
    shelf = Shelf(*["fails"] * 9)
    found, task_id = await undo(ledger, shelf, asked=[(shelf, "a", "")])
    assert (found.state, told(found), len(shelf.calls)) == (
        "partially_compensated", [("shelf", "compensation_failed", False)], 3,
    )  # fmt: skip
    (effect,) = await ledger.effects(task_id)
    assert (effect.state, effect.next_check > 0) == (E.COMPENSATION_FAILED, True), "somebody looks after it"


@pytest.mark.parametrize("step", ["lost", "unknown"])
async def test_an_undoing_without_an_answer_is_not_made_again_blindly(ledger: Ledger, step: str) -> None:
    shelf = Shelf(step)
    found, _ = await undo(ledger, shelf, asked=[(shelf, "a", "")])
    assert (found.state, told(found), len(shelf.calls)) == (
        "partially_compensated", [("shelf", "compensating", False)], 1,
    )  # fmt: skip
    assert found.effects[0].next_action == "reconcile"


async def test_an_undoing_whose_answer_was_lost_is_found_by_looking(ledger: Ledger) -> None:
    shelf = Asked("lost")
    found, _ = await undo(ledger, shelf, asked=[(shelf, "a", "")])
    assert (found.state, len(shelf.calls)) == ("compensated", 1)


async def test_what_is_in_doubt_is_found_out_first_and_not_undone_blindly(ledger: Ledger) -> None:
    shelf = Shelf()
    found, _ = await undo(ledger, shelf, asked=[(shelf, "?", "")])
    assert (found.state, told(found), shelf.calls) == ("partially_compensated", [("shelf", "in_doubt", False)], [])
    asked = Asked()
    found, _ = await undo(ledger, asked, asked=[(asked, "?", "")])
    assert (found.state, asked.calls) == ("compensated", [("?", "ref-?")])


async def test_what_is_in_doubt_is_kept_from_happening_where_that_is_possible(ledger: Ledger) -> None:
    class Sealing(Shelf):
        async def apply(self, request: Any, *, key: str) -> Any:
            raise TimeoutError

        async def seal(self, request: Any, *, key: str) -> Any:
            return Sealed() if not self.acts else Inconclusive()

    class Slow(Sealing):
        sealed = False

        async def seal(self, request: Any, *, key: str) -> Any:
            self.sealed, before = True, self.sealed
            return Sealed() if before else Inconclusive("not now")

    found, _ = await undo(ledger, sealing := Sealing(), asked=[(sealing, "a", "")])
    assert found.state == "nothing_to_compensate"
    found, _ = await undo(ledger, slow := Slow(), asked=[(slow, "a", "")])
    assert found.state == "nothing_to_compensate"


@pytest.mark.parametrize(("ends", "state"), [(True, "nothing_to_compensate"), (False, "partially_compensated")])
async def test_a_job_that_goes_on_is_asked_to_end(ledger: Ledger, ends: bool, state: str) -> None:  # noqa: FBT001
    class Job(Provider):
        name = "job"

        async def apply(self, request: Any, *, key: str) -> Any:
            return Accepted("job-1")

        async def cancel(self, request: Any, *, key: str, reference: str) -> Any:
            return Cancelled(reference) if ends else Accepted(reference)

    job = Job()
    found, _ = await undo(ledger, job, asked=[(job, "a", "")])
    assert found.state == state


async def test_a_handler_that_starts_again_goes_on_where_it_was_and_undoes_nothing_twice(ledger: Ledger) -> None:
    shelf = Asked()
    team = Team("t", ledger=ledger, providers=[shelf])
    found: list[Compensation] = []

    @team.agent(entry=True, may_transfer={"second": "it goes on"})
    async def first(own: Tenure[Any]) -> Transfer[Any]:
        await own.effect(shelf, "a", key="a")
        await own.effect(shelf, "b", key="b")
        shelf.script = ["", "unknown"]
        found.append(await own.compensate())
        return Transfer("second")

    @team.agent
    async def second(own: Tenure[Any]) -> Complete[Any]:
        found.append(await own.compensate())
        return Complete()

    async with team.worker(reconcile=False):
        handle = await team.submit(goal="g")
        await handle.result(20)
    assert [each.state for each in found] == ["partially_compensated"] * 2, "the sender lives: it may land yet"
    assert shelf.calls == [("b", "ref-b"), ("a", "ref-a")]
    assert found[1].effects[0].state is E.COMPENSATED


async def test_a_person_who_has_undone_it_by_hand_completes_the_whole(ledger: Ledger) -> None:
    notes = Notes()
    team = Team("t", ledger=ledger, providers=[notes])
    found: list[Compensation] = []

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        await own.effect(notes, "a", key="a")
        found.append(await own.compensate())
        await own.receive()
        found.append(await own.compensate())
        return Complete()

    async with team.worker(reconcile=False):
        handle = await team.submit(goal="g")

        async def asked() -> bool:
            return bool(found)

        await until(asked)
        (effect,) = await ledger.effects(handle.task_id)
        await handle.attest(
            effect.effect_id, version=effect.version, by="person:operator", words="called them", finding=Finding.UNDONE
        )
        await handle.send("done")
        await handle.result(20)
    assert [each.state for each in found] == ["partially_compensated", "compensated"]
    assert (await handle.facts()).effects.compensation == "compensated"


async def test_the_next_agent_reads_that_it_was_undone(ledger: Ledger) -> None:
    shelf = Shelf()
    team = Team("t", ledger=ledger, providers=[shelf])
    read: list[Any] = []

    @team.agent(entry=True, may_transfer={"second": "it goes on"})
    async def first(own: Tenure[Any]) -> Transfer[Any]:
        await own.effect(shelf, "a", key="a")
        return Transfer("second")

    @team.agent(may_transfer={"third": "it ends"})
    async def second(own: Tenure[Any]) -> Transfer[Any]:
        read.append([fact.outcome for fact in own.payload.done])
        await own.compensate()
        return Transfer("third")

    @team.agent
    async def third(own: Tenure[Any]) -> Complete[Any]:
        read.append([fact.outcome for fact in own.payload.done])
        return Complete()

    async with team.worker():
        await (await team.submit(goal="g")).result(20)
    assert read == [["done"], ["failed"]]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["a", "no", "?"]), st.lists(st.sampled_from(["fails", "lost", "unknown", ""]), max_size=3)
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, asks=st.booleans())
def test_ef_05_never_compensated_unless_every_effect_is(steps: list[tuple[str, list[str]]], *, asks: bool) -> None:
    async def trial() -> None:
        shelves = [(Asked if asks else Shelf)(*script, name=f"shelf-{n}") for n, (_, script) in enumerate(steps)]
        asked = [(shelf, request, "") for shelf, (request, _) in zip(shelves, steps, strict=True)]
        async with open_ledger("memory://") as ledger:
            found, task_id = await undo(ledger, *shelves, asked=asked)
            effects = await ledger.effects(task_id)
        assert len(found.effects) == sum(effect.state not in (E.REFUSED, E.ABSENT) for effect in effects)
        there = [shelf for shelf in shelves if shelf.acts]
        if found.state == "compensated":
            assert all(len(shelf.undone) == 1 for shelf in there)
        assert all(len(shelf.undone) <= 1 for shelf in shelves)
        assert (found.state == "nothing_to_compensate") is (not there)

    asyncio.run(trial())


async def test_an_undoing_that_lost_its_lease_on_the_way_to_the_call_is_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shelf = Shelf()
    team = Team("t", providers=[shelf])
    told: list[str] = []
    heard = asyncio.Event()

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        await own.effect(shelf, 1, key="a")
        commit = Calls.commit

        async def late(self: Calls, *what: Any) -> Any:
            committed = await commit(self, *what)
            monkeypatch.setattr(self._speaker, "_deadline", 0)  # the ledger took longer than the lease lasts
            return committed

        monkeypatch.setattr(Calls, "commit", late)
        try:
            await own.compensate()
        except Fenced as error:
            told.append(error.code)
            heard.set()
        raise RuntimeError

    async with team.worker():
        handle = await team.submit(goal="g")
        async with asyncio.timeout(10):
            await heard.wait()
        (effect,) = await team.ledger.effects(handle.task_id)
    assert (told, effect.state, shelf.calls) == (["lease_lost"], E.COMPENSATING, [])
