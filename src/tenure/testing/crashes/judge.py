"""What a cell's end says about the promises: the record is compared with the provider's truth, nothing is assumed."""

from __future__ import annotations

from msgspec import Struct

from tenure.ledger import Ledger, Verification
from tenure.protocol.outside import Effect
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import EffectState
from tenure.testing.crashes.outside import Truth

E = EffectState

EXPECTED: dict[EffectState, tuple[int, int]] = {
    E.CONFIRMED: (1, 0),
    E.COMPENSATED: (1, 1),
    E.COMPENSATION_FAILED: (1, 0),
    E.REFUSED: (0, 0),
    E.FAILED: (0, 0),
    E.CANCELLED: (0, 0),
    E.ABSENT: (0, 0),
}
"""How many acts and undoings there are at the provider when the record says this, now and later."""


class Evidence(Struct, frozen=True, kw_only=True):
    """What is looked at when everything has come to rest.

    Attributes:
        struck: whether the fault struck where it should. driver: what went wrong around the cell.
    """

    truth: Truth
    effects: tuple[Effect, ...]
    task: Task | None
    verified: Verification
    struck: bool
    driver: tuple[str, ...] = ()


class Judged(Struct, frozen=True, kw_only=True):
    """``word``: how it ended, in a word for the table. ``problems``: why it is red; empty when it is green."""

    word: str
    problems: tuple[str, ...] = ()


async def gather(ledger: Ledger, task_id: str, truth: Truth, *, struck: bool, driver: tuple[str, ...]) -> Evidence:
    """Read everything."""
    return Evidence(
        truth=truth,
        effects=tuple(await ledger.effects(task_id)),
        task=await ledger.task(task_id),
        verified=await ledger.verify(),
        struck=struck,
        driver=driver,
    )


def judge(seen: Evidence) -> Judged:
    """Find every contradiction."""
    problems = [*seen.driver, *_of_the_cell(seen), *_of_the_acts(seen), *_of_the_record(seen), *_of_the_words(seen)]
    return Judged(word="RED" if problems else _word(seen), problems=tuple(problems))


def _of_the_cell(seen: Evidence) -> list[str]:
    """A cell that shows nothing is not green."""
    found = []
    if not seen.struck:
        found.append("the fault did not strike")
    if seen.truth.pending:
        found.append(f"{seen.truth.pending} requests or jobs are still under way")
    verified = seen.verified
    if (verified.chain, verified.replay, verified.file) != ("verified", "equal", "sound") or verified.problems:
        found.append(f"the ledger is {verified.chain}, {verified.replay}, {verified.file}: {verified.problems}")
    return found


def _of_the_acts(seen: Evidence) -> list[str]:
    """At most once, and nothing undone that was not done."""
    truth = seen.truth
    found = [f"the provider has acted {truth.acts} times"] if truth.acts > 1 else []
    if truth.undone > truth.acts:
        found.append(f"{truth.undone} undoings of {truth.acts} acts")
    return found


def _of_the_record(seen: Evidence) -> list[str]:
    """What is settled equals the truth; what is not is somebody's question."""
    truth, found = seen.truth, []
    if truth.acts and not seen.effects:
        found.append("the provider has acted and there is no record of an intent")
    if len(seen.effects) > 1:
        found.append(f"one intent has {len(seen.effects)} records")
    for effect in seen.effects:
        if effect.state is E.DISPUTED:
            found.append("the record contradicts itself: disputed")
        elif effect.state.settled or effect.state in EXPECTED:
            expected = EXPECTED.get(effect.state)
            if (truth.acts, truth.undone) != expected:
                found.append(f"the record says {effect.state}, the truth is {truth.acts} acts, {truth.undone} undone")
        if not effect.state.settled and not asked(effect, seen.task):
            found.append(f"the record says {effect.state} and nobody is asked")
    return found


def asked(effect: Effect, task: Task | None) -> bool:
    """Whether a person was asked: about the effect, or what to do with the task."""
    return bool(effect.asked) or (task is not None and task.question is not None)


def _of_the_words(seen: Evidence) -> list[str]:
    """What agents were told was true then and is true now."""
    told, truth = set(seen.truth.told), seen.truth
    found = []
    if "Done" in told and truth.acts != 1:
        found.append(f"an agent was told that it is done, the truth is {truth.acts} acts")
    if "compensated" in told and (truth.acts, truth.undone) != (1, 1):
        found.append(f"an agent was told that it is undone, the truth is {truth.acts} acts, {truth.undone} undone")
    if not told.isdisjoint({"Refused", "nothing_to_compensate"}) and truth.acts > truth.undone:
        found.append("an agent was told that it is not done, and it is")
    return found


def _word(seen: Evidence) -> str:
    if any(not effect.state.settled for effect in seen.effects):
        return "asked"
    if seen.truth.undone:
        return "undone"
    return "once" if seen.truth.acts else "none"
