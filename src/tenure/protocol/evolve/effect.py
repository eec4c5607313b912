"""How an effect changes, and the note that its task keeps of it while it is open."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tenure.errors import Refused
from tenure.protocol import events as ev
from tenure.protocol.machines import EFFECT
from tenure.protocol.state import Attempt, Effect, OpenEffect, Task
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Purpose


def move_effect(state: EffectState, target: EffectState) -> EffectState:
    """Look one move of an effect up; staying in place is always allowed.

    Raises:
        Refused: ``wrong_phase`` when the table has no such move.
    """
    if target is not state and target not in EFFECT[state]:
        raise Refused("wrong_phase", f"An effect cannot go from {state} to {target}.")
    return target


def evolve_effect(effect: Effect | None, event: ev.Event, task: Task) -> Effect | None:
    """The effect after an event of its task; ``None`` before ``effect.intended``."""
    if isinstance(event, ev.EffectIntended):
        return _intended(event, task)
    if effect is None or getattr(event, "effect_id", "") != effect.effect_id:
        return effect
    if isinstance(event, ev.EffectAttempted):
        return _attempted(effect, event)
    if isinstance(event, ev.EffectObserved):
        return _observed(effect, event)
    if isinstance(event, ev.EffectSenderDied):
        senders = tuple(name for name in effect.senders if name != event.instance)
        return replace(effect, version=effect.version + 1, senders=senders, dead_at=event.at)
    return effect


def _intended(event: ev.EffectIntended, task: Task) -> Effect:
    attempt = Attempt(n=1, purpose=Purpose.APPLY, epoch=event.epoch, instance=event.instance, at=event.at)
    return Effect(
        effect_id=event.effect_id,
        root_id=task.root_id,
        task_id=task.task_id,
        provider=event.provider,
        tool=event.tool,
        intent=event.intent,
        request=event.request,
        compared=event.compared,
        policy=event.policy,
        state=EffectState.INTENDED,
        version=1,
        attempt=attempt,
        applied_at=event.at,
        sends=1,
        senders=(event.instance,),
        idempotent_ms=event.idempotent_ms,
        in_flight_ms=event.in_flight_ms,
        check_ms=event.check_ms,
        generation=event.generation,
        next_check=event.at + event.check_ms,
    )


def _attempted(effect: Effect, event: ev.EffectAttempted) -> Effect:
    attempt = Attempt(n=event.n, purpose=event.purpose, epoch=event.epoch, instance=event.instance, at=event.at)
    changed = replace(effect, version=effect.version + 1, attempt=attempt, next_check=event.next_check)
    if event.purpose is Purpose.COMPENSATE:
        return replace(changed, state=move_effect(effect.state, EffectState.COMPENSATING))
    if event.purpose is not Purpose.APPLY:
        return changed
    state = EffectState.INTENDED if effect.state is EffectState.ABSENT else effect.state
    fresh = event.generation > effect.generation or effect.state is EffectState.ABSENT
    return replace(
        changed,
        state=move_effect(effect.state, state),
        applied_at=event.at if fresh else effect.applied_at,
        sends=1 if fresh else effect.sends + 1,
        senders=(event.instance,) if fresh else (*(s for s in effect.senders if s != event.instance), event.instance),
        dead_at=0,
        generation=event.generation,
        sealed=effect.sealed and not fresh,
    )


def _observed(effect: Effect, event: ev.EffectObserved) -> Effect:
    attempt = effect.attempt
    # Attempt 0 is the ledger's own word at the end of a tenure: whatever was in flight has no answer.
    if event.attempt in (0, attempt.n):
        attempt = replace(attempt, in_flight=False)
    return replace(
        effect,
        version=effect.version + 1,
        state=move_effect(effect.state, event.state),
        attempt=attempt,
        reference=event.reference or effect.reference,
        evidence=event.body or effect.evidence,
        sealed=effect.sealed or event.evidence is EvidenceKind.SEALED,
        next_check=event.next_check,
    )


def note_effect(notes: tuple[OpenEffect, ...], event: Any) -> tuple[OpenEffect, ...]:
    """A task's notes of open effects after an effect's event: settled ones leave, reopened ones come back."""
    if isinstance(event, ev.EffectIntended):
        note = OpenEffect(
            effect_id=event.effect_id,
            intent=event.intent,
            state=EffectState.INTENDED,
            gate=event.policy.gate,
            instance=event.instance,
            next_check=event.at + event.check_ms,
        )
        return (*notes, note)
    kept = tuple(note for note in notes if note.effect_id != event.effect_id)
    before = next((note for note in notes if note.effect_id == event.effect_id), None)
    state = _state_after(before, event)
    if state.settled:
        return kept
    instance = event.instance if isinstance(event, ev.EffectAttempted) else before.instance if before else ""
    note = OpenEffect(
        effect_id=event.effect_id,
        intent=event.intent,
        state=state,
        gate=event.gate,
        instance=instance,
        next_check=event.next_check,
    )
    return (*kept, note)


def _state_after(before: OpenEffect | None, event: ev.EffectAttempted | ev.EffectObserved) -> EffectState:
    if isinstance(event, ev.EffectObserved):
        return event.state
    if event.purpose is Purpose.COMPENSATE:
        return EffectState.COMPENSATING
    if before is not None:
        return before.state
    # Of the settled ones, only an absent effect is called again without compensation.
    return EffectState.INTENDED
