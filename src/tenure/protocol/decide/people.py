"""Cancellation, reversal, questions and their answers, and the observed death of an instance."""

from __future__ import annotations

from tenure.errors import Refused
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.approvals import Approval, AskedApproval
from tenure.protocol.decide import guards
from tenure.protocol.decide.draft import Draft, Verdict
from tenure.protocol.decide.ending import (
    cancel,
    end_hop,
    end_tenure,
    escalate,
    fail,
    wake,
    withdraw_offer,
)
from tenure.protocol.decide.lost import take_over
from tenure.protocol.decide.offering import issue
from tenure.protocol.decide.retiring import finish_switch
from tenure.protocol.decide.routing import granted, in_force
from tenure.protocol.decide.working import after_settling
from tenure.protocol.state import Candidate, Question
from tenure.protocol.vocabulary import (
    DIES_WITH_PROCESS,
    EvidenceKind,
    Gate,
    HandoffState,
    OfferKind,
    Phase,
    Reason,
    WorkEnd,
)


def request_cancel(draft: Draft, command: cmd.RequestCancel) -> Verdict:
    """Ask the owner to stop; without an owner, end the task as far as the gate allows."""
    task = guards.unfinished(draft)
    if task.phase is Phase.CANCEL_REQUESTED:
        return draft.verdict("already")
    if task.tenure is not None:
        due = draft.now + task.settings.cancel_ms
        draft.emit(ev.CancelRequested(at=draft.now, by=command.by, reason=command.reason, due=due))
        running = tuple(work.work_id for work in task.works)
        if running:
            draft.emit(ev.CancellationRequested(at=draft.now, works=running))
        return draft.verdict()
    if guards.standing_in_the_way(task, Gate.ROUTING_RETIRED):
        if task.phase is Phase.ESCALATED:
            raise Refused("wrong_phase", "A person is asked already, and critical items are open.")
        escalate(draft, Reason.CANCELLED)
    else:
        cancel(draft, command.by, command.reason)
    return draft.verdict()


def stop_tree(draft: Draft, command: cmd.StopTree) -> Verdict:
    """Forbid new tasks in the tree."""
    if draft.tree is None or command.task_id != command.root_id:
        raise Refused("unknown_task", "The stop flag is at the root.")
    if draft.tree.stopped:
        return draft.verdict("already")
    draft.emit(ev.TreeStopped(at=draft.now, by=command.by, reason=command.reason))
    return draft.verdict()


def reverse(draft: Draft, command: cmd.Reverse) -> Verdict:
    """End a hop and all above it, fence whoever owns the task, and offer it to that hop's sender."""
    task = guards.unfinished(draft)
    position = next((i for i, hop in enumerate(task.hops) if hop.handoff_id == command.handoff_id), None)
    if position is None:
        raise Refused("unknown_handoff", command.handoff_id)
    if task.phase is Phase.CANCEL_REQUESTED:
        raise Refused("wrong_phase", "Its cancellation was requested.")
    hop = task.hops[position]
    end_tenure(draft, forced=True, reason=Reason.REVERSED)
    withdraw_offer(draft, Reason.REVERSED)
    for _ in range(len(task.hops) - position):
        end_hop(draft, HandoffState.REVERSED, Reason.REVERSED)
    issue(draft, OfferKind.RETURN, (Candidate(agent=hop.sender, authority=hop.authority),), Reason.REVERSED)
    return draft.verdict()


def answer(draft: Draft, command: cmd.Answer) -> Verdict:
    """Take the one answer to a question. It reaches the owner as input, in order, whoever that is by then."""
    task = guards.unfinished(draft)
    question = task.question
    if question is None or question.question_id != command.question_id:
        raise Refused("already_answered" if question is None else "unknown_question", command.question_id)
    _may_answer(question, command)
    if command.action == "abort":
        if guards.standing_in_the_way(task, Gate.ROUTING_RETIRED):
            raise Refused("wrong_phase", "Critical items are open; attest or reconcile them first.")
        _record_answer(draft, command)
        fail(draft, Reason.ABORTED)
        return draft.verdict()
    if command.action == "reassign" and not command.agent:
        raise Refused("invalid", "A reassignment names an agent.")
    entry = _reassigned(draft, command.agent) if command.action == "reassign" else None
    _record_answer(draft, command)
    if question.approval is not None:
        _decide_approval(draft, question, question.approval, command)
    if entry is not None:
        issue(draft, OfferKind.TAKEOVER, (entry,), Reason.REASSIGNED)
    else:
        wake(draft, Reason.ANSWERED)
    return draft.verdict()


