"""A command of this host as an effect: started once per key, looked up by what it left in a folder, sealed, cancelled.

Each key has a folder. Its file ``start`` is made by one hard link, whole and only once: by the wrapper that is about to
run the command, or by a seal. So whoever links first has the key, and a wrapper that comes late runs nothing. The
wrapper (this module as a program) then waits for the command and leaves its exit code in ``exit``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tenure.protocol.body import text_digest
from tenure.protocol.state import Locator
from tenure.runtime.content import canonical, words_of
from tenure.runtime.ids import new_id
from tenure.runtime.jobs import survivors_of, this_host
from tenure.runtime.jobs.aside import aside
from tenure.runtime.jobs.hosts import MARKER
from tenure.runtime.jobs.process import signal_one
from tenure.runtime.provider import (
    Accepted,
    Answer,
    Cancelled,
    Confirmed,
    Failed,
    Inconclusive,
    NotFound,
    NotSent,
    Provider,
    Sealed,
)

TEN_YEARS = 10 * 365 * 24 * 3600.0
PAUSE = 0.01
"""Seconds between two looks for something that is about to happen."""

START_LIMIT = 30.0
"""Seconds for a wrapper to start; after them nothing is known of it."""


class Start(Struct, frozen=True):
    """Who has the key: the wrapper at that place, or a seal, which has none."""

    locator: Locator | None = None


class Exit(Struct, frozen=True):
    """How the command ended: its exit code (minus a signal's number), or why it could not be run at all."""

    code: int = 0
    error: str = ""


class ProcessJobs(Provider):
    """Commands of this host, each in a session and process group of its own that outlives the worker.

    Declares: *idempotent* while the folders are kept (``kept_for``), *queryable*, *sealable*, *cancellable*; not
    reversible.

    Evidence: ``Accepted`` is a process of the job that is alive. ``Confirmed`` is a record of exit code 0. ``Failed``
    is a record of an exit code that promises that nothing was done (``without_effect``), or of a command that could
    not be run. ``Cancelled`` is a record of an end without success after a signal of ours, and nothing alive.
    ``Sealed`` is a tombstone in the place of the start. What ended without a record (its wrapper was killed, the host
    went down: it may have succeeded), or with another code, or runs where this process cannot see it, is
    ``Inconclusive``.

    Args:
        name: name of the provider. folder: where the keys' folders are made; on a local disk of this host.
        command: the argument vector for a request.
        without_effect: exit codes by which the command says that nothing was done.
        cwd, env: of the command; by default those of the worker.
        grace: seconds from SIGTERM to SIGKILL, and from there to the last look, when it is cancelled.
        kept_for: seconds for which no folder is deleted.
    """

    def __init__(
        self,
        name: str,
        folder: str | Path,
        command: Callable[[Any], Sequence[str]],
        *,
        without_effect: Collection[int] = (),
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        grace: float = 5,
        kept_for: float = TEN_YEARS,
    ) -> None:
        self.name = name
        self.folder = Path(folder).absolute()
        self.key_scope = f"{socket.gethostname()}:{self.folder}"
        self.idempotent_for = kept_for
        self._command = command
        self._without_effect = frozenset(without_effect)
        self._cwd = cwd
        self._env = env
        self._grace = grace

    async def apply(self, request: Any, *, key: str) -> Answer:
        """Start the command, unless somebody has the key; says what became of it so far.

        Raises:
            NotSent: no wrapper could be started. RuntimeError: it ended, or took too long, before it had the key.
        """
        return await aside(lambda: self._started(request, key))

    async def lookup(self, request: Any, *, key: str) -> Answer:
        """Read the records, and look for what is alive. ``NotFound`` is never final: a wrapper may be on its way."""
        return await aside(lambda: self._other(request, key) or self._state(key))

    async def seal(self, request: Any, *, key: str) -> Answer:
        """Take the key with a tombstone, or say who had it."""
        return await aside(lambda: self._sealed(request, key))

    async def cancel(self, request: Any, *, key: str) -> Answer:
        """Signal the job's group, SIGTERM and then SIGKILL, and say what was seen.

        The wrapper outlives both, to record the end. What left the group is not signalled, and keeps the job from being
        called over.
        """
        return await aside(lambda: self._other(request, key) or self._cancelled(key))

    def _place(self, key: str) -> Path:
        return self.folder / text_digest(key)

    def _other(self, request: Any, key: str) -> Inconclusive | None:
        kept = read(self._place(key) / "request", str)
        if kept in {None, _mark(request)}:
            return None
        return Inconclusive("Another request is on record under this key.")

    def _claimed(self, request: Any, key: str) -> Inconclusive | None:
        """Make the key's folder, or see whose it is."""
        self._place(key).mkdir(parents=True, exist_ok=True)
        put(self._place(key) / "request", _mark(request))
        return self._other(request, key)

    def _started(self, request: Any, key: str) -> Answer:
        place = self._place(key)
        try:
            other = self._claimed(request, key)
            known = (place / "start").exists()
            wrapper = None
            if other is None and not known:
                wrapper = self._spawn(place, key, [str(part) for part in self._command(request)])
        except Exception as error:
            raise NotSent(words_of(error)) from error
        if wrapper is None:
            return other or self._state(key)
        threading.Thread(target=wrapper.wait, name="tenure-process", daemon=True).start()
        deadline = time.monotonic() + START_LIMIT
        while not (place / "start").exists():
            if wrapper.returncode is not None and not (place / "start").exists():
                raise RuntimeError(f"The wrapper ended with {wrapper.returncode} and started nothing.")
            if time.monotonic() > deadline:
                raise RuntimeError("The wrapper has not started.")
            time.sleep(PAUSE)
        return self._state(key)

    def _spawn(self, place: Path, key: str, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        # -P: a folder of the command must not lend its modules to the wrapper.
        wrapper = [sys.executable, "-P", "-m", "tenure.providers.process", str(place), *argv]
        environment = dict(os.environ if self._env is None else self._env) | {MARKER: key}
        with (place / "stdout").open("ab") as output, (place / "stderr").open("ab") as errors:
            return subprocess.Popen(  # noqa: S603 - the user's own command
                wrapper,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd=self._cwd,
                env=environment,
                start_new_session=True,
            )

    def _sealed(self, request: Any, key: str) -> Answer:
        other = self._claimed(request, key)
        if other is not None:
            return other
        put(self._place(key) / "start", Start())
        return self._state(key)

    def _state(self, key: str) -> Answer:
        """What the records and the table of processes show."""
        place = self._place(key)
        start = read(place / "start", Start)
        if start is None:
            return NotFound()
        if start.locator is None:
            return Sealed()
        if (success := self._success(place)) is not None:
            return success
        alive = survivors_of(start.locator, key)
        # It may have ended with a record between the look for one and the look at the processes.
        if (success := self._success(place)) is not None:
            return success
        if alive:
            return Accepted(str(place))
        if alive is None:
            return Inconclusive("What is alive of it cannot be seen from here.")
        return self._ended(place)

    def _success(self, place: Path) -> Confirmed | None:
        ended = read(place / "exit", Exit)
        done = ended is not None and not ended.error and ended.code == 0
        return Confirmed({"exit": 0}, reference=str(place)) if done else None

    def _ended(self, place: Path) -> Answer:
        """Nothing of it is alive, and it did not succeed."""
        ended = read(place / "exit", Exit)
        if ended is not None and ended.error:
            return Failed(ended.error)
        if ended is not None and ended.code in self._without_effect:
            return Failed(f"exit code {ended.code}", {"exit": ended.code})
        if ended is None:
            return Inconclusive("It ended without a record.")
        if (place / "cancel").exists():
            return Cancelled(str(place))
        return Inconclusive(f"It ended with {ended.code}.")

    def _cancelled(self, key: str) -> Answer:
        place = self._place(key)
        state = self._state(key)
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + self._grace
            signalled: set[tuple[int, int]] = set()
            while isinstance(state, Accepted):
                start = read(place / "start", Start)
                # Again and again, as it may have started others meanwhile.
                if start.locator is not None and _signal(start.locator, key, number, signalled):
                    # Only now: a request that reached nothing has ended nothing.
                    put(place / "cancel", number.name)
                if time.monotonic() >= deadline:
                    break
                time.sleep(PAUSE)
                state = self._state(key)
        return self._state(key)


def _signal(wrapper: Locator, key: str, number: int, signalled: set[tuple[int, int]]) -> bool:
    """Signal, once each, who is in the job's group and is not the wrapper. Says whether it reached anybody."""
    reached = False
    for each in survivors_of(wrapper, key) or ():
        who = (each.pid, each.started)
        if each.group == wrapper.group and each.pid != wrapper.pid and who not in signalled:
            signalled.add(who)
            with contextlib.suppress(OSError):
                signal_one(each, number)
                reached = True
    return reached


def put(path: Path, value: Any) -> bool:
    """Make a file at once and whole, on the disk; ``False`` if it is there already."""
    scratch = path.with_name(new_id(path.name))
    try:
        with scratch.open("xb") as file:
            file.write(msgspec.json.encode(value))
            file.flush()
            os.fsync(file.fileno())
        os.link(scratch, path)
    except FileExistsError:
        return False
    finally:
        scratch.unlink(missing_ok=True)
        for folder in (path.parent, path.parent.parent):
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    return True


def read(path: Path, kind: type[Any]) -> Any:
    """A record; ``None`` if there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None


def _mark(request: Any) -> str:
    return text_digest(canonical(request).decode())


def wrap(place: Path, argv: Sequence[str]) -> int:
    """Take the key, run the command, record how it ended. Runs nothing when somebody else has the key."""
    here = this_host()
    own = Locator(host=here.host, boot=here.boot, pid=here.pid, started=here.started, group=os.getpgrp())
    # A handler, as what is ignored stays ignored in the command: the wrapper outlives a SIGTERM to record the end, also
    # one that somebody else sends to the whole group.
    signal.signal(signal.SIGTERM, lambda *_: None)
    if not put(place / "start", Start(own)):
        return 0
    try:
        ended = Exit(subprocess.call(argv))  # noqa: S603 - the user's own command
    except (OSError, ValueError) as error:
        ended = Exit(error=words_of(error))
    put(place / "exit", ended)
    return 0


if __name__ == "__main__":
    sys.exit(wrap(Path(sys.argv[1]), sys.argv[2:]))
