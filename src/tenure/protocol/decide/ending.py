"""The ends: of a hop, of a tenure, of a task; and the question to a person."""

from __future__ import annotations

from tenure.protocol import events as ev
from tenure.protocol.decide import guards
from tenure.protocol.decide.draft import Draft
from tenure.protocol.state import Candidate, Question, Task
from tenure.protocol.vocabulary import (
    EffectState,
    EvidenceKind,
    HandoffState,
    OfferKind,
    Phase,
    Reason,
)


def end_hop(draft: Draft, state: HandoffState, reason: Reason) -> None:
    """Pop the newest hop."""
    hop = draft.task.hops[-1]
    draft.emit(ev.HandoffEnded(at=draft.now, handoff_id=hop.handoff_id, state=state, reason=reason))


def end_tenure(draft: Draft, *, forced: bool, reason: Reason = Reason.NONE, unseen: int = 0) -> None:
    """End the current tenure, stating each milestone only as far as it is proven.

    A forced end fences the instance and claims nothing about what it runs: all its works, and its handler, are
    residual. Effects whose call had not answered are in doubt either way.
    """
    task = draft.task
    tenure = task.tenure
    if tenure is None:
        return
    if forced:
        draft.emit(ev.RoutingFenced(at=draft.now, routes=tenure.routes))
    else:
        draft.emit(ev.RoutingRetired(at=draft.now, routes=tenure.routes))
    doubt_unanswered(draft)
    left = tuple(work.work_id for work in task.works if work.epoch == tenure.epoch)
    if left or unseen or forced:
        draft.emit(ev.ResidualDeclared(at=draft.now, works=left, unseen=unseen, handler=forced))
    else:
        draft.emit(ev.ExecutionStopped(at=draft.now))
    if guards.effects_settled(draft.task):
        draft.emit(ev.EffectsSettled(at=draft.now))
    draft.emit(ev.TenureEnded(at=draft.now, forced=forced, reason=reason))


def doubt_unanswered(draft: Draft) -> None:
    """Put every effect whose provider call had no answer in doubt."""
    for note in draft.task.effects:
        if guards.in_flight(note.state):
            draft.emit(
                ev.EffectObserved(
                    at=draft.now,
                    effect_id=note.effect_id,
                    attempt=0,
                    state=EffectState.IN_DOUBT,
                    evidence=EvidenceKind.NONE,
                    observer="ledger",
                    intent=note.intent,
                    gate=note.gate,
                    next_check=note.next_check,
                )
            )


def withdraw_offer(draft: Draft, reason: Reason) -> None:
    """Close an open offer, so that nobody can still pick it up."""
    if draft.task.offer is not None:
        draft.emit(ev.OfferWithdrawn(at=draft.now, reason=reason))


def escalate(draft: Draft, reason: Reason, question: Question | None = None, *, body: str = "") -> None:
    """Ask a person. The question always has a due time and a finite fallback; ``body`` is what led to it."""
    task = draft.task
    withdraw_offer(draft, reason)
    if question is None:
        question = Question(
            question_id=f"{task.task_id}:{task.revision + 1}",
            reason=reason,
            who=(task.settings.fallback,),
            allowed=(),
            body=body,
            due=draft.now + task.settings.question_ms,
        )
    draft.emit(ev.TaskEscalated(at=draft.now, question=question))


def complete(draft: Draft, result: str) -> None:
    """End the task with success; a child's result reaches its parent in this commit."""
    draft.emit(ev.TaskCompleted(at=draft.now, result=result))
    tell_parent(draft)


def fail(draft: Draft, reason: Reason, detail: str = "") -> None:
    """End the task without success."""
    withdraw_offer(draft, reason)
    draft.emit(ev.TaskFailed(at=draft.now, reason=reason, detail=detail))
    tell_parent(draft)


def cancel(draft: Draft, by: str, reason: str) -> None:
    """End the task as asked. The caller has judged the gate."""
    withdraw_offer(draft, Reason.CANCELLED)
    draft.emit(ev.TaskCancelled(at=draft.now, by=by, reason=reason))
    tell_parent(draft)


def tell_parent(draft: Draft) -> None:
    """Record a child's end on its parent, and wake a parent that waits for it."""
    task = draft.task
    parent = draft.other(task.parent) if task.parent else None
    if parent is None:
        return
    event = ev.DelegationEnded(
        at=draft.now,
        child_id=task.task_id,
        outcome=str(task.phase),
        result=task.result,
        reason=task.reason,
        unclaimed=parent.phase.ended,
    )
    parent = draft.emit(event, parent.task_id)
    if parent.phase is Phase.WAITING and child_is_awaited(parent, task.task_id):
        wake(draft, Reason.WAKE_CHILD, parent.task_id)


def child_is_awaited(parent: Task, child_id: str) -> bool:
    """Whether a waiting task waits for this child, or for any."""
    wait = parent.wait
    return wait is not None and wait.on == "child" and wait.child_id in ("", child_id)


def wake(draft: Draft, reason: Reason, task_id: str = "") -> None:
    """Offer a waiting task to the agent that kept it, with the authority it had."""
    task = (draft.other(task_id) if task_id else None) or draft.task
    draft.emit(
        ev.OfferIssued(
            at=draft.now,
            kind=OfferKind.RESUME,
            candidates=(Candidate(agent=task.owner, authority=task.held_authority),),
            deadline=draft.now + task.settings.pickup_ms,
            payload=task.payload,
            reason=reason,
            graph=task.graph,
        ),
        task.task_id,
    )
