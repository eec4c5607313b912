"""The questions that every rule asks first. Each refuses by raising; none changes anything."""

from __future__ import annotations

from tenure.errors import Fenced, Refused
from tenure.protocol.authority import within
from tenure.protocol.commands import OwnerCommand
from tenure.protocol.decide.draft import Draft
from tenure.protocol.outside import Effect
from tenure.protocol.state import Candidate, Offer, Retiring, Task, Tenure
from tenure.protocol.vocabulary import EffectState, Gate, OfferState, WorkState


def owns(task: Task, epoch: int, instance: str) -> bool:
    """Whether exactly this epoch and this instance own the task now."""
    tenure = task.tenure
    return tenure is not None and tenure.epoch == epoch and tenure.instance == instance


def owner(draft: Draft, command: OwnerCommand) -> Tenure:
    """The speaking tenure.

    Raises:
        Fenced: ``stale_epoch`` for any other epoch or instance.
    """
    return tenure_of(draft.task, command.epoch, command.instance)


def tenure_of(task: Task, epoch: int, instance: str) -> Tenure:
    """The tenure of exactly this epoch and instance.

    Raises:
        Fenced: ``stale_epoch`` for any other.
    """
    if task.tenure is None or not owns(task, epoch, instance):
        raise stale(task, epoch, instance)
    return task.tenure


def acting_owner(draft: Draft, command: OwnerCommand) -> Tenure:
    """The speaking tenure, while it may still start something.

    Raises:
        Fenced: ``stale_epoch``.
        Refused: ``retiring`` once its decision is stated.
    """
    tenure = owner(draft, command)
    if tenure.retiring is not None:
        raise Refused("retiring", f"It has decided to {tenure.retiring.decision}.")
    return tenure


def free_owner(draft: Draft, command: OwnerCommand) -> Tenure:
    """The speaking tenure, while nothing is decided yet.

    Raises:
        Fenced: ``stale_epoch``.
        Refused: ``retiring``; ``transfer_decided`` once a turn has decided that another agent goes on.
    """
    tenure = acting_owner(draft, command)
    if tenure.pending is not None:
        raise Refused("transfer_decided", f"{tenure.pending.candidates[0].agent} is to go on with the task.")
    return tenure


def stale(task: Task, epoch: int, instance: str) -> Fenced:
    """The error for a speaker that does not own the task."""
    now = f"epoch {task.epoch}" + (f", owned by {task.tenure.agent}" if task.tenure else f", {task.phase}")
    detail = f"You spoke for epoch {epoch} as {instance}; the task is at {now}."
    return Fenced("stale_epoch", detail, epoch=task.epoch, task_id=task.task_id)


def unreleased(task: Task) -> Retiring:
    """The stated decision of a tenure whose works and routes may still run.

    Raises:
        Refused: ``not_retiring``.
    """
    tenure = task.tenure
    if tenure is None or tenure.retiring is None or tenure.retiring.released:
        raise Refused("not_retiring")
    return tenure.retiring


def unfinished(draft: Draft) -> Task:
    """The task, while it has not ended.

    Raises:
        Refused: ``unknown_task`` or ``task_ended``.
    """
    task = draft.task
    if task.phase.ended:
        raise Refused("task_ended", f"It is {task.phase}.", phase=str(task.phase))
    return task


def open_offer(draft: Draft, epoch: int) -> Offer:
    """The open offer that the speaker has seen.

    Raises:
        Refused: ``task_ended``, ``no_offer``.
        Fenced: ``stale_epoch`` when the offer was re-issued or withdrawn since.
    """
    task = unfinished(draft)
    if task.offer is None:
        raise Refused("no_offer", f"The task is {task.phase}.")
    if task.epoch != epoch:
        raise Fenced("stale_epoch", f"You saw the offer of epoch {epoch}; it is at {task.epoch} now.", epoch=task.epoch)
    return task.offer


def candidate(offer: Offer, agent: str) -> Candidate:
    """The candidate entry of an agent whose turn it is.

    Raises:
        Refused: ``not_a_candidate``.
    """
    for entry in offer.open_to:
        if entry.agent == agent:
            return entry
    raise Refused("not_a_candidate", f"It is open to {', '.join(entry.agent for entry in offer.open_to)}.")


def picked_up_by(offer: Offer, agent: str, instance: str) -> bool:
    """Whether exactly this agent and instance hold the pick-up."""
    return offer.pickup is not None and (offer.pickup.agent, offer.pickup.instance) == (agent, instance)


def standing_in_the_way(task: Task, required: Gate) -> tuple[str, ...]:
    """Ids of open works and effects that a gate waits for. An item's own policy may demand more than ``required``."""
    stopped, settled = Gate.STOPPED.rank, Gate.SETTLED.rank
    works = [
        work.work_id
        for work in task.works
        if work.state is not WorkState.STOPPED and max(required.rank, work.policy.gate.rank) >= stopped
    ]
    effects = [note.effect_id for note in task.effects if max(required.rank, note.gate.rank) >= settled]
    return tuple(works + effects)


def seen_to_end(task: Task, epoch: int) -> bool:
    """Whether every booked work of a tenure was seen to end."""
    return not any(work.epoch == epoch for work in task.works)


def effects_settled(task: Task) -> bool:
    """Whether every effect of the task has settling evidence."""
    return not task.effects


def authority_of(task: Task, entry: Candidate) -> tuple[str, ...]:
    """What a grant gives: within the candidate's edge and within the task's."""
    return task.authority if entry.authority is None else within(entry.authority, task.authority)


def awaiting_ack(offer: Offer) -> bool:
    """Whether the offer can still be picked up or acknowledged."""
    return offer.state in (OfferState.OPEN, OfferState.CLAIMED)


def in_flight(state: EffectState) -> bool:
    """Whether the end of its sender's tenure puts the effect in doubt."""
    return state is EffectState.INTENDED


def loaded_effect(draft: Draft, effect_id: str) -> Effect:
    """An effect of the task.

    Raises:
        Refused: ``unknown_effect``.
    """
    effect = draft.effects.get(effect_id)
    if effect is None or effect.task_id != draft.task.task_id:
        raise Refused("unknown_effect", effect_id)
    return effect
