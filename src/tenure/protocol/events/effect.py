"""Events of effects outside."""

from __future__ import annotations

from tenure.protocol.events.base import EventBase
from tenure.protocol.settings import Policy
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Gate, Purpose, Reason


class EffectIntended(EventBase, frozen=True, kw_only=True, tag="effect.intended"):
    """An effect and its first attempt, before the provider is called.

    ``generation`` is above 0 when the intent's key was sealed for another task of the tree. ``approval`` names the
    question by which a person approved it, where its tool needs that.
    """

    effect_id: str
    provider: str
    tool: str
    intent: str
    request: str
    compared: str
    policy: Policy
    epoch: int
    instance: str
    idempotent_ms: int = 0
    in_flight_ms: int = 0
    check_ms: int = 60_000
    generation: int = 0
    approval: str = ""
    key_scope: str = ""
    scope: str = ""


class EffectAttempted(EventBase, frozen=True, kw_only=True, tag="effect.attempted"):
    """A further provider call is about to be made. ``undo`` is the generation of the compensation that it is for."""

    effect_id: str
    n: int
    purpose: Purpose
    epoch: int
    instance: str
    intent: str
    gate: Gate
    next_check: int
    generation: int = 0
    undo: int = 0
    idempotent_ms: int = 0
    in_flight_ms: int = 0


class EffectObserved(EventBase, frozen=True, kw_only=True, tag="effect.observed"):
    """Evidence of an attempt, and the state that it leads to (which may be the state before).

    ``source`` is the call that yielded it, or ``person``; ``finding`` and ``granted`` are a person's.
    """

    effect_id: str
    attempt: int
    state: EffectState
    evidence: EvidenceKind
    observer: str
    intent: str
    gate: Gate
    next_check: int
    reference: str = ""
    body: str = ""
    not_found: bool = False
    source: str = ""
    finding: str = ""
    granted: bool = False


class EffectAsked(EventBase, frozen=True, kw_only=True, tag="effect.asked"):
    """A person is asked about an open effect and answers for it from now on."""

    effect_id: str
    who: str
    by: str
    reason: Reason
    intent: str
    gate: Gate
    next_check: int


class EffectSenderDied(EventBase, frozen=True, kw_only=True, tag="effect.sender_died"):
    """The process of an instance that called the provider was observed dead."""

    effect_id: str
    instance: str
