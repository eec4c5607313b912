"""``tenure effects``: what was done outside, as far as it is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from tenure.cli.options import json_option, read_ledger_option, with_ledger
from tenure.cli.talk import emit, emit_json, one_line, say, when

if TYPE_CHECKING:
    from tenure.cli.effectlines import EffectLine, EffectStory
    from tenure.ledger import Ledger

_COLUMNS = (
    "effect",
    "task",
    "tool",
    "provider",
    "state",
    "version",
    "attempts",
    "answerable",
    "next check",
    "reference",
    "finding",
)
INDENT = " " * 12


@click.command()
@click.argument("effect_id", metavar="[EFFECT]", required=False, default="")
@click.option("--open", "open_only", is_flag=True, help="Only those that need somebody: open, or to be undone.")
@click.option("--task", "task_id", default="", metavar="TASK", help="Only effects of this task.")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="POSITION", help="Go on behind this position.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Most effects to list.")
@read_ledger_option
@json_option(
    'Print one object: "effects", and "next", the position for --after (null: that was all). Of one effect: it.'
)
def effects(effect_id: str, task_id: str, after: int, limit: int, url: str, *, open_only: bool, json: bool) -> int:
    """List what was done outside, oldest first, or show one EFFECT with all evidence of it.

    `in_doubt` may or may not have happened: do not repeat it by hand. `tenure reconcile` looks at the provider; what a
    person has found out is told with `tenure attest`, which names the version that stands here.
    """
    if effect_id:
        return _show(effect_id, task_id, url, json=json)

    async def read(ledger: Ledger) -> tuple[list[EffectLine], int | None]:
        from tenure.cli.effectlines import lines_of
        from tenure.errors import Refused
        from tenure.ledger import EffectRow

        if task_id:
            if await ledger.task(task_id) is None:
                raise Refused("unknown_task", repr(task_id))
            found = await ledger.effects(task_id)
            needed = [each for each in found if not open_only or each.next_check or not each.state.settled]
            return await lines_of(ledger, [EffectRow(effect=each, position=0) for each in needed]), None
        rows = await ledger.effect_rows(open_only=open_only, after=after, limit=limit)
        return await lines_of(ledger, rows), rows[-1].position if len(rows) == limit else None

    lines, onward = with_ledger(url, read)
    if json:
        emit_json({"effects": lines, "next": onward})
        return 0
    emit("\n".join("\t".join(row) for row in (_COLUMNS, *(_cells(line) for line in lines))))
    if onward is not None:
        say(f"there may be more: --after {onward}")
    return 0


def _cells(line: EffectLine) -> Iterable[str]:
    yield from (line.effect_id, line.task_id, line.tool, line.provider, line.state)
    yield from (str(line.version), str(line.attempts), line.answerable)
    yield when(line.next_check) if line.next_check else "-"
    yield from (line.reference or "-", line.finding or "-")


def _show(effect_id: str, task_id: str, url: str, *, json: bool) -> int:
    async def read(ledger: Ledger) -> EffectStory:
        from tenure.cli.effectlines import find_effect, story_of

        return await story_of(ledger, await find_effect(ledger, effect_id, task_id))

    story = with_ledger(url, read)
    if json:
        emit_json(story)
    else:
        emit("\n".join(_portrait(story)))
    return 0


def _portrait(story: EffectStory) -> Iterator[str]:
    effect = story.effect
    yield f"effect      {effect.effect_id} of {effect.task_id}: {effect.tool} at {effect.provider}, {effect.policy}"
    found = f" as {effect.finding}" if effect.finding else ""
    yield f"state       {effect.state}{found}, version {effect.version}"
    if effect.reference:
        yield f"{INDENT}reference {effect.reference}"
    if effect.undo:
        named = f", the newest called {effect.undo_reference}" if effect.undo_reference else ""
        yield f"{INDENT}compensations begun: {effect.undo}{named}"
    if effect.granted:
        yield f"{INDENT}the owner of the task may make it happen once more"
    asked = ", who was asked about it" if effect.asked else ""
    yield f"answerable  {effect.answerable}{asked}"
    yield f"next check  {when(effect.next_check) if effect.next_check else 'none'}"
    if story.senders:
        yield f"may land    requests of {', '.join(story.senders)}, not observed dead"
    yield "evidence"
    for line in story.evidence:
        yield f"  {_evidence(line.evidence)}"
        if line.said is not None:
            yield f"      {_said(line.said)}"
    yield "events"
    for step in story.steps:
        yield f"  version {step.version}  {when(step.at)}  {step.what}"


def _evidence(seen: object) -> str:
    from tenure.protocol.evidence import Evidence

    if not isinstance(seen, Evidence):
        raise TypeError(type(seen).__name__)
    source = f" from {seen.source}" if seen.source else ""
    attempt = f" of attempt {seen.attempt}" if seen.attempt else ""
    reference = f", reference {seen.reference}" if seen.reference else ""
    return f"{when(seen.at)}  {seen.shows}: {seen.kind}{source}{attempt}, seen by {seen.observer}{reference}"


def _said(content: object) -> str:
    import msgspec

    return one_line(msgspec.json.encode(content).decode())
