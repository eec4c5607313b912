"""``decide(books, command, now)``: what a command leads to. Refuses or answers; changes nothing by itself.

Pure: the books are what the ledger loaded, ``now`` is the ledger's clock in milliseconds since the Unix epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenure.errors import Fenced, Refused
from tenure.protocol import commands as cmd
from tenure.protocol.decide import (
    deadlines,
    effects,
    evidence,
    guards,
    offering,
    people,
    retiring,
    submitting,
    turning,
    working,
)
from tenure.protocol.decide.deadlines import next_deadline
from tenure.protocol.decide.draft import Change, Draft, Verdict
from tenure.protocol.state import Books, Task

__all__ = ["Change", "Verdict", "decide", "decide_heartbeat", "next_deadline"]

_RULES: dict[type[cmd.CommandBase], Callable[[Draft, Any], Verdict]] = {
    cmd.Submit: submitting.submit,
    cmd.Claim: offering.claim,
    cmd.Acknowledge: offering.acknowledge,
    cmd.Decline: offering.decline,
    cmd.Advance: working.advance,
    cmd.See: working.see,
    cmd.TakeTurn: turning.take_turn,
    cmd.AdoptGraph: turning.adopt_graph,
    cmd.Retire: retiring.retire,
    cmd.Release: retiring.release,
    cmd.StartWork: working.start_work,
    cmd.LocateWork: working.locate_work,
    cmd.CancelWork: working.cancel_work,
    cmd.EndWork: working.end_work,
    cmd.OpenRoute: working.open_route,
    cmd.CloseRoute: working.close_route,
    cmd.Intend: effects.intend,
    cmd.AttemptEffect: effects.attempt,
    cmd.RecordOutcome: evidence.record_outcome,
    cmd.AskAboutEffect: evidence.ask,
    cmd.Attest: evidence.attest,
    cmd.Delegate: submitting.delegate,
    cmd.Send: working.send,
    cmd.Answer: people.answer,
    cmd.RequestCancel: people.request_cancel,
    cmd.StopTree: people.stop_tree,
    cmd.Reverse: people.reverse,
    cmd.Expire: deadlines.expire,
    cmd.ReportDeath: people.report_death,
}


def decide(books: Books, command: cmd.Command, now: int) -> Verdict:
    """Decide one command against the books that it touches.

    Raises:
        Refused: the command breaks a rule; ``code`` says which. Nothing changes.
        Fenced: the command speaks for a tenure that is not the current one. Nothing changes.
    """
    if books.task is None and not isinstance(command, cmd.Submit):
        raise Refused("unknown_task", command.task_id)
    return _RULES[type(command)](Draft(books, now), command)


def decide_heartbeat(task: Task | None, epoch: int, instance: str, now: int) -> int:
    """The new end of the lease. A heartbeat is not an event and never a sign of progress.

    Until a takeover commits, the old epoch stays valid, also past the end of its lease.

    Raises:
        Fenced: ``stale_epoch`` for any other epoch or instance.
        Refused: ``unknown_task``.
    """
    if task is None:
        raise Refused("unknown_task")
    if not guards.owns(task, epoch, instance):
        error: Fenced = guards.stale(task, epoch, instance)
        raise error
    return now + task.settings.lease_ms
