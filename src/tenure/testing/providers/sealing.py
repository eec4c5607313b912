"""Rules of ``seal``: after it, nothing with the key can land."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from tenure.runtime.provider import Sealed, can
from tenure.testing.providers.applying import STEPS
from tenure.testing.providers.base import Rules
from tenure.testing.providers.bench import Bench, Fault
from tenure.testing.providers.case import Case, same_reference
from tenure.testing.providers.truth import NOTHING, absent, happened, shown


class SealRules(Rules):
    """What a seal promises."""

    capability: ClassVar[str] = "sealable"

    async def test_a_sealed_key_never_acts(self, bench: Bench) -> None:
        case = Case(bench, "sealable")
        sealed = await case.seal()
        assert isinstance(sealed, Sealed), f"Nothing was sent under the key; sealing it was answered {shown(sealed)}."
        for _ in range(2):
            late = await case.apply()
            assert not happened(late), f"The key is sealed; a late request was answered {shown(late)}."
            assert await case.settled() == NOTHING, "A request with a sealed key has acted."
        if can(bench.provider(), "lookup"):
            found = await case.lookup()
            assert not happened(found), f"The key is sealed and unused; found: {shown(found)}."

    async def test_sealing_what_has_happened_says_what_has_happened(self, bench: Bench) -> None:
        case = Case(bench, "sealable")
        await case.done()
        said = await case.seal()
        assert same_reference(said, case.reference), f"It was done as {case.reference!r}; sealed: {shown(said)}."
        assert (truth := await case.settled()).total == 1, f"Sealing has changed what was done: {truth}."

    @pytest.mark.parametrize("steps", STEPS)
    @pytest.mark.parametrize("first", ["apply", "seal"])
    async def test_of_a_seal_and_a_request_at_the_same_time_one_wins(
        self, bench: Bench, first: str, steps: int
    ) -> None:
        """One of both begins so many steps of the loop before the other."""
        case = Case(bench, "sealable")
        calls = [case.apply, case.seal] if first == "apply" else [case.seal, case.apply]
        ahead = asyncio.ensure_future(calls[0]())
        for _ in range(steps):
            await asyncio.sleep(0)
        behind = asyncio.ensure_future(calls[1]())
        said = await asyncio.gather(ahead, behind)
        truth = await case.judge(*said)
        assert truth.total <= 1, f"One request, and {truth}."

    @pytest.mark.parametrize("fault", [Fault.HELD_UP, Fault.SLOW_ANSWER, Fault.LOST_ANSWER])
    async def test_a_request_that_is_on_its_way_does_not_pass_a_seal(self, bench: Bench, fault: Fault) -> None:
        case = Case(bench, "sealable")
        _, during = await case.under(fault, case.apply, case.seal)
        await case.judge(*([during] if absent(during) or happened(during) else []))
        after = await case.seal()
        truth = await case.judge(after)
        right = happened(after) if truth.total else isinstance(after, Sealed)
        assert right, f"{truth}; sealed: {shown(after)}."
