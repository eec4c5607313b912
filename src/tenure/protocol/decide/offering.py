"""Offers: issue, claim, acknowledge, grant, decline, and what follows when one lapses."""

from __future__ import annotations

from tenure.errors import Refused
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.decide import guards
from tenure.protocol.decide.draft import Draft, Verdict
from tenure.protocol.decide.ending import end_hop, escalate
from tenure.protocol.decide.routing import still_allowed
from tenure.protocol.state import Candidate, Offer, Task
from tenure.protocol.vocabulary import (
    Gate,
    HandoffState,
    OfferKind,
    OfferState,
    Reason,
)

REFUSALS_OF_AGENT = frozenset({Reason.DECLINED, Reason.CAPABILITY, Reason.PERMISSION})
"""Reasons that speak about the agent, so that the same agent is not asked again."""
REASONS_TO_DECLINE = (*sorted(REFUSALS_OF_AGENT), Reason.START_FAILED)
"""What a candidate may say. That a time is over is for the ledger to say."""


def claim(draft: Draft, command: cmd.Claim) -> Verdict:
    """Pick an offer up: the first commit wins."""
    offer = guards.open_offer(draft, command.epoch)
    guards.candidate(offer, command.agent)
    _not_lapsed(offer, draft.now)
    if offer.pickup is not None:
        if guards.picked_up_by(offer, command.agent, command.instance):
            return draft.verdict()
        raise Refused("already_claimed", f"{offer.pickup.agent} holds it.", agent=offer.pickup.agent)
    _pick_up(draft, command.agent, command.instance)
    return draft.verdict()


def acknowledge(draft: Draft, command: cmd.Acknowledge) -> Verdict:
    """Confirm the sender's part; owns the task at once unless the gate still waits."""
    offer = guards.open_offer(draft, command.epoch)
    guards.candidate(offer, command.agent)
    _not_lapsed(offer, draft.now)
    if command.digest != offer.payload:
        raise Refused("wrong_digest", f"Expected {offer.payload}.", expected=offer.payload)
    if offer.state is OfferState.ACKNOWLEDGED:
        raise Refused("already_claimed", "It has been acknowledged and waits for the gate.")
    if offer.pickup is None:
        _pick_up(draft, command.agent, command.instance)
    elif not guards.picked_up_by(offer, command.agent, command.instance):
        raise Refused("already_claimed", f"{offer.pickup.agent} holds it.", agent=offer.pickup.agent)
    readback = command.readback.digest if command.readback else ""
    gate_by = draft.now + draft.task.settings.gate_ms
    draft.emit(ev.OfferAcknowledged(at=draft.now, digest=command.digest, gate_by=gate_by, readback=readback))
    blocked = grant_if_gate_met(draft)
    return draft.verdict("gate" if blocked else "done", blocked_by=blocked)


def decline(draft: Draft, command: cmd.Decline) -> Verdict:
    """Turn an offer down, with a reason."""
    offer = guards.open_offer(draft, command.epoch)
    guards.candidate(offer, command.agent)
    if command.reason not in REASONS_TO_DECLINE:
        raise Refused("invalid", f"{command.reason!r} is no reason to decline; use {', '.join(REASONS_TO_DECLINE)}.")
    if not guards.awaiting_ack(offer):
        raise Refused("already_claimed", "It has been acknowledged.")
    if offer.pickup is not None and not guards.picked_up_by(offer, command.agent, command.instance):
        raise Refused("already_claimed", f"{offer.pickup.agent} holds it.", agent=offer.pickup.agent)
    detail = command.detail.digest if command.detail else ""
    draft.emit(ev.OfferDeclined(at=draft.now, agent=command.agent, reason=command.reason, detail=detail))
    again(draft, offer, command.reason, declined_by=command.agent)
    return draft.verdict()


def grant_if_gate_met(draft: Draft) -> tuple[str, ...]:
    """Grant an acknowledged offer once nothing stands in the way; return what does."""
    task = draft.task
    offer = task.offer
    if offer is None or offer.state is not OfferState.ACKNOWLEDGED or offer.pickup is None:
        return ()
    if offer.gate is not None:
        blocked = guards.standing_in_the_way(task, offer.gate)
        if blocked:
            return blocked
    entry = guards.candidate(offer, offer.pickup.agent)
    draft.emit(
        ev.TenureGranted(
            at=draft.now,
            agent=offer.pickup.agent,
            instance=offer.pickup.instance,
            authority=guards.authority_of(task, entry),
            window_ms=draft.now - task.vacant_since,
            works=tuple(work.work_id for work in task.works),
            effects=tuple(note.effect_id for note in task.effects),
            children=tuple(child.child_id for child in task.children),
            received=task.received,
            consumed=task.consumed,
        )
    )
    return ()


