"""CPU time of a transfer with its acknowledgement, commits left out, as a multiple of the plain program's.

Both sides run on one thread inside one transaction that is never committed while the clock runs, so that what is
compared is the work for a command: on our side look-up, load, decision, encoding, chain and rows, on the other side
the rows; on both in batches as the writer thread would have them.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.ledger.plain import PlainWriter
from bench.ledger.recording import keyed, record
from bench.ledger.script import COMMANDS, STEPS, ready, task_id
from bench.measure import Limit, Measure, compare, interleave, measure
from tenure.ledger.sqlite.connection import open_writer
from tenure.ledger.sqlite.store import Store

REQUIRED, BATCH = 4.0, 32
BEFORE, TIMED = STEPS.index("transfer"), (STEPS.index("transfer"), STEPS.index("acknowledge"))
_series = itertools.count()


def tenure_cpu(count: int) -> float:
    """Microseconds of CPU for one transfer with acknowledgement through the ledger."""
    series = f"tenure {next(_series)}"
    jobs = [ready(task_id(n, series)) for n in range(count)]
    epochs = [0] * count
    with TemporaryDirectory(prefix="tenure-bench-") as folder:
        store = Store(open_writer(str(Path(folder) / "ledger.db")))
        store.begin()

        def run(steps: range | tuple[int, ...]) -> None:
            for step in steps:
                for n, job in enumerate(jobs):
                    epochs[n] = store.execute(COMMANDS[step](job, epochs[n])).epoch
                    if n % BATCH == BATCH - 1:
                        store.flush()
                store.flush()

        run(range(BEFORE))
        started = time.thread_time()
        run(TIMED)
        taken = time.thread_time() - started
        store.rollback()
        store.connection.close()
    return taken / count * 1e6


def plain_cpu(count: int) -> float:
    """Microseconds of CPU for one transfer with acknowledgement through the plain program."""
    series, recording = f"plain {next(_series)}", record()
    jobs = [keyed(recording, task_id(n, series)) for n in range(count)]
    with TemporaryDirectory(prefix="tenure-bench-") as folder:
        writer = PlainWriter(str(Path(folder) / "plain.db"))
        writer.begin()

        def run(steps: range | tuple[int, ...]) -> None:
            for step in steps:
                for start in range(0, count, BATCH):
                    writer.write(job[step] for job in jobs[start : start + BATCH])

        run(range(BEFORE))
        started = time.thread_time()
        run(TIMED)
        taken = time.thread_time() - started
        writer.connection.execute("ROLLBACK")
        writer.connection.close()
    return taken / count * 1e6


def measures(*, quick: bool) -> list[Measure]:
    """The measure ``cpu``."""
    rounds, count = (3, 64) if quick else (15, 1_000)
    values = interleave(rounds, {"tenure": lambda: tenure_cpu(count), "plain": lambda: plain_cpu(count)}, "cpu")
    point = compare("transfer with acknowledgement", values, handoffs_per_round=count)
    return [
        measure(
            "cpu",
            "CPU of a transfer with its acknowledgement, commits left out, against the plain program",
            "timed",
            "us of CPU",
            [point],
            measured=point.ratio.median if point.ratio else None,
            required=Limit("ratio", at_most=REQUIRED),
            notes=("One thread, one open transaction on both sides; no event loop, no queue, no commit.",),
        )
    ]
