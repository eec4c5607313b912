"""The command line of the subject, and its two ways to print."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec
from msgspec import Struct

from bench.ledger import commits, cpu, dbos, handoffs, imports, sizes
from bench.measure import Measure, Point

MEASURES: dict[str, Callable[..., list[Measure]]] = {
    "commits": commits.measures,
    "handoffs": handoffs.measures,
    "cpu": cpu.measures,
    "events": sizes.events,
    "tasks": sizes.tasks,
    "import": imports.measures,
    "dbos": dbos.measures,
}
"""In the order in which they run."""


class Machine(Struct, frozen=True):
    """Where it ran. Absolute numbers mean nothing elsewhere; ratios mean something."""

    system: str
    python: str
    sqlite: str
    cpus: int
    load: float
    folder: str


class Report(Struct, frozen=True):
    """Everything that one run gives.

    Attributes:
        counted_met: every exact requirement is met; the exit code. timed_met: every timed one is.
    """

    subject: str
    quick: bool
    machine: Machine
    seconds: float
    counted_met: bool
    timed_met: bool
    measures: tuple[Measure, ...]


def main(arguments: list[str]) -> int:
    """Run the measures.

    Returns:
        0, or 1 when a counted requirement is not met. A timed one is reported, and changes nothing.
    """
    options = _options(arguments)
    started = time.monotonic()
    machine = this_machine()
    found = tuple(one for name in options.only or MEASURES for one in MEASURES[name](quick=options.quick))
    report = Report(
        subject="ledger",
        quick=options.quick,
        machine=machine,
        seconds=round(time.monotonic() - started, 1),
        counted_met=all(one.met is not False for one in found if one.kind == "counted"),
        timed_met=all(one.met is not False for one in found if one.kind == "timed"),
        measures=found,
    )
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        print("\n\n".join(map(text, found)))
    for one in found:
        if one.met is False:
            print(f"NOT MET: {one.name}: {one.measured:g}, required {one.required}", file=sys.stderr)
    return 0 if report.counted_met else 1


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench ledger", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument(
        "--quick", action="store_true", help="seconds instead of minutes: for its shape, not its numbers"
    )
    parser.add_argument("--only", action="append", choices=list(MEASURES), help="one measure; may be repeated")
    return parser.parse_args(arguments)


def this_machine() -> Machine:
    """Where this process runs."""
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        sqlite=apsw.sqlite_lib_version(),
        cpus=os.cpu_count() or 0,
        load=round(os.getloadavg()[0], 2),
        folder=_filesystem(tempfile.gettempdir()),
    )


def _filesystem(folder: str) -> str:
    """The kind of file system that the databases stand on: on one in memory a commit costs nothing."""
    try:
        points = [line.split()[1:3] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "unknown"
    over = [(len(point), kind) for point, kind in points if f"{folder}/".startswith(point.rstrip("/") + "/")]
    return max(over)[1] if over else "unknown"


def text(one: Measure) -> str:
    """A measure as lines to read."""
    lines = [f"{one.name}: {one.title} [{one.unit}]"]
    lines += [f"  {_point(point)}" for point in one.points]
    for word, limit, met in (("required", one.required, one.met), ("aim", one.aim, one.aim_met)):
        if limit is not None:
            verdict = "met" if met else "NOT MET"
            lines.append(f"  {word}: {limit.of} {limit}: {one.measured:g}, {verdict}")
    return "\n".join(lines + [f"  {note}" for note in one.notes])


def _point(point: Point) -> str:
    sides = ", ".join(f"{name} {side.median:g} ({side.low:g} to {side.high:g})" for name, side in point.sides.items())
    ratio = f"; ratio {point.ratio.median:g} ({point.ratio.low:g} to {point.ratio.high:g})" if point.ratio else ""
    return f"{point.label}: {sides}{ratio}"
