"""The sender's part of each handoff, built from what the task carries already and what this tenure adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenure.errors import Fenced, Refused
from tenure.protocol import decisions as dec
from tenure.protocol.body import Body
from tenure.protocol.graph import EdgeKind
from tenure.protocol.outside import Effect
from tenure.protocol.payload import Fact, Payload
from tenure.protocol.state import Candidate, Child, Task
from tenure.protocol.vocabulary import EffectState, Finding, WorkEnd
from tenure.runtime.books import Reader
from tenure.runtime.content import encoded, to_plain
from tenure.runtime.decisions import Transfer
from tenure.runtime.ids import nonce

if TYPE_CHECKING:
    from tenure.runtime.tenure import Tenure

_FACT_OF = {
    EffectState.CONFIRMED: "done",
    EffectState.REFUSED: "refused",
    EffectState.ABSENT: "refused",
    EffectState.FAILED: "failed",
    EffectState.CANCELLED: "failed",
    EffectState.COMPENSATED: "failed",
}

_SAID_BY_OUTCOME = frozenset({EffectState.CONFIRMED, EffectState.REFUSED, EffectState.FAILED})


class InFlight(Struct, frozen=True, kw_only=True):
    """What the books say at the grant: open, so answered for, but nothing to call again.

    Attributes:
        works: open works of earlier tenures, as facts with outcome ``running`` or ``unknown``.
        effects: effects without settling evidence. delegations: children, ended or not.
        ended: works that ended, and effects that were settled, after the sender's part was frozen.
    """

    works: tuple[Fact, ...] = ()
    effects: tuple[Fact, ...] = ()
    delegations: tuple[Child, ...] = ()
    ended: tuple[Fact, ...] = ()


def first_payload(
    task_id: str, goal: str, data: Any, constraints: Iterable[str], summary: str = "", salt: str = ""
) -> Payload:
    """The payload of a task that is submitted, with a salt of its own, or delegated, with its tree's."""
    return Payload(
        task_id=task_id,
        handoff_id="",
        hop=0,
        goal=goal,
        salt=salt or nonce(),
        constraints=tuple(constraints),
        summary=summary,
        data=to_plain(data),
    )


async def next_payload(
    ledger: Reader,
    task: Task,
    carried: Payload,
    in_flight: InFlight,
    decision: Transfer[Any],
    handoff_id: str,
    seen: tuple[Fact, ...] = (),
) -> Payload:
    """The sender's part of the next hop: everything carried once, and the new on top.

    ``seen`` are facts that the runtime has seen itself. What the decision states is the agent's claim, whatever it
    says of its origin. Ids that the books have given are theirs: a claim under one of them, also of an effect or a work
    that is still open, is left out, so that it never stands in the way of what becomes of it.
    """
    effects = await ledger.effects(task.task_id)
    ended = [await _ended(ledger, task, ending) for ending in task.endings]  # those that came after the grant too
    known = {fact.id: fact.by for fact in (*carried.done, *in_flight.ended)}
    settled = settled_facts(effects, lambda effect_id: known.get(effect_id, task.owner))
    from_books = (*in_flight.ended, *ended, *settled, *seen)
    booked = {fact.id for fact in (*carried.done, *from_books) if fact.origin != "claimed"}
    booked |= {effect.effect_id for effect in effects} | {work.work_id for work in task.works}
    claimed = [replace(fact, origin="claimed") for fact in decision.done if fact.id not in booked]
    # What was done and is open again, because it is being undone or disputed, is in flight and not among what is done.
    reopened = {effect.effect_id for effect in effects if not effect.state.settled}
    done = tuple(fact for fact in _once((*carried.done, *from_books, *claimed)) if fact.id not in reopened)
    payload = Payload(
        task_id=task.task_id,
        handoff_id=handoff_id,
        hop=task.hop_count + 1,
        goal=carried.goal,
        salt=carried.salt,
        trigger=decision.trigger,
        summary=decision.summary,
        constraints=tuple(dict.fromkeys((*carried.constraints, *decision.constraints))),
        decisions=tuple(dict.fromkeys((*carried.decisions, *decision.decisions))),
        done=done,
        artifacts=tuple({artifact.id: artifact for artifact in (*carried.artifacts, *decision.artifacts)}.values()),
        open_questions=decision.open_questions,
        data=to_plain(decision.data),
        trace=carried.trace,
    )
    return _within(payload, {fact.id for fact in carried.done}, task.settings.payload_bytes)


