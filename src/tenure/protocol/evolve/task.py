"""How a task as a whole changes: its phase, its questions, its delegations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tenure.protocol import events as ev
from tenure.protocol.events import event_tag
from tenure.protocol.events.base import COUNTED
from tenure.protocol.evolve.base import progressed, step, tenure_of
from tenure.protocol.evolve.effect import note_effect
from tenure.protocol.machines import HANDOFF, TASK
from tenure.protocol.state import Cancel, Child, Hop, Task
from tenure.protocol.vocabulary import Reason


def _hops_after(task: Task, name: str) -> tuple[Hop, ...]:
    """Every open hop ends with the task or its escalation; the table must know the move."""
    for hop in task.hops:
        step(HANDOFF, hop.state, name)
    return ()


def _waiting(task: Task, event: ev.TaskWaiting) -> Task:
    phase = step(TASK, task.phase, "task.waiting")
    return replace(task, phase=phase, wait=event.wait, question=event.question)


def _escalated(task: Task, event: ev.TaskEscalated) -> Task:
    who = event.question.who
    return replace(
        task,
        phase=step(TASK, task.phase, "task.escalated"),
        hops=_hops_after(task, "task.escalated"),
        offer=None,
        wait=None,
        cancel=None,
        question=event.question,
        answerable=who[0] if who else task.settings.fallback,
    )


def _ended(task: Task, event: ev.TaskCompleted | ev.TaskFailed | ev.TaskCancelled) -> Task:
    name = event_tag(event)
    reason, result = Reason.CANCELLED, ""
    if isinstance(event, ev.TaskCompleted):
        reason, result = Reason.NONE, event.result
    elif isinstance(event, ev.TaskFailed):
        reason, result = event.reason, event.detail
    return replace(
        task,
        phase=step(TASK, task.phase, name),
        hops=_hops_after(task, name),
        reason=reason,
        result=result,
        offer=None,
        wait=None,
        question=None,
        cancel=None,
        answerable=task.settings.fallback,
    )


def _cancel_requested(task: Task, event: ev.CancelRequested) -> Task:
    phase = step(TASK, task.phase, "task.cancel_requested")
    return replace(task, phase=phase, cancel=Cancel(by=event.by, reason=event.reason, due=event.due))


def _unchanged(task: Task, event: Any) -> Task:
    del event
    return task


def _input_received(task: Task, event: ev.InputReceived) -> Task:
    return replace(task, received=event.n)


def _input_seen(task: Task, event: ev.InputSeen) -> Task:
    return replace(task, seen=event.upto)


def _route_opened(task: Task, event: ev.RouteOpened) -> Task:
    tenure = tenure_of(task)
    return replace(task, tenure=progressed(task, event.at, routes=(*tenure.routes, event.route_id)))


def _route_closed(task: Task, event: ev.RouteClosed) -> Task:
    tenure = tenure_of(task)
    routes = tuple(route for route in tenure.routes if route != event.route_id)
    return replace(task, tenure=replace(tenure, routes=routes))


def _effect(task: Task, event: Any) -> Task:
    changed = replace(task, effects=note_effect(task.effects, event))
    tenure = task.tenure
    if tenure is not None and _speaker(event, tenure.epoch) == (tenure.epoch, tenure.instance):
        return replace(changed, tenure=progressed(task, event.at))
    return changed


def _asked_about(task: Task, event: ev.EffectAsked) -> Task:
    return replace(task, effects=note_effect(task.effects, event))


def _speaker(event: ev.EffectIntended | ev.EffectAttempted | ev.EffectObserved, epoch: int) -> tuple[int, str]:
    """Whose step it is. Evidence that somebody else brings is no progress of the tenure."""
    return (epoch, event.observer) if isinstance(event, ev.EffectObserved) else (event.epoch, event.instance)


def _delegation_opened(task: Task, event: ev.DelegationOpened) -> Task:
    child = Child(child_id=event.child_id, agent=event.agent)
    counted = event.v >= COUNTED
    tenure = progressed(task, event.at, delegated=tenure_of(task).delegated + counted)
    return replace(task, children=(*task.children, child), tenure=tenure, delegated=task.delegated + counted)


def _delegation_ended(task: Task, event: ev.DelegationEnded) -> Task:
    children = tuple(
        replace(child, outcome=event.outcome, result=event.result, reason=event.reason)
        if child.child_id == event.child_id
        else child
        for child in task.children
    )
    tenure = None if task.tenure is None else progressed(task, event.at)
    return replace(task, children=children, tenure=tenure)


def _question_answered(task: Task, event: ev.QuestionAnswered) -> Task:
    del event
    # A person has looked: what went in circles before is not held against what comes now.
    return replace(task, question=None, trail=(), nudges=0, nudged=())


def _question_expired(task: Task, event: ev.QuestionExpired) -> Task:
    del event
    return replace(task, question=None)


RULES: dict[type[ev.EventBase], Callable[[Task, Any], Task]] = {
    ev.TaskWaiting: _waiting,
    ev.TaskEscalated: _escalated,
    ev.TaskCompleted: _ended,
    ev.TaskFailed: _ended,
    ev.TaskCancelled: _ended,
    ev.CancelRequested: _cancel_requested,
    ev.TreeStopped: _unchanged,
    ev.LateRecorded: _unchanged,
    ev.ExecutionStopped: _unchanged,
    ev.EffectsSettled: _unchanged,
    ev.InputReceived: _input_received,
    ev.InputSeen: _input_seen,
    ev.RouteOpened: _route_opened,
    ev.RouteClosed: _route_closed,
    ev.EffectIntended: _effect,
    ev.EffectAttempted: _effect,
    ev.EffectObserved: _effect,
    ev.EffectAsked: _asked_about,
    ev.EffectSenderDied: _unchanged,
    ev.DelegationOpened: _delegation_opened,
    ev.DelegationEnded: _delegation_ended,
    ev.QuestionAnswered: _question_answered,
    ev.QuestionExpired: _question_expired,
}
