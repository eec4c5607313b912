"""The end of a tenure by its own decision, always in the same order; and what is left to do after a lost one."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from tenure.errors import Fenced, Refused
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.vocabulary import Reason, WaitOn
from tenure.runtime.content import to_body, words_of
from tenure.runtime.decisions import Complete, Escalate, GiveBack, Transfer, Wait
from tenure.runtime.ids import new_id
from tenure.runtime.jobs import Job
from tenure.runtime.payloads import encode_payload, next_payload, transfer_to
from tenure.runtime.tenure import Tenure

_LOG = logging.getLogger("tenure.worker")

STRAY = 0.01
"""Seconds in which a handler that has returned is seen to end, unless it left something running."""


async def retire_by_decision(
    own: Tenure[Any], decided: dec.Decision, handler: Job, *, undone: bool = False
) -> cmd.Receipt:
    """Stop intake, state the decision, cancel, close routes, wait within the graces, observe, declare, switch.

    With nothing left to retire, all of it is one commit. ``undone``: what the tenure was shown since its last commit
    comes to nothing, and is there again for the next one.

    Raises:
        Refused: the ledger does not take this decision; the tenure is as it was.
    """
    hold = own.hold
    hold.closing = True
    if await handler.wait(STRAY) is None:
        await own.works.adopt(handler)
    quiet = not own.works.running and not own.effects.running and not own.inbox.routes
    failed = undone or isinstance(decided, dec.FailWith | dec.GiveBackTo)
    collected = () if undone else own.delegations.take_collected()
    try:
        receipt = await hold.say(
            cmd.Retire,
            decision=decided,
            quiet=quiet,
            # A tenure that failed consumes nothing more than what it has committed: the rest goes on.
            consumed=own.inbox.consumed if failed else own.inbox.shown,
            collected=collected,
        )
    except Refused:
        hold.closing = False
        own.delegations.collected += collected
        raise
    hold.stated = True
    # A work whose end is still on its way to the ledger keeps the switch from being made in the same commit.
    switched = receipt.status == "gate" or receipt.epoch != hold.epoch
    return receipt if quiet and switched else await release(own)


async def release(own: Tenure[Any]) -> cmd.Receipt:
    """After the decision was stated: cancel, close routes, wait within the graces, observe, declare, switch."""
    hold = own.hold
    await own.inbox.close_routes()
    (retired, delivered), unseen = await asyncio.gather(own.works.retire(), own.effects.retire(owned=True))
    await own.works.reported(1)
    ended = own.works.ended(retired)
    receipt = await hold.say(
        cmd.Release,
        routes_retired=True,
        ended=ended,
        delivered=delivered,
        unseen=unseen + own.works.unseen_helpers(retired),
    )
    own.works.stated(ended)
    own.works.keep_watching()
    return receipt


async def retire_lost(own: Tenure[Any], handler: Job) -> None:
    """After the tenure was lost: ask all of it to end at once, and report each end as it is seen, late or not."""
    own.hold.closing = True
    handler.request_cancel()
    own.works.request_end()
    await own.inbox.close_routes()
    await asyncio.gather(own.works.retire((handler,)), own.effects.retire(owned=False))
    own.works.keep_watching()


async def to_protocol(own: Tenure[Any], decision: object) -> dec.Decision:
    """A handler's decision as the ledger takes it. What one of its turns has decided before is carried out.

    Raises:
        Refused: ``misuse`` and ``invalid``; whether it is allowed is for the ledger to say.
    """
    if own.turns.decided is not None:
        decided = own.turns.decided
        if decision is not decided.transfer:
            _LOG.warning("A turn of %s has decided to transfer %s; that is what is done.", own.agent, own.task_id)
        return await transfer_to(own, decided.transfer, decided.handoff_id, decided.facts)
    match decision:
        case Transfer():
            return await transfer_to(own, decision, new_id("h"))
        case Complete(result):
            return dec.CompleteWith(result=to_body(result))
        case GiveBack(reason, detail):
            return await give_back(own, reason, detail)
        case Escalate():
            return _escalate(decision)
        case Wait():
            return _wait(decision)
        case _:
            kinds = "Transfer, Complete, GiveBack, Escalate or Wait"
            raise Refused("misuse", f"Handler {own.agent} returned {type(decision).__name__}; return {kinds}.")


async def failure(own: Tenure[Any], error: BaseException) -> dec.Decision:
    """A handler that raised, as a structured failure: returned to a sender when there is one."""
    reason = Reason.CAPABILITY if own.out_of_bounds else Reason.RAISED
    return await give_back(own, reason, words_of(error))


async def give_back(own: Tenure[Any], reason: Reason, detail: str) -> dec.Decision:
    """A return: the same facts go back, with the reason and what has been done since. Without a sender, a failure."""
    task = await own.hold.books.task(own.task_id)
    if task is None:
        raise Fenced("stale_epoch", own.task_id)
    if not task.hops:
        return dec.FailWith(reason=reason, detail=to_body({"error": detail}))
    summary = f"{reason}: {detail}" if detail else str(reason)
    returned = Transfer[Any](to="", data=own.payload.data, summary=summary, trigger="return")
    payload = await next_payload(own.hold.books, task, own.payload, own.in_flight, returned, own.payload.handoff_id)
    return dec.GiveBackTo(reason=reason, payload=encode_payload(payload))


def _escalate(decision: Escalate) -> dec.EscalateTo:
    return dec.EscalateTo(
        question_id=new_id("q"),
        body=to_body({"question": decision.question, "evidence": decision.evidence}),
        who=decision.who,
        allowed=decision.allowed,
        due_ms=int(decision.within * 1000),
        approval=decision.approval,
    )


def _wait(decision: Wait) -> dec.WaitFor:
    return dec.WaitFor(
        on=WaitOn(decision.on),
        within_ms=int(decision.within * 1000),
        child_id=decision.child,
        question=None if decision.question is None else _escalate(decision.question),
    )
