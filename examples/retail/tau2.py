"""Runs the 114 recorded tickets of the public tau2 retail benchmark, each on its own copy of the data.

    python examples/retail/tau2.py PATH-OF-THE-FOLDER [--chaos] [--seed N] [--json] [--dump DIR] [--workers N]

PATH holds ``tasks.json`` and ``db.json``. Worker processes on one ledger file work on the tickets, against one service
process. ``--chaos`` kills workers, stops them past their lease, and lets the service lose and delay answers. The run
ends with the comparison of the service's state with the one that each recorded write gives when applied exactly once.

Exit code 0 when everything is as it must be; 1 when anything is not, 2 when the folder is not one of tickets, 130
after Ctrl-C. Nothing is left behind but the folder of a run with problems, which the report names.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

if __name__ == "__main__":  # run as a file: the repository is what the package is found from
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.retail import trial
from examples.retail.chaos import Plan
from examples.retail.client import RetailError
from examples.retail.expected import load_tau2
from examples.retail.fleet import FleetError
from examples.retail.judge import Work
from examples.retail.service.launch import StartError
from tenure.errors import TenureError

INTERRUPTED = 130


class NoTicketsError(Exception):
    """The folder is not one of the benchmark's tickets; the text says what is wrong."""


def load(folder: Path) -> Work:
    """Read the folder: each ticket is the only one of its namespace.

    Raises:
        NoTicketsError: the folder or one of its files is missing, or is something else.
    """
    if not folder.is_dir():
        raise NoTicketsError(f"{folder} is no folder")
    missing = [name for name in ("tasks.json", "db.json") if not (folder / name).is_file()]
    if missing:
        raise NoTicketsError(f"{folder} has no {' and no '.join(missing)}; name the folder of the tau2 retail tickets")
    try:
        data, tickets = load_tau2(folder)
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError) as error:
        raise NoTicketsError(f"{folder} holds no tau2 retail tickets: {type(error).__name__}: {error}") from error
    return Work(data, {f"ticket-{ticket.ticket}": [ticket] for ticket in tickets})


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="tau2.py", description="Run the recorded tau2 retail tickets.")
    parser.add_argument("path", type=Path, help="folder with tasks.json and db.json")
    parser.add_argument("--chaos", action="store_true", help="kill and stop workers, lose and delay answers")
    parser.add_argument("--seed", type=int, default=1, help="of the chaos (default 1)")
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of an indented object")
    parser.add_argument("--dump", type=Path, metavar="DIR", help="leave <ticket>.json there: what changed")
    parser.add_argument("--workers", type=int, default=0, help="processes at a time (default 2, under chaos 4)")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S", help="give up after (default 300)")
    chosen = parser.parse_args(arguments)
    if chosen.workers < 0 or chosen.timeout <= 0:
        parser.error("--workers and --timeout must be above 0")
    return chosen


async def interruptible(setup: trial.Setup) -> dict[str, Any]:
    """Run; SIGTERM ends it in order, as Ctrl-C does."""
    this = asyncio.current_task()
    assert this is not None, "a coroutine runs in a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    return await trial.run(setup)


def main(arguments: Sequence[str]) -> int:
    """Run and print one JSON object on stdout; progress goes to stderr."""
    chosen = parse(arguments)
    try:
        work = load(chosen.path)
    except NoTicketsError as error:
        print(f"tau2.py: {error}", file=sys.stderr)
        return 2
    setup = trial.Setup(
        data=chosen.path / "db.json",
        work=work,
        chaos=Plan(chosen.seed, trial.LEASE) if chosen.chaos else None,
        workers=chosen.workers or (4 if chosen.chaos else 2),
        timeout=chosen.timeout,
        dump=chosen.dump,
        tell=lambda text: print(text, file=sys.stderr, flush=True),
    )
    try:
        report = asyncio.run(interruptible(setup))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("tau2.py: interrupted; its processes were ended", file=sys.stderr)
        return INTERRUPTED
    except (FleetError, StartError, TenureError, RetailError, TimeoutError) as error:
        print(f"tau2.py: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(report, indent=None if chosen.json else 2))
    return 1 if report["problems"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
