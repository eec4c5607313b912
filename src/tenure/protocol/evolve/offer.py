"""How offers and the stack of open hops change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tenure.errors import Refused
from tenure.protocol import events as ev
from tenure.protocol.events import event_tag
from tenure.protocol.evolve.base import hop_of, move_hop, offer_of, step, tenure_of
from tenure.protocol.machines import HANDOFF, OFFER, TASK
from tenure.protocol.state import Hop, Offer, Pickup, Step, Task
from tenure.protocol.vocabulary import HandoffState, OfferKind, Reason

TRAIL = 32
"""How many of the newest transfers are kept, to be compared with a new one."""


def _offer_issued(task: Task, event: ev.OfferIssued) -> Task:
    hops = task.hops
    if event.handoff_id:
        receiver = event.candidates[event.index].agent
        hops = move_hop(task, "offer.issued", receiver=receiver)
    offer = Offer(
        kind=event.kind,
        candidates=event.candidates,
        deadline=event.deadline,
        payload=event.payload,
        index=event.index,
        attempt=event.attempt,
        handoff_id=event.handoff_id,
        reason=event.reason,
        gate=event.gate,
    )
    # Before its first grant, a task is held for its first candidate, within that candidate's edge.
    edge = event.candidates[event.index].authority if task.epoch == 0 else task.held_authority
    takeovers = task.takeovers + (event.kind is OfferKind.TAKEOVER and event.attempt == 1)
    phase = step(TASK, task.phase, "offer.issued")
    return replace(
        task,
        phase=phase,
        epoch=task.epoch + 1,
        offer=offer,
        hops=hops,
        wait=None,
        question=None,
        held_authority=task.authority if edge is None else edge,
        takeovers=takeovers,
        # Whoever gets a task that went in circles begins a path of its own.
        trail=() if event.reason is Reason.OSCILLATION else task.trail,
    )


def _offer_claimed(task: Task, event: ev.OfferClaimed) -> Task:
    offer = offer_of(task)
    pickup = Pickup(agent=event.agent, instance=event.instance, until=event.until)
    return replace(task, offer=replace(offer, state=step(OFFER, offer.state, "offer.claimed"), pickup=pickup))


def _offer_acknowledged(task: Task, event: ev.OfferAcknowledged) -> Task:
    offer = offer_of(task)
    hops = task.hops
    if offer.handoff_id and offer.pickup:
        hops = move_hop(task, "offer.acknowledged", receiver=offer.pickup.agent)
    moved = replace(offer, state=step(OFFER, offer.state, "offer.acknowledged"), gate_by=event.gate_by)
    return replace(task, offer=moved, hops=hops)


def _offer_closed(task: Task, event: ev.OfferDeclined | ev.OfferExpired) -> Task:
    offer = offer_of(task)
    return replace(task, offer=replace(offer, state=step(OFFER, offer.state, event_tag(event)), pickup=None))


def _offer_withdrawn(task: Task, event: ev.OfferWithdrawn) -> Task:
    del event
    offer_of(task)
    return replace(task, epoch=task.epoch + 1, offer=None)


def _handoff_initiated(task: Task, event: ev.HandoffInitiated) -> Task:
    tenure = tenure_of(task)
    hop = Hop(
        handoff_id=event.handoff_id,
        n=task.hop_count + 1,
        sender=tenure.agent,
        receivers=event.candidates,
        receiver=event.candidates[0].agent,
        state=HandoffState.INITIATED,
        payload=event.payload,
        authority=tenure.authority,
        given=task.given,
        initiated_at=event.at,
        gate=event.gate,
        pickup_ms=event.pickup_ms,
        ack_ms=event.ack_ms,
    )
    # Without a mark (version 1) there is nothing to compare.
    made = (Step(sender=hop.sender, receiver=hop.receiver, mark=event.mark),) if event.mark else ()
    return replace(
        task,
        hops=(*task.hops, hop),
        trail=(*task.trail, *made)[-TRAIL:],
        nudges=0,
        nudged=(),
        hop_count=task.hop_count + 1,
        transfers=task.transfers + 1,
        endings=tuple(ending for ending in task.endings if ending.work_id not in event.told),
        constraints=event.constraints,
        payload=event.payload,
        given=event.payload,
    )


_HOP_MOVES = {
    HandoffState.FAILED_RETURNED: "returned",
    HandoffState.TIMED_OUT: "timed_out",
    HandoffState.REVERSED: "reversed",
}


def _handoff_ended(task: Task, event: ev.HandoffEnded) -> Task:
    hop = hop_of(task)
    if hop.handoff_id != event.handoff_id or event.state not in _HOP_MOVES:
        raise Refused("wrong_phase", f"{event.state} cannot end {hop.handoff_id}.")
    step(HANDOFF, hop.state, _HOP_MOVES[event.state])
    return replace(task, hops=task.hops[:-1], given=hop.given)


RULES: dict[type[ev.EventBase], Callable[[Task, Any], Task]] = {
    ev.OfferIssued: _offer_issued,
    ev.OfferClaimed: _offer_claimed,
    ev.OfferAcknowledged: _offer_acknowledged,
    ev.OfferDeclined: _offer_closed,
    ev.OfferExpired: _offer_closed,
    ev.OfferWithdrawn: _offer_withdrawn,
    ev.HandoffInitiated: _handoff_initiated,
    ev.HandoffEnded: _handoff_ended,
}
