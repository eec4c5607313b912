"""Rules of ``lookup``: it finds what is there, claims nothing beyond that, and does nothing."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tenure.runtime.provider import Accepted, Cancelled, Confirmed, Failed
from tenure.testing.providers.base import Rules
from tenure.testing.providers.bench import FAULTS, Bench, Fault, NotOffered
from tenure.testing.providers.case import Case, same_reference
from tenure.testing.providers.truth import NOTHING, absent, happened, shown


class LookupRules(Rules):
    """What a look-up promises."""

    capability: ClassVar[str] = "queryable"

    async def test_a_look_up_before_anything_finds_nothing(self, bench: Bench) -> None:
        case = Case(bench, "queryable")
        said = await case.lookup()
        assert not isinstance(said, Confirmed | Accepted | Failed | Cancelled), f"Nothing was done: {shown(said)}."

    async def test_what_is_said_to_be_final_is_final(self, bench: Bench) -> None:
        """A request that was on its way while somebody looked arrives later. After a final word it must not act."""
        case = Case(bench, "queryable")
        looked = await case.lookup()
        await case.apply()
        truth = await case.settled()
        assert not (absent(looked) and truth.total), f"It said {shown(looked)}; then the request arrived: {truth}."

    async def test_a_look_up_finds_what_was_done_by_its_reference(self, bench: Bench) -> None:
        case = Case(bench, "queryable")
        await case.done()
        said = await case.found(case.lookup)
        assert same_reference(said, case.reference), f"It was done as {case.reference!r}; found: {shown(said)}."
        await case.judge(said)

    async def test_a_look_up_without_the_reference_finds_what_was_done(self, bench: Bench) -> None:
        """When the answer was lost, nobody knows the reference: the key must do, or the look-up cannot tell."""
        case = Case(bench, "queryable")
        await case.done()
        reference, case.reference = case.reference, ""
        said = await case.found(case.lookup)
        right = same_reference(said, reference) or case.cannot_tell(said)
        assert right, f"It was done as {reference!r}; found by its key: {shown(said)}."

    async def test_looking_does_nothing(self, bench: Bench) -> None:
        case = Case(bench, "queryable")
        for _ in range(3):
            await case.lookup()
        assert await case.settled() == NOTHING, "Looking has made it happen."
        done = Case(bench, n=2)
        await done.done()
        for _ in range(3):
            await done.lookup()
        truth = await done.settled()
        assert truth.total == 1, f"Looking has changed what was done: {truth}."

    async def test_a_refused_request_is_not_found_as_done(self, bench: Bench) -> None:
        case = Case(bench, "queryable", refused=True)
        await case.apply()
        await case.judge(await case.lookup())

    @pytest.mark.parametrize("fault", FAULTS)
    async def test_a_look_up_in_doubt_tells_the_truth(self, bench: Bench, fault: Fault) -> None:
        """While the fault lasts, a look-up may say what is so; final is only what also holds when all has arrived."""
        case = Case(bench, "queryable")
        _, during = await case.under(fault, case.apply, case.lookup)
        await case.judge(*([during] if absent(during) else []))
        after = await case.found(case.lookup)
        truth = await case.judge(after)
        if truth.total:
            assert happened(after) or case.cannot_tell(after), f"It has happened; found: {shown(after)}."

    async def test_a_job_is_found_while_it_runs_and_when_it_has_ended(self, bench: Bench) -> None:
        case = Case(bench, "queryable")
        said = await case.apply()
        if not isinstance(said, Accepted):
            raise NotOffered("not offered: jobs that outlive their call")
        said = await case.found(case.lookup)
        assert same_reference(said, case.reference), f"It was taken on as {case.reference!r}; found: {shown(said)}."
        await case.judge(said)
        await bench.finish(case.request, case.key)
        assert (truth := await case.settled()).acts == 1, f"Applied once and finished: {truth}."
        said = await case.found(case.lookup)
        assert isinstance(said, Confirmed), f"The job has ended and done it; found: {shown(said)}."
        assert same_reference(said, case.reference), f"It was taken on as {case.reference!r}; found: {shown(said)}."

    async def test_what_was_done_under_one_key_is_not_found_by_another(self, bench: Bench) -> None:
        """The same request under two keys is two effects."""
        done, other = Case(bench, "queryable"), Case(bench)
        await done.done()
        said = await other.lookup()
        assert not happened(said), f"Nothing was sent under this key; found: {shown(said)}."
