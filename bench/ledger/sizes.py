"""What one command costs in a large ledger, and at a task with a long history, against a small one.

Each command is timed alone, from BEGIN IMMEDIATE to the end of its COMMIT with ``synchronous=FULL``, on both clocks:
time passed, and CPU of the thread. The sides take turns task by task. A round counts the mean of CPU, checkpoints
included, and the median of time passed: one stall of a shared disk would say more about the disk than about a ledger.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from bench.ledger.clones import fill
from bench.ledger.script import COMMANDS, INSTANCES, SENDER, ready, task_id
from bench.measure import Limit, Measure, Point, compare, measure, say
from tenure.ledger.sqlite.connection import open_writer
from tenure.ledger.sqlite.store import Store
from tenure.protocol.body import Body
from tenure.protocol.commands import Advance, Command

REQUIRED = 1.3
SERIES = "size"
PER_ROUND, PER_QUICK_ROUND, WARM_UP = 50, 10, 5
"""Tasks that each size hands over in one round, and untimed before it; together about half of the smallest ledger."""


class Cost(Struct, frozen=True):
    """What a round's commands cost, in microseconds: the median of time passed, the mean of CPU."""

    passed: float
    cpu: float


Timed = tuple[float, float]


def _timed(store: Store, command: Command) -> tuple[Timed, int]:
    passed, cpu = time.perf_counter(), time.thread_time()
    store.begin()
    epoch = store.execute(command).epoch
    store.commit()
    return (time.perf_counter() - passed, time.thread_time() - cpu), epoch


def _cost(timed: list[Timed]) -> Cost:
    passed, cpu = zip(*timed, strict=True)
    return Cost(statistics.median(passed) * 1e6, statistics.fmean(cpu) * 1e6)


def _handed_over(store: Store, existing: Iterator[str], fresh: Iterator[str]) -> list[Timed]:
    """All five commands: hand over one task that stands somewhere in the ledger, and submit a new one."""
    timed: list[Timed] = []
    job, epoch = ready(next(existing)), 1
    for command in COMMANDS[1:]:
        cost, epoch = _timed(store, command(job, epoch))
        timed.append(cost)
    timed.append(_timed(store, COMMANDS[0](ready(next(fresh)), 0))[0])
    return timed


def _ids(count: int) -> Iterator[str]:
    return (task_id(n, SERIES) for n in range(count))


class _Shelf:
    """A ledger of one size, through all rounds."""

    def __init__(self, folder: Path, count: int) -> None:
        self._full = folder / f"{count}.db"
        self._copy = folder / f"{count}-copy.db"
        self._count = count
        self._opened: Store | None = None
        self._existing = _ids(count)
        for done in fill(self._full, count, SERIES):
            if done == count or done % 100_000 == 0:
                say(f"tasks: a ledger of {count}: {done} tasks are there")

    def store(self, *, small: bool) -> tuple[Store, Iterator[str]]:
        """The open ledger and its next tasks. A small ledger must stay small: each round has a new copy of it."""
        if small or self._opened is None:
            self.close()
            if small:
                shutil.copy(self._full, self._copy)
                self._existing = _ids(self._count)
            self._opened = Store(open_writer(str(self._copy if small else self._full)))
        return self._opened, self._existing

    def close(self) -> None:
        """Close the file, and remove the copy."""
        if self._opened is not None:
            self._opened.connection.close()
            self._opened = None
        self._copy.unlink(missing_ok=True)


def _tasks_point(folder: Path, counts: tuple[int, ...], rounds: int, each: int) -> list[Point]:
    shelves = {count: _Shelf(folder, count) for count in counts}
    sides: dict[int, list[Cost]] = {count: [] for count in counts}
    fresh = (task_id(n, "fresh") for n in range(10_000_000))
    for n in range(rounds):
        say(f"tasks: round {n + 1} of {rounds}")
        opened = {count: shelf.store(small=count < 4 * each * rounds) for count, shelf in shelves.items()}
        timed: dict[int, list[Timed]] = {count: [] for count in counts}
        for handed in range(each + WARM_UP):
            for count, (store, existing) in opened.items():
                costs = _handed_over(store, existing, fresh)
                if handed >= WARM_UP:
                    timed[count] += costs
        for count in counts:
            sides[count].append(_cost(timed[count]))
    for shelf in shelves.values():
        shelf.close()
    return _points("tasks", sides)


