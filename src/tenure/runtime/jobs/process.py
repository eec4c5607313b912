"""A command as a job: a process group of its own, over when its leader was counted and nothing of it is alive.

The leader's exit is not the end: a grandchild that ignores signals, left the group, or merely holds the output open is
alive, is named by :meth:`ProcessJob.survivors`, and keeps the job from being called over.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tenure.protocol.settings import Policy
from tenure.protocol.state import Locator
from tenure.protocol.vocabulary import WorkEnd, WorkKind
from tenure.runtime.jobs import table
from tenure.runtime.jobs.aside import aside
from tenure.runtime.jobs.base import Job, Outcome, outside
from tenure.runtime.jobs.hosts import MARKER, survivors_of, this_host
from tenure.runtime.jobs.pipes import Pipes
from tenure.runtime.jobs.table import LINUX, Row

KEEP = 64 * 1024
"""Bytes kept of each output stream, the last ones."""

FIRST_LOOK = 0.01
LONGEST_PAUSE = 2.0
"""Seconds between two looks at the table of processes: from the first, growing, to the longest."""

UNKNOWN = Row(pid=0, parent=0, group=0, session=0, started=0, name="not determinable")


class ProcessJob(Job):
    """Runs a command in a session and process group of its own, marked by ``TENURE_WORK`` in its environment.

    :meth:`request_cancel` sends SIGTERM to the whole group, :meth:`insist` SIGKILL, both also to what left the group
    and can be found. ``EXITED`` has the leader's exit code as value, ``KILLED`` minus the signal's number.

    Output is read all the time, so that no pipe fills up and stops the command; the last ``keep`` bytes of each stream
    stay in :attr:`output`. Where a descendant cannot be found (a daemon on macOS), an output that it holds open still
    tells that something is alive. An exit status that somebody else in this process collected (a handler of SIGCHLD)
    reads as exit code 255, which is what asyncio makes of it.
    """

    kind = WorkKind.PROCESS
    insist_limit = 2

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        work_id: str,
        name: str,
        policy: Policy,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        keep: int = KEEP,
    ) -> None:
        super().__init__(work_id=work_id, name=name, policy=policy)
        self._argv = [str(part) for part in argv]
        self._cwd = cwd
        self._env = dict(os.environ if env is None else env) | {MARKER: work_id}
        self._stdin = stdin
        self.output = Pipes(keep, self._stir)
        self._transport: asyncio.SubprocessTransport | None = None
        self._spawning: asyncio.Task[Exception | None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()
        self._alive: tuple[Row, ...] = ()
        self._signals: list[tuple[int, bool]] = []
        self._terminated = False

    def survivors(self) -> tuple[str, ...]:
        """Name the processes that were alive at the last look."""
        if self.outcome is not None or self.locator is None:
            return ()
        if self._alive:
            return tuple(map(str, self._alive))
        if self.output.code is None:
            return (f"pid {self.locator.pid} ({Path(self._argv[0]).name})",)
        return (f"a process not found that holds the output of pid {self.locator.pid}",) if self.output.open else ()

    async def _start(self) -> None:
        # A task of its own: cancelling the starter half-way must not lose a process that exists already.
        self._spawning = self.loop.create_task(self._spawn(), context=outside())
        error = await asyncio.shield(self._spawning)
        if error is not None:
            raise error

    async def _spawn(self) -> Exception | None:
        try:
            where = await aside(this_host)
            self._transport, _ = await self.loop.subprocess_exec(
                lambda: self.output,
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL if self._stdin is None else asyncio.subprocess.PIPE,
                cwd=self._cwd,
                env=self._env,
                start_new_session=True,
            )
        except Exception as error:  # noqa: BLE001 - told to the starter, and to the books if the starter is gone
            self._seen(Outcome(WorkEnd.RAISED, error=error))
            return error
        pid = self._transport.get_pid()
        found = await self._leader(pid)
        started = found.started if found else 0
        self.locator = Locator(host=where.host, boot=where.boot, pid=pid, started=started, group=pid)
        self.output.feed(self._stdin)
        self._watching = self.loop.create_task(self._watch(), context=outside())
        if self._asked:
            self._deliver()
        return None

    async def _leader(self, pid: int) -> Row | None:
        try:
            return table.row(pid) if LINUX else await aside(partial(table.row, pid))
        except (OSError, RuntimeError):
            return None

    def _stir(self) -> None:
        self._stirred.set()

    def _deliver(self) -> None:
        if self.locator is not None and not self._terminated:
            self._terminated = True
            self._send(self.locator, signal.SIGTERM)

    def _deliver_again(self) -> None:
        if self.locator is not None:
            self._send(self.locator, signal.SIGKILL)

    def _send(self, locator: Locator, number: int) -> None:
        """Signal the group at once if its leader proves that the number is still ours; the rest at the next look."""
        sent = self._leads(locator) and _reached(partial(os.killpg, locator.group, number))
        self.delivered = self.delivered or sent
        self._signals.append((number, sent))
        self._stir()

    def _leads(self, locator: Locator) -> bool:
        if self.output.code is not None:
            return False
        if not LINUX:
            return True
        # The leader may have been counted already without this loop having heard of it.
        found = table.row(locator.pid)
        return found is not None and found.started == locator.started

    async def _watch(self) -> None:
        """Look until nothing of it is alive: at every event, and at intervals once an end is due."""
        pause = FIRST_LOOK
        while True:
            due = self._asked or self.output.code is not None
            if await self._event(pause if due else None):
                pause = FIRST_LOOK
            await self._look()
            if self.output.code is not None and not self._alive and not self.output.open:
                break
            pause = min(pause * 1.5, LONGEST_PAUSE)
        if self._transport is not None:
            self._transport.close()
        code = self.output.code
        self._seen(Outcome(WorkEnd.KILLED if code < 0 else WorkEnd.EXITED, value=code))

    async def _event(self, longest: float | None) -> bool:
        """Wait for news, at most so many seconds. Says whether there were any."""
        try:
            async with asyncio.timeout(longest):
                await self._stirred.wait()
        except TimeoutError:
            return False
        self._stirred.clear()
        return True

    async def _look(self) -> None:
        """See what is alive, and pass on to it the signals that are due."""
        locator = self.locator
        if locator is None:
            return
        signals, self._signals = self._signals, []
        try:
            self._alive, reached = await aside(partial(_look_and_signal, locator, self.work_id, signals))
        except Exception:  # noqa: BLE001 - whatever prevented the look (no thread, no handle): nothing was seen, look again
            self._signals = signals + self._signals
            self._alive = self._alive or (UNKNOWN,)
            return
        self.delivered = self.delivered or reached


def _look_and_signal(
    locator: Locator, work_id: str, signals: Sequence[tuple[int, bool]]
) -> tuple[tuple[Row, ...], bool]:
    """Find what is alive and signal it: the group as one, unless it got the signal already, then what left it.

    Raises:
        OSError: it cannot be determined what is alive.
    """
    alive = survivors_of(locator, work_id)
    if alive is None:
        raise OSError("The table of processes cannot be read.")
    inside = any(each.group == locator.group for each in alive)
    reached = False
    for number, sent in signals:
        if inside and not sent:
            reached |= _reached(partial(os.killpg, locator.group, number))
        for each in alive:
            if each.group != locator.group:
                reached |= _reached(partial(signal_one, each, number))
    return alive, reached


def signal_one(process: Row, number: int) -> None:
    """Signal one process, and none that got its pid since (Linux); elsewhere the pid was right a moment ago."""
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        handle = os.pidfd_open(process.pid)
        try:
            now = table.row(process.pid)
            if now is None or now.started != process.started:
                raise ProcessLookupError(process.pid)
            signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
    else:
        os.kill(process.pid, number)


def _reached(action: Callable[[], None]) -> bool:
    """Whether the signal reached something. What is gone or not ours to signal is no error."""
    try:
        action()
    except OSError:
        return False
    return True
