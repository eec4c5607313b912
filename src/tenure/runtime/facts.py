"""The four facts of a task, kept apart, each only as strong as its evidence."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol.state import Child, Hop, Question, Task, Work
from tenure.protocol.vocabulary import WorkKind, WorkState
from tenure.runtime.blocking import Blocker, blockers, gate_of
from tenure.runtime.jobs import process_alive, survivors_of
from tenure.runtime.undoing import compensation_of


class Execution(Struct, frozen=True, kw_only=True):
    """Who may act. ``overdue_ms`` is above zero when a deadline has passed and nobody has acted on it."""

    owner: str
    epoch: int
    instance: str
    phase: str
    lease_until: int
    overdue_ms: int


class Routing(Struct, frozen=True, kw_only=True):
    """Who receives live input. ``receiver`` is empty while nobody does; ``unread`` waits for the next owner."""

    receiver: str
    routes: tuple[str, ...]
    unread: int


class OpenWork(Struct, frozen=True, kw_only=True):
    """A work that was not seen to end.

    Attributes:
        seen_now: ``alive``, ``gone`` or ``not determinable``, looked up at this moment where that is possible.
        survivors: what is alive of a process group.
    """

    work_id: str
    name: str
    kind: str
    state: str
    epoch: int
    instance: str
    cancel_delivered: bool
    seen_now: str
    survivors: tuple[str, ...] = ()


class Termination(Struct, frozen=True, kw_only=True):
    """Whether old work really ended: the works that were not seen to.

    Attributes:
        running, residual: works on the books. unseen: how many helpers and calls were not seen to end with their
        tenures; nobody watches them, so nothing is known of them since.
    """

    running: tuple[OpenWork, ...]
    residual: tuple[OpenWork, ...]
    unseen: int = 0


class OpenEffectFact(Struct, frozen=True, kw_only=True):
    """An effect that needs somebody: without settling evidence, or to be undone because its task has failed.

    Attributes:
        checks: calls of reconcilers since somebody last found something out. asked: the person who was asked about it.
        finding: what a person had found, before evidence spoke against it.
        undo: number of its compensations so far, under a key each. undo_reference: the provider's name for the newest.
    """

    effect_id: str
    tool: str
    state: str
    reference: str
    version: int
    attempts: int
    next_check: int
    provider: str = ""
    checks: int = 0
    asked: str = ""
    finding: str = ""
    undo: int = 0
    undo_reference: str = ""


class EffectFacts(Struct, frozen=True, kw_only=True):
    """What exists outside. Of ``open`` ones it is not known, or they are to be undone.

    ``compensation`` says how far what the task has done was undone: ``compensated`` only if all of it is, or
    ``partially_compensated``; empty when nobody has begun to.
    """

    open: tuple[OpenEffectFact, ...]
    by_state: dict[str, int]
    compensation: str = ""


class Facts(Struct, frozen=True, kw_only=True):
    """Four facts, never one. ``answerable`` answers for everything that is open.

    ``delegations`` are children that have not ended: they act on their own, also after this task has ended.
    ``blocked_by`` says what is in the way at the gate that the task stands at: of a grant, of its end, or of what a
    person who is asked can answer.
    """

    task_id: str
    answerable: str
    execution: Execution
    routing: Routing
    termination: Termination
    effects: EffectFacts
    hops: tuple[Hop, ...]
    question: Question | None
    delegations: tuple[Child, ...] = ()
    blocked_by: tuple[Blocker, ...] = ()


async def facts_of(ledger: Ledger, task_id: str) -> Facts:
    """Read the facts of a task, and look up what can be observed from here.

    Raises:
        Refused: ``unknown_task``.
    """
    row = await ledger.row(task_id)
    if row is None:
        raise Refused("unknown_task", task_id)
    task = row.task
    works = [await _observe(work) for work in task.works]
    tenure = task.tenure
    return Facts(
        task_id=task_id,
        answerable=task.answerable,
        execution=Execution(
            owner=tenure.agent if tenure else "",
            epoch=task.epoch,
            instance=tenure.instance if tenure else "",
            phase=str(task.phase),
            lease_until=row.lease_until,
            overdue_ms=row.overdue_ms,
        ),
        routing=_routing(task),
        termination=Termination(
            running=tuple(work for work in works if work.state != WorkState.RESIDUAL),
            residual=tuple(work for work in works if work.state == WorkState.RESIDUAL),
            unseen=task.unseen,
        ),
        effects=await _effects(ledger, task_id),
        hops=task.hops,
        question=task.question,
        delegations=tuple(child for child in task.children if not child.outcome),
        blocked_by=blockers(task, await ledger.effects(task_id, open_only=True)) if gate_of(task) else (),
    )


def _routing(task: Task) -> Routing:
    tenure = task.tenure
    return Routing(
        receiver=tenure.agent if tenure else "",
        routes=tenure.routes if tenure else (),
        unread=len(task.unread),
    )


async def _effects(ledger: Ledger, task_id: str) -> EffectFacts:
    effects = await ledger.effects(task_id)
    by_state: dict[str, int] = {}
    for effect in effects:
        by_state[str(effect.state)] = by_state.get(str(effect.state), 0) + 1
    return EffectFacts(
        open=tuple(
            OpenEffectFact(
                effect_id=effect.effect_id,
                tool=effect.tool,
                state=str(effect.state),
                reference=effect.reference,
                version=effect.version,
                attempts=effect.attempt.n,
                next_check=effect.next_check,
                provider=effect.provider,
                checks=effect.checks,
                asked=effect.asked,
                finding=effect.finding,
                undo=effect.undo,
                undo_reference=effect.undo_reference,
            )
            for effect in effects
            if effect.next_check or not effect.state.settled
        ),
        by_state=by_state,
        compensation=compensation_of(effects),
    )


async def _observe(work: Work) -> OpenWork:
    seen, survivors = await asyncio.to_thread(look, work)
    return OpenWork(
        work_id=work.work_id,
        name=work.name,
        kind=str(work.kind),
        state=str(work.state),
        epoch=work.epoch,
        instance=work.instance,
        cancel_delivered=work.delivered,
        seen_now=seen,
        survivors=survivors,
    )


_SEEN = {True: "alive", False: "gone", None: "not determinable"}


def look(work: Work) -> tuple[str, tuple[str, ...]]:
    """Look from this host. That a process lives says nothing about one of its coroutines or threads."""
    if work.locator is None or work.kind is WorkKind.REMOTE:
        return _SEEN[None], ()  # where remote work is, its provider knows
    if work.kind is not WorkKind.PROCESS:
        return _SEEN[False if process_alive(work.locator) is False else None], ()
    found = survivors_of(work.locator, work.work_id)
    if found is None:
        return _SEEN[None], ()
    return _SEEN[bool(found)], tuple(str(each) for each in found)
