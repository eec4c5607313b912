"""Rules of a provider that declares ``idempotent_for``: a key acts once, however often it comes."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from tenure.testing.providers.base import Rules
from tenure.testing.providers.bench import FAULTS, Bench, Fault
from tenure.testing.providers.case import Case, same_reference
from tenure.testing.providers.truth import happened, shown


class IdempotencyRules(Rules):
    """What ``idempotent_for`` promises. How long the system remembers is declared, and not probed."""

    capability: ClassVar[str] = "idempotent"

    async def test_a_repeated_key_acts_once_and_is_answered_from_the_record(self, bench: Bench) -> None:
        case = Case(bench, "idempotent")
        await case.done()
        reference = case.reference
        for _ in range(2):
            said = await case.apply()
            truth = await case.settled()
            assert truth.total == 1, f"The same key again, and {truth}."
            assert same_reference(said, reference), f"First it was {reference!r}, then {shown(said)}."

    async def test_a_key_that_comes_several_times_at_once_acts_once(self, bench: Bench) -> None:
        case = Case(bench, "idempotent")
        said = await asyncio.gather(*(case.apply() for _ in range(4)))
        truth = await case.judge_repeats(*said)
        assert truth.total == 1, f"The same key four times at once, and {truth}."

    @pytest.mark.parametrize("fault", FAULTS)
    async def test_a_key_repeated_after_a_fault_acts_once(self, bench: Bench, fault: Fault) -> None:
        case = Case(bench, "idempotent")
        await case.under(fault, case.apply)
        await bench.quiet()
        said = await case.apply()
        truth = await case.settled()
        assert truth.total == 1, f"The same key after {fault!r}, and {truth}."
        assert happened(said), f"It has happened, and its key was answered {shown(said)}."

    @pytest.mark.parametrize("fault", [Fault.HELD_UP, Fault.SLOW_ANSWER])
    async def test_a_key_repeated_during_a_fault_acts_once(self, bench: Bench, fault: Fault) -> None:
        """The repeat meets the fault too; two requests are on their way then, and both are delivered."""
        case = Case(bench, "idempotent")
        said = await case.under(fault, case.apply, case.apply)
        truth = await case.judge_repeats(*said)
        assert truth.total == 1, f"The same key twice under {fault!r}, and {truth}."

    async def test_a_key_that_comes_with_another_request_neither_acts_nor_is_confirmed(self, bench: Bench) -> None:
        case = Case(bench, "idempotent")
        await case.done()
        other = bench.request(2)
        before = await case.now(), await case.now(other)
        said = await case.apply(other)
        await bench.quiet()
        after = await case.now(), await case.now(other)
        assert after == before, "The key of one request made another one happen."
        assert not happened(said), f"The key stands for another request; it was answered {shown(said)}."
