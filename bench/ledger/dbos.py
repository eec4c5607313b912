"""The same durable two-step work on DBOS, in the same run. No requirement: it says where we stand."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.ledger.handoffs import tenure_rate
from bench.measure import Measure, Point, compare, interleave, measure, say

ROOT = Path(__file__).parents[2]
WORKER = ["-m", "bench.ledger.dbos_worker"]
COMPARABLE = (
    "Comparable: two steps of one piece of work, each result durable before the next begins, on one SQLite file of the"
    " same disk, the same number at once."
)
NOT_COMPARABLE = (
    "Not comparable: a DBOS workflow is replayed code with 4 commits (start, two results, end); a handoff is 5 commands"
    " (submit, own, transfer, acknowledge, complete), fenced by an epoch, with event log and hash chain. DBOS keeps"
    " SQLite's rollback journal and commits one by one; the ledger uses the write-ahead log and commits in groups. DBOS"
    " is called from threads, its faster way on SQLite, the ledger from one event loop. DBOS recommends PostgreSQL for"
    " production."
)


def command() -> tuple[list[str], str]:
    """How to start the worker, or why it cannot be started."""
    if importlib.util.find_spec("dbos") is not None:
        return [sys.executable, *WORKER], ""
    uv = os.environ.get("UV") or shutil.which("uv")  # `uv run` names itself, wherever it is
    if uv is None:
        return [], "dbos is not installed and uv is not on the path; run it in the dependency group `bench`."
    return [uv, "run", "--quiet", "--isolated", "--frozen", "--group", "bench", "python", *WORKER], ""


class Worker:
    """The process that runs the workflows."""

    def __init__(self, process: subprocess.Popen[str], version: str) -> None:
        self._process = process
        self.version = version

    def rate(self, count: int, callers: int) -> float:
        """Workflows per second."""
        return count / float(ask(self._process, f"{callers} {count}"))


def ask(process: subprocess.Popen[str], line: str = "") -> Any:
    """Send a line, if there is one, and wait for the answer.

    Raises:
        RuntimeError: the process has ended instead.
    """
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("The worker has no pipes.")
    if line:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError(f"The DBOS worker ended with code {process.wait()}.")
    return json.loads(answer)


@contextmanager
def worker(arguments: list[str]) -> Iterator[Worker]:
    """The worker, for the time of a block."""
    process = subprocess.Popen(arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Worker(process, str(ask(process)["dbos"]))
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def measures(*, quick: bool) -> list[Measure]:
    """The measure ``dbos``."""
    arguments, missing = command()
    points: list[Point] = []
    notes = [COMPARABLE, NOT_COMPARABLE]
    if not missing:
        say("dbos: starting its process")
        try:
            with worker(arguments) as other:
                notes.append(f"DBOS {other.version}.")
                points = [_point(other, callers, quick=quick) for callers in ((1, 8) if quick else (1, 8, 32))]
        except (OSError, RuntimeError, ValueError) as error:
            missing = f"DBOS could not be measured: {error}"
    if missing:
        say(f"dbos: {missing}")
        notes.append(f"Missing: {missing}")
    title = "durable two-step work: a handoff here, a workflow of two steps on DBOS (SQLite)"
    return [measure("dbos", title, "compared", "works/s", points, notes=notes)]


def _point(other: Worker, callers: int, *, quick: bool) -> Point:
    rounds, seconds = (1, 0.1) if quick else (3, 1.5)
    least = 2 * callers if quick else 4 * callers
    ours = max(least, int(seconds * tenure_rate(least, callers)))
    theirs = max(least, int(seconds * other.rate(least, callers)))
    values = interleave(
        rounds,
        {"tenure": lambda: tenure_rate(ours, callers), "dbos": lambda: other.rate(theirs, callers)},
        f"dbos, {callers} at once",
    )
    return compare(f"{callers} at once", values)
