"""Works, routes, input and turns of a tenure that acts."""

from __future__ import annotations

from tenure.errors import Fenced, Refused
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.decide import guards
from tenure.protocol.decide.draft import Draft, Verdict
from tenure.protocol.decide.ending import wake
from tenure.protocol.decide.offering import grant_if_gate_met
from tenure.protocol.decide.retiring import advance_books, complete_if_gate_met
from tenure.protocol.evidence import WORK_EVIDENCE
from tenure.protocol.state import Work
from tenure.protocol.vocabulary import EvidenceKind, Phase, Reason, WaitOn, WorkKind


def advance(draft: Draft, command: cmd.Advance) -> Verdict:
    """Commit a turn."""
    guards.acting_owner(draft, command)
    advance_books(draft, command.consumed, command.collected, command.document.digest if command.document else "")
    return draft.verdict()


def see(draft: Draft, command: cmd.See) -> Verdict:
    """Mark input as shown, before it is shown."""
    guards.free_owner(draft, command)
    task = draft.task
    if not task.seen <= command.upto <= task.received:
        raise Refused("input_order", f"Seen up to {task.seen}, received {task.received}, asked for {command.upto}.")
    if command.upto > task.seen:
        draft.emit(ev.InputSeen(at=draft.now, upto=command.upto))
    return draft.verdict()


def send(draft: Draft, command: cmd.Send) -> Verdict:
    """Keep a message in order, and wake a task that waits for one."""
    task = guards.unfinished(draft)
    if len(task.unread) >= task.settings.unread:
        raise Refused("backlog_full", f"{len(task.unread)} messages are unread.")
    draft.emit(ev.InputReceived(at=draft.now, n=task.received + 1, body=command.message.digest, sender=command.sender))
    if task.phase is Phase.WAITING and task.wait is not None and task.wait.on is WaitOn.INPUT:
        wake(draft, Reason.WAKE_INPUT)
    return draft.verdict()


def open_route(draft: Draft, command: cmd.OpenRoute) -> Verdict:
    """Subscribe the tenure to live input."""
    tenure = guards.free_owner(draft, command)
    if command.route_id in tenure.routes:
        raise Refused("work_exists", command.route_id)
    draft.emit(ev.RouteOpened(at=draft.now, route_id=command.route_id))
    return draft.verdict()


def close_route(draft: Draft, command: cmd.CloseRoute) -> Verdict:
    """End a subscription; a retiring tenure may."""
    tenure = guards.owner(draft, command)
    if command.route_id not in tenure.routes:
        raise Refused("unknown_work", command.route_id)
    draft.emit(ev.RouteClosed(at=draft.now, route_id=command.route_id))
    return draft.verdict()


def start_work(draft: Draft, command: cmd.StartWork) -> Verdict:
    """Put a work on the books before it starts."""
    guards.acting_owner(draft, command)
    task = draft.task
    if not command.policy.booked:
        raise Refused("invalid", f"{command.policy.name} work is counted, not booked.")
    task.settings.check_policy(command.policy)
    if any(work.work_id == command.work_id for work in task.works) or command.work_id.startswith("handler:"):
        raise Refused("work_exists", command.work_id)
    if len(task.works) >= task.settings.open_items:
        raise Refused("backlog_full", f"{len(task.works)} works are open.")
    draft.emit(
        ev.WorkStarted(
            at=draft.now,
            work_id=command.work_id,
            kind=command.kind,
            name=command.name,
            policy=command.policy,
            locator=command.locator,
        )
    )
    return draft.verdict()


def locate_work(draft: Draft, command: cmd.LocateWork) -> Verdict:
    """Say where a work runs; a retiring tenure still may."""
    guards.owner(draft, command)
    _open_work(draft, command.work_id)
    draft.emit(ev.WorkLocated(at=draft.now, work_id=command.work_id, locator=command.locator))
    return draft.verdict()


def cancel_work(draft: Draft, command: cmd.CancelWork) -> Verdict:
    """Record a request to end. What it reached is a separate fact, what ended yet another."""
    _open_work(draft, command.work_id)
    draft.emit(
        ev.CancellationRequested(at=draft.now, works=(command.work_id,), delivered=command.delivered),
    )
    return draft.verdict()


def end_work(draft: Draft, command: cmd.EndWork) -> Verdict:
    """Record an observed end, under any epoch; it may be what a gate has waited for."""
    work = _open_work(draft, command.work_id)
    if work.instance != command.instance:
        raise Fenced("stale_epoch", f"{command.work_id} belongs to {work.instance}.")
    if command.how not in WORK_EVIDENCE.get(command.evidence, ()):
        raise Refused("evidence_insufficient", f"{command.evidence} does not speak for {command.how}.")
    if command.evidence is EvidenceKind.STATUS and work.kind is not WorkKind.REMOTE:
        raise Refused("evidence_insufficient", f"No provider speaks for a {work.kind}.")
    if command.evidence is EvidenceKind.ATTESTATION and not (command.by and command.result):
        raise Refused("invalid", "A person who attests says who it is, and what was found.")
    late = draft.task.tenure is None or draft.task.tenure.epoch != work.epoch
    draft.emit(
        ev.WorkStopped(
            at=draft.now,
            work_id=command.work_id,
            how=command.how,
            result=command.result.digest if command.result else "",
            late=late,
            evidence=command.evidence,
            by=command.by,
        )
    )
    return after_settling(draft)


def after_settling(draft: Draft) -> Verdict:
    """Whatever a settled item was in the way of goes on in the same commit."""
    grant_if_gate_met(draft)
    complete_if_gate_met(draft)
    return draft.verdict()


def _open_work(draft: Draft, work_id: str) -> Work:
    for work in draft.task.works:
        if work.work_id == work_id:
            return work
    raise Refused("unknown_work", work_id)
