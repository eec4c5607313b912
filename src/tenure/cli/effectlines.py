"""Effects as the commands list them, and how one is found by its id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from msgspec import Struct

from tenure.cli.history import all_events
from tenure.errors import Refused
from tenure.ledger import EffectRow, Ledger
from tenure.protocol import events as ev
from tenure.protocol.evidence import Evidence, evidence_of
from tenure.protocol.outside import Effect

PAGE = 1_000


class EffectLine(Struct, kw_only=True):
    """An effect in the list. Times are milliseconds since the Unix epoch, by the ledger's clock.

    Attributes:
        version: what an attestation must name. answerable: who was asked about it, else who answers for its task.
        next_check: when somebody is to look next; 0 when nobody needs to. reference: the provider's name for it.
        finding: what a person has found. undo: number of its compensations so far, the newest is ``undo_reference``.
    """

    effect_id: str
    task_id: str
    tool: str
    provider: str
    state: str
    version: int
    attempts: int
    answerable: str
    next_check: int
    reference: str = ""
    finding: str = ""
    granted: bool = False
    asked: str = ""
    checks: int = 0
    undo: int = 0
    undo_reference: str = ""
    policy: str = ""
    position: int = 0


class Step(Struct, kw_only=True):
    """One event of an effect, in words. ``version``: of the effect after it."""

    version: int
    at: int
    what: str


class EvidenceLine(Struct, kw_only=True):
    """One observation, with its content as far as it was kept and not erased."""

    evidence: Evidence
    said: Any = None


class EffectStory(Struct, kw_only=True):
    """One effect: its line, the evidence of it, each of its events, and whose requests may still land."""

    effect: EffectLine
    evidence: list[EvidenceLine]
    steps: list[Step]
    senders: tuple[str, ...]


async def find_effect(ledger: Ledger, effect_id: str, task_id: str = "") -> Effect:
    """The effect of an id; faster when its task is named.

    Raises:
        Refused: ``unknown_effect``, ``unknown_task``.
    """
    if task_id:
        if await ledger.task(task_id) is None:
            raise Refused("unknown_task", repr(task_id))
        found = await ledger.effects(task_id)
    else:
        found = [row.effect async for row in all_effects(ledger) if row.effect.effect_id == effect_id]
    for effect in found:
        if effect.effect_id == effect_id:
            return effect
    raise Refused("unknown_effect", repr(effect_id))


async def all_effects(ledger: Ledger, *, open_only: bool = False) -> AsyncIterator[EffectRow]:
    """All effects of a ledger, page by page."""
    after = 0
    while True:
        page = await ledger.effect_rows(open_only=open_only, after=after, limit=PAGE)
        for row in page:
            yield row
        if len(page) < PAGE:
            return
        after = page[-1].position


async def lines_of(ledger: Ledger, rows: list[EffectRow]) -> list[EffectLine]:
    """Rows with who answers for each."""
    answerable: dict[str, str] = {}
    lines = []
    for row in rows:
        task_id = row.effect.task_id
        if task_id not in answerable:
            task = await ledger.task(task_id)
            answerable[task_id] = task.answerable if task is not None else ""
        lines.append(_line(row.effect, answerable[task_id], row.position))
    return lines


def _line(effect: Effect, answerable: str, position: int) -> EffectLine:
    return EffectLine(
        effect_id=effect.effect_id,
        task_id=effect.task_id,
        tool=effect.tool,
        provider=effect.provider,
        state=str(effect.state),
        version=effect.version,
        attempts=effect.attempt.n,
        answerable=effect.asked or answerable,
        next_check=effect.next_check,
        reference=effect.reference,
        finding=effect.finding,
        granted=effect.granted,
        asked=effect.asked,
        checks=effect.checks,
        undo=effect.undo,
        undo_reference=effect.undo_reference,
        policy=effect.policy.name,
        position=position,
    )


async def story_of(ledger: Ledger, effect: Effect) -> EffectStory:
    """One effect with its evidence, which is read from the events of its task."""
    evidence: list[EvidenceLine] = []
    steps: list[Step] = []
    async for recorded in all_events(ledger, effect.task_id):
        event = recorded.event
        if getattr(event, "effect_id", "") != effect.effect_id or isinstance(event, ev.LateRecorded):
            continue
        # Each event of an effect raises its version by one.
        steps.append(Step(version=len(steps) + 1, at=event.at, what=words_of_event(event)))
        shown = evidence_of(event)
        if shown is not None:
            body = await ledger.body(effect.root_id, shown.digest) if shown.digest else None
            evidence.append(EvidenceLine(evidence=shown, said=None if body is None else body.value()))
    (line,) = await lines_of(ledger, [EffectRow(effect=effect, position=0)])
    return EffectStory(effect=line, evidence=evidence, steps=steps, senders=effect.senders)


def words_of_event(event: ev.Event) -> str:
    """An event of an effect for people."""
    match event:
        case ev.EffectIntended():
            return f"attempt 1: apply, by {event.instance}"
        case ev.EffectAttempted():
            return f"attempt {event.n}: {event.purpose}, by {event.instance}"
        case ev.EffectObserved():
            found = f" as {event.finding}" if event.finding else ""
            return f"{event.state}{found}: {event.evidence}, by {event.observer}"
        case ev.EffectAsked():
            return f"{event.who} was asked: {event.reason}"
        case ev.EffectSenderDied():
            return f"{event.instance} was observed dead"
        case _:
            return type(event).__name__
