"""What a task has outside: its effects, the calls that were made for them, and the note that it keeps of each.

Frozen values, as in :mod:`tenure.protocol.state`. Times are milliseconds since the Unix epoch, by the ledger's clock.
"""

from __future__ import annotations

from msgspec import Struct

from tenure.protocol.settings import Policy
from tenure.protocol.vocabulary import EffectState, Gate, Purpose


class Attempt(Struct, frozen=True, kw_only=True, gc=False):
    """One provider call, committed before it is made.

    Attributes:
        n: rises by one with each attempt of the effect.
        in_flight: no outcome of this attempt has been recorded.
    """

    n: int
    purpose: Purpose
    epoch: int
    instance: str
    at: int
    in_flight: bool = True


class Effect(Struct, frozen=True, kw_only=True, gc=False):
    """Something done outside.

    Attributes:
        intent: digest of the business intent; unique among the open effects of a tree.
        request: digest of the request's body, to tell a repeat from a conflict.
        compared: digest of the request's compared fields.
        version: rises on every change; each attempt is a compare-and-set on it.
        generation: rises when an attempt must not meet the provider's sealed key again. first: number of its first
            ``apply``; what was made before it was made with nothing left of it.
        idempotent_ms: the provider's window for one key; 0 when it is not idempotent.
        in_flight_ms: longest time that a sent request can still land; 0 when unknown.
        key_scope: where the provider's key counts: elsewhere a repeated key is a new one.
        applied_at: when the first ``apply`` of this generation was committed. sends: how many there were.
        senders: instances whose request may still land, because their process was not observed dead.
        dead_at: when the last of the senders was observed dead; 0 while none was.
        reference: the provider's name for it. scope: which of the task's undertakings it belongs to, for undoing.
        undo: generation of its compensation, from 1. While it is compensated, ``applied_at``, ``sends``, ``senders``,
            ``dead_at``, ``sealed`` and the provider's facts are those of the compensation, ``undo_reference`` its name.
        checks: calls of reconcilers since somebody answered for it last. asked: the person who was asked about it.
        finding: what a person has found; empty without one. granted: one more ``apply`` was granted with it.
    """

    effect_id: str
    root_id: str
    task_id: str
    provider: str
    tool: str
    intent: str
    request: str
    compared: str
    policy: Policy
    state: EffectState
    version: int
    attempt: Attempt
    applied_at: int
    sends: int
    senders: tuple[str, ...]
    dead_at: int = 0
    generation: int = 0
    first: int = 1
    idempotent_ms: int = 0
    in_flight_ms: int = 0
    check_ms: int = 60_000
    next_check: int = 0
    sealed: bool = False
    reference: str = ""
    evidence: str = ""
    key_scope: str = ""
    scope: str = ""
    undo: int = 0
    undo_reference: str = ""
    checks: int = 0
    asked: str = ""
    finding: str = ""
    granted: bool = False


class OpenEffect(Struct, frozen=True, kw_only=True, gc=False):
    """A task's own note of an effect that has no settling evidence yet."""

    effect_id: str
    intent: str
    state: EffectState
    gate: Gate
    instance: str
    next_check: int
