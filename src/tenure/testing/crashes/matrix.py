"""The cells of the matrix, and many of them at once: each in a fresh process of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from multiprocessing.connection import Connection

from tenure.testing.crashes.cell import Cell, Verdict, run_cell
from tenure.testing.crashes.points import Fault, Point
from tenure.testing.crashes.strategies import STRATEGIES, Strategy

CELL_SECONDS = 120.0
"""After this a cell that has not ended by itself is ended, and red."""

ENDING_SECONDS = 5.0
"""For a cell's process to tidy up after its verdict."""

POLL_SECONDS = 0.25

PRELOADED = [
    "tenure.testing.crashes.cell",
    "tenure.graph.checking",
    "tenure.graph.reading",
    "tenure.ledger.sqlite",
]
"""What a cell would import otherwise, one by one."""


def cells() -> list[Cell]:
    """All of them, in the order of the table."""
    return [
        Cell(strategy=name, point=point, fault=fault)
        for name, strategy in STRATEGIES.items()
        for point in Point
        if exists(strategy, point)
        for fault in Fault
    ]


def exists(strategy: Strategy, point: Point) -> bool:
    """Whether there is such a moment: nothing is undone where nothing can be."""
    return not point.undoing or hasattr(strategy.provider, "compensate")


def chosen(patterns: Sequence[str]) -> list[Cell]:
    """Those that fit any ``STRATEGY/POINT/FAULT``; an empty or missing part, or ``*``, fits all.

    Raises:
        ValueError: a pattern fits none.
    """
    every, found = cells(), []
    for pattern in patterns:
        parts = [*pattern.split("/"), "", ""][:3]
        fitting = [
            cell
            for cell in every
            if all(part in ("", "*", name) for part, name in zip(parts, cell.name.split("/"), strict=True))
        ]
        if not fitting:
            raise ValueError(f"No cell is {pattern!r}.")
        found += fitting
    return [cell for cell in every if cell in found] if patterns else every


def spread() -> list[Cell]:
    """A sample: every strategy at every point with one of the faults, each fault equally often."""
    strategies, points, faults = list(STRATEGIES), list(Point), list(Fault)
    return [
        cell
        for cell in cells()
        if (strategies.index(cell.strategy) + points.index(cell.point) + faults.index(cell.fault)) % len(faults) == 0
    ]


def _in_child(cell: Cell, mutant: str, answers: Connection) -> None:
    """What the fresh process does. It and what it forks are one group, which can be ended as one."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers.send(run_cell(cell, mutant))


def run_apart(cell: Cell, mutant: str = "") -> Verdict:
    """Run one cell in a fresh process that has neither threads nor an event loop. Blocks until it has ended."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_in_child, args=(cell, mutant, theirs))
    process.start()
    theirs.close()
    try:
        if ours.poll(CELL_SECONDS):
            verdict: Verdict = ours.recv()
            process.join(ENDING_SECONDS)
            return verdict
        problem = f"not over after {CELL_SECONDS:.0f} s"
    except EOFError:
        problem = "its process has died"
    finally:
        if process.pid is not None:
            _end(process.pid)
        process.kill()  # it may not have made its group yet
        process.join()
        ours.close()
    return Verdict(cell=cell, word="RED", problems=(problem,))


def _end(group: int) -> None:
    """End whatever is left of a cell."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def run_all(every: Sequence[Cell], jobs: int, interrupted: threading.Event, mutant: str = "") -> Iterator[Verdict]:
    """Run cells, ``jobs`` at a time, and yield each verdict when it is there, until ``interrupted`` is set.

    A cell waits more than it works, so that more of them than processors pay.
    """
    with ThreadPoolExecutor(jobs, thread_name_prefix="cell") as pool:
        waiting: set[Future[Verdict]] = {pool.submit(run_apart, cell, mutant) for cell in every}
        while waiting:
            done, waiting = wait(waiting, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for one in done:
                yield one.result()
            if interrupted.is_set():
                waiting = {future for future in waiting if not future.cancel()}
