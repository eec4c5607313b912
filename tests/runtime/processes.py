"""Start, kill, stop and continue worker processes of :mod:`tests.runtime.program`."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from tenure.ledger import Ledger, open_ledger
from tests.runtime.harness import until
from tests.runtime.program import Folder

ROOT = Path(__file__).parents[2]


class Workers:
    """Worker processes on one SQLite file, and what they leave behind."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self.path = path
        self.ledger = ledger
        self.folder = Folder(path)
        self.running: list[asyncio.subprocess.Process] = []

    async def start(self, *options: str, name: str = "w1") -> asyncio.subprocess.Process:
        """Start one and wait until it is up (or has crashed, as it was told to)."""
        before = len(self.folder.lines("up"))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.runtime.program",
            f"sqlite:///{self.path}/ledger.db",
            str(self.path),
            "--name",
            name,
            *options,
            cwd=ROOT,
        )
        self.running.append(process)

        async def up() -> bool:
            return len(self.folder.lines("up")) > before or process.returncode is not None

        await until(up, 15)
        return process

    async def kill(self, process: asyncio.subprocess.Process) -> None:
        """SIGKILL, and wait until it is counted."""
        process.kill()
        await process.wait()

    def pause(self, process: asyncio.subprocess.Process) -> None:
        os.kill(process.pid, signal.SIGSTOP)

    def resume(self, process: asyncio.subprocess.Process) -> None:
        os.kill(process.pid, signal.SIGCONT)

    def touch(self, name: str) -> None:
        (self.path / name).touch()

    async def began(self, agent: str, times: int = 1, within: float = 10) -> list[list[str]]:
        """Wait until an agent's handler has begun so many times."""

        async def enough() -> list[list[str]]:
            found = [line for line in self.folder.lines("began") if line[1] == agent]
            return found if len(found) >= times else []

        return await until(enough, within)

    async def beating(self) -> int:
        """Pid of the grandchild that beats."""

        async def there() -> bool:
            return (self.path / "beats").exists()

        await until(there)
        return int((self.path / "beats").read_text().split()[0])


@pytest.fixture
async def workers(tmp_path: Path) -> AsyncIterator[Workers]:
    """Worker processes on a file. After the test none is left, and the ledger verifies."""
    ledger = await asyncio.to_thread(open_ledger, f"sqlite:///{tmp_path}/ledger.db")
    made = Workers(tmp_path, ledger)
    yield made
    for process in made.running:
        if process.returncode is None:
            process.kill()
        await process.wait()
    beats = tmp_path / "beats"
    if beats.exists():
        kill_session_of(int(beats.read_text().split()[0]))
    found = await ledger.verify()
    await ledger.close()
    assert (found.chain, found.replay, found.problems) == ("verified", "equal", ())


def kill_session_of(pid: int) -> None:
    """Kill a tool's whole group, which was its own session."""
    with suppress(ProcessLookupError):
        os.killpg(os.getpgid(pid), signal.SIGKILL)
