"""Rules of ``cancel``: what is said to be cancelled is over, and an answered cancellation is not an end."""

from __future__ import annotations

from typing import ClassVar

from tenure.runtime.provider import Accepted, Cancelled, Confirmed, can
from tenure.testing.providers.base import Rules
from tenure.testing.providers.bench import Bench, Fault, NotProbed
from tenure.testing.providers.case import Case, looked
from tenure.testing.providers.truth import NOTHING, Truth, contradiction, happened, shown


async def taken_on(bench: Bench) -> Case:
    """A job that runs."""
    case = Case(bench, "cancellable")
    said = await case.apply()
    if not isinstance(said, Accepted):
        raise NotProbed("not probed, cancel: the bench has no job that outlives its call")
    assert (truth := await case.settled()) == Truth(0, 1), f"A job was taken on; the truth: {truth}."
    return case


def checked(said: object, truth: Truth) -> object:
    """What a cancellation was answered, when it is true at this moment.

    A cancellation that was refused, or failed, says nothing about the job.
    """
    if isinstance(said, Cancelled) or happened(said):
        assert not (found := contradiction(said, truth)), found
    return said


class CancelRules(Rules):
    """What a cancellation promises."""

    capability: ClassVar[str] = "cancellable"

    async def test_a_job_that_is_cancelled_is_seen_to_be_over(self, bench: Bench) -> None:
        case = await taken_on(bench)
        said = checked(await case.cancel(), await case.now())
        if not isinstance(said, Cancelled):
            ask = case.lookup if _looks(bench) else case.cancel

            async def look() -> object:
                return checked(await ask(), await case.now())

            said = await looked(look, lambda said: isinstance(said, Cancelled), bench.patience)
        assert isinstance(said, Cancelled), f"The job was never seen to end by its cancellation: {shown(said)}."
        await bench.finish(case.request, case.key)
        assert (truth := await case.settled()) == NOTHING, f"It was cancelled; the truth: {truth}."

    async def test_a_cancellation_that_is_only_taken_note_of_is_not_an_end(self, bench: Bench) -> None:
        case = await taken_on(bench)
        said, *found = await case.under(Fault.DEAF, case.cancel, *([case.lookup] if _looks(bench) else []))
        for each in (said, *found):
            checked(each, await case.now())
        await bench.finish(case.request, case.key)
        truth = await case.settled()
        assert not (isinstance(said, Cancelled) and truth.total), f"It was said to be cancelled; the truth: {truth}."

    async def test_what_has_happened_is_not_cancelled(self, bench: Bench) -> None:
        case = Case(bench, "cancellable")
        await case.done()
        said = await case.cancel()
        assert not isinstance(said, Cancelled), "It has happened, and was said to be cancelled."
        assert (truth := await case.settled()) == Truth(1), f"Cancelling has changed what was done: {truth}."

    async def test_what_was_never_taken_on_is_not_cancelled(self, bench: Bench) -> None:
        case = Case(bench, "cancellable")
        said = await case.cancel()
        assert not isinstance(said, Cancelled | Confirmed | Accepted), f"Nothing was taken on: {shown(said)}."
        assert await case.settled() == NOTHING, "Cancelling has made it happen."


def _looks(bench: Bench) -> bool:
    return can(bench.provider(), "lookup")
