"""Every deadline: when the next one is, and what an overdue one leads to."""

from __future__ import annotations

from tenure.errors import Refused
from tenure.protocol import events as ev
from tenure.protocol.commands import Expire
from tenure.protocol.decide import guards
from tenure.protocol.decide.draft import Draft, Verdict
from tenure.protocol.decide.ending import cancel, end_tenure, escalate, fail, wake
from tenure.protocol.decide.lost import take_over
from tenure.protocol.decide.offering import again, due_of, give_back, window_over
from tenure.protocol.decide.retiring import finish_switch
from tenure.protocol.state import Offer, Task, Tenure
from tenure.protocol.vocabulary import (
    Gate,
    HandoffState,
    OfferState,
    Phase,
    Reason,
)


def next_deadline(task: Task, lease_until: int) -> int | None:
    """When something of this task becomes overdue; ``None`` only when it has ended. Milliseconds since the epoch.

    The ledger keeps it as an index and readers compare it with their clock, so a dead watchdog is visible.
    """
    if task.phase.ended:
        return None
    if task.offer is not None:
        return _offer_due(task.offer)
    if task.tenure is not None:
        return min(_tenure_dues(task, task.tenure, lease_until).values())
    if task.wait is not None:
        return task.wait.wake_by
    # Only in the middle of a commit is there neither: due at once.
    return task.question.due if task.question else task.at


def expire(draft: Draft, _command: Expire) -> Verdict:
    """Apply the one thing that is overdue.

    Raises:
        Refused: ``not_due``; ``task_ended``.
    """
    task = guards.unfinished(draft)
    due = next_deadline(task, draft.books.lease_until)
    if due is None or draft.now < due:
        raise Refused("not_due", f"The next deadline is {due}, it is {draft.now}.")
    if task.offer is not None:
        _expire_offer(draft, task.offer)
    elif task.tenure is not None:
        _expire_tenure(draft, task.tenure)
    else:
        _expire_rest(draft, task)
    return draft.verdict()


def _offer_due(offer: Offer) -> int:
    return offer.gate_by if offer.state is OfferState.ACKNOWLEDGED else due_of(offer)


def _tenure_dues(task: Task, tenure: Tenure, lease_until: int) -> dict[Reason, int]:
    """Deadlines of an active tenure by the reason that they would give."""
    settings = task.settings
    dues = {Reason.LEASE_LOST: lease_until}
    if tenure.retiring is not None:
        gate = tenure.retiring.released
        dues[Reason.GATE_TIMEOUT if gate else Reason.RETIRE_TIMEOUT] = tenure.retiring.deadline
        return dues
    if tenure.pending is not None:
        dues[Reason.RETIRE_TIMEOUT] = tenure.pending.calls_by + settings.retire_ms
    if task.cancel is not None:
        dues[Reason.CANCEL_TIMEOUT] = task.cancel.due
    if tenure.asked_at:
        dues[Reason.NO_PROGRESS] = tenure.asked_at + settings.progress_grace_ms
    elif not any(child.outcome == "" for child in task.children):
        # Whoever waits for a delegation makes no steps of its own: the child has limits itself, and its end is a step.
        dues[Reason.NONE] = tenure.progress_at + settings.progress_ms
    return dues


def _expire_offer(draft: Draft, offer: Offer) -> None:
    """A pick-up, an acknowledgement or a gate is overdue."""
    if offer.state is OfferState.ACKNOWLEDGED:
        draft.emit(ev.OfferExpired(at=draft.now, reason=Reason.GATE_TIMEOUT))
        if offer.handoff_id:
            give_back(draft, HandoffState.FAILED_RETURNED, Reason.GATE_TIMEOUT, waive_gate=True)
        else:
            escalate(draft, Reason.GATE_TIMEOUT)
        return
    reason = Reason.ACK_TIMEOUT if offer.pickup else Reason.PICKUP_TIMEOUT
    if window_over(draft.task, draft.now):
        reason = Reason.TRANSITION_LIMIT
    draft.emit(ev.OfferExpired(at=draft.now, reason=reason))
    again(draft, offer, reason)


def _expire_tenure(draft: Draft, tenure: Tenure) -> None:
    """The lease, the progress limit, the cancellation or the retirement of a tenure is overdue."""
    dues = _tenure_dues(draft.task, tenure, draft.books.lease_until)
    reason = min(dues, key=lambda name: (dues[name], name is not Reason.LEASE_LOST))
    if tenure.retiring is not None:
        finish_switch(draft, tenure.retiring, reason)
    elif reason is Reason.NONE:
        draft.emit(ev.ProgressAsked(at=draft.now))
    elif reason is Reason.CANCEL_TIMEOUT:
        end_tenure(draft, forced=True, reason=reason)
        escalate(draft, reason)
    else:
        take_over(draft, reason)


def _expire_rest(draft: Draft, task: Task) -> None:
    """Wake a task that has waited long enough; end one whose escalation nobody answered, by its finite fallback."""
    if task.question is not None:
        draft.emit(ev.QuestionExpired(at=draft.now, question_id=task.question.question_id))
    if task.phase is Phase.WAITING:
        wake(draft, Reason.WAKE_TIME)
        return
    critical = guards.standing_in_the_way(task, Gate.ROUTING_RETIRED)
    if task.settings.on_unanswered == "cancel" and not critical:
        cancel(draft, "ledger", "escalation_expired")
    else:
        fail(draft, Reason.ESCALATION_EXPIRED)
