"""``python -m bench effects``: what a guarded effect costs, against the two commits that nothing can do without.

Guarded is ``own.effect`` as a handler calls it, in a worker, on a ledger of its own: intent with the request, the call
of a provider that answers at once, outcome with the answer. Bare is a program that commits a row of the intent, then
one of the outcome, each on its own, with the same pragmas, its rows made before the clock starts. Grouped is the raw
limit: the same program with one commit for all that wait at the same time, as the ledger does. All have the same number
of callers, and take turns in one process.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct

from bench.ledger.plain import Plain, PlainWriter, Rows
from bench.ledger.run import Machine, text, this_machine
from bench.measure import Limit, Measure, Point, compare, interleave, measure, say
from tenure import Complete, Confirmed, Done, Provider, Team, Tenure

SUMMARY = "own.effect on SQLite, against a program that commits an intent row and an outcome row"
LIMIT, AT = 1.5, 32
"""How many times the bare commits a guarded effect may cost, with so many callers at once."""

INTENT = "INSERT INTO intents (key, tool, request, at) VALUES (?, ?, ?, ?)"
OUTCOME = "INSERT INTO outcomes (key, state, reference, answer, at) VALUES (?, ?, ?, ?, ?)"
SCHEMA = (
    """CREATE TABLE intents (key TEXT PRIMARY KEY, tool TEXT NOT NULL, request BLOB NOT NULL, at INTEGER NOT NULL);
    CREATE TABLE outcomes (key TEXT PRIMARY KEY, state TEXT NOT NULL, reference TEXT NOT NULL, answer BLOB NOT NULL,
        at INTEGER NOT NULL);""",
)
_series = itertools.count()


def request_of(n: int) -> dict[str, Any]:
    """The request of one effect, on both sides."""
    return {"order": f"A{n}", "cents": 4200, "customer": "customer-07", "reason": "returned within 30 days"}


class Prompt(Provider):
    """Answers at once."""

    name = "refunds"

    def __init__(self) -> None:
        """Nothing was called."""
        self.calls = 0

    async def apply(self, request: Any, *, key: str) -> Confirmed:
        """Confirm it."""
        self.calls += 1
        return Confirmed({"refunded": request["cents"]}, reference="r-" + key[:20])


async def guarded_round(path: Path, each: int, callers: int) -> float:
    """Seconds for ``each`` effects one after the other in every one of so many tasks at once, on a new ledger."""
    provider, go, ready, done = Prompt(), asyncio.Event(), asyncio.Semaphore(0), asyncio.Semaphore(0)
    team = Team("bench", ledger=f"sqlite:///{path}")

    @team.agent
    async def clerk(own: Tenure[int]) -> Complete[None]:
        ready.release()
        await go.wait()
        for n in range(own.input * each, (own.input + 1) * each):
            outcome = await own.effect(provider, request_of(n), key=f"A{n}")
            if not isinstance(outcome, Done) or outcome.repeated:
                raise TypeError(f"The effect is not done: {outcome}")
        done.release()
        return Complete()

    async with team.worker(concurrency=callers, reconcile=False):
        tasks = [await team.submit(caller, goal="Refund what was paid for the orders.") for caller in range(callers)]
        for _ in tasks:
            await ready.acquire()
        started = time.perf_counter()
        go.set()
        for _ in tasks:
            await done.acquire()
        seconds = time.perf_counter() - started
        for task in tasks:
            await task.result()
    if provider.calls != each * callers:
        raise RuntimeError(f"{provider.calls} calls instead of {each * callers}.")
    return seconds


async def alone_round(path: Path, each: int, callers: int) -> float:
    """Seconds for the same number of intents and outcomes, each in a commit of its own."""
    rows = [[bare_rows(caller * each + n) for n in range(each)] for caller in range(callers)]
    loop = asyncio.get_running_loop()
    writer = await asyncio.to_thread(PlainWriter, str(path), SCHEMA)

    def write(step: Rows) -> None:
        writer.begin()
        writer.write([step])
        writer.commit()

    async def caller(mine: list[tuple[Rows, Rows]]) -> None:
        for step in itertools.chain.from_iterable(mine):
            await loop.run_in_executor(lane, write, step)

    with ThreadPoolExecutor(1) as lane:
        started = time.perf_counter()
        await asyncio.gather(*(caller(mine) for mine in rows))
        seconds = time.perf_counter() - started
    writer.connection.close()
    return seconds


async def bare_round(path: Path, each: int, callers: int) -> float:
    """Seconds for the same number of intents and outcomes, each a durable step, those that wait in one commit."""
    rows = [[bare_rows(caller * each + n) for n in range(each)] for caller in range(callers)]
    bare = Plain(str(path), SCHEMA)

    async def caller(mine: list[tuple[Rows, Rows]]) -> None:
        for intent, outcome in mine:
            await bare.step(intent)
            await bare.step(outcome)

    try:
        await bare.step([])
        started = time.perf_counter()
        await asyncio.gather(*(caller(mine) for mine in rows))
        return time.perf_counter() - started
    finally:
        await bare.close()


def bare_rows(n: int) -> tuple[Rows, Rows]:
    """The two steps of one effect."""
    key, now = os.urandom(16).hex(), time.time_ns() // 1_000_000
    answer = msgspec.json.encode({"value": {"refunded": 4200}})
    intent = (key, "refunds", msgspec.json.encode(request_of(n)), now)
    return [(INTENT, [intent])], [(OUTCOME, [(key, "confirmed", "r-" + key[:20], answer, now)])]


Round = Callable[[Path, int, int], Coroutine[Any, Any, float]]
ROUNDS: dict[str, Round] = {"guarded": guarded_round, "bare": alone_round, "grouped": bare_round}


def took(side: str, each: int, callers: int) -> float:
    """Microseconds per effect, or pair of commits, of one round on a new file."""
    with TemporaryDirectory(prefix="tenure-bench-") as folder:
        seconds = asyncio.run(ROUNDS[side](Path(folder) / f"{next(_series)}.db", each, callers))
    return seconds * 1e6 / (each * callers)


def point(callers: int, rounds: int, seconds: float) -> Point:
    """One number of callers; each side runs about ``seconds`` per round."""
    say(f"effects, {callers} at once: warming up")
    many = {side: max(4, int(seconds * 1e6 / (took(side, 8, callers) * callers))) for side in ROUNDS}
    sides = {side: partial(took, side, many[side], callers) for side in ROUNDS}
    values = interleave(rounds, sides, f"effects, {callers} at once")
    raw = statistics.median(ours / grouped for ours, grouped in zip(values["guarded"], values["grouped"], strict=True))
    return compare(f"{callers} at once", values, over_grouped=float(f"{raw:.3g}"))


def effects(*, quick: bool) -> Measure:
    """The measure ``effects``."""
    rounds, seconds = (2, 0.1) if quick else (7, 1.0)
    points = [point(callers, rounds, seconds) for callers in (1, AT)]
    ratio = points[-1].ratio
    return measure(
        "effects",
        "a guarded effect over two bare commits on SQLite, WAL, synchronous=FULL",
        "timed",
        "us per effect",
        points,
        measured=ratio.median if ratio else None,
        required=Limit(f"ratio at {AT} at once", at_most=LIMIT),
        notes=(
            "guarded: own.effect with a provider that answers at once; each caller is a task of its own.",
            "bare: one row of the intent, one of the outcome, a commit each, one after the other.",
            "grouped: the same, with one commit for all that wait at the same time: the raw limit.",
        ),
    )


class Report(Struct, frozen=True):
    """Everything that one run gives."""

    subject: str
    quick: bool
    machine: Machine
    measures: tuple[Measure, ...]


def main(arguments: list[str]) -> int:
    """Print both sides and their ratio; 0 when the limit holds, else 1."""
    parser = argparse.ArgumentParser(prog="python -m bench effects", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--quick", action="store_true", help="for its shape, not its numbers")
    options = parser.parse_args(arguments)
    machine = this_machine()
    found = effects(quick=options.quick)
    if options.json:
        report = Report("effects", options.quick, machine, (found,))
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        print(text(found))
    return 0 if found.met else 1
