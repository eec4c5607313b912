"""The other process of the comparison: durable workflows of two steps on DBOS with SQLite.

Speaks lines: reads ``CALLERS COUNT``, runs that many workflows from that many threads, answers the seconds they took.
Runs where ``dbos`` can be imported: in the dependency group ``bench``.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from dbos import DBOS, DBOSConfig

RESULT = "x" * 700
"""What each step returns: about as long as the payload of a handoff."""


@DBOS.step()  # type: ignore[untyped-decorator,unused-ignore]  # dbos is not there where types are checked
def classify(case: str) -> str:
    """The first step."""
    return case + RESULT


@DBOS.step()  # type: ignore[untyped-decorator,unused-ignore]  # as above
def refund(case: str) -> str:
    """The second step."""
    return case[:10] + RESULT


@DBOS.workflow()  # type: ignore[untyped-decorator,unused-ignore]  # as above
def work(case: str) -> str:
    """Two steps, one after the other."""
    return str(refund(classify(case)))


def timed(callers: int, count: int) -> float:
    """Seconds for a number of workflows."""
    with ThreadPoolExecutor(callers) as pool:
        started = time.perf_counter()
        for _ in pool.map(work, [f"case {n}" for n in range(count)]):
            pass
        return time.perf_counter() - started


def main() -> None:
    """Serve until the input ends. What DBOS prints goes to standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr
    with TemporaryDirectory(prefix="tenure-bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'dbos.sqlite'}"
        config: DBOSConfig = {"name": "bench", "system_database_url": url, "log_level": "ERROR"}
        DBOS(config=config)
        DBOS.launch()
        print(json.dumps({"dbos": version("dbos")}), file=answers, flush=True)
        for line in sys.stdin:
            callers, count = map(int, line.split())
            print(json.dumps(timed(callers, count)), file=answers, flush=True)
        DBOS.destroy()


if __name__ == "__main__":
    main()
