"""Effects: intent first, an attempt before every call, evidence that names its attempt."""

from __future__ import annotations

from tenure.errors import Refused
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.authority import beyond, limits_for
from tenure.protocol.decide import guards
from tenure.protocol.decide.draft import Draft, Verdict
from tenure.protocol.decide.routing import in_force
from tenure.protocol.decide.working import after_settling
from tenure.protocol.graph import Tool
from tenure.protocol.machines import EFFECT, EVIDENCE, EVIDENCE_FROM, SHOWN_BY
from tenure.protocol.state import Effect, Tenure
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Purpose

E = EffectState
POSITIVE = frozenset({E.ACCEPTED, E.CONFIRMED})
"""What exists outside stays existing: such evidence counts from any attempt, also from an older one."""


ACTS = frozenset({Purpose.APPLY, Purpose.COMPENSATE})
"""Calls that make or undo the effect: the owner's alone. The others find out, or keep it from happening."""


def intend(draft: Draft, command: cmd.Intend) -> Verdict:
    """Record an intent with its first attempt; a repeat is answered from the record."""
    tenure, task = guards.acting_owner(draft, command), draft.task
    task.settings.check_policy(command.policy)
    _within_limits(draft, tenure, command)
    prior = _prior(draft, command.intent)
    if prior is not None:
        if prior.compared != command.compared:
            detail = "Another request was recorded for this key; ask for another effect with another key."
            raise Refused("intent_conflict", detail, effect=prior)
        if not prior.state.settled:
            raise Refused("effect_open", f"{prior.effect_id} is {prior.state}.", effect=prior)
        if prior.state is not E.ABSENT:
            return draft.verdict("already", effect=prior)
        if prior.task_id == task.task_id:
            _approved(draft, command)
            _attempt(draft, prior, Purpose.APPLY, command.epoch, command.instance)
            return draft.verdict(effect=draft.effects[prior.effect_id])
    if len(task.effects) >= task.settings.open_items:
        raise Refused("backlog_full", f"{len(task.effects)} effects are open.")
    if command.effect_id in draft.effects:
        raise Refused("invalid", f"The effect id {command.effect_id} is used.")
    approval = _approved(draft, command)
    draft.emit(
        ev.EffectIntended(
            at=draft.now,
            effect_id=command.effect_id,
            provider=command.provider,
            tool=command.tool,
            intent=command.intent,
            request=command.request.digest,
            compared=command.compared,
            policy=command.policy,
            epoch=command.epoch,
            instance=command.instance,
            idempotent_ms=command.idempotent_ms,
            in_flight_ms=command.in_flight_ms,
            check_ms=command.check_ms,
            generation=_unsealed(draft, command.intent),
            approval=approval,
        )
    )
    return draft.verdict(effect=draft.effects[command.effect_id])


def _unsealed(draft: Draft, intent: str) -> int:
    """The first generation of an intent whose key nobody in the tree has sealed."""
    taken = (effect.generation + effect.sealed for effect in draft.books.effects if effect.intent == intent)
    return max(taken, default=0)


def _prior(draft: Draft, intent: str) -> Effect | None:
    """The effect that decides on a repeat: one whose outcome stands before one that is proven absent."""
    priors = [effect for effect in draft.books.effects if effect.intent == intent]
    mine = draft.task.task_id
    return min(priors, key=lambda effect: (effect.state is E.ABSENT, effect.task_id != mine), default=None)


def attempt(draft: Draft, command: cmd.AttemptEffect) -> Verdict:
    """Commit a further provider call, if no other is in flight and it cannot act twice."""
    effect = _loaded(draft, command.effect_id)
    if effect.version != command.version:
        raise Refused("version_conflict", f"It is at {effect.version}, you saw {command.version}.", effect=effect)
    if command.epoch or command.purpose in ACTS:
        tenure = guards.tenure_of(draft.task, command.epoch, command.instance)
        _may_act(tenure, effect, command.purpose)
    _no_call_in_flight(draft, effect)
    if command.purpose is Purpose.COMPENSATE:
        if E.COMPENSATING not in EFFECT[effect.state]:
            raise Refused("wrong_phase", f"It is {effect.state}; only what is confirmed can be compensated.")
    elif effect.state.settled and (effect.state, command.purpose) != (E.ABSENT, Purpose.APPLY):
        raise Refused("wrong_phase", f"It is settled: {effect.state}.", effect=effect)
    elif command.purpose is Purpose.APPLY and not (may_apply_again(effect, draft.now) and _alone(draft, effect)):
        raise Refused("attempt_unsafe", f"It is {effect.state}, or its intent was taken up elsewhere.", effect=effect)
    _attempt(draft, effect, command.purpose, command.epoch, command.instance)
    return draft.verdict(effect=draft.effects[effect.effect_id])


