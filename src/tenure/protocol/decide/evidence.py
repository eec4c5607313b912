"""What the calls of an effect have shown, what a person says of it, and when one is asked."""

from __future__ import annotations

from tenure.errors import Refused
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.decide import guards
from tenure.protocol.decide.draft import Draft, Verdict
from tenure.protocol.decide.effects import UNDOING, next_look, orphaned, refuse_while_landing
from tenure.protocol.decide.guards import loaded_effect
from tenure.protocol.decide.working import after_settling
from tenure.protocol.evidence import EVIDENCE, EVIDENCE_FROM, FINDINGS, SHOWN_BY
from tenure.protocol.machines import EFFECT
from tenure.protocol.outside import Effect
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Finding

E = EffectState
POSITIVE = frozenset({E.ACCEPTED, E.CONFIRMED})
"""What exists outside stays existing: such evidence counts from any attempt, also from an older one."""


def absence_proven(effect: Effect) -> bool:
    """Whether "not found" by the newest attempt means absent.

    Every sender was observed dead, the provider's in-flight limit had passed after that, and only then the look-up
    was begun.
    """
    if effect.senders or not effect.dead_at or not effect.in_flight_ms:
        return False
    return effect.attempt.at > effect.dead_at + effect.in_flight_ms


def record_outcome(draft: Draft, command: cmd.RecordOutcome) -> Verdict:
    """Take evidence of an attempt: it may settle the effect under any epoch, and moves no ownership."""
    effect = loaded_effect(draft, command.effect_id)
    if not 1 <= command.attempt <= effect.attempt.n:
        raise Refused("invalid", f"There is no attempt {command.attempt}.")
    newest = effect.attempt.n == command.attempt
    if newest and effect.attempt.instance != command.instance:
        raise guards.stale(draft.task, command.epoch, command.instance)
    _speaks(effect, command, newest=newest)
    late = command.epoch > 0 and not guards.owns(draft.task, command.epoch, command.instance)
    if late:
        draft.emit(
            ev.LateRecorded(
                at=draft.now,
                command=f"outcome:{command.state}",
                epoch=command.epoch,
                instance=command.instance,
                effect_id=effect.effect_id,
                body=command.body.digest if command.body else "",
            )
        )
    for state in _path(effect, command, newest=newest):
        _observe(draft, effect, command, state)
    if draft.changes:
        after_settling(draft)
    return draft.verdict("late" if late else "done", effect=draft.effects[effect.effect_id])


def ask(draft: Draft, command: cmd.AskAboutEffect) -> Verdict:
    """Ask a person about an effect, once: from then on that person answers for it."""
    effect = loaded_effect(draft, command.effect_id)
    _seen(effect, command.version)
    if effect.state.settled and not effect.next_check:
        raise Refused("wrong_phase", f"It is settled: {effect.state}.", effect=effect)
    if effect.asked:
        return draft.verdict("already", effect=effect)
    draft.emit(
        ev.EffectAsked(
            at=draft.now,
            effect_id=effect.effect_id,
            who=draft.task.settings.fallback,
            by=command.instance,
            reason=command.reason,
            intent=effect.intent,
            gate=effect.policy.gate,
            next_check=next_look(effect, draft.now),
        )
    )
    return draft.verdict(effect=draft.effects[effect.effect_id])


def attest(draft: Draft, command: cmd.Attest) -> Verdict:
    """Take a person's word on an effect, bound to the version that was seen."""
    effect = loaded_effect(draft, command.effect_id)
    _seen(effect, command.version)
    if command.finding not in FINDINGS.get(effect.state, ()):
        raise Refused("wrong_phase", f"It is {effect.state}; it cannot be attested as {command.finding}.")
    if command.retry:
        _may_grant(draft, effect, command)
    if effect.state is E.ACCEPTED:
        # A person who must speak for the provider says that the provider's own word is not to be had: a doubt.
        _attested(draft, effect, command, E.IN_DOUBT, EvidenceKind.NONE)
    _attested(draft, effect, command, E.ATTESTED, EvidenceKind.ATTESTATION)
    after_settling(draft)
    return draft.verdict(effect=draft.effects[effect.effect_id])


def _seen(effect: Effect, version: int) -> None:
    if effect.version != version:
        raise Refused("version_conflict", f"It is at {effect.version}, you saw {version}.", effect=effect)


def _may_grant(draft: Draft, effect: Effect, command: cmd.Attest) -> None:
    """A person may stand in for a look-up that found nothing, not for the proof that nothing can land any more."""
    if command.finding is not Finding.ABSENT:
        raise Refused("invalid", "Only what is absent can be tried again.")
    refuse_while_landing(effect, draft.now)


def _attested(draft: Draft, effect: Effect, command: cmd.Attest, state: EffectState, evidence: EvidenceKind) -> None:
    """One step of what a person says."""
    settled = state.settled
    draft.emit(
        ev.EffectObserved(
            at=draft.now,
            effect_id=effect.effect_id,
            attempt=0,
            state=state,
            evidence=evidence,
            observer=command.by,
            intent=effect.intent,
            gate=effect.policy.gate,
            next_check=0 if settled else next_look(effect, draft.now),
            body=command.body.digest,
            source="person",
            finding=str(command.finding) if settled else "",
            granted=settled and command.retry,
        )
    )