def _points(what: str, sides: dict[int, list[Cost]]) -> list[Point]:
    """Every size against the smallest, on both clocks."""
    smallest, *larger = sorted(sides)
    found = []
    for size in larger:
        for clock in ("passed", "cpu"):
            values = {f"{n} {what}": [getattr(cost, clock) for cost in sides[n]] for n in (size, smallest)}
            found.append(compare(f"{size} against {smallest} {what}, {clock}", values))
    return found


def _advance(task: str, n: int) -> Advance:
    """Turn ``n`` of a task: a new version of its state document."""
    return Advance(
        command_id=f"c-{n:08}-{task[2:13]}",
        root_id=task,
        task_id=task,
        epoch=2,
        instance=INSTANCES[SENDER],
        document=Body(b'{"turn": %d, "seen": ["A17", "customer-07"], "next": "ask the depot"}' % n, "nonce-document"),
    )


def _events_point(folder: Path, counts: tuple[int, ...], rounds: int) -> list[Point]:
    tasks = {count: [task_id(n, f"events {count}") for n in range(4)] for count in counts}
    sides: dict[int, list[Cost]] = {count: [] for count in counts}
    with closing(open_writer(str(folder / "events.db"))) as connection:
        store = Store(connection)
        for count, group in tasks.items():
            say(f"events: {len(group)} tasks of {count} events")
            for task in group:
                _history(store, task, count)
        turn = 1_000_000
        for n in range(rounds):
            say(f"events: round {n + 1} of {rounds}")
            timed: dict[int, list[Timed]] = {count: [] for count in counts}
            for _ in range(5):
                turn += 1
                for at in range(4):
                    for count in counts:
                        timed[count].append(_timed(store, _advance(tasks[count][at], turn))[0])
            for count in counts:
                sides[count].append(_cost(timed[count]))
    return _points("events", sides)


def _history(store: Store, task: str, count: int) -> None:
    """Give a new task a tenure and a history of ``count`` events."""
    job, epoch = ready(task), 0
    store.begin()
    for command in COMMANDS[:2]:
        epoch = store.execute(command(job, epoch)).epoch
    revision = 0
    turn = 0
    while revision < count:
        turn += 1
        revision = store.execute(_advance(task, turn)).revision
    store.commit()


def _judged(name: str, title: str, points: list[Point], largest: int) -> Measure:
    """The requirement is about the largest size, and holds only if it holds on both clocks."""
    ratios = [point.ratio.median for point in points if point.ratio and point.label.startswith(f"{largest} ")]
    return measure(
        name,
        title,
        "timed",
        "us per durable command",
        points,
        measured=max(ratios),
        required=Limit(f"ratio of {largest} to the smallest, the larger of both clocks", at_most=REQUIRED),
        notes=(
            "passed: time by the clock, the sync of the commit included. cpu: of the thread, system calls included.",
        ),
    )


def _in_folder(make: Callable[[Path], list[Point]]) -> list[Point]:
    with TemporaryDirectory(prefix="tenure-bench-") as folder:
        return make(Path(folder))


def tasks(*, quick: bool) -> list[Measure]:
    """The measure ``tasks``."""
    counts, rounds = ((100, 2_000), 2) if quick else ((100, 10_000, 1_000_000), 11)
    each = PER_QUICK_ROUND if quick else PER_ROUND
    points = _in_folder(lambda folder: _tasks_point(folder, counts, rounds, each))
    title = f"one command from {counts[0]} to {counts[-1]} tasks"
    return [_judged("tasks", title, points, counts[-1])]


def events(*, quick: bool) -> list[Measure]:
    """The measure ``events``."""
    counts, rounds = ((10, 300), 2) if quick else ((10, 1_000, 10_000), 11)
    points = _in_folder(lambda folder: _events_point(folder, counts, rounds))
    title = f"one command from {counts[0]} to {counts[-1]} events of its task"
    return [_judged("events", title, points, counts[-1])]
