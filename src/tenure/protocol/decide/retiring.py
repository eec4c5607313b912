"""The end of a tenure by its own decision: INITIATED, the works' ends, the switch."""

from __future__ import annotations

from tenure.errors import Refused
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol import events as ev
from tenure.protocol.decide import guards
from tenure.protocol.decide.draft import Draft, Verdict
from tenure.protocol.decide.ending import (
    cancel,
    child_is_awaited,
    complete,
    end_tenure,
    escalate,
    fail,
    wake,
)
from tenure.protocol.decide.offering import give_back, issue
from tenure.protocol.decide.routing import ends_by, granted, in_force, may_own
from tenure.protocol.decide.transferring import checked, initiate
from tenure.protocol.graph import Termination
from tenure.protocol.payload import check_carried, read_payload
from tenure.protocol.state import Candidate, Question, Retiring, Task, Wait
from tenure.protocol.vocabulary import EvidenceKind, Gate, HandoffState, OfferKind, Phase, Reason, WaitOn, WorkKind

ENDS_TASK = frozenset({"complete", "stop"})
"""Decisions after which no grant follows: their gate is judged here, with every item counted as critical demands."""


def retire(draft: Draft, command: cmd.Retire) -> Verdict:
    """State the decision; with nothing left to retire, switch in the same commit."""
    if not guards.owns(draft.task, command.epoch, command.instance):
        return keep_late(draft, command)
    tenure = guards.acting_owner(draft, command)
    _decision_allowed(draft, command.decision)
    advance_books(draft, command.consumed, command.collected, command.document.digest if command.document else "")
    transfer = checked(draft, command.decision) if isinstance(command.decision, dec.TransferTo) else None
    draft.emit(_retiring(draft, command.decision))
    if transfer is not None:
        initiate(draft, transfer)
    asked = tuple(work.work_id for work in draft.task.works if work.epoch == tenure.epoch)
    if asked:
        draft.emit(ev.CancellationRequested(at=draft.now, works=asked))
    if command.quiet and not tenure.routes and guards.seen_to_end(draft.task, tenure.epoch):
        return _switch(draft, guards.unreleased(draft.task), unseen=0)
    return draft.verdict()


def release(draft: Draft, command: cmd.Release) -> Verdict:
    """Finish retiring: what was seen to end is recorded, what was not becomes residual, the switch is made."""
    task = draft.task
    if not guards.owns(task, command.epoch, command.instance):
        return keep_late(draft, command)
    retiring = guards.unreleased(task)
    if not command.routes_retired:
        raise Refused("wrong_phase", "A tenure is not released before its routes are retired.")
    known = {work.work_id: work.kind for work in task.works if work.instance == command.instance}
    delivered = tuple(name for name in command.delivered if name in known)
    if delivered:
        draft.emit(ev.CancellationRequested(at=draft.now, works=delivered, delivered=True))
    for ended in command.ended:
        if ended.work_id in known:
            _ended(draft, ended, known[ended.work_id])
    return _switch(draft, retiring, unseen=command.unseen)


def _ended(draft: Draft, ended: cmd.Ended, kind: WorkKind) -> None:
    """A work that its own tenure has seen to end, here or by its provider's status."""
    draft.emit(
        ev.WorkStopped(
            at=draft.now,
            work_id=ended.work_id,
            how=ended.how,
            result=ended.result.digest if ended.result else "",
            evidence=EvidenceKind.STATUS if kind is WorkKind.REMOTE else EvidenceKind.ENDED,
        )
    )


def finish_switch(draft: Draft, retiring: Retiring, reason: Reason) -> None:
    """The ledger's own end of a retiring tenure whose instance was lost or whose time is over."""
    end_tenure(draft, forced=not retiring.released, reason=reason, unseen=retiring.unseen)
    if retiring.decision in ENDS_TASK and guards.standing_in_the_way(draft.task, Gate.ROUTING_RETIRED):
        escalate(draft, Reason.GATE_TIMEOUT)
        return
    _carry_out(draft, retiring)


def complete_if_gate_met(draft: Draft) -> tuple[str, ...]:
    """End a task whose released tenure waited for the gate; return what stands in its way."""
    task = draft.task
    tenure = task.tenure
    if tenure is None or tenure.retiring is None or not tenure.retiring.released:
        return ()
    blocked = guards.standing_in_the_way(task, Gate.ROUTING_RETIRED)
    if blocked:
        return blocked
    retiring = tenure.retiring
    end_tenure(draft, forced=False, unseen=retiring.unseen)
    _carry_out(draft, retiring)
    return ()


