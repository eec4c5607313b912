"""Rules of ``compensate`` and ``lookup_compensation``: undone once, and nothing untrue is said about it."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from tenure.runtime.provider import Confirmed, NotSent, can
from tenure.testing.providers.base import Rules
from tenure.testing.providers.bench import FAULTS, Bench, Fault
from tenure.testing.providers.case import OFFERED, Case
from tenure.testing.providers.truth import absent, happened, shown


async def in_force(bench: Bench, *needs: str) -> Case:
    """Something that was done and not undone."""
    case = Case(bench, "reversible", *needs)
    undone = await bench.undone(case.request, case.key)
    assert not undone, f"Nothing was done, and it is undone {undone} times."
    await case.done()
    return case


class CompensationRules(Rules):
    """What an undoing promises."""

    capability: ClassVar[str] = "reversible"

    async def test_an_undoing_undoes_once(self, bench: Bench) -> None:
        case = await in_force(bench)
        said = await case.compensate()
        undone = await case.judge_undoing(said)
        if isinstance(said, Confirmed) or not OFFERED["undo queryable"](bench.provider()):
            assert isinstance(said, Confirmed), f"What can be undone was answered {shown(said)}."
        assert undone == 1, f"One call, and it was undone {undone} times."

    @pytest.mark.parametrize("fault", FAULTS)
    async def test_under_a_fault_nothing_untrue_is_said_of_an_undoing(self, bench: Bench, fault: Fault) -> None:
        case = await in_force(bench)
        (said,) = await case.under(fault, case.compensate)
        await case.judge_undoing(said)

    @pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault is not Fault.TWICE])
    async def test_one_call_undoes_at_most_once(self, bench: Bench, fault: Fault) -> None:
        case = await in_force(bench)
        await case.under(fault, case.compensate)
        undone = await case.undone()
        assert undone <= 1, f"One call under {fault!r}, and it was undone {undone} times."

    async def test_an_undoing_leaves_the_deed_counted_once(self, bench: Bench) -> None:
        """An undoing is not a second deed."""
        case = await in_force(bench)
        await case.compensate()
        truth = await case.settled()
        assert truth.total <= 1, f"Undoing has acted: {truth}."
        if can(bench.provider(), "lookup_compensation"):
            await case.lookup_compensation()
            assert await case.settled() == truth, "Looking for the undoing has acted."


class RepeatedUndoingRules(Rules):
    """What ``undo_idempotent_for`` promises."""

    capability: ClassVar[str] = "undo idempotent"

    async def test_a_repeated_undoing_undoes_once(self, bench: Bench) -> None:
        case = await in_force(bench, "undo idempotent")
        await case.compensate()
        reference = case.undo_reference
        for _ in range(2):
            said = await case.compensate()
            undone = await case.judge_undoing(said)
            assert undone == 1, f"The same undoing again, and it was undone {undone} times."
            assert happened(said), f"It is undone; a repeat was answered {shown(said)}."
            assert case.undo_reference == reference, f"First it was {reference!r}, then {shown(said)}."

    async def test_an_undoing_that_comes_several_times_at_once_undoes_once(self, bench: Bench) -> None:
        case = await in_force(bench, "undo idempotent")
        said = await asyncio.gather(*(case.compensate() for _ in range(4)))
        undone = await case.judge_undoing(*[each for each in said if not isinstance(each, NotSent)])
        assert undone == 1, f"The same undoing four times at once, and it was undone {undone} times."

    @pytest.mark.parametrize("fault", FAULTS)
    async def test_an_undoing_repeated_after_a_fault_undoes_once(self, bench: Bench, fault: Fault) -> None:
        case = await in_force(bench, "undo idempotent")
        await case.under(fault, case.compensate)
        await bench.quiet()
        said = await case.compensate()
        undone = await case.judge_undoing(said)
        assert undone == 1, f"The same undoing after {fault!r}, and it was undone {undone} times."


class UndoingLookupRules(Rules):
    """What a look-up of an undoing promises."""

    capability: ClassVar[str] = "undo queryable"

    async def test_an_undoing_that_was_not_asked_for_is_not_found(self, bench: Bench) -> None:
        """What is in force is not undone, and what is said to be final about its undoing is final."""
        case = await in_force(bench, "undo queryable")
        looked = await case.lookup_compensation()
        assert await case.undone() == 0, "Looking has undone it."
        assert not isinstance(looked, Confirmed), f"Nothing was undone: {shown(looked)}."
        await case.compensate()
        undone = await case.undone()
        assert not (absent(looked) and undone), f"It said {shown(looked)}; then it was undone {undone} times."

    async def test_an_undoing_is_found_by_its_reference(self, bench: Bench) -> None:
        case = await in_force(bench, "undo queryable")
        await case.compensate()
        said = await case.found(case.lookup_compensation)
        undone = await case.judge_undoing(said)
        assert undone == 1, f"Looking has changed what was undone: {undone} times."
        assert isinstance(said, Confirmed), f"It is undone; found: {shown(said)}."
        same = str(said.reference) == case.undo_reference
        assert same, f"It was undone as {case.undo_reference!r}; found: {shown(said)}."

    @pytest.mark.parametrize("fault", FAULTS)
    async def test_a_look_up_of_an_undoing_in_doubt_tells_the_truth(self, bench: Bench, fault: Fault) -> None:
        case = await in_force(bench, "undo queryable")
        _, during = await case.under(fault, case.compensate, case.lookup_compensation)
        await case.judge_undoing(*([during] if absent(during) else []))
        after = await case.found(case.lookup_compensation)
        undone = await case.judge_undoing(after)
        if undone:
            right = isinstance(after, Confirmed) or case.cannot_tell(after, undoing=True)
            assert right, f"It was undone {undone} times; found: {shown(after)}."
