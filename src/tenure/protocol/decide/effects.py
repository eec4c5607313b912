"""Effects: intent first, and an attempt before every call. What the calls show is in :mod:`.evidence`."""

from __future__ import annotations

from tenure.errors import Refused
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.authority import beyond, limits_for
from tenure.protocol.decide import guards
from tenure.protocol.decide.draft import Draft, Verdict
from tenure.protocol.decide.guards import loaded_effect
from tenure.protocol.decide.routing import in_force
from tenure.protocol.graph import Tool
from tenure.protocol.machines import EFFECT
from tenure.protocol.outside import Effect
from tenure.protocol.settings import HOUR
from tenure.protocol.state import Tenure
from tenure.protocol.vocabulary import EffectState, Finding, Phase, Purpose

E = EffectState

ACTS = frozenset({Purpose.APPLY, Purpose.COMPENSATE})
"""Calls that make or undo the effect: begun by the owner alone. The others find out, or keep it from happening."""

UNDOING = frozenset({E.COMPENSATING, E.COMPENSATION_FAILED})
"""States in which what is asked about is the compensation."""

WITHOUT_SUCCESS = frozenset({Phase.FAILED, Phase.CANCELLED})


def intend(draft: Draft, command: cmd.Intend) -> Verdict:
    """Record an intent with its first attempt; a repeat is answered from the record."""
    tenure, task = guards.acting_owner(draft, command), draft.task
    task.settings.check_policy(command.policy)
    _within_limits(draft, tenure, command)
    prior = _prior(draft, command)
    if prior is not None:
        if prior.compared != command.compared:
            detail = "Another request was recorded for this key; ask for another effect with another key."
            raise Refused("intent_conflict", detail, effect=prior)
        if not prior.state.settled:
            raise Refused("effect_open", f"{prior.effect_id} is {prior.state}.", effect=prior)
        if not _over(prior):
            return draft.verdict("already", effect=prior)
        # Where its key means nothing, it is another effect: who looks after it must ask where the call was made.
        if (prior.task_id, prior.key_scope) == (task.task_id, command.key_scope):
            _approved(draft, command)
            _attempt(draft, prior, _again(command, prior))
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
            key_scope=command.key_scope,
            scope=command.scope,
        )
    )
    return draft.verdict(effect=draft.effects[command.effect_id])


def _unsealed(draft: Draft, intent: str) -> int:
    """The first generation of an intent whose key nobody in the tree has sealed."""
    taken = (effect.generation + effect.sealed for effect in draft.books.effects if effect.intent == intent)
    return max(taken, default=0)


def _prior(draft: Draft, command: cmd.Intend) -> Effect | None:
    """The effect that decides on a repeat: one whose outcome stands before one that may be made again."""
    priors = [effect for effect in draft.books.effects if effect.intent == command.intent]
    here = (draft.task.task_id, command.key_scope)
    return min(priors, key=lambda effect: (_over(effect), (effect.task_id, effect.key_scope) != here), default=None)


def _over(effect: Effect) -> bool:
    """Whether nothing of an effect stands in the way of making it again: proven absent, or granted as such."""
    return effect.state is E.ABSENT or effect.granted


def _again(command: cmd.Intend, prior: Effect) -> cmd.AttemptEffect:
    """A repeated intent as one more call of the effect that it names."""
    return cmd.AttemptEffect(
        command_id=command.command_id,
        root_id=command.root_id,
        task_id=command.task_id,
        effect_id=prior.effect_id,
        version=prior.version,
        purpose=Purpose.APPLY,
        instance=command.instance,
        epoch=command.epoch,
        key_scope=command.key_scope,
    )


def attempt(draft: Draft, command: cmd.AttemptEffect) -> Verdict:
    """Commit a further provider call, if no other is in flight and it cannot act twice."""
    effect, purpose = loaded_effect(draft, command.effect_id), command.purpose
    if effect.version != command.version:
        raise Refused("version_conflict", f"It is at {effect.version}, you saw {command.version}.", effect=effect)
    if command.epoch:
        _may_act(guards.tenure_of(draft.task, command.epoch, command.instance), effect, purpose)
    elif purpose in ACTS:
        _may_go_on(draft, effect, purpose)
    _no_call_in_flight(draft, effect, command)
    if command.key_scope != effect.key_scope:
        raise Refused("attempt_unsafe", f"Its key counts in {effect.key_scope!r}, and means nothing elsewhere.")
    if purpose is Purpose.COMPENSATE:
        _may_undo(draft, effect)
    elif effect.state.settled and not (purpose is Purpose.APPLY and may_apply_again(effect, draft.now)):
        raise Refused("wrong_phase", f"It is settled: {effect.state}.", effect=effect)
    elif effect.state in UNDOING and purpose is not Purpose.LOOKUP:
        raise Refused("wrong_phase", f"It is {effect.state}.", effect=effect)
    elif purpose is Purpose.APPLY and not (may_apply_again(effect, draft.now) and _alone(draft, effect)):
        raise Refused("attempt_unsafe", f"It is {effect.state}, or its intent was taken up elsewhere.", effect=effect)
    _attempt(draft, effect, command)
    return draft.verdict(effect=draft.effects[effect.effect_id])