def advance_books(draft: Draft, consumed: int, collected: tuple[str, ...], document: str) -> None:
    """Consume input in order, take results, write the state document: the commit of a turn."""
    task = draft.task
    if not (consumed or collected or document):
        return
    consumed = consumed or task.consumed
    if not task.consumed <= consumed <= task.seen:
        detail = f"Consumed up to {task.consumed}, seen up to {task.seen}, asked for {consumed}."
        raise Refused("input_order", detail)
    ended = {child.child_id for child in task.children if child.outcome}
    unknown = set(collected) - ended
    if unknown:
        raise Refused("unknown_task", f"No result of {', '.join(sorted(unknown))} can be collected.")
    draft.emit(ev.Advanced(at=draft.now, consumed=consumed, collected=collected, document=document))


def keep_late(draft: Draft, command: cmd.Retire | cmd.Release) -> Verdict:
    """Keep what a former owner brings as evidence, and change nothing else.

    Instances of past tenures are not kept, so that it speaks for one of them is taken at its word.

    Raises:
        Fenced: ``stale_epoch`` when the speaker never could have owned the task.
    """
    task = draft.task
    if command.epoch > task.epoch or command.epoch < 1:
        raise guards.stale(task, command.epoch, command.instance)
    bodies = cmd.bodies_of(command)
    kind = f"{type(command).__name__.lower()}"
    if isinstance(command, cmd.Retire):
        kind += f":{command.decision.__struct_config__.tag}"
    draft.emit(
        ev.LateRecorded(
            at=draft.now,
            command=kind,
            epoch=command.epoch,
            instance=command.instance,
            body=bodies[0].digest if bodies else "",
        )
    )
    return draft.verdict("late")


def _switch(draft: Draft, retiring: Retiring, *, unseen: int) -> Verdict:
    """End the tenure and carry its decision out, unless the end of the task waits for the gate."""
    task = draft.task
    if retiring.decision in ENDS_TASK:
        blocked = guards.standing_in_the_way(task, Gate.ROUTING_RETIRED)
        if blocked:
            gate_by = draft.now + task.settings.gate_ms
            draft.emit(ev.TenureReleased(at=draft.now, gate_by=gate_by, unseen=unseen))
            return draft.verdict("gate", blocked_by=blocked)
    end_tenure(draft, forced=False, unseen=unseen)
    _carry_out(draft, retiring)
    return draft.verdict()


def _carry_out(draft: Draft, retiring: Retiring) -> None:
    """What each decision leads to, once nobody owns the task. A requested cancellation stops every further grant."""
    task = draft.task
    if task.cancel is not None and retiring.decision not in ("complete", "fail"):
        if guards.standing_in_the_way(task, Gate.ROUTING_RETIRED):
            escalate(draft, Reason.GATE_TIMEOUT)
        else:
            cancel(draft, task.cancel.by, task.cancel.reason)
        return
    match retiring.decision:
        case "complete":
            complete(draft, retiring.body)
        case "transfer":
            hop = task.hops[-1]
            kind = OfferKind.CLAIM if retiring.broadcast else OfferKind.TRANSFER
            issue(draft, kind, hop.receivers, Reason.NONE, handoff_id=hop.handoff_id, gate=hop.gate)
        case "wait" if retiring.wait is not None:
            _wait(draft, retiring.wait, retiring.question)
        case "escalate":
            escalate(draft, retiring.reason, retiring.question)
        case "return" if task.hops and ends_by(draft, Termination.RETURN):
            give_back(draft, HandoffState.FAILED_RETURNED, retiring.reason)
        case _:
            _fail(draft, retiring)


def _fail(draft: Draft, retiring: Retiring) -> None:
    """Failure without return: a supervisor for a task that goes in circles, a person, or the end of the task."""
    supervisor = _supervisor(draft) if retiring.reason is Reason.OSCILLATION else None
    if supervisor is not None:
        issue(draft, OfferKind.TAKEOVER, (supervisor,), retiring.reason)
    elif draft.task.settings.on_failure == "escalate" and draft.task.cancel is None:
        escalate(draft, retiring.reason, body=retiring.body)
    else:
        fail(draft, retiring.reason, retiring.body)


