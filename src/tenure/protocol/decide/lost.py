"""What follows when a tenure is lost: its end is forced, and the task is offered again, by policy."""

from __future__ import annotations

from tenure.protocol.decide import guards
from tenure.protocol.decide.draft import Draft
from tenure.protocol.decide.ending import cancel, end_tenure, escalate
from tenure.protocol.decide.guards import unreleased
from tenure.protocol.decide.offering import give_back, issue
from tenure.protocol.decide.retiring import finish_switch
from tenure.protocol.decide.transferring import initiate_decided
from tenure.protocol.state import Candidate
from tenure.protocol.vocabulary import Gate, HandoffState, OfferKind, Reason


def take_over(draft: Draft, reason: Reason) -> None:
    """Force the tenure's end and offer the task: to the same agent, to the sender, or to a person.

    A transfer that its last turn had decided is carried out instead.
    """
    task = draft.task
    if task.tenure is not None and task.cancel is None and initiate_decided(draft):
        finish_switch(draft, unreleased(draft.task), reason)
        return
    end_tenure(draft, forced=True, reason=reason)
    if task.cancel is not None:
        # Whether it stopped is not known: with critical items open, a person is asked; nothing is shown as stopped.
        if guards.standing_in_the_way(draft.task, Gate.ROUTING_RETIRED):
            escalate(draft, Reason.CANCEL_TIMEOUT)
        else:
            cancel(draft, task.cancel.by, task.cancel.reason)
        return
    if task.takeovers >= task.settings.takeovers:
        escalate(draft, Reason.RETRIES_EXHAUSTED)
    elif task.settings.on_lost == "person":
        escalate(draft, reason)
    elif task.settings.on_lost == "return" and task.hops:
        give_back(draft, HandoffState.FAILED_RETURNED, reason)
    else:
        entry = Candidate(agent=task.owner, authority=task.held_authority)
        issue(draft, OfferKind.TAKEOVER, (entry,), reason)
