"""Start and stop the service as a process of one's own: for a team file, a run and a test.

Imports nothing that the service needs, so that whoever only talks to it does not load a server.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("__main__.py")
START_LIMIT = 20.0  # s from the start of the process to its line with the URL
STOP_LIMIT = 5.0  # s from SIGTERM to the end of the process


class StartError(RuntimeError):
    """The service did not come up; the text holds what it said."""


@dataclass(frozen=True)
class Running:
    """A service that listens. Stop it, or kill it: nobody else does, unless it was started `with_parent`."""

    url: str
    process: subprocess.Popen[str]

    def stop(self) -> int:
        """End it in order (SIGTERM, then SIGKILL after `STOP_LIMIT`); returns its exit code, 0 when in order."""
        self.process.terminate()
        try:
            code = self.process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        _close(self.process)
        return code

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        _close(self.process)


def launch(
    data: Path, database: Path, *, port: int = 0, faults: dict[str, Any] | None = None, with_parent: bool = True
) -> Running:
    """Start the service and wait until it listens; what it has to complain about goes to this process's stderr.

    `with_parent`: it ends when this process does, however that ends.

    Raises:
        StartError: it ended, or did not listen within `START_LIMIT`.
    """
    command = [sys.executable, str(PROGRAM), "--data", str(data), "--database", str(database), "--port", str(port)]
    command += ["--faults", json.dumps(faults or {})]
    if with_parent:
        command += ["--with-parent", str(os.getpid())]
    # A session of its own: Ctrl-C at the terminal is for the program that uses the service, which then stops it.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    line = _first_line(process)
    if not line:
        process.kill()
        code = process.wait()
        _close(process)
        raise StartError(f"the retail service did not start (exit code {code}): {' '.join(command)}")
    return Running(json.loads(line)["url"], process)


def _close(process: subprocess.Popen[str]) -> None:
    if process.stdout is not None:
        process.stdout.close()


def _first_line(process: subprocess.Popen[str]) -> str:
    """Return the first line of its output; empty when it ended, or said nothing in time."""
    assert process.stdout is not None, "it was started with a pipe"
    limit = time.monotonic() + START_LIMIT
    ready, _, _ = select.select([process.stdout], [], [], max(0.0, limit - time.monotonic()))
    return process.stdout.readline() if ready else ""