def report_death(draft: Draft, command: cmd.ReportDeath) -> Verdict:
    """Record what the observed death of an instance proves: its coroutines, threads and handlers have ended.

    It proves nothing about subprocesses and remote jobs, and nothing about effects except that no further request
    of theirs will be sent.
    """
    task = draft.task
    for work in task.works:
        if work.instance == command.instance and work.kind in DIES_WITH_PROCESS:
            _vanished(draft, work.work_id, command.by)
    for effect in draft.books.effects:
        if command.instance in effect.senders:
            draft.emit(ev.EffectSenderDied(at=draft.now, effect_id=effect.effect_id, instance=command.instance))
    tenure = draft.task.tenure
    if tenure is not None and tenure.instance == command.instance:
        if tenure.retiring is not None:
            finish_switch(draft, tenure.retiring, Reason.INSTANCE_DEAD)
        else:
            take_over(draft, Reason.INSTANCE_DEAD)
        handler = f"handler:{tenure.epoch}"
        if any(work.work_id == handler for work in draft.task.works):
            _vanished(draft, handler, command.by)
    if not draft.changes:
        raise Refused("not_due", f"Nothing of {command.instance} is open in this task.")
    return after_settling(draft)


def _vanished(draft: Draft, work_id: str, by: str) -> None:
    """The end of a work that its process has taken along."""
    draft.emit(
        ev.WorkStopped(
            at=draft.now, work_id=work_id, how=WorkEnd.VANISHED, late=True, evidence=EvidenceKind.DEATH, by=by
        )
    )


def _reassigned(draft: Draft, agent: str) -> Candidate:
    """The agent that a person names: with what the graph gives it, or without one, with what the last owner had."""
    graph = in_force(draft)
    if graph is None:
        return Candidate(agent=agent, authority=draft.task.held_authority)
    return granted(graph, Candidate(agent=agent))


def _may_answer(question: Question, command: cmd.Answer) -> None:
    if question.who and command.by not in question.who:
        raise Refused("not_allowed", f"It is for {', '.join(question.who)}.")
    if question.allowed and command.choice not in question.allowed:
        raise Refused("not_allowed", f"Allowed: {', '.join(question.allowed)}.")
    if command.action not in ("resume", "reassign", "abort"):
        raise Refused("invalid", f"{command.action!r} is not an action; use resume, reassign or abort.")


def _decide_approval(draft: Draft, question: Question, asked: AskedApproval, command: cmd.Answer) -> None:
    """Keep a person's word on the effect that the question names. It binds whoever owns the task by then."""
    draft.emit(
        ev.ApprovalDecided(
            at=draft.now,
            approval=Approval(
                question_id=question.question_id,
                tool=asked.tool,
                intent=asked.intent,
                arguments=asked.arguments,
                by=command.by,
                granted=command.choice == "approve",
                until=draft.now + draft.task.settings.approval_ms,
            ),
        )
    )


def _record_answer(draft: Draft, command: cmd.Answer) -> None:
    body = command.body.digest if command.body else ""
    draft.emit(
        ev.QuestionAnswered(
            at=draft.now,
            question_id=command.question_id,
            by=command.by,
            action=command.action,
            choice=command.choice,
            agent=command.agent,
            body=body,
        )
    )
    if command.action != "abort":
        n = draft.task.received + 1
        draft.emit(ev.InputReceived(at=draft.now, n=n, body=body, sender=command.by, question_id=command.question_id))
