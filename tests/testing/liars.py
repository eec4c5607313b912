"""Providers that say what is not so, each in one way, and the rules that must find it."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from tenure import Accepted, Cancelled, Confirmed, Declined, Inconclusive, NotFound, NotSent, Provider, Sealed
from tests.testing.outside import (
    HOUR,
    Cancelling,
    Keyed,
    Looking,
    LookingByReference,
    Order,
    Plain,
    Sealing,
    ServerError,
    Undoing,
    UndoingKeyed,
)

DECLARED = "test_what_is_declared_is_there"
INTENT = "test_the_same_request_has_the_same_intent_and_another_has_another"
APPLIED = "test_what_is_applied_happens_once"
REFUSED = "test_a_refused_request_does_nothing_and_is_declined"
UNTRUE = "test_under_a_fault_nothing_untrue_is_answered"
ONCE = "test_one_call_acts_at_most_once"
CANCELLED_CALL = "test_a_call_that_is_cancelled_says_nothing_untrue"

REPEATED = "test_a_repeated_key_acts_once_and_is_answered_from_the_record"
AT_ONCE = "test_a_key_that_comes_several_times_at_once_acts_once"
AFTER_FAULT = "test_a_key_repeated_after_a_fault_acts_once"
DURING_FAULT = "test_a_key_repeated_during_a_fault_acts_once"
ANOTHER = "test_a_key_that_comes_with_another_request_neither_acts_nor_is_confirmed"

UNFOUND = "test_a_look_up_before_anything_finds_nothing"
FINAL = "test_what_is_said_to_be_final_is_final"
BY_REFERENCE = "test_a_look_up_finds_what_was_done_by_its_reference"
BY_KEY = "test_a_look_up_without_the_reference_finds_what_was_done"
LOOKING = "test_looking_does_nothing"
REFUSED_FOUND = "test_a_refused_request_is_not_found_as_done"
IN_DOUBT = "test_a_look_up_in_doubt_tells_the_truth"
JOB_FOUND = "test_a_job_is_found_while_it_runs_and_when_it_has_ended"
OTHER_KEY = "test_what_was_done_under_one_key_is_not_found_by_another"

SEALED_KEY = "test_a_sealed_key_never_acts"
SEALED_LATE = "test_sealing_what_has_happened_says_what_has_happened"
SEAL_RACE = "test_of_a_seal_and_a_request_at_the_same_time_one_wins"
SEAL_ON_ITS_WAY = "test_a_request_that_is_on_its_way_does_not_pass_a_seal"

OVER = "test_a_job_that_is_cancelled_is_seen_to_be_over"
DEAF = "test_a_cancellation_that_is_only_taken_note_of_is_not_an_end"
DONE_CANCELLED = "test_what_has_happened_is_not_cancelled"
NOTHING_CANCELLED = "test_what_was_never_taken_on_is_not_cancelled"

UNDONE = "test_an_undoing_undoes_once"
UNTRUE_UNDOING = "test_under_a_fault_nothing_untrue_is_said_of_an_undoing"
UNDONE_ONCE = "test_one_call_undoes_at_most_once"
NO_NEW_DEED = "test_an_undoing_leaves_the_deed_counted_once"
UNDO_REPEATED = "test_a_repeated_undoing_undoes_once"
UNDO_AT_ONCE = "test_an_undoing_that_comes_several_times_at_once_undoes_once"
UNDO_AFTER_FAULT = "test_an_undoing_repeated_after_a_fault_undoes_once"
UNDO_UNFOUND = "test_an_undoing_that_was_not_asked_for_is_not_found"
UNDO_FOUND = "test_an_undoing_is_found_by_its_reference"
UNDO_IN_DOUBT = "test_a_look_up_of_an_undoing_in_doubt_tells_the_truth"


@dataclass
class Liar:
    """A provider, the system that it is for, and the rules that it breaks: exactly these."""

    kind: type[Provider]
    breaks: set[str]
    system: dict[str, Any] = field(default_factory=dict)
    patience: float = 5


class ActsTwice(Plain):
    async def apply(self, request: Any, *, key: str) -> Any:
        await super().apply(request, key=key)
        return await super().apply(request, key=key)


class TakesARefusalForDone(Plain):
    def answer(self, said: Any) -> Any:
        return Confirmed() if said == "refused" else super().answer(said)


class SaysNotSentWhenTheAnswerIsLost(Plain):
    async def apply(self, request: Any, *, key: str) -> Any:
        try:
            return await super().apply(request, key=key)
        except ConnectionResetError as error:
            raise NotSent("the connection was reset") from error


class SaysNotSentWhenItIsCancelled(Plain):
    async def apply(self, request: Any, *, key: str) -> Any:
        try:
            return await super().apply(request, key=key)
        except asyncio.CancelledError:
            raise NotSent("it was cancelled") from None


class DeclinesOnAServerError(Plain):
    async def apply(self, request: Any, *, key: str) -> Any:
        try:
            return await super().apply(request, key=key)
        except ServerError as error:
            return Declined(str(error))


class ConfirmsWhatItHopesFor(Plain):
    async def apply(self, request: Any, *, key: str) -> Any:
        try:
            return await super().apply(request, key=key)
        except NotSent:
            return Confirmed()


class CallsAgain(Plain):
    async def apply(self, request: Any, *, key: str) -> Any:
        try:
            return await super().apply(request, key=key)
        except ConnectionResetError:
            return await super().apply(request, key=key)


class AnswersWithNothing(Plain):
    async def apply(self, request: Any, *, key: str) -> Any:
        await super().apply(request, key=key)


class LooksBeforeItActs(Looking, Keyed):
    """Idempotent only as long as nothing else is on its way."""

    async def apply(self, request: Any, *, key: str) -> Any:
        found = await self.system.call(lambda: self.system.find(key), acts=False)
        if found is not None and found.request != request:
            raise ValueError("the key stands for another request")
        return await super().apply(request, key=key) if found is None else self.answer(found)


class ConfirmsAnotherRequest(Keyed):
    def answer(self, said: Any) -> Any:
        return Confirmed() if said == "conflict" else super().answer(said)


class AnswersARepeatWithANewReference(Keyed):
    async def apply(self, request: Any, *, key: str) -> Any:
        said = await super().apply(request, key=key)
        self.system.under_way.add(f"call {len(self.system.under_way)}")
        return Confirmed(reference=f"r-{len(self.system.under_way)}") if isinstance(said, Confirmed) else said


class DeclinesWhatIsUnderWay(Keyed):
    """A key whose first request is not answered yet is declined, as if nothing had happened under it."""

    async def apply(self, request: Any, *, key: str) -> Any:
        if key in self.system.under_way:
            return Declined("409 conflict")
        self.system.under_way.add(key)
        try:
            return await super().apply(request, key=key)
        finally:
            self.system.under_way.discard(key)


class FindsItUnderAnotherName(Looking):
    async def lookup(self, request: Any, *, key: str) -> Any:
        said = await super().lookup(request, key=key)
        return Confirmed(reference="r-0") if isinstance(said, Confirmed) else said


class IsSureOfWhatItDoesNotFind(Looking):
    async def lookup(self, request: Any, *, key: str) -> Any:
        said = await super().lookup(request, key=key)
        return NotFound(final=True) if said == NotFound() else said


class FindsWhatIsNotThere(Looking):
    async def lookup(self, request: Any, *, key: str) -> Any:
        return Confirmed(reference="r-1")


class FindsTheRequestAndNotTheKey(Looking):
    async def lookup(self, request: Any, *, key: str) -> Any:
        orders = self.system.orders
        found = await self.system.call(lambda: next((o for o in orders if o.request == request), None), acts=False)
        return NotFound() if found is None else self.answer(found)


class ActsWhenItLooks(Looking, Keyed):
    async def lookup(self, request: Any, *, key: str) -> Any:
        return self.answer(await self.system.call(lambda: self.system.order(key, request), acts=False))


class FindsByReferenceOnly(LookingByReference):
    """What it has no reference for, it has not found: as if it were not there."""

    async def lookup(self, request: Any, *, key: str, reference: str) -> Any:
        said = await super().lookup(request, key=key, reference=reference)
        return NotFound() if isinstance(said, Inconclusive) else said


class RemembersInItsProcess(Plain):
    def __init__(self, system: Any) -> None:
        super().__init__(system)
        self.answers: dict[str, Any] = {}

    async def apply(self, request: Any, *, key: str) -> Any:
        self.answers[key] = await super().apply(request, key=key)
        return self.answers[key]

    async def lookup(self, request: Any, *, key: str) -> Any:
        return self.answers.get(key, NotFound())


class TakesAJobForDone(Looking):
    async def lookup(self, request: Any, *, key: str) -> Any:
        said = await super().lookup(request, key=key)
        return Confirmed(reference=said.reference) if isinstance(said, Accepted) else said


class ConfirmsAJobThatItHasStarted(Plain):
    async def apply(self, request: Any, *, key: str) -> Any:
        said = await super().apply(request, key=key)
        return Confirmed(reference=said.reference) if isinstance(said, Accepted) else said


class SealsNothing(Sealing):
    async def seal(self, request: Any, *, key: str) -> Any:
        said = await super().seal(request, key=key)
        self.system.sealed.clear()
        return said


class SealsWhatHasHappened(Sealing):
    async def seal(self, request: Any, *, key: str) -> Any:
        await super().seal(request, key=key)
        return Sealed()


class LooksAndThenSeals(Sealing):
    """Between both, a request gets through."""

    async def seal(self, request: Any, *, key: str) -> Any:
        found = await self.system.call(lambda: self.system.find(key), acts=False)
        if found is not None:
            return self.answer(found)
        await self.system.call(lambda: self.system.sealed.add(key), acts=False)
        return Sealed()


class TakesAnAcknowledgementForAnEnd(Cancelling):
    async def cancel(self, request: Any, *, key: str) -> Any:
        said = await super().cancel(request, key=key)
        return Cancelled(said.reference) if isinstance(said, Accepted) else said


class NeverCancels(Cancelling):
    async def cancel(self, request: Any, *, key: str) -> Any:
        return await self.lookup(request, key=key)


class CancelsWhatHasHappened(Cancelling):
    async def cancel(self, request: Any, *, key: str) -> Any:
        said = await super().cancel(request, key=key)
        return Cancelled(said.reference) if isinstance(said, Confirmed) else said


class CancelsWhatIsNotThere(Cancelling):
    async def cancel(self, request: Any, *, key: str) -> Any:
        known = self.system.find(key)
        return Cancelled() if known is None else await super().cancel(request, key=key)


class UndoesTwice(Undoing):
    async def compensate(self, request: Any, *, key: str, reference: str) -> Any:
        await super().compensate(request, key=key, reference=reference)
        return await super().compensate(request, key=key, reference=reference)


class UndoesNothing(Undoing):
    async def compensate(self, request: Any, *, key: str, reference: str) -> Any:
        return Confirmed()


class UndoesAgain(Undoing):
    async def compensate(self, request: Any, *, key: str, reference: str) -> Any:
        try:
            return await super().compensate(request, key=key, reference=reference)
        except ConnectionResetError:
            return await super().compensate(request, key=key, reference=reference)


class SaysThatNoUndoingWasSent(Undoing):
    async def compensate(self, request: Any, *, key: str, reference: str) -> Any:
        try:
            return await super().compensate(request, key=key, reference=reference)
        except ServerError as error:
            raise NotSent("503") from error


class UndoesByANewDeed(Undoing):
    async def compensate(self, request: Any, *, key: str, reference: str) -> Any:
        said = await super().compensate(request, key=key, reference=reference)
        (order,) = [order for order in self.system.orders if order.reference == reference]
        self.system.orders.append(Order(order.key, order.request, "r-0", "done"))
        return said


class FindsAnUndoingTooEarly(UndoingKeyed):
    async def lookup_compensation(self, request: Any, *, key: str) -> Any:
        return Confirmed(reference="u-1")


class IsSureThatNothingWasUndone(UndoingKeyed):
    async def lookup_compensation(self, request: Any, *, key: str) -> Any:
        said = await super().lookup_compensation(request, key=key)
        return NotFound(final=True) if said == NotFound() else said


class FindsAnotherUndoing(UndoingKeyed):
    async def lookup_compensation(self, request: Any, *, key: str) -> Any:
        said = await super().lookup_compensation(request, key=key)
        return Confirmed(reference="u-0") if isinstance(said, Confirmed) else said


class PromisesUndoings(Plain):
    undo_idempotent_for = HOUR


class LooksUpUndoingsOnly(Plain):
    async def lookup_compensation(self, request: Any, *, key: str) -> Any:
        return NotFound()


class RemembersForever(Keyed):
    idempotent_for = float("inf")


class TakesAllRequestsForOne(Plain):
    def intent_key(self, request: Any) -> str:
        return "order"


DEDUPES = {"dedupes": True}
JOBS = {"jobs": True}
UNDO_DEDUPES = {"undo_dedupes": True}
LIARS = [
    Liar(PromisesUndoings, {DECLARED}),
    Liar(LooksUpUndoingsOnly, {DECLARED}),
    Liar(RemembersForever, {DECLARED}, DEDUPES),
    Liar(TakesAllRequestsForOne, {INTENT}),
    Liar(ActsTwice, {APPLIED, CANCELLED_CALL}),
    Liar(AnswersWithNothing, {APPLIED, REFUSED, UNTRUE, CANCELLED_CALL}),
    Liar(TakesARefusalForDone, {REFUSED}),
    Liar(SaysNotSentWhenTheAnswerIsLost, {UNTRUE}),
    Liar(DeclinesOnAServerError, {UNTRUE}),
    Liar(ConfirmsWhatItHopesFor, {UNTRUE}),
    Liar(SaysNotSentWhenItIsCancelled, {UNTRUE, CANCELLED_CALL}),
    Liar(ConfirmsAJobThatItHasStarted, {APPLIED, UNTRUE, CANCELLED_CALL}, JOBS),
    Liar(CallsAgain, {ONCE}),
    Liar(Keyed, {REPEATED, AT_ONCE, AFTER_FAULT, DURING_FAULT, ANOTHER}),
    Liar(LooksBeforeItActs, {AT_ONCE, AFTER_FAULT, DURING_FAULT}),
    Liar(DeclinesWhatIsUnderWay, {AT_ONCE}, DEDUPES),
    Liar(ConfirmsAnotherRequest, {ANOTHER}, DEDUPES),
    Liar(AnswersARepeatWithANewReference, {REPEATED}, DEDUPES),
    Liar(FindsWhatIsNotThere, {UNFOUND, OTHER_KEY, REFUSED_FOUND, IN_DOUBT, CANCELLED_CALL}),
    Liar(FindsTheRequestAndNotTheKey, {OTHER_KEY}),
    Liar(FindsByReferenceOnly, {BY_KEY, IN_DOUBT}),
    Liar(RemembersInItsProcess, {BY_KEY, BY_REFERENCE, IN_DOUBT}),
    Liar(FindsItUnderAnotherName, {BY_KEY, BY_REFERENCE}),
    Liar(IsSureOfWhatItDoesNotFind, {FINAL, IN_DOUBT}),
    Liar(ActsWhenItLooks, {UNFOUND, OTHER_KEY, LOOKING}, DEDUPES),
    Liar(TakesAJobForDone, {JOB_FOUND, IN_DOUBT, CANCELLED_CALL}, JOBS),
    Liar(SealsNothing, {SEALED_KEY, SEAL_ON_ITS_WAY, SEAL_RACE}),
    Liar(LooksAndThenSeals, {SEAL_RACE}),
    Liar(SealsWhatHasHappened, {SEALED_LATE, SEAL_ON_ITS_WAY, SEAL_RACE}),
    Liar(NeverCancels, {OVER, DEAF}, JOBS, patience=0.15),
    Liar(TakesAnAcknowledgementForAnEnd, {DEAF}, JOBS),
    Liar(CancelsWhatHasHappened, {DONE_CANCELLED}, JOBS),
    Liar(CancelsWhatIsNotThere, {NOTHING_CANCELLED}, JOBS),
    Liar(UndoesTwice, {UNDONE}),
    Liar(UndoesNothing, {UNDONE, UNTRUE_UNDOING, UNDONE_ONCE}),
    Liar(UndoesAgain, {UNDONE_ONCE}),
    Liar(SaysThatNoUndoingWasSent, {UNTRUE_UNDOING}),
    Liar(UndoesByANewDeed, {NO_NEW_DEED}),
    Liar(UndoingKeyed, {UNDO_REPEATED, UNDO_AT_ONCE, UNDO_AFTER_FAULT}),
    Liar(FindsAnUndoingTooEarly, {UNDO_UNFOUND, UNDO_IN_DOUBT}, UNDO_DEDUPES),
    Liar(IsSureThatNothingWasUndone, {UNDO_UNFOUND, UNDO_IN_DOUBT}, UNDO_DEDUPES),
    Liar(FindsAnotherUndoing, {UNDO_FOUND}, UNDO_DEDUPES),
]