def _alone(draft: Draft, effect: Effect) -> bool:
    """Whether no other effect of the tree has this intent, but for those that are proven absent."""
    return all(
        other.state is E.ABSENT or other.effect_id == effect.effect_id
        for other in draft.books.effects
        if other.intent == effect.intent
    )


def _may_use(tenure: Tenure, tool: str) -> dict[str, int | float]:
    """The limits under which the tenure may use a tool."""
    limits = limits_for(tenure.authority, tool)
    if limits is None:
        raise Refused("tool_not_allowed", f"{tenure.agent} may not use {tool}.", tool=tool)
    return limits


def _within_limits(draft: Draft, tenure: Tenure, command: cmd.Intend) -> None:
    """Hold the request to the limits of the tenure's grant and to those of the tool."""
    node = _tool(draft, command.tool)
    for limits in (_may_use(tenure, command.tool), node.limits if node else {}):
        over = beyond(limits, command.request.value()) if limits else ""
        if over:
            raise Refused("limit_exceeded", f"{command.tool}: {over}.", tool=command.tool)


def _approved(draft: Draft, command: cmd.Intend) -> str:
    """The question by which a person approved exactly this call; empty when its tool needs no approval.

    Raises:
        Refused: ``approval_required``, ``not_approved``.
    """
    node = _tool(draft, command.tool)
    if node is None or not node.approval:
        return ""
    for word in draft.task.approvals:
        if (word.intent, word.arguments) == (command.intent, command.arguments) and word.until > draft.now:
            if not word.granted:
                raise Refused("not_approved", f"{word.by} has refused {command.tool}.", tool=command.tool)
            return word.question_id
    raise Refused("approval_required", f"{command.tool} with exactly these arguments.", tool=command.tool)


def _tool(draft: Draft, name: str) -> Tool | None:
    graph = in_force(draft)
    return graph.tools.get(name) if graph is not None else None


def _may_act(tenure: Tenure, effect: Effect, purpose: Purpose) -> None:
    """What somebody else began is not done again, nor undone, with an authority that its new owner has not."""
    if purpose in ACTS:
        _may_use(tenure, effect.tool)
        if tenure.retiring is not None:
            raise Refused("retiring")


def may_apply_again(effect: Effect, now: int) -> bool:
    """Whether one more ``apply`` cannot make the effect happen twice.

    True for an absent effect (its absence is proven) and, while it is in doubt, inside the provider's idempotency
    window for the same key. A lost lease, a time-out or "not found" alone prove nothing.
    """
    if effect.state is E.ABSENT:
        return True
    if effect.state is not E.IN_DOUBT or effect.sealed:
        return False
    # It may land as late as the in-flight limit allows, and must still meet the window then.
    return effect.idempotent_ms > 0 and now + effect.in_flight_ms < effect.applied_at + effect.idempotent_ms


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
    effect = _loaded(draft, command.effect_id)
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


def attest(draft: Draft, command: cmd.Attest) -> Verdict:
    """Take a person's word on an effect that is accepted, in doubt or disputed, bound to the version that was seen."""
    effect = _loaded(draft, command.effect_id)
    if effect.version != command.version:
        raise Refused("version_conflict", f"It is at {effect.version}, you saw {command.version}.", effect=effect)
    if effect.state is E.ACCEPTED:
        # A person who must speak for the provider says that the provider's own word is not to be had: a doubt.
        _state(draft, effect, command, E.IN_DOUBT, EvidenceKind.NONE)
    elif E.ATTESTED not in EFFECT[effect.state]:
        raise Refused("wrong_phase", f"It is {effect.state}.", effect=effect)
    _state(draft, effect, command, E.ATTESTED, EvidenceKind.ATTESTATION)
    after_settling(draft)
    return draft.verdict(effect=draft.effects[effect.effect_id])


def _state(draft: Draft, effect: Effect, command: cmd.Attest, state: EffectState, evidence: EvidenceKind) -> None:
    """One step of what a person says."""
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
            next_check=0 if state.settled else draft.now + effect.check_ms,
            body=command.body.digest,
        )
    )