def _supervisor(draft: Draft) -> Candidate | None:
    """The agent that gets a task which goes in circles, unless it is one of those who pass it on, or may not own it."""
    task = draft.task
    name = task.settings.supervisor
    if not name or task.cancel is not None or name in (task.owner, *(step.sender for step in task.trail)):
        return None
    graph = in_force(draft)
    if graph is not None and not may_own(graph, name):
        return None  # the way out must not be refused: a person is asked
    return granted(graph, Candidate(agent=name))


def _wait(draft: Draft, wait: Wait, question: Question | None) -> None:
    """Wait, unless what is waited for is there already: no wake-up is lost between decision and commit."""
    task = draft.emit(ev.TaskWaiting(at=draft.now, wait=wait, question=question))
    if wait.on is WaitOn.INPUT and task.unread:
        wake(draft, Reason.WAKE_INPUT)
    elif wait.on is WaitOn.CHILD and _child_ended(task):
        wake(draft, Reason.WAKE_CHILD)


def _child_ended(task: Task) -> bool:
    return any(child.outcome and child_is_awaited(task, child.child_id) for child in task.children)


def _decision_allowed(draft: Draft, decision: dec.Decision) -> None:
    task = draft.task
    _as_decided(task, decision)
    if isinstance(decision, dec.CompleteWith) and not ends_by(draft, Termination.END):
        sender = task.hops[-1].sender
        raise Refused("route_forbidden", f"The edge {sender} → {task.owner} does not let it end the task; return it.")
    if isinstance(decision, dec.StopAsAsked) and task.phase is not Phase.CANCEL_REQUESTED:
        raise Refused("wrong_phase", "Nobody has asked for cancellation.")
    if isinstance(decision, dec.WaitFor):
        if decision.within_ms < 1:
            raise Refused("invalid", "Every wait has a deadline of at least 1 ms.")
        if (decision.on is WaitOn.ANSWER) != (decision.question is not None):
            raise Refused("invalid", "A wait for an answer, and no other, carries a question.")
        awaited = decision.child_id
        if decision.on is WaitOn.CHILD and not any(awaited in ("", c.child_id) for c in task.children):
            raise Refused("unknown_task", "There is no delegation to wait for.")


def _as_decided(task: Task, decision: dec.Decision) -> None:
    """Once a turn has decided on a transfer, only that one is carried out, unless the task is being cancelled."""
    pending = task.tenure.pending if task.tenure else None
    if pending is None or isinstance(decision, dec.StopAsAsked):
        return
    named = decision.handoff_id if isinstance(decision, dec.TransferTo) else ""
    receivers = tuple(entry.agent for entry in getattr(decision, "candidates", ()))
    if named != pending.handoff_id or receivers != tuple(entry.agent for entry in pending.candidates):
        raise Refused("transfer_decided", f"It is {pending.handoff_id}, to {pending.candidates[0].agent}.")


def _retiring(draft: Draft, decision: dec.Decision) -> ev.TenureRetiring:
    """The event that freezes a decision."""
    task = draft.task
    bodies = cmd.bodies_of(decision)
    constraints = task.constraints
    if isinstance(decision, dec.GiveBackTo) and decision.payload is not None:
        payload = read_payload(decision.payload.content, task.settings.payload_bytes)
        constraints = check_carried(payload, task)
    wait, asked = None, decision if isinstance(decision, dec.EscalateTo) else None
    if isinstance(decision, dec.WaitFor):
        wait = Wait(on=decision.on, wake_by=draft.now + decision.within_ms, child_id=decision.child_id)
        asked = decision.question
    return ev.TenureRetiring(
        at=draft.now,
        decision=str(decision.__struct_config__.tag),
        deadline=draft.now + task.settings.retire_ms,
        body=bodies[0].digest if bodies else "",
        reason=getattr(decision, "reason", Reason.NONE),
        handoff_id=getattr(decision, "handoff_id", ""),
        broadcast=getattr(decision, "broadcast", False),
        constraints=constraints,
        wait=wait,
        question=_question(draft, asked, wait) if asked else None,
    )


def _question(draft: Draft, asked: dec.EscalateTo, wait: Wait | None) -> Question:
    due = wait.wake_by if wait else draft.now + (asked.due_ms or draft.task.settings.question_ms)
    return Question(
        question_id=asked.question_id,
        reason=asked.reason,
        who=asked.who or (draft.task.settings.fallback,),
        allowed=("approve", "refuse") if asked.approval else asked.allowed,
        body=asked.body.digest,
        due=due,
        approval=asked.approval,
    )
