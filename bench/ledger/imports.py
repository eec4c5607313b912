"""``import tenure`` against the libraries that it cannot do without, each in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measure import Limit, Measure, compare, interleave, measure

REQUIRED = 1.5
SIDES = {"tenure": "tenure", "libraries": "asyncio, msgspec, apsw"}


def import_ms(what: str, bytecode: Path) -> float:
    """Milliseconds of CPU that an import takes in an interpreter of its own, whose own start is left out.

    ``bytecode`` keeps what was compiled, whatever the environment says about that: an installed package is compiled.
    """
    code = f"import time; t = time.process_time(); import {what}; print(time.process_time() - t)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout) * 1e3


def measures(*, quick: bool) -> list[Measure]:
    """The measure ``import``."""
    with TemporaryDirectory(prefix="tenure-bench-") as name:
        folder = Path(name)
        for what in SIDES.values():
            import_ms(what, folder)  # compiles, and warms the file cache
        values = interleave(
            2 if quick else 31,
            {
                "tenure": lambda: import_ms(SIDES["tenure"], folder),
                "libraries": lambda: import_ms(SIDES["libraries"], folder),
            },
            "import",
        )
    point = compare("import tenure against import asyncio, msgspec, apsw", values)
    return [
        measure(
            "import",
            "import tenure, in fresh interpreters",
            "timed",
            "ms of CPU",
            [point],
            measured=point.ratio.median if point.ratio else None,
            required=Limit("ratio", at_most=REQUIRED),
            notes=(
                "CPU, as nothing is waited for: files are cached and compiled. Without the interpreter's own start.",
            ),
        )
    ]