async def transfer_to(
    own: Tenure[Any], decision: Transfer[Any], handoff_id: str, seen: tuple[Fact, ...] = ()
) -> dec.TransferTo:
    """A transfer as the ledger takes it, which judges whether it may be. ``seen`` as in :func:`next_payload`.

    Raises:
        Refused: ``misuse`` when it names nobody; ``invalid`` for data without a JSON form.
    """
    targets = (decision.to,) if isinstance(decision.to, str) else tuple(decision.to)
    if not all(targets) or not targets:
        raise Refused("misuse", "A Transfer names the agent that it goes to.")
    task = await own.hold.books.task(own.task_id)
    if task is None:
        raise Fenced("stale_epoch", own.task_id)
    if not decision.trigger and own.hold.graph is not None:
        edge = own.hold.graph.edge(own.agent, targets[0], EdgeKind.TRANSFER)
        decision = replace(decision, trigger=edge.trigger if edge else "")
    payload = await next_payload(own.hold.books, task, own.payload, own.in_flight, decision, handoff_id, seen)
    return dec.TransferTo(
        handoff_id=handoff_id,
        candidates=tuple(Candidate(agent=target) for target in targets),
        payload=encode_payload(payload),
        gate=decision.gate,
    )


def settled_facts(effects: Iterable[Effect], by: Callable[[str], str]) -> tuple[Fact, ...]:
    """Settled effects as facts: what was done, how it came out, where to look it up. Never the key.

    ``by`` tells who did it, as far as that is known; handing a fact on does not make it the sender's.
    """
    return tuple(
        Fact(
            id=effect.effect_id,
            what=effect.tool,
            outcome=_outcome(effect),
            reference=effect.reference,
            by=by(effect.effect_id),
            data=_state(effect),
            origin="effect",
        )
        for effect in effects
        if effect.state in _FACT_OF or effect.state is EffectState.ATTESTED
    )


def _outcome(effect: Effect) -> Any:
    """What is known of a settled effect; what a person has found is that."""
    if effect.state is EffectState.ATTESTED:
        return {Finding.ABSENT: "refused", Finding.UNDONE: "failed"}.get(Finding(effect.finding or "present"), "done")
    return _FACT_OF[effect.state]


def _state(effect: Effect) -> dict[str, str] | None:
    """The state of an effect, and what a person has found, where the outcome's word does not say it all."""
    if effect.state in _SAID_BY_OUTCOME:
        return None
    found = {"finding": effect.finding} if effect.finding else {}
    undone = {"undone_as": effect.undo_reference} if effect.undo_reference else {}
    return {"state": str(effect.state), **found, **undone}


async def books_of(ledger: Reader, task: Task, payload: Payload) -> InFlight:
    """What is in flight and what the sender's part could not tell yet, as facts that a receiver can read."""
    effects = await ledger.effects(task.task_id)
    told = {fact.id: fact for fact in payload.done}
    settled = settled_facts(effects, lambda effect_id: told[effect_id].by if effect_id in told else "")
    news = [fact for fact in settled if fact != told.get(fact.id)]
    return InFlight(
        works=tuple(
            Fact(
                id=work.work_id,
                what=work.name,
                outcome="unknown" if work.state == "residual" else "running",
                by=work.agent,
                origin="work",
            )
            for work in task.works
        ),
        effects=tuple(
            Fact(
                id=effect.effect_id,
                what=effect.tool,
                outcome="unknown",
                reference=effect.reference,
                data=_state(effect),
                origin="effect",
            )
            for effect in effects
            if not effect.state.settled
        ),
        delegations=task.children,
        ended=(*[await _ended(ledger, task, ending) for ending in task.endings], *news),
    )


async def _ended(ledger: Reader, task: Task, ending: Any) -> Fact:
    body = await ledger.body(task.root_id, ending.result) if ending.result else None
    data = body.value() if body is not None else None
    # A process tells by its exit code whether it did what it was started for.
    done = ending.how is WorkEnd.RETURNED or (ending.how is WorkEnd.EXITED and data == 0)
    return Fact(
        id=ending.work_id,
        what=ending.name,
        outcome="done" if done else "unknown" if ending.how is WorkEnd.VANISHED else "failed",
        by=ending.agent,
        data=data,
        origin="work",
    )


def encode_payload(payload: Payload) -> Body:
    """Freeze a sender's part."""
    return Body(encoded(payload), nonce())


def decode_payload(body: Body | None) -> Payload:
    """Read a sender's part that the ledger has checked before.

    Raises:
        Refused: ``erased``.
    """
    if body is None:
        raise Refused("erased", "The payload of this task.")
    return msgspec.json.decode(body.content, type=Payload)


def _once(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Each fact once, by its id; the newest word on it wins, in the place of the first."""
    return tuple({fact.id: fact for fact in facts}.values())


def _within(payload: Payload, carried: set[str], limit: int) -> Payload:
    """A payload without the longest of what works have brought since the last hop, where it would be too large.

    That they ran goes along in any case: a result that nobody has foreseen does not keep a task where it is.
    """
    size = len(encoded(payload))
    brought = [fact for fact in payload.done if fact.origin == "work" and fact.id not in carried]
    for fact in sorted(brought, key=lambda one: len(encoded(one.data)), reverse=True):
        if size <= limit:
            break
        left_out = {"error": f"Its {len(encoded(fact.data))} bytes are too many for a payload of {limit}."}
        done = (replace(other, data=left_out) if other is fact else other for other in payload.done)
        payload = replace(payload, done=tuple(done))
        size = len(encoded(payload))
    return payload
