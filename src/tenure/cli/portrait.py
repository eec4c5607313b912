"""``tenure show`` for people: a paragraph for each fact, none that merges two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tenure.cli.history import HopStory, TenureStory
from tenure.cli.picture import Picture, SettledEffect
from tenure.cli.talk import one_line, plural, seconds, when
from tenure.runtime.facts import OpenEffectFact, OpenWork

INDENT = " " * 13


def portrait(picture: Picture, now: int) -> str:
    """The whole text. ``now`` is the ledger's time in milliseconds."""
    parts = [
        ("task", list(_head(picture))),
        ("execution", list(_execution(picture, now))),
        ("routing", list(_routing(picture))),
        ("termination", list(_termination(picture))),
        ("effects", list(_effects(picture, now))),
        ("answerable", list(_answerable(picture, now))),
        ("graph", list(_graph(picture))),
        ("hops", [_hop(hop) for hop in picture.hops] or ["none"]),
    ]
    if picture.children:
        parts.append(
            ("children", [f"{child.child_id} {child.agent}: {_outcome(child.outcome)}" for child in picture.children])
        )
    if picture.result is not None:
        parts.append(("result", [_json(picture.result)]))
    return "\n".join(f"{name:<12} " + f"\n{INDENT}".join(lines) for name, lines in parts)


def _head(picture: Picture) -> Iterator[str]:
    yield picture.task_id
    if picture.goal is not None:
        yield one_line(picture.goal)
    if picture.erased:
        yield "content was erased"
    if picture.parent:
        yield f"delegated by {picture.parent}"
    if picture.conversation:
        yield f"conversation {picture.conversation}"
    yield f"submitted {when(picture.created_at)}, last event {when(picture.at)}"


def _execution(picture: Picture, now: int) -> Iterator[str]:
    facts = picture.execution
    reason = f" ({picture.reason})" if picture.reason else ""
    yield f"{facts.phase}{reason}, epoch {facts.epoch}"
    if facts.owner:
        yield f"{facts.owner} may act, as instance {facts.instance}"
        ends = facts.lease_until - now
        yield f"its lease ends in {seconds(ends)}" if ends >= 0 else f"its lease ended {seconds(-ends)} ago"
    else:
        yield "nobody may act now"
    if picture.waits_on:
        yield f"waits for {picture.waits_on}, until {when(picture.wake_by)} at the latest"
    for blocker in picture.blocked_by:
        yield f"IN THE WAY   {blocker}"
    if facts.overdue_ms > 0:
        yield f"OVERDUE by {seconds(facts.overdue_ms)}: a deadline has passed, and no worker has acted on it"


def _routing(picture: Picture) -> Iterator[str]:
    facts = picture.routing
    routes = f", routes {', '.join(facts.routes)}" if facts.routes else ""
    yield f"{facts.receiver} receives live input{routes}" if facts.receiver else "nobody receives live input now"
    if facts.unread:
        yield f"{plural(facts.unread, 'message')} not consumed, for the next owner"


def _graph(picture: Picture) -> Iterator[str]:
    facts = picture.graph
    used = ", ".join(
        f"{budget.used} of {budget.limit} {name}"
        for name, budget in (("transfers", facts.transfers), ("delegations", facts.delegations))
    )
    yield f"version {facts.digest[:12]}, {used}" if facts.digest else f"none, {used}"
    for turn in facts.turns:
        to = f" to {turn.to}" if turn.to else ""
        yield f"turn {turn.n} of epoch {turn.epoch}, {turn.agent}: {turn.outcome}{to}"
        for rejected in turn.rejected:
            yield f"  not done: {one_line(rejected)}"


def _termination(picture: Picture) -> Iterator[str]:
    facts = picture.termination
    if not facts.running and not facts.residual:
        yield "no work on the books"
    for work in facts.running:
        yield f"running      {_work(work)}"
    for work in facts.residual:
        yield f"RESIDUAL     {_work(work)}"
    for tenure in facts.tenures:
        yield _tenure(tenure)


def _work(work: OpenWork) -> str:
    told = "cancellation delivered" if work.cancel_delivered else "cancellation not known to be delivered"
    asked = f", {told}" if work.state != "running" else ""
    left = f" ({', '.join(work.survivors)})" if work.survivors else ""
    return f"{work.work_id} {work.name} ({work.kind}) of epoch {work.epoch}{asked}, seen now: {work.seen_now}{left}"


def _tenure(tenure: TenureStory) -> str:
    who = f"epoch {tenure.epoch} {tenure.agent}:"
    if not tenure.until:
        return f"{who} not ended"
    forced = f", ended by force ({tenure.reason})" if tenure.forced else ""
    claim = tenure.termination or "nothing claimed of its work"
    if tenure.residual:
        claim += f" {', '.join(tenure.residual)}"
    if tenure.unseen:
        claim += f", {plural(tenure.unseen, 'helper')} not seen to end"
    words = f"; {tenure.decision}: {one_line(tenure.words)}" if tenure.words else ""
    return f"{who} {claim}{forced}{words}"


def _effects(picture: Picture, now: int) -> Iterator[str]:
    facts = picture.effects
    counts = ", ".join(f"{number} {state}" for state, number in sorted(facts.by_state.items()))
    yield counts or "none recorded"
    for effect in facts.open:
        check = f", next check {_ahead(effect.next_check, now)}" if effect.next_check else ""
        attempts = plural(effect.attempts, "attempt")
        yield f"OPEN         {effect.effect_id} {effect.tool}: {effect.state}, {attempts}{_names(effect)}{check}"
        if effect.undo:
            yield f"             {plural(effect.undo, 'undoing')} begun"
        if effect.asked:
            yield f"             {effect.asked} was asked about it"
    for settled in facts.settled:
        yield f"settled      {settled.effect_id} {settled.tool}: {settled.state}{_names(settled)}"


def _names(effect: OpenEffectFact | SettledEffect) -> str:
    """What a person found, and the provider's names."""
    finding = f" as {effect.finding}" if effect.finding else ""
    reference = f", reference {effect.reference}" if effect.reference else ""
    undone = f", undone as {effect.undo_reference}" if effect.undo_reference else ""
    return f"{finding}{reference}{undone}"


def _answerable(picture: Picture, now: int) -> Iterator[str]:
    yield picture.answerable
    question = picture.question
    if question is not None:
        yield f"asked {question.question_id} ({question.reason}){_asked(question.words)}"
        if question.allowed:
            yield f"allowed answers: {', '.join(question.allowed)}"
        yield f"may answer: {', '.join(question.who) or 'the fallback'}; due {_ahead(question.due, now)}"


def _asked(words: Any) -> str:
    """The question as it was put; nothing when the ledger asks by itself, or when it was erased."""
    if words is None:
        return ""
    asked = words.get("question") or words.get("error") if isinstance(words, dict) else None
    if not asked:
        return f": {_json(words)}"
    evidence = words.get("evidence")
    return f": {one_line(str(asked))}" + (f"; evidence: {_json(evidence)}" if evidence is not None else "")


def _hop(hop: HopStory) -> str:
    moves = " → ".join(f"{move.state} {when(move.at)[11:]}" for move in hop.moves)
    reason = f" ({hop.reason})" if hop.reason else ""
    return f"{hop.n} {hop.sender} → {hop.receiver}: {hop.state}{reason}\n{INDENT}  {moves}"


def _outcome(outcome: str) -> str:
    return outcome or "not ended"


def _ahead(at: int, now: int) -> str:
    return f"in {seconds(at - now)}" if at >= now else f"OVERDUE by {seconds(now - at)}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