def _speaks(effect: Effect, command: cmd.RecordOutcome, *, newest: bool) -> None:
    """Refuse evidence of a kind that cannot show what it is brought for."""
    if command.state not in EVIDENCE[command.evidence]:
        raise Refused("evidence_insufficient", f"{command.evidence} does not speak for {command.state}.")
    if command.evidence is EvidenceKind.ATTESTATION:
        raise Refused("evidence_insufficient", "No call shows it: a person attests what was found, at a version.")
    sources = EVIDENCE_FROM.get(command.evidence)
    if newest and sources is not None and effect.attempt.purpose not in sources:
        raise Refused("evidence_insufficient", f"A call to {effect.attempt.purpose} cannot show {command.evidence}.")
    shown = SHOWN_BY.get(effect.attempt.purpose)
    if newest and shown is not None and command.state not in shown:
        raise Refused("evidence_insufficient", f"A call to {effect.attempt.purpose} cannot show {command.state}.")


def _path(effect: Effect, command: cmd.RecordOutcome, *, newest: bool) -> tuple[EffectState, ...]:
    """The states that evidence leads through; empty when it is kept but moves nothing."""
    state = command.state
    if effect.state.settled:
        return _contradiction(effect, command)
    if effect.state in UNDOING:
        return _undoing_path(effect, command, newest=newest)
    if not newest and state not in POSITIVE:
        return ()
    if state is E.IN_DOUBT and effect.state is not E.INTENDED:
        return (effect.state,)
    if state is E.ABSENT:
        return _absent_path(effect, command)
    if state is not effect.state and state not in EFFECT[effect.state]:
        raise Refused("evidence_insufficient", f"{effect.state} cannot become {state}.", effect=effect)
    return (state,)


def _undoing_path(effect: Effect, command: cmd.RecordOutcome, *, newest: bool) -> tuple[EffectState, ...]:
    """What evidence means while an effect is compensated: only the fate of the compensation is open."""
    state = command.state
    if state is E.COMPENSATED:
        # The record says that it failed, and somebody has seen it done: visible, and for a person.
        return (E.COMPENSATED,) if effect.state is E.COMPENSATING else (E.DISPUTED,)
    if not newest or state in POSITIVE:
        return ()
    if state is E.IN_DOUBT:
        return (effect.state,)
    if state is not E.COMPENSATION_FAILED:
        raise Refused("evidence_insufficient", f"{effect.state} cannot become {state}.", effect=effect)
    if not _shows_absence(effect, command):
        return (effect.state,)
    return (E.COMPENSATION_FAILED,)


def _shows_absence(effect: Effect, command: cmd.RecordOutcome) -> bool:
    """Whether evidence that something did not happen is enough.

    Raises:
        Refused: ``evidence_insufficient`` when the proof of absence is missing.
    """
    if command.evidence is EvidenceKind.NOT_FOUND_AFTER_DEATH and not absence_proven(effect):
        raise Refused("evidence_insufficient", "Absence is not proven yet.", effect=effect)
    # This request did not leave, but an earlier one of the same key may have: nothing is known beyond before.
    return not (command.evidence is EvidenceKind.NOT_SENT and effect.sends > 1)


def _absent_path(effect: Effect, command: cmd.RecordOutcome) -> tuple[EffectState, ...]:
    """Absence is reached through doubt, and only with its proof."""
    if not _shows_absence(effect, command):
        return (effect.state,)
    if effect.state is E.INTENDED:
        return (E.IN_DOUBT, E.ABSENT)
    if E.ABSENT not in EFFECT[effect.state]:
        raise Refused("evidence_insufficient", f"{effect.state} cannot become absent.", effect=effect)
    return (E.ABSENT,)


_AGREES = {
    E.CONFIRMED: frozenset({E.CONFIRMED, E.COMPENSATED}),
    E.ACCEPTED: frozenset({E.CONFIRMED, E.COMPENSATED, E.FAILED, E.CANCELLED}),
    E.REFUSED: frozenset({E.ABSENT}),
    E.ABSENT: frozenset({E.REFUSED}),
}
"""Settled states that evidence agrees with although it names another: a sealed key's late request is refused."""


def _agrees(effect: Effect, state: EffectState) -> bool:
    """Whether evidence for a state says nothing against what is settled."""
    if effect.state is not E.ATTESTED:
        return state is effect.state or effect.state in _AGREES.get(state, frozenset())
    if effect.finding == Finding.ABSENT:
        return state in (E.ABSENT, E.REFUSED)
    return state in POSITIVE or (state is E.COMPENSATED and effect.finding == Finding.UNDONE)


def _contradiction(effect: Effect, command: cmd.RecordOutcome) -> tuple[EffectState, ...]:
    """Evidence against a settled state makes a visible dispute; what agrees, or says nothing, moves nothing."""
    if command.state is E.IN_DOUBT or E.DISPUTED not in EFFECT[effect.state]:
        return ()
    if command.attempt < effect.first and command.state not in POSITIVE:
        return ()  # that its sealed key was refused was known before it was done under another
    if command.evidence is EvidenceKind.NOT_SENT and (effect.sends > 1 or effect.undo):
        return ()  # that one request did not leave says nothing of the others
    other_reference = bool(
        command.reference and effect.reference and command.reference != effect.reference and command.state in POSITIVE
    )
    return () if _agrees(effect, command.state) and not other_reference else (E.DISPUTED,)


def _observe(draft: Draft, effect: Effect, command: cmd.RecordOutcome, state: EffectState) -> None:
    newest = effect.attempt.n == command.attempt
    check = draft.now if orphaned(draft, effect, state) else 0
    found_out = command.evidence is not EvidenceKind.NONE
    draft.emit(
        ev.EffectObserved(
            at=draft.now,
            effect_id=effect.effect_id,
            attempt=command.attempt,
            state=state,
            evidence=command.evidence,
            observer=command.instance,
            intent=effect.intent,
            gate=effect.policy.gate,
            next_check=check if state.settled else next_look(effect, draft.now, found_out=found_out),
            reference=command.reference,
            body=command.body.digest if command.body else "",
            not_found=command.not_found,
            source=str(effect.attempt.purpose) if newest else "",
        )
    )
