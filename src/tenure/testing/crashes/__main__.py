"""``python -m tenure.testing.crashes``: every cell of the matrix, a table, and 1 if any of them is red."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import click

from tenure.testing.crashes.cell import Cell, Verdict
from tenure.testing.crashes.matrix import chosen, run_all
from tenure.testing.crashes.mutants import MUTANTS
from tenure.testing.crashes.table import as_json, in_words, reds, summary, table

INTERRUPTED = 130
JOBS_PER_CPU = 4
"""A cell mostly waits: for leases, for requests under way."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", "patterns", multiple=True, metavar="STRATEGY/POINT/FAULT", help="Only these cells; * fits all.")
@click.option("--jobs", type=click.IntRange(min=1), default=None, help="Cells at a time; default: four per CPU.")
@click.option("--json", "json", is_flag=True, help="One JSON object instead of the table.")
@click.option(
    "--mutant", type=click.Choice(list(MUTANTS)), default=None, help="With a mistake put in, to see it turn red."
)
def main(patterns: tuple[str, ...], *, jobs: int | None, json: bool, mutant: str | None) -> None:
    """Strike every kind of provider with every fault at every point of a call, and judge what is left."""
    try:
        cells = chosen(patterns)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    sys.exit(_run(cells, jobs or JOBS_PER_CPU * (os.cpu_count() or 1), mutant or "", json=json))


def _run(cells: list[Cell], jobs: int, mutant: str, *, json: bool) -> int:
    began = time.perf_counter()
    interrupted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda _number, _frame: interrupted.set())
    found: dict[str, Verdict] = {}
    red = 0
    try:
        for verdict in run_all(cells, jobs, interrupted, mutant):
            found[verdict.cell.name] = verdict
            red += verdict.red
            print(f"{len(found)} of {len(cells)} cells, {red} red: {verdict.cell.name} {verdict.word}", file=sys.stderr)
    finally:
        signal.signal(signal.SIGINT, before)
    verdicts = [found[cell.name] for cell in cells if cell.name in found]
    total = summary(verdicts, len(cells), time.perf_counter() - began)
    if json:
        print(as_json(verdicts, total))
    else:
        print("\n".join([*table(verdicts), *reds(verdicts), in_words(total)]))
    if interrupted.is_set():
        return INTERRUPTED
    return 1 if red else 0


if __name__ == "__main__":
    main()