def _may_go_on(draft: Draft, effect: Effect, purpose: Purpose) -> None:
    """What somebody without the task may do to settle an effect: go on with what an owner has begun, by its policy.

    Raises:
        Refused: ``owner_needed``.
    """
    ended = draft.task.phase in WITHOUT_SUCCESS
    if purpose is Purpose.COMPENSATE:
        if effect.state in UNDOING or (orphaned(draft, effect, effect.state) and effect.next_check):
            return
        raise Refused("owner_needed", "Nobody has begun to compensate it.", effect=effect)
    unwanted = ended or draft.task.cancel is not None
    if effect.state is not E.IN_DOUBT or effect.policy.doubt != "retry" or unwanted:
        raise Refused("owner_needed", f"It is {effect.state}, and nobody else may make it happen.", effect=effect)


def orphaned(draft: Draft, effect: Effect, state: EffectState) -> bool:
    """Whether an effect in this state is to be undone, because its task has ended without success."""
    return state is E.CONFIRMED and effect.policy.orphan == "compensate" and draft.task.phase in WITHOUT_SUCCESS


def _may_undo(draft: Draft, effect: Effect) -> None:
    """Refuse a compensation that is not due, or could undo twice."""
    if E.COMPENSATING not in EFFECT[effect.state] and effect.state is not E.COMPENSATING:
        raise Refused("wrong_phase", f"It is {effect.state}; only what is confirmed can be compensated.")
    if effect.state is E.ATTESTED and effect.finding != Finding.PRESENT:
        raise Refused("wrong_phase", f"It was attested as {effect.finding}.", effect=effect)
    if effect.state is E.COMPENSATING and not inside_window(effect, draft.now):
        raise Refused("attempt_unsafe", "Another call could undo it twice.", effect=effect)
    if effect.state is E.ATTESTED and effect.undo:
        # That it was still there when a person looked does not keep an earlier compensation from landing yet.
        refuse_while_landing(effect, draft.now)


def refuse_while_landing(effect: Effect, now: int) -> None:
    """Refuse to act again on a person's word alone: no person can tell what is still on its way.

    Raises:
        Refused: ``attempt_unsafe``.
    """
    if effect.senders or not effect.dead_at:
        senders = ", ".join(effect.senders)
        raise Refused(
            "attempt_unsafe", f"{senders} may still send it: its process was not observed dead.", effect=effect
        )
    if now <= effect.dead_at + effect.in_flight_ms:
        raise Refused("attempt_unsafe", "What was sent may still land: the in-flight limit is not over.", effect=effect)


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

    True for an absent effect (its absence is proven), for one that a person has found absent and granted, and while it
    is in doubt, inside the provider's idempotency window for the same key. A lost lease, a time-out
    or "not found" alone prove nothing.
    """
    if effect.state is E.ABSENT or effect.granted:
        return True
    return effect.state is E.IN_DOUBT and inside_window(effect, now)


def inside_window(effect: Effect, now: int) -> bool:
    """Whether the provider still answers the same key from its record, wherever the request lands by then."""
    if effect.sealed or not effect.idempotent_ms:
        return False
    # It may land as late as the in-flight limit allows, and must still meet the window then.
    return now + effect.in_flight_ms < effect.applied_at + effect.idempotent_ms


def next_look(effect: Effect, now: int, *, found_out: bool = False) -> int:
    """When somebody should look again: later with each look that found nothing out, an hour apart at most."""
    in_vain = 0 if found_out else min(effect.checks, 16)
    return now + min(effect.check_ms << in_vain, max(effect.check_ms, HOUR))


def _attempt(draft: Draft, effect: Effect, command: cmd.AttemptEffect) -> None:
    purpose = command.purpose
    # A sealed key can never land again, not even for us: the next apply needs a key of its own.
    again = purpose is Purpose.APPLY and effect.state in (E.ABSENT, E.ATTESTED)
    # What failed to be undone is undone under a key of its own: systems answer a repeated key with its old failure.
    undo = purpose is Purpose.COMPENSATE and effect.state is not E.COMPENSATING
    facts = command if undo else effect
    draft.emit(
        ev.EffectAttempted(
            at=draft.now,
            effect_id=effect.effect_id,
            n=effect.attempt.n + 1,
            purpose=purpose,
            epoch=command.epoch,
            instance=command.instance,
            intent=effect.intent,
            gate=effect.policy.gate,
            next_check=next_look(effect, draft.now),
            generation=_unsealed(draft, effect.intent) if again else effect.generation,
            undo=effect.undo + undo,
            idempotent_ms=facts.idempotent_ms,
            in_flight_ms=facts.in_flight_ms,
        )
    )


def _no_call_in_flight(draft: Draft, effect: Effect, command: cmd.AttemptEffect) -> None:
    """Refuse a call beside one of the current owner, or of whoever reconciles. An owner's look-up blocks nobody."""
    current, tenure = effect.attempt, draft.task.tenure
    if not current.in_flight:
        return
    if current.epoch:
        owns = tenure is not None and (tenure.epoch, tenure.instance) == (current.epoch, current.instance)
        busy = owns and current.purpose is not Purpose.LOOKUP
    else:
        # Until the next look is due it is at it; later it may have died, and no proof is needed to look.
        busy = current.instance != command.instance and draft.now < effect.next_check
        busy = busy and (not command.epoch or current.purpose in ACTS)
    if busy:
        raise Refused("attempt_open", f"Attempt {current.n} ({current.purpose}) has no outcome yet.", effect=effect)
