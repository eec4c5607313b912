"""How an effect changes, and the note that its task keeps of it while it is open."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tenure.errors import Refused
from tenure.protocol import events as ev
from tenure.protocol.machines import EFFECT
from tenure.protocol.outside import Attempt, Effect, OpenEffect
from tenure.protocol.state import Task
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
    if isinstance(event, ev.EffectAsked):
        return replace(effect, version=effect.version + 1, asked=event.who, next_check=event.next_check)
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
        key_scope=event.key_scope,
        scope=event.scope,
    )


def _attempted(effect: Effect, event: ev.EffectAttempted) -> Effect:
    attempt = Attempt(n=event.n, purpose=event.purpose, epoch=event.epoch, instance=event.instance, at=event.at)
    changed = replace(
        effect,
        version=effect.version + 1,
        attempt=attempt,
        next_check=event.next_check,
        checks=0 if event.epoch else effect.checks + 1,
    )
    if event.purpose not in (Purpose.APPLY, Purpose.COMPENSATE):
        return changed
    if event.purpose is Purpose.COMPENSATE:
        fresh, state = event.undo > effect.undo, EffectState.COMPENSATING
    else:
        fresh = effect.state in (EffectState.ABSENT, EffectState.ATTESTED)
        state = EffectState.INTENDED if fresh else effect.state
    return replace(
        changed,
        state=move_effect(effect.state, state),
        applied_at=event.at if fresh else effect.applied_at,
        sends=1 if fresh else effect.sends + 1,
        senders=(event.instance,) if fresh else (*(s for s in effect.senders if s != event.instance), event.instance),
        dead_at=0,
        generation=event.generation,
        first=event.n if fresh and event.purpose is Purpose.APPLY else effect.first,
        sealed=effect.sealed and not fresh,
        undo=event.undo,
        undo_reference="" if fresh else effect.undo_reference,
        idempotent_ms=event.idempotent_ms,
        in_flight_ms=event.in_flight_ms,
        asked="" if fresh else effect.asked,
        finding="" if fresh else effect.finding,
        granted=False,
    )


def _observed(effect: Effect, event: ev.EffectObserved) -> Effect:
    attempt = effect.attempt
    # Attempt 0 is the ledger's own word at the end of a tenure: whatever was in flight has no answer.
    if event.attempt in (0, attempt.n):
        attempt = replace(attempt, in_flight=False)
    undoing = effect.state in (EffectState.COMPENSATING, EffectState.COMPENSATION_FAILED)
    return replace(
        effect,
        version=effect.version + 1,
        state=move_effect(effect.state, event.state),
        attempt=attempt,
        reference=effect.reference if undoing else event.reference or effect.reference,
        undo_reference=event.reference or effect.undo_reference if undoing else effect.undo_reference,
        evidence=event.body or effect.evidence,
        sealed=effect.sealed or event.evidence is EvidenceKind.SEALED,
        next_check=event.next_check,
        # What is found out, if only that a job goes on, is no doubt to be spaced out.
        checks=effect.checks if event.evidence is EvidenceKind.NONE else 0,
        asked="" if event.state.settled else effect.asked,
        finding=event.finding or effect.finding,
        granted=event.granted,
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
    if isinstance(event, ev.EffectAsked) and len(kept) == len(notes):
        return notes  # it is settled, and stays so
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


def _state_after(
    before: OpenEffect | None, event: ev.EffectAttempted | ev.EffectObserved | ev.EffectAsked
) -> EffectState:
    if isinstance(event, ev.EffectObserved):
        return event.state
    if isinstance(event, ev.EffectAttempted) and event.purpose is Purpose.COMPENSATE:
        return EffectState.COMPENSATING
    if before is not None:
        return before.state
    # Of the settled ones, only what is absent is called again without compensation.
    return EffectState.INTENDED
