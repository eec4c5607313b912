"""The matrix as a table, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.testing.crashes.cell import Verdict
from tenure.testing.crashes.matrix import exists
from tenure.testing.crashes.points import Fault, Point
from tenure.testing.crashes.strategies import STRATEGIES

WIDTH = 12
LABEL = 20
NOT_RUN = "."
NO_CELL = "-"

WORDS = {
    "once": "done once, and the record says so",
    "none": "not done, and no record says that it is",
    "undone": "done once and undone once, and the record says so",
    "asked": "the record says in doubt, and a person is asked",
    "RED": "a promise was broken, or the cell has shown nothing",
    NO_CELL: "there is no such moment: nothing of this kind is called",
    NOT_RUN: "not run this time",
}


def table(verdicts: Sequence[Verdict]) -> list[str]:
    """Lines: a block per strategy, a row per point, a column per fault."""
    words = {verdict.cell.name: verdict.word for verdict in verdicts}
    lines = []
    for name, strategy in STRATEGIES.items():
        if not any(verdict.cell.strategy == name for verdict in verdicts):
            continue
        lines += [f"{name}: {strategy.words}", "  " + " " * LABEL + "".join(f"{fault:<{WIDTH}}" for fault in Fault)]
        for point in Point:
            row = [
                words.get(f"{name}/{point}/{fault}", NOT_RUN) if exists(strategy, point) else NO_CELL for fault in Fault
            ]
            lines.append(f"  {point:<{LABEL}}" + "".join(f"{word:<{WIDTH}}" for word in row).rstrip())
        lines.append("")
    return lines + legend(set(words.values()))


def legend(words: set[str]) -> list[str]:
    """What the words, the points and the faults of the table mean."""
    shown = [f"{word:<14} {meaning}" for word, meaning in WORDS.items() if word in words or word == NO_CELL]
    return [
        *shown,
        "",
        *(f"{point:<{LABEL}} {point.words}" for point in Point if not point.undoing),
        f"{'undo-…':<{LABEL}} the same moments of a compensation",
        "",
        *(f"{fault:<14} {fault.words}" for fault in Fault),
        "",
    ]


def reds(verdicts: Sequence[Verdict]) -> list[str]:
    """What is wrong with each red cell, and how it came to it."""
    lines = []
    for verdict in verdicts:
        if verdict.red:
            said = f"{verdict.acts} acts, the record says {', '.join(verdict.record) or 'nothing'}"
            told = f"the agents were told {', '.join(verdict.told) or 'nothing'}"
            lines += [f"RED {verdict.cell.name}: {said}, {told}", *(f"  {problem}" for problem in verdict.problems)]
            lines += [f"    {event}" for event in verdict.timeline]
    return lines


def summary(verdicts: Sequence[Verdict], of: int, seconds: float) -> dict[str, Any]:
    """The sum."""
    counts: dict[str, int] = {}
    for verdict in verdicts:
        counts[verdict.word] = counts.get(verdict.word, 0) + 1
    red = sum(verdict.red for verdict in verdicts)
    return {"cells": len(verdicts), "of": of, "red": red, "words": counts, "seconds": round(seconds, 1)}


def in_words(total: dict[str, Any]) -> str:
    """The sum in a line."""
    counts = ", ".join(f"{number} {word}" for word, number in sorted(total["words"].items()))
    verdict = f"{total['red']} RED" if total["red"] else "all green"
    return f"{total['cells']} of {total['of']} cells, {verdict} ({counts}); {total['seconds']:.0f} s"


def as_json(verdicts: Sequence[Verdict], total: dict[str, Any]) -> str:
    """Everything as one object."""
    cells = [{**msgspec.to_builtins(verdict), "cell": verdict.cell.name} for verdict in verdicts]
    return msgspec.json.encode({**total, "verdicts": cells}).decode()