def _speaks(effect: Effect, command: cmd.RecordOutcome, *, newest: bool) -> None:
    """Refuse evidence of a kind that cannot show what it is brought for."""
    if command.state not in EVIDENCE[command.evidence]:
        raise Refused("evidence_insufficient", f"{command.evidence} does not speak for {command.state}.")
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
    if not newest and state not in POSITIVE:
        return ()
    if state is E.IN_DOUBT and effect.state is not E.INTENDED:
        return (effect.state,)
    if state is E.ABSENT:
        return _absent_path(effect, command)
    if state is not effect.state and state not in EFFECT[effect.state]:
        raise Refused("evidence_insufficient", f"{effect.state} cannot become {state}.", effect=effect)
    return (state,)


def _absent_path(effect: Effect, command: cmd.RecordOutcome) -> tuple[EffectState, ...]:
    """Absence is reached through doubt, and only with its proof."""
    if command.evidence is EvidenceKind.NOT_FOUND_AFTER_DEATH and not absence_proven(effect):
        raise Refused("evidence_insufficient", "Absence is not proven yet.", effect=effect)
    if command.evidence is EvidenceKind.NOT_SENT and effect.sends > 1:
        # This request did not leave, but an earlier one of the same key may have: nothing is known beyond before.
        return (effect.state,)
    if effect.state is E.INTENDED:
        return (E.IN_DOUBT, E.ABSENT)
    if E.ABSENT not in EFFECT[effect.state]:
        raise Refused("evidence_insufficient", f"{effect.state} cannot become absent.", effect=effect)
    return (E.ABSENT,)


_AGREES = {
    E.CONFIRMED: frozenset({E.CONFIRMED, E.COMPENSATED, E.ATTESTED}),
    E.ACCEPTED: frozenset({E.CONFIRMED, E.COMPENSATED, E.ATTESTED, E.FAILED, E.CANCELLED}),
    E.REFUSED: frozenset({E.ABSENT}),
    E.ABSENT: frozenset({E.REFUSED}),
}
"""Settled states that evidence agrees with although it names another: a sealed key's late request is refused."""


def _contradiction(effect: Effect, command: cmd.RecordOutcome) -> tuple[EffectState, ...]:
    """Evidence against a settled state makes a visible dispute; what agrees, or says nothing, moves nothing."""
    if command.state is E.IN_DOUBT or E.DISPUTED not in EFFECT[effect.state]:
        return ()
    agrees = command.state is effect.state or effect.state in _AGREES.get(command.state, frozenset())
    other_reference = bool(command.reference and effect.reference and command.reference != effect.reference)
    return () if agrees and not other_reference else (E.DISPUTED,)


def _observe(draft: Draft, effect: Effect, command: cmd.RecordOutcome, state: EffectState) -> None:
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
            next_check=0 if state.settled else draft.now + effect.check_ms,
            reference=command.reference,
            body=command.body.digest if command.body else "",
            not_found=command.not_found,
        )
    )


def _attempt(draft: Draft, effect: Effect, purpose: Purpose, epoch: int, instance: str) -> None:
    # A sealed key can never land again, not even for us: the next apply needs a key of its own.
    fresh = purpose is Purpose.APPLY and effect.state is E.ABSENT
    generation = _unsealed(draft, effect.intent) if fresh else effect.generation
    draft.emit(
        ev.EffectAttempted(
            at=draft.now,
            effect_id=effect.effect_id,
            n=effect.attempt.n + 1,
            purpose=purpose,
            epoch=epoch,
            instance=instance,
            intent=effect.intent,
            gate=effect.policy.gate,
            next_check=draft.now + effect.check_ms,
            generation=generation,
        )
    )


def _no_call_in_flight(draft: Draft, effect: Effect) -> None:
    """Refuse a call beside one that the current owner has in flight. A look-up blocks nobody."""
    current = effect.attempt
    tenure = draft.task.tenure
    sender_owns = tenure is not None and tenure.epoch == current.epoch and tenure.instance == current.instance
    if current.in_flight and current.purpose is not Purpose.LOOKUP and sender_owns:
        raise Refused("attempt_open", f"Attempt {current.n} ({current.purpose}) has no outcome yet.", effect=effect)


def _loaded(draft: Draft, effect_id: str) -> Effect:
    effect = draft.effects.get(effect_id)
    if effect is None or effect.task_id != draft.task.task_id:
        raise Refused("unknown_effect", effect_id)
    return effect
