"""Ways out of doubt: which call of its provider an open effect needs next, when nobody who owns its task makes one.

A guess at what the ledger will allow, from what was read a moment ago: each call is still judged by the ledger when it
is committed. Guessing first keeps refusals that were clear from the start out of the audit, and makes a dry run.
"""

from __future__ import annotations

from msgspec import Struct

from tenure.protocol.decide.effects import UNDOING, WITHOUT_SUCCESS, inside_window, may_apply_again
from tenure.protocol.outside import Effect
from tenure.protocol.settings import HOUR
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import EffectState, Purpose
from tenure.runtime import provider as pv

E = EffectState


class Tried(Struct):
    """What one look has tried: calls that were made, and calls that the ledger did not allow. Each is tried once."""

    made: tuple[Purpose, ...] = ()
    refused: tuple[Purpose, ...] = ()

    def __contains__(self, purpose: Purpose) -> bool:
        """Whether a call was tried."""
        return purpose in self.made or purpose in self.refused


def next_way(effect: Effect, provider: pv.Provider, task: Task, now: int, tried: Tried) -> Purpose | None:
    """The next call to try; ``None`` when nothing is left to try in this look.

    Finding out comes first, it changes nothing. Then what is wanted is made to happen, where one more call cannot act
    twice. A key is sealed only where that is not wanted or not possible: sealing is the end of the request, and a task
    that still wants the effect is better served by having it. After a call that may have acted, nothing more is tried:
    its answer may come yet.
    """
    if effect.state in (E.ACCEPTED, E.IN_DOUBT):
        return _out_of_doubt(effect, provider, task, now, tried)
    undoing = effect.state in UNDOING or (effect.state is E.CONFIRMED and effect.next_check > 0)
    return _way_back(effect, provider, task, now, tried) if undoing else None


def _out_of_doubt(effect: Effect, provider: pv.Provider, task: Task, now: int, tried: Tried) -> Purpose | None:
    if pv.can(provider, "lookup") and Purpose.LOOKUP not in tried:
        return Purpose.LOOKUP
    # What was taken on is no doubt: it is neither made again nor sealed.
    if effect.state is E.ACCEPTED or Purpose.APPLY in tried.made:
        return None
    if may_retry(effect, task, now) and Purpose.APPLY not in tried:
        return Purpose.APPLY
    return Purpose.SEAL if pv.can(provider, "seal") and Purpose.SEAL not in tried else None


def _way_back(effect: Effect, provider: pv.Provider, task: Task, now: int, tried: Tried) -> Purpose | None:
    looks = effect.state is E.COMPENSATING and pv.can(provider, "lookup_compensation")
    if looks and Purpose.LOOKUP not in tried:
        return Purpose.LOOKUP
    if not pv.can(provider, "compensate") or Purpose.COMPENSATE in tried:
        return None
    return Purpose.COMPENSATE if _may_undo(effect, task, now) else None


def may_retry(effect: Effect, task: Task, now: int) -> bool:
    """Whether the call may be made again by somebody who does not own the task."""
    return effect.policy.doubt == "retry" and wanted(task) and may_apply_again(effect, now)


def wanted(task: Task) -> bool:
    """Whether the task still wants what it asked for."""
    return task.phase not in WITHOUT_SUCCESS and task.cancel is None


def budget_spent(effect: Effect, task: Task) -> bool:
    """Whether enough was tried for a person to be asked.

    Compensations that failed are counted apart: each of them found something out, so they never add up to a doubt.
    """
    return effect.checks >= task.settings.checks or _undo_spent(effect, task)


def has_way(effect: Effect, provider: pv.Provider) -> bool:
    """Whether the provider has any way to settle an effect in this state, now or at another time."""
    repeats = effect.idempotent_ms > 0
    match effect.state:
        case E.ACCEPTED:
            return pv.can(provider, "lookup")
        case E.IN_DOUBT:
            return pv.can(provider, "lookup") or pv.can(provider, "seal") or repeats
        case E.COMPENSATING:
            return pv.can(provider, "lookup_compensation") or (pv.can(provider, "compensate") and repeats)
        case E.COMPENSATION_FAILED | E.CONFIRMED:
            return pv.can(provider, "compensate")
        case _:
            return False


def patience_ms(effect: Effect, task: Task) -> int:
    """How long the looks of a whole budget take. Nobody having looked for so long means that nobody can."""
    longest = max(effect.check_ms, HOUR)
    return sum(min(effect.check_ms << min(n, 16), longest) for n in range(task.settings.checks))


def start_within_ms(effect: Effect) -> int:
    """How long after its commit was asked for the newest attempt may begin. Later, the permission for it is stale.

    Until its next check nobody else is at it; and a repeated key must still meet the provider's window.
    """
    own_turn = effect.next_check - effect.attempt.at
    window = effect.applied_at + effect.idempotent_ms - effect.in_flight_ms - effect.attempt.at
    return min(own_turn, window) if effect.idempotent_ms and window > 0 else own_turn


def _may_undo(effect: Effect, task: Task, now: int) -> bool:
    if effect.state is E.COMPENSATING:
        # Its facts are those of the compensation: a repeat of it is judged as the repeat of any call in doubt.
        return inside_window(effect, now)
    return not _undo_spent(effect, task)


def _undo_spent(effect: Effect, task: Task) -> bool:
    return effect.state is E.COMPENSATION_FAILED and effect.undo >= task.settings.checks
