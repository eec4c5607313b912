"""Everything that ``tenure show`` tells of a task, as data."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tenure.cli.history import History, HopStory, TenureStory, TurnStory, history_of
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol.state import Child, Task
from tenure.runtime.blocking import Blocker
from tenure.runtime.facts import Execution, OpenEffectFact, OpenWork, Routing, facts_of


class SettledEffect(Struct, frozen=True, kw_only=True):
    """An effect that needs nobody. ``finding``: a person's. ``undo_reference``: the provider's name for its undoing."""

    effect_id: str
    tool: str
    state: str
    reference: str
    attempts: int
    finding: str = ""
    undo_reference: str = ""


class TerminationPicture(Struct, frozen=True, kw_only=True):
    """Open works, and what the end of each tenure claimed."""

    running: tuple[OpenWork, ...]
    residual: tuple[OpenWork, ...]
    tenures: list[TenureStory]


class EffectsPicture(Struct, frozen=True, kw_only=True):
    """``settled_at``: when all effects were last seen to be settled at the end of a tenure; 0 for never."""

    open: tuple[OpenEffectFact, ...]
    settled: tuple[SettledEffect, ...]
    by_state: dict[str, int]
    settled_at: int


class BudgetPicture(Struct, frozen=True, kw_only=True):
    """What was used of a budget, and its limit."""

    used: int
    limit: int


class GraphPicture(Struct, frozen=True, kw_only=True):
    """Under which routing graph the task goes, and how.

    Attributes:
        digest: the version in force; empty without one. nudges: turns handed back since the last handoff.
        path: senders and receivers of the newest transfers. turns: what was decided on each turn.
    """

    digest: str
    transfers: BudgetPicture
    delegations: BudgetPicture
    nudges: BudgetPicture
    path: tuple[str, ...]
    turns: list[TurnStory]


class QuestionPicture(Struct, frozen=True, kw_only=True):
    """A question to a person. ``words`` is ``None`` when it was erased."""

    question_id: str
    reason: str
    who: tuple[str, ...]
    allowed: tuple[str, ...]
    due: int
    words: Any


class Picture(Struct, frozen=True, kw_only=True):
    """One task. ``goal`` and ``result`` are ``None`` when there is none, or when it was erased (``erased``)."""

    task_id: str
    parent: str
    conversation: str
    goal: str | None
    created_at: int
    at: int
    execution: Execution
    blocked_by: tuple[Blocker, ...]
    routing: Routing
    termination: TerminationPicture
    effects: EffectsPicture
    answerable: str
    graph: GraphPicture
    hops: list[HopStory]
    children: tuple[Child, ...]
    question: QuestionPicture | None
    waits_on: str
    wake_by: int
    reason: str
    result: Any
    erased: bool


async def picture_of(ledger: Ledger, task_id: str) -> Picture:
    """Read it.

    Raises:
        Refused: ``unknown_task``.
    """
    task = await ledger.task(task_id)
    if task is None:
        raise Refused("unknown_task", repr(task_id))
    facts = await facts_of(ledger, task_id)
    history = await history_of(ledger, task_id)
    for tenure in history.tenures:
        tenure.words = await _why(ledger, task, history.failures.get(tenure.epoch, ""))
    payload, erased = await _content(ledger, task, task.payload)
    result, result_erased = await _content(ledger, task, task.result)
    effects = await ledger.effects(task_id)
    settled = tuple(
        SettledEffect(
            effect_id=effect.effect_id,
            tool=effect.tool,
            state=str(effect.state),
            reference=effect.reference,
            attempts=effect.attempt.n,
            finding=effect.finding,
            undo_reference=effect.undo_reference,
        )
        for effect in effects
        if effect.state.settled and not effect.next_check
    )
    return Picture(
        task_id=task_id,
        parent=task.parent,
        conversation=task.conversation,
        goal=payload.get("goal") if isinstance(payload, dict) else None,
        created_at=task.created_at,
        at=task.at,
        execution=facts.execution,
        blocked_by=facts.blocked_by,
        routing=facts.routing,
        termination=TerminationPicture(
            running=facts.termination.running, residual=facts.termination.residual, tenures=history.tenures
        ),
        effects=EffectsPicture(
            open=facts.effects.open,
            settled=settled,
            by_state=facts.effects.by_state,
            settled_at=history.effects_settled_at,
        ),
        answerable=facts.answerable,
        graph=_graph(task, history),
        hops=history.hops,
        children=task.children,
        question=await _question(ledger, task),
        waits_on=str(task.wait.on) if task.wait else "",
        wake_by=task.wait.wake_by if task.wait else 0,
        reason=str(task.reason),
        result=result,
        erased=erased or result_erased,
    )


def _graph(task: Task, history: History) -> GraphPicture:
    settings = task.settings
    return GraphPicture(
        digest=task.graph,
        transfers=BudgetPicture(used=task.transfers, limit=settings.transfers),
        delegations=BudgetPicture(used=task.delegated, limit=settings.delegations),
        nudges=BudgetPicture(used=task.nudges, limit=settings.nudges),
        path=tuple(f"{step.sender} → {step.receiver}" for step in task.trail),
        turns=history.turns,
    )


async def _content(ledger: Ledger, task: Task, digest: str) -> tuple[Any, bool]:
    """A body's value, and whether it was erased."""
    if not digest:
        return None, False
    body = await ledger.body(task.root_id, digest)
    return (None, True) if body is None else (body.value(), False)


async def _why(ledger: Ledger, task: Task, digest: str) -> str:
    """What a failure or a return said: the exception, or the summary that went back."""
    said, _ = await _content(ledger, task, digest)
    return str(said.get("error") or said.get("summary") or "") if isinstance(said, dict) else ""


async def _question(ledger: Ledger, task: Task) -> QuestionPicture | None:
    question = task.question
    if question is None:
        return None
    words, _ = await _content(ledger, task, question.body)
    return QuestionPicture(
        question_id=question.question_id,
        reason=str(question.reason),
        who=question.who,
        allowed=question.allowed,
        due=question.due,
        words=words,
    )