def issue(
    draft: Draft,
    kind: OfferKind,
    candidates: tuple[Candidate, ...],
    reason: Reason,
    *,
    handoff_id: str = "",
    gate: Gate | None = Gate.ROUTING_RETIRED,
    index: int = 0,
    attempt: int = 1,
) -> None:
    """Open the task to its candidates, within what is left of the transition window."""
    task = draft.task
    deadline = draft.now + task.settings.pickup_ms
    if handoff_id:
        deadline = min(draft.now + (task.hops[-1].pickup_ms or task.settings.pickup_ms), window_end(task))
    draft.emit(
        ev.OfferIssued(
            at=draft.now,
            kind=kind,
            candidates=candidates,
            deadline=deadline,
            payload=task.payload,
            index=index,
            attempt=attempt,
            handoff_id=handoff_id,
            reason=reason,
            gate=gate,
            graph=task.graph,
        )
    )


def again(draft: Draft, offer: Offer, reason: Reason, *, declined_by: str = "") -> None:
    """Re-issue a lapsed or declined offer to the next attempt or candidate, or apply its fallback."""
    task = draft.task
    candidates, index = offer.candidates, offer.index + 1
    if declined_by and reason in REFUSALS_OF_AGENT:
        candidates = tuple(entry for entry in candidates if entry.agent != declined_by)
        index = offer.index
    if offer.handoff_id:
        # The next one is asked under the graph in force by now, and only by its own edge.
        candidates = still_allowed(draft, task.hops[-1].sender, candidates)
    if not candidates or offer.attempt >= task.settings.attempts or window_over(task, draft.now):
        _fallback(draft, offer, reason)
        return
    issue(
        draft,
        offer.kind,
        candidates,
        reason,
        handoff_id=offer.handoff_id,
        gate=offer.gate,
        index=index % len(candidates),
        attempt=offer.attempt + 1,
    )


def window_end(task: Task) -> int:
    """When the window of the hop in transit, in which nobody may write, has reached its upper bound."""
    return task.hops[-1].initiated_at + task.settings.transition_ms


def window_over(task: Task, now: int) -> bool:
    """Whether the transition window of the hop in transit is used up."""
    return task.offer is not None and bool(task.offer.handoff_id) and now >= window_end(task)


def give_back(draft: Draft, state: HandoffState, reason: Reason, *, waive_gate: bool = False) -> None:
    """End the newest hop and offer the task to its sender, with the sender's earlier authority and no more."""
    hop = draft.task.hops[-1]
    end_hop(draft, state, reason)
    entry = Candidate(agent=hop.sender, authority=hop.authority)
    issue(draft, OfferKind.RETURN, (entry,), reason, gate=None if waive_gate else Gate.ROUTING_RETIRED)


def _fallback(draft: Draft, offer: Offer, reason: Reason) -> None:
    """What follows when an offer's attempts are used up."""
    task = draft.task
    if not offer.handoff_id:
        escalate(draft, reason)
        return
    timed_out = reason in (Reason.ACK_TIMEOUT, Reason.PICKUP_TIMEOUT, Reason.TRANSITION_LIMIT)
    if task.settings.on_ack_timeout == "escalate":
        if timed_out:
            end_hop(draft, HandoffState.TIMED_OUT, reason)
        escalate(draft, reason)
        return
    give_back(draft, HandoffState.TIMED_OUT if timed_out else HandoffState.FAILED_RETURNED, reason)


def _pick_up(draft: Draft, agent: str, instance: str) -> None:
    task = draft.task
    until = draft.now + task.settings.ack_ms
    if task.offer is not None and task.offer.handoff_id:
        until = min(draft.now + (task.hops[-1].ack_ms or task.settings.ack_ms), window_end(task))
    draft.emit(ev.OfferClaimed(at=draft.now, agent=agent, instance=instance, until=until))


def due_of(offer: Offer) -> int:
    """When an offer that still awaits its acknowledgement lapses."""
    return offer.pickup.until if offer.pickup else offer.deadline


def _not_lapsed(offer: Offer, now: int) -> None:
    """A deadline holds from the moment it passes, whether or not a watchdog has acted on it."""
    due = due_of(offer)
    if now >= due and guards.awaiting_ack(offer):
        raise Refused("offer_lapsed", f"It was due at {due}, it is {now}.")
