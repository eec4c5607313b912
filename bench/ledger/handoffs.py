"""Complete handoffs per second, durable, with 1 to 128 tasks at once, against the plain program."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import apsw

from bench.ledger.plain import Plain, Rows
from bench.ledger.recording import keyed, record
from bench.ledger.script import COMMANDS, Ready, ready, task_id
from bench.measure import Limit, Measure, Point, compare, interleave, measure, say
from tenure.ledger.sqlite import SqliteLedger

J = TypeVar("J")
REQUIRED, AIM, AT = 0.5, 0.7, 32
TABLES = ("events", "tasks", "trees", "bodies", "commands", "offers", "holdings")
_series = itertools.count()


async def tenure_round(path: Path, jobs: Sequence[Ready], callers: int) -> float:
    """Seconds for all jobs on a new ledger."""

    async def one(job: Ready) -> None:
        epoch = 0
        for command in COMMANDS:
            epoch = (await ledger.execute(command(job, epoch))).epoch

    async with SqliteLedger(str(path)) as ledger:
        return await _timed(jobs, one, callers)


async def plain_round(path: Path, jobs: Sequence[list[Rows]], callers: int) -> float:
    """Seconds for all jobs in the plain program."""

    async def one(job: list[Rows]) -> None:
        for rows in job:
            await plain.step(rows)

    plain = Plain(str(path))
    try:
        return await _timed(jobs, one, callers)
    finally:
        await plain.close()


async def _timed(jobs: Sequence[J], one: Callable[[J], Awaitable[None]], callers: int) -> float:
    remaining = iter(jobs)

    async def caller() -> None:
        for job in remaining:
            await one(job)

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return time.perf_counter() - started


def tenure_rate(count: int, callers: int) -> float:
    """Handoffs per second of the ledger."""
    series = f"tenure {next(_series)}"
    jobs = [ready(task_id(n, series)) for n in range(count)]
    with TemporaryDirectory(prefix="tenure-bench-") as folder:
        return count / asyncio.run(tenure_round(Path(folder) / "ledger.db", jobs, callers))


def plain_rate(count: int, callers: int) -> float:
    """Handoffs per second of the plain program."""
    series, recording = f"plain {next(_series)}", record()
    jobs = [keyed(recording, task_id(n, series)) for n in range(count)]
    with TemporaryDirectory(prefix="tenure-bench-") as folder:
        return count / asyncio.run(plain_round(Path(folder) / "plain.db", jobs, callers))


def rows_left() -> dict[str, dict[str, int]]:
    """Rows by table after the same handoffs on both sides: what makes them comparable, looked at from outside."""
    tasks = [task_id(n, "counted") for n in range(20)]
    with TemporaryDirectory(prefix="tenure-bench-") as folder:
        ours, plain = Path(folder) / "ledger.db", Path(folder) / "plain.db"
        asyncio.run(tenure_round(ours, [ready(task) for task in tasks], 4))
        asyncio.run(plain_round(plain, [keyed(record(), task) for task in tasks], 4))
        return {"tenure": _counts(ours), "plain": _counts(plain)}


def _counts(path: Path) -> dict[str, int]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {table: int(connection.execute(f"SELECT count(*) FROM {table}").get or 0) for table in TABLES}
    finally:
        connection.close()


def measures(*, quick: bool) -> list[Measure]:
    """The measure ``handoffs``."""
    callers_of = (1, 32) if quick else (1, 8, 32, 128)
    rounds, seconds = (2, 0.1) if quick else (7, 0.8)
    rows = rows_left()
    if rows["tenure"] != rows["plain"]:
        raise RuntimeError(f"The plain program does not leave the rows of the ledger: {rows}")
    points = [_point(callers, rounds, seconds) for callers in callers_of]
    at = next(point for point in points if point.label == f"{AT} at once")
    per_step = record().sizes
    total = {unit: sum(step[unit] for step in per_step.values()) for unit in ("rows", "bytes")}
    return [
        measure(
            "handoffs",
            "complete handoffs per second on SQLite, WAL, synchronous=FULL, against a plain program",
            "timed",
            "handoffs/s",
            points,
            measured=at.ratio.median if at.ratio else None,
            required=Limit(f"ratio at {AT} at once", at_least=REQUIRED),
            aim=Limit(f"ratio at {AT} at once", at_least=AIM),
            notes=(
                "One handoff is five durable commands: submit, own, transfer, acknowledge and own, complete.",
                f"Both sides write {total['rows']} rows and {total['bytes']} bytes per handoff, by equal statements.",
                "The plain program's rows were made beforehand; it neither reads, decides, encodes nor hashes.",
            ),
        )
    ]


def _point(callers: int, rounds: int, seconds: float) -> Point:
    """One number of tasks at once; each side runs about ``seconds`` per round."""
    say(f"handoffs, {callers} at once: warming up")
    least = 4 * callers
    counts = {
        "tenure": max(least, int(seconds * tenure_rate(least, callers))),
        "plain": max(least, int(seconds * plain_rate(least, callers))),
    }
    values = interleave(
        rounds,
        {
            "tenure": lambda: tenure_rate(counts["tenure"], callers),
            "plain": lambda: plain_rate(counts["plain"], callers),
        },
        f"handoffs, {callers} at once",
    )
    return compare(f"{callers} at once", values)
