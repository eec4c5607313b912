"""``import tenure`` against the libraries that it cannot do without, each in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

from bench.measure import Limit, Measure, compare, interleave, measure

REQUIRED = 1.5
SIDES = {"tenure": "tenure", "libraries": "asyncio, msgspec, apsw"}


def import_ms(what: str) -> float:
    """Milliseconds that an import takes in an interpreter of its own; the interpreter's own start is left out."""
    code = f"import time; t = time.perf_counter(); import {what}; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout) * 1e3


def measures(*, quick: bool) -> list[Measure]:
    """The measure ``import``."""
    for what in SIDES.values():
        import_ms(what)  # compiles what was not compiled yet, and warms the file cache
    values = interleave(
        2 if quick else 31,
        {"tenure": lambda: import_ms(SIDES["tenure"]), "libraries": lambda: import_ms(SIDES["libraries"])},
        "import",
    )
    point = compare("import tenure against import asyncio, msgspec, apsw", values)
    return [
        measure(
            "import",
            "import tenure, in fresh interpreters",
            "timed",
            "ms",
            [point],
            measured=point.ratio.median if point.ratio else None,
            required=Limit("ratio", at_most=REQUIRED),
            notes=("Measured inside the interpreter: its own start, the same on both sides, is not in it.",),
        )
    ]
