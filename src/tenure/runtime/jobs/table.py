"""The system's table of processes, as rows: ``/proc`` on Linux, ``ps`` elsewhere.

Nothing here waits for a disk or for another process, but on macOS ``ps`` itself is one: call :func:`rows` and, there,
:func:`row` on a thread.
"""

from __future__ import annotations

import calendar
import os
import subprocess
import sys
import time
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

LINUX = sys.platform == "linux"

PASSES = 100

_PS = ("/bin/ps", "-ww", "-o", "pid=,ppid=,pgid=,state=,lstart=,comm=")


class Row(Struct, frozen=True, kw_only=True):
    """One process that is alive. A zombie is not: it runs nothing and only waits to be counted.

    Attributes:
        pid, parent, group, session: its ids; ``session`` is 0 where the system does not tell.
        started: its start, in clock ticks since boot on Linux, in seconds since the Unix epoch elsewhere.
        name: the program's, as the system shortens it.
        marked: it was started with the environment that was looked for; never so on macOS, which shows none.
    """

    pid: int
    parent: int
    group: int
    session: int
    started: int
    name: str
    marked: bool = False

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.name})"


def read(path: str) -> bytes | None:
    """Read a file that the kernel makes up while it is read; ``None`` if it is gone or hidden."""
    try:
        # Such a file never waits; O_NONBLOCK says so to whoever checks calls on the event loop.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        parts = []
        while part := os.read(handle, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    except OSError:  # it ended in between
        return None
    finally:
        os.close(handle)


def row(pid: int) -> Row | None:
    """Look one process up; ``None`` if none of that id is alive or visible.

    Raises:
        OSError: the system did not tell.
    """
    if LINUX:
        stat = read(f"/proc/{pid}/stat")
        return None if stat is None else _from_stat(stat)
    found = _ps("-p", str(pid))
    return found[0] if found else None


def rows(since: int = 0, mark: bytes = b"") -> list[Row]:
    """List every process that is visible, was alive during this call and started no earlier than ``since``.

    The folder of processes is read one by one. Meanwhile a process may hand over to its child, which is not in the
    list yet, and end before its turn comes. So the list is taken again until it has nothing new: then whoever was
    alive at that moment was looked at.

    Args:
        since: start time in the unit of :class:`Row`.
        mark: ``NAME=value`` of the environment, to be looked for at each; told by ``marked``.

    Raises:
        OSError: the system did not tell, or processes come and go faster than they can be read.
    """
    if not LINUX:
        return [each for each in _ps("-A") if each.started >= since]
    looked: dict[int, Row | None] = {}
    for _ in range(PASSES):
        new = [pid for pid in _pids() if pid not in looked]
        if not new:
            return [each for each in looked.values() if each is not None and each.started >= since]
        looked.update((pid, _marked(pid, since, mark)) for pid in new)
    raise OSError(f"The table of processes had something new {PASSES} times in a row.")


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _marked(pid: int, since: int, mark: bytes) -> Row | None:
    """Look one process up with its mark; ``None`` too if it ended before both were read."""
    found = row(pid)
    if found is None or not mark or found.started < since:
        return found
    environment = read(f"/proc/{pid}/environ")
    if environment == b"":
        # Read in the moment in which it turned into another program, an environment looks empty.
        time.sleep(0.002)
        environment = read(f"/proc/{pid}/environ")
    if environment is None:
        return row(pid)  # not ours to read, or gone
    return replace(found, marked=mark in environment.split(b"\0"))


def _from_stat(stat: bytes) -> Row | None:
    """Parse ``/proc/<pid>/stat``; fields as in proc(5), where the state is the third."""
    head, _, tail = stat.rpartition(b")")
    pid, _, name = head.partition(b" (")
    fields = tail.split()
    # A process whose first thread is over shows as a zombie although others of its threads run.
    if fields[0] in {b"Z", b"X"} and int(fields[17]) <= 1:
        return None
    parent, group, session = (int(field) for field in fields[1:4])
    return Row(
        pid=int(pid),
        parent=parent,
        group=group,
        session=session,
        started=int(fields[19]),
        name=name.decode(errors="replace"),
    )


def _ps(*which: str) -> list[Row]:
    environ = {"LC_ALL": "C", "TZ": "UTC0"}
    try:
        done = subprocess.run(  # noqa: S603 - a constant program and numbers
            [*_PS, *which], capture_output=True, env=environ, stdin=subprocess.DEVNULL, timeout=10, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OSError("ps did not answer in 10 s.") from error
    if done.stderr or done.returncode not in {0, 1}:  # 1 is also how it says that there is no such process
        raise OSError(f"ps failed: {done.stderr.decode(errors='replace').strip() or done.returncode}")
    found = map(_from_ps, done.stdout.decode(errors="replace").splitlines())
    return [each for each in found if each is not None]


def _from_ps(line: str) -> Row | None:
    """Parse ``pid ppid pgid state Day Mon dd hh:mm:ss yyyy command``. No session: macOS prints it as an address."""
    pid, parent, group, state, *rest = line.split(None, 9)
    if state.startswith("Z"):
        return None
    when, name = rest[:5], rest[5:] or ["?"]
    started = calendar.timegm(time.strptime(" ".join(when), "%a %b %d %H:%M:%S %Y"))
    return Row(
        pid=int(pid),
        parent=int(parent),
        group=int(group),
        session=0,
        started=started,
        name=name[0].rstrip().rpartition("/")[2],
    )
