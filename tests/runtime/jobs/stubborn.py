"""What jobs are tried on: short policies, waiting with deadlines, and commands that do not want to end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenure.protocol.settings import Policy
from tenure.runtime.jobs import Job, ProcessJob, Retired, retire

BRIEF = Policy(name="brief", grace_ms=100)
MIDDLE = Policy(name="middle", grace_ms=1_000)
ROOMY = Policy(name="roomy", grace_ms=3_000)


async def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Poll until the condition holds; an assertion error after so many seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        assert loop.time() < deadline, "it did not come about in time"
        await asyncio.sleep(0.005)


class Asked:
    """Notes what ``retire`` tells about requests: work id and whether the delivery was known."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []

    def __call__(self, job: Job, delivered: bool) -> None:  # noqa: FBT001 - as `retire` calls it
        self.told.append((job.work_id, delivered))


async def retired(*jobs: Job) -> Retired:
    return await retire(jobs, on_cancel=Asked())


# Each names its pid in the file `ready` once it is set up; whoever waits for that file meets it in its final state.
READY = "import os, pathlib, signal, sys, time; here = pathlib.Path(sys.argv[1]); "
SAY = "new = here.with_suffix('.new'); new.write_text(str(os.getpid())); new.rename(here); "
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN); "
SLEEP = "time.sleep(60)"
OBEDIENT_PROGRAM = READY + SAY + SLEEP
DEAF_PROGRAM = READY + DEAF + SAY + SLEEP
DAEMON_PROGRAM = READY + "os.setsid(); " + DEAF + SAY + SLEEP
QUIET_DAEMON_PROGRAM = (
    READY + "os.setsid(); null = os.open(os.devnull, os.O_RDWR); [os.dup2(null, n) for n in range(3)]; " + SAY + SLEEP
)


def python(program: str, *args: Any) -> list[str]:
    """Command that runs a program without a site, which starts fastest."""
    return [sys.executable, "-S", "-E", "-c", program, *map(str, args)]


def leader_of(program: str, ready: Path, *, stays: bool) -> list[str]:
    """Command whose leader starts the program as a child, waits until it is set up, then stays or exits with 7."""
    after = "time.sleep(60)" if stays else "sys.exit(7)"
    leader = (
        "import pathlib, subprocess, sys, time\n"
        f"child = subprocess.Popen({python(program, ready)!r})\n"
        f"while not pathlib.Path({str(ready)!r}).exists(): time.sleep(0.005)\n"
        f"child.returncode = 0\n{after}"
    )
    return python(leader)


def mine(work_id: str) -> str:
    """Make an id that no other run of the tests has: processes are found by it, anywhere on the host."""
    return f"{work_id}-of-{os.getpid()}"


async def started(argv: list[str], work_id: str, policy: Policy = BRIEF, **rest: Any) -> ProcessJob:
    job = ProcessJob(argv, work_id=mine(work_id), name="command", policy=policy, **rest)
    await job.start()
    return job


async def pid_in(ready: Path) -> int:
    await until(ready.exists)
    return int(content(ready))


def content(file: Path) -> str:
    return file.read_text()
