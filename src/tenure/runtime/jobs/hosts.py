"""What can be proven from here about a process whose place is known: alive, dead, or not determinable."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
from collections.abc import Callable

from tenure.protocol.state import Locator
from tenure.runtime.jobs import table
from tenure.runtime.jobs.table import LINUX, Row

MARKER = "TENURE_WORK"
"""Environment variable that carries the work's id into a process, its children and theirs."""


def this_host() -> Locator:
    """Say where this very process runs.

    ``boot`` is the boot's id and, on Linux, the namespace in which a pid means something: ``<boot id>/<namespace>``.
    Read once per process. On macOS the first call waits for two short commands: make it before the loop runs.
    """
    return _this_process(os.getpid())


@functools.lru_cache(maxsize=1)
def _this_process(pid: int) -> Locator:
    own = table.row(pid)
    return Locator(host=socket.gethostname(), boot=_boot(), pid=pid, started=own.started if own else 0)


def _boot() -> str:
    if not LINUX:
        command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603 - constant
        return done.stdout.strip()
    boot = (table.read("/proc/sys/kernel/random/boot_id") or b"").decode().strip()
    handle = os.open("/proc/self/ns/pid", os.O_RDONLY)
    try:
        return f"{boot}/{os.fstat(handle).st_ino}"
    finally:
        os.close(handle)


def comparable(locator: Locator) -> bool | None:
    """Whether pids of that place mean something here.

    Returns:
        ``True`` for this host, boot and namespace. ``False`` for an earlier boot of this host: everything of it is
        over. ``None`` for anything else: another host, another container, or a place that is not known.
    """
    here = this_host()
    boot, _, space = locator.boot.partition("/")
    own_boot, _, own_space = here.boot.partition("/")
    if not locator.host or locator.host != here.host or not boot or not own_boot:
        return None
    if boot != own_boot:
        return False
    return True if space == own_space else None


def process_alive(locator: Locator) -> bool | None:
    """Whether the process is alive. On macOS it waits for a short command: call it on a thread.

    A pid with another start time is somebody else's; an earlier boot of the same host, and a zombie, are dead.

    Returns:
        ``None`` when it cannot be determined: another host or container, an unknown pid, a process hidden from us.
    """
    here = comparable(locator)
    if here is not True:
        return here
    if locator.pid <= 0:
        return None
    try:
        found = table.row(locator.pid)
    except OSError:
        return None
    if found is not None:
        return locator.started in {0, found.started}
    return None if _hidden(lambda: os.kill(locator.pid, 0)) else False


def _hidden(probe: Callable[[], None]) -> bool:
    """Whether something is there that does not show: another user's, where ``/proc`` hides those."""
    try:
        probe()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def group_members(group: int) -> tuple[Row, ...]:
    """List the processes alive in a process group, or in the session of that id. Call it on a thread."""
    if group <= 0:
        return ()
    return tuple(each for each in table.rows() if group in {each.group, each.session})


def survivors_of(locator: Locator, work_id: str = "") -> tuple[Row, ...] | None:
    """List what is alive of a work that was started as a process group. Call it on a thread.

    Found are members of its group and session, their descendants, and on Linux every process that carries the work's
    id in its environment (:data:`MARKER`), in whatever session. A process that left the session, lost its parents and
    the marker is not found: on macOS that is every daemon.

    Returns:
        The processes; empty if none was found; ``None`` when it cannot be determined from here.
    """
    here = comparable(locator)
    if here is None or locator.group <= 0:
        return None
    if here is False:
        return ()
    mark = f"{MARKER}={work_id}".encode() if work_id else b""
    try:
        alive = _found(locator, mark)
    except OSError:
        return None
    if not alive and _hidden(lambda: os.killpg(locator.group, 0)):
        return None
    return alive


def _found(locator: Locator, mark: bytes) -> tuple[Row, ...]:
    everything = [each for each in table.rows(locator.started, mark) if each.pid != os.getpid()]
    # The kernel gives no pid out while a group or session has that number: a stranger of that pid ends our group.
    reused = any(each.pid == locator.group and locator.started not in {0, each.started} for each in everything)
    group = 0 if reused else locator.group
    found = {each.pid for each in everything if each.marked or (group and group in {each.group, each.session})}
    _add_descendants(found, everything)
    return tuple(each for each in everything if each.pid in found)


def _add_descendants(found: set[int], everything: list[Row]) -> None:
    """Add children of children until there are no more."""
    size = -1
    while size != len(found):
        size = len(found)
        found.update(each.pid for each in everything if each.parent in found)
