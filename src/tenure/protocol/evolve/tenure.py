"""How a tenure changes, its works and its milestones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tenure.errors import Refused
from tenure.protocol import events as ev
from tenure.protocol.events.base import COUNTED
from tenure.protocol.evolve.base import move_hop, progressed, step, tenure_of
from tenure.protocol.machines import TASK, WORK
from tenure.protocol.settings import LOCAL
from tenure.protocol.state import Ending, Retiring, Task, Tenure, Work
from tenure.protocol.vocabulary import WorkKind, WorkState


def _granted(task: Task, event: ev.TenureGranted) -> Task:
    if task.tenure is not None:
        raise Refused("wrong_phase", "The task has a tenure.")
    epoch = task.epoch + 1
    hops = task.hops
    transferred = task.offer is not None and bool(task.offer.handoff_id)
    if transferred:
        hops = move_hop(task, "tenure.granted")
    tenure = Tenure(
        agent=event.agent,
        instance=event.instance,
        epoch=epoch,
        since=event.at,
        authority=event.authority,
        progress_at=event.at,
    )
    return replace(
        task,
        phase=step(TASK, task.phase, "tenure.granted"),
        epoch=epoch,
        tenure=tenure,
        offer=None,
        hops=hops,
        owner=event.agent,
        answerable=event.agent,
        held_authority=event.authority,
        takeovers=0 if transferred else task.takeovers,
    )


def _retiring(task: Task, event: ev.TenureRetiring) -> Task:
    retiring = Retiring(
        decision=event.decision,
        at=event.at,
        deadline=event.deadline,
        handoff_id=event.handoff_id,
        body=event.body,
        reason=event.reason,
        broadcast=event.broadcast,
        wait=event.wait,
        question=event.question,
    )
    payload = event.body if event.decision == "return" and event.body else task.payload
    return replace(
        task,
        payload=payload,
        constraints=event.constraints or task.constraints,
        tenure=replace(tenure_of(task), retiring=retiring, progress_at=event.at),
    )


def _released(task: Task, event: ev.TenureReleased) -> Task:
    tenure = tenure_of(task)
    if tenure.retiring is None:
        raise Refused("wrong_phase", "The tenure is not retiring.")
    retiring = replace(tenure.retiring, released=True, deadline=event.gate_by, unseen=event.unseen)
    return replace(task, tenure=replace(tenure, retiring=retiring))


def _tenure_ended(task: Task, event: ev.TenureEnded) -> Task:
    tenure_of(task)
    return replace(task, epoch=task.epoch + 1, tenure=None, vacant_since=event.at)


def _progress_asked(task: Task, event: ev.ProgressAsked) -> Task:
    return replace(task, tenure=replace(tenure_of(task), asked_at=event.at))


def _advanced(task: Task, event: ev.Advanced) -> Task:
    children = tuple(child for child in task.children if child.child_id not in event.collected)
    tenure = tenure_of(task)
    taken = len(event.collected) if event.v >= COUNTED else 0
    return replace(
        task,
        consumed=event.consumed,
        children=children,
        document=event.document or task.document,
        document_version=task.document_version + bool(event.document),
        collected=task.collected + taken,
        takeovers=0,
        tenure=progressed(task, event.at, turn=tenure.turn + 1, delegated=0),
    )


def _routes_gone(task: Task, event: ev.RoutingRetired | ev.RoutingFenced) -> Task:
    del event
    return replace(task, tenure=replace(tenure_of(task), routes=()))


def _residual(task: Task, event: ev.ResidualDeclared) -> Task:
    works = tuple(
        replace(work, state=step(WORK, work.state, "residual.declared")) if work.work_id in event.works else work
        for work in task.works
    )
    if event.handler:
        tenure = tenure_of(task)
        handler = Work(
            work_id=f"handler:{tenure.epoch}",
            kind=WorkKind.HANDLER,
            name=tenure.agent,
            policy=LOCAL,
            agent=tenure.agent,
            epoch=tenure.epoch,
            instance=tenure.instance,
            started_at=tenure.since,
            state=WorkState.RESIDUAL,
        )
        works = (*works, handler)
    return replace(task, works=works, unseen=task.unseen + event.unseen)


def _work_started(task: Task, event: ev.WorkStarted) -> Task:
    tenure = tenure_of(task)
    work = Work(
        work_id=event.work_id,
        kind=event.kind,
        name=event.name,
        policy=event.policy,
        agent=tenure.agent,
        epoch=tenure.epoch,
        instance=tenure.instance,
        started_at=event.at,
        locator=event.locator,
    )
    return replace(task, works=(*task.works, work), tenure=progressed(task, event.at))


def _work_located(task: Task, event: ev.WorkLocated) -> Task:
    works = tuple(
        replace(work, locator=event.locator) if work.work_id == event.work_id else work for work in task.works
    )
    return replace(task, works=works)


def _cancellation_requested(task: Task, event: ev.CancellationRequested) -> Task:
    works = tuple(
        replace(
            work,
            state=step(WORK, work.state, "cancellation.requested"),
            delivered=work.delivered or event.delivered,
        )
        if work.work_id in event.works
        else work
        for work in task.works
    )
    return replace(task, works=works)


def _work_stopped(task: Task, event: ev.WorkStopped) -> Task:
    work = next((work for work in task.works if work.work_id == event.work_id), None)
    if work is None:
        raise Refused("wrong_phase", f"{event.work_id} is not on the books.")
    step(WORK, work.state, "work.stopped")
    works = tuple(other for other in task.works if other is not work)
    tenure = task.tenure
    if tenure is not None and tenure.epoch == work.epoch and tenure.retiring is None:
        return replace(task, works=works)
    ending = Ending(work_id=work.work_id, name=work.name, agent=work.agent, how=event.how, result=event.result)
    return replace(task, works=works, endings=(*task.endings, ending)[-task.settings.open_items :])


RULES: dict[type[ev.EventBase], Callable[[Task, Any], Task]] = {
    ev.TenureGranted: _granted,
    ev.TenureRetiring: _retiring,
    ev.TenureReleased: _released,
    ev.TenureEnded: _tenure_ended,
    ev.ProgressAsked: _progress_asked,
    ev.Advanced: _advanced,
    ev.RoutingRetired: _routes_gone,
    ev.RoutingFenced: _routes_gone,
    ev.ResidualDeclared: _residual,
    ev.WorkStarted: _work_started,
    ev.WorkLocated: _work_located,
    ev.CancellationRequested: _cancellation_requested,
    ev.WorkStopped: _work_stopped,
}
