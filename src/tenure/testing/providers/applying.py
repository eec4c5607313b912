"""Rules of ``apply``: it acts once, and under no fault does it say what is not true."""

from __future__ import annotations

import asyncio

import pytest

from tenure.runtime.provider import Confirmed, Declined, can
from tenure.testing.providers.base import Rules
from tenure.testing.providers.bench import FAULTS, Bench, Fault
from tenure.testing.providers.case import Case
from tenure.testing.providers.truth import NOTHING, happened, shown

STEPS = (0, 1, 2, 3, 5, 8, 13, 21, 55, 144, 377)
"""Steps of the loop: a simulated system is through after a few, a real one on the same host after some hundred."""


class ApplyRules(Rules):
    """What holds for every provider, whatever it declares."""

    async def test_what_is_applied_happens_once(self, bench: Bench) -> None:
        case = Case(bench)
        said = await case.apply()
        truth = await case.judge(said)
        assert happened(said), f"A request that the system grants was answered {shown(said)}."
        assert truth.total == 1, f"One call, and {truth}."
        if isinstance(said, Confirmed):
            assert not truth.running, "It is confirmed and still going on."

    async def test_a_refused_request_does_nothing_and_is_declined(self, bench: Bench) -> None:
        case = Case(bench, refused=True)
        for _ in range(2):
            said = await case.apply()
            assert isinstance(said, Declined), f"A request that the system refuses was answered {shown(said)}."
            assert await case.settled() == NOTHING

    @pytest.mark.parametrize("fault", FAULTS)
    async def test_under_a_fault_nothing_untrue_is_answered(self, bench: Bench, fault: Fault) -> None:
        case = Case(bench)
        (said,) = await case.under(fault, case.apply)
        await case.judge(said)

    @pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault is not Fault.TWICE])
    async def test_one_call_acts_at_most_once(self, bench: Bench, fault: Fault) -> None:
        """A repeat is the runtime's to decide on, which knows whether it is safe."""
        case = Case(bench)
        await case.under(fault, case.apply)
        truth = await case.settled()
        assert truth.total <= 1, f"One call under {fault!r}, and {truth}: it repeats what it must not."

    @pytest.mark.parametrize("steps", STEPS)
    async def test_a_call_that_is_cancelled_says_nothing_untrue(self, bench: Bench, steps: int) -> None:
        """Cancelled after so many steps of the loop: before, while or after the request has left."""
        case = Case(bench)
        task = asyncio.ensure_future(case.apply())
        for _ in range(steps):
            await asyncio.sleep(0)
        said = await case.ended(task)
        looked = await case.lookup() if can(bench.provider(), "lookup") else None
        truth = await case.judge(said, *([] if looked is None else [looked]))
        assert truth.total <= 1, f"One call that was cancelled, and {truth}."
