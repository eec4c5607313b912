"""Mistakes on purpose, to show that the matrix can turn red: providers that lie, runtimes that record a guess."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from tenure import Cancelled, Confirmed, NotFound, Sealed
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol.vocabulary import EffectState, EvidenceKind
from tenure.runtime.provider import Answer
from tenure.testing.crashes.strategies import Plain


class _Wrapped:
    """A provider that passes everything on; what it does not override is as before, and so is what is not there."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class _RetriesBlindly(_Wrapped):
    async def apply(self, request: Any, *, key: str) -> Answer:
        try:
            return cast("Answer", await self.inner.apply(request, key=key))
        except TimeoutError:
            return cast("Answer", await self.inner.apply(request, key=key))


class _UndoesBlindly(_Wrapped):
    async def compensate(self, request: Any, *, key: str, reference: str) -> Answer:
        try:
            return cast("Answer", await self.inner.compensate(request, key=key, reference=reference))
        except TimeoutError:
            return cast("Answer", await self.inner.compensate(request, key=key, reference=reference))


class _SaysIdempotent(_Wrapped):
    idempotent_for = 3600.0


class _NotFoundIsAbsent(_Wrapped):
    async def lookup(self, request: Any, *, key: str) -> Answer:
        answer = await self.inner.lookup(request, key=key)
        return Sealed() if isinstance(answer, NotFound) else answer


class _SealsInWordsOnly(_Wrapped):
    async def seal(self, request: Any, *, key: str) -> Answer:
        del request, key
        return Sealed()


class _CancelledBecauseAsked(_Wrapped):
    async def cancel(self, request: Any, *, key: str, reference: str) -> Answer:
        del request, key
        return Cancelled(reference)


class _LooksUpHope(_Wrapped):
    async def lookup(self, request: Any, *, key: str) -> Answer:
        del request, key
        return Confirmed(reference="surely")


class _Recording:
    """A runtime that records something else than what it saw, as far as the ledger can tell."""

    def __init__(self, far: Ledger, change: Callable[[cmd.RecordOutcome], cmd.RecordOutcome]) -> None:
        self._far = far
        self._change = change

    async def execute(self, command: cmd.Command) -> cmd.Receipt:
        return await self._far.execute(self._change(command) if isinstance(command, cmd.RecordOutcome) else command)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._far, name)


def _guess(state: EffectState, evidence: EvidenceKind) -> Callable[[cmd.RecordOutcome], cmd.RecordOutcome]:
    def change(command: cmd.RecordOutcome) -> cmd.RecordOutcome:
        doubt = command.state is EffectState.IN_DOUBT
        return replace(command, state=state, evidence=evidence) if doubt else command

    return change


def _recording(change: Callable[[cmd.RecordOutcome], cmd.RecordOutcome]) -> Callable[[Ledger], Ledger]:
    return lambda ledger: cast("Ledger", _Recording(ledger, change))


def _same(it: Any) -> Any:
    return it


class Mutant(Struct, frozen=True, kw_only=True):
    """One mistake. ``cell``: one that turns red by it; ``why``: what is said there."""

    name: str
    cell: str
    why: str
    provider: Callable[[Plain], Plain] = _same
    ledger: Callable[[Ledger], Ledger] = _same


MUTANTS = {
    each.name: each
    for each in (
        Mutant(
            name="a provider retries blindly",
            cell="none/after-act/lost-answer",
            why="acted 2 times",
            provider=cast("Any", _RetriesBlindly),
        ),
        Mutant(
            name="a provider says that it is idempotent",
            cell="none/mid-call/kill",
            why="acted 2 times",
            provider=cast("Any", _SaysIdempotent),
        ),
        Mutant(
            name="not found is taken for absent",
            cell="look-up/mid-call/kill",
            why="acted 2 times",
            provider=cast("Any", _NotFoundIsAbsent),
        ),
        Mutant(
            name="a seal is a word only",
            cell="transaction/mid-call/kill",
            why="acted 2 times",
            provider=cast("Any", _SealsInWordsOnly),
        ),
        Mutant(
            name="a cancellation that was sent is one that was seen",
            cell="job/mid-call/cancel",
            why="the record says cancelled",
            provider=cast("Any", _CancelledBecauseAsked),
        ),
        Mutant(
            name="a look-up finds what it hopes for",
            cell="look-up/after-intent/kill",
            why="the record says confirmed",
            provider=cast("Any", _LooksUpHope),
        ),
        Mutant(
            name="a time-out is recorded as confirmed",
            cell="none/lost-request/lost-answer",
            why="the record says confirmed",
            ledger=_recording(_guess(EffectState.CONFIRMED, EvidenceKind.RESPONSE)),
        ),
        Mutant(
            name="a time-out is recorded as refused",
            cell="none/after-act/lost-answer",
            why="the record says refused",
            ledger=_recording(_guess(EffectState.REFUSED, EvidenceKind.RESPONSE)),
        ),
        Mutant(
            name="a time-out is recorded as not sent",
            cell="none/mid-call/lost-answer",
            why="acted 2 times",
            ledger=_recording(_guess(EffectState.ABSENT, EvidenceKind.NOT_SENT)),
        ),
        Mutant(
            name="a provider undoes blindly",
            cell="compensation/undo-after-act/lost-answer",
            why="2 undoings of 1 acts",
            provider=cast("Any", _UndoesBlindly),
        ),
        Mutant(
            name="a time-out is recorded as undone",
            cell="compensation/undo-lost-request/lost-answer",
            why="the record says compensated",
            ledger=_recording(_guess(EffectState.COMPENSATED, EvidenceKind.RESPONSE)),
        ),
    )
}
