"""The command line, in this process where that is enough and as a process of its own where signals count."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenure.cli import invoke


@dataclass(frozen=True)
class Ran:
    """What a command line gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.err)["error"]
        return found


Tenure = Callable[..., Ran]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder; what a team file does to the interpreter is undone."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TENURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    forget_modules(tmp_path)


def forget_modules(folder: Path) -> None:
    """As in a new process, team files are imported anew."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def tenure(folder: Path, capsys: pytest.CaptureFixture[str]) -> Tenure:
    """Run one command line in this process."""

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        forget_modules(folder)
        code = invoke(arguments)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


class Process:
    """``tenure`` as a process of its own, its output in files."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._out, self._err = folder / f"{id(self)}.out", folder / f"{id(self)}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            command = [sys.executable, "-m", "tenure", *arguments]
            self.process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err, stdin=subprocess.DEVNULL)

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def until(self, seen: Callable[[], bool], seconds: float = 20) -> None:
        """Wait for something that the process does."""
        deadline = time.monotonic() + seconds
        while not seen():
            assert time.monotonic() < deadline, f"not seen; stdout: {self.out} stderr: {self.err}"
            assert self.process.poll() is None or seen(), f"ended too early; stdout: {self.out} stderr: {self.err}"
            time.sleep(0.05)

    def signal(self, number: signal.Signals = signal.SIGINT) -> None:
        self.process.send_signal(number)

    def end(self, seconds: float = 20) -> Ran:
        return Ran(self.process.wait(seconds), self.out, self.err)


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Process]]:
    """Start processes that do not outlive the test."""
    started: list[Process] = []

    def one(*arguments: str) -> Process:
        started.append(Process(folder, *arguments))
        return started[-1]

    yield one
    for each in started:
        each.process.kill()
        each.process.wait()


SHOP = """
from tenure import Complete, Confirmed, Escalate, Provider, Team, Tenure, Transfer

team = Team("shop", ledger="sqlite:///tenure.db")

class Refunds(Provider):
    name = "refunds"
    async def apply(self, request, *, key):
        return Confirmed(reference="R1")

@team.agent(entry=True, may_transfer={"billing": "billing answers for refunds"})
async def triage(own: Tenure):
    if own.input.get("broken"):
        raise RuntimeError("triage broke")
    return Transfer("billing", own.input)

@team.agent
async def billing(own: Tenure):
    if own.input.get("ask"):
        return Escalate("Pay it?", allowed=("yes", "no"), who=("person:lead",))
    await own.effect(Refunds(), own.input, key=own.input["order"], tool="refund")
    return Complete({"paid": own.input["order"]})
"""


@pytest.fixture
def shop(folder: Path) -> Path:
    """A team file of two agents, ``team.py``."""
    (folder / "team.py").write_text(SHOP)
    return folder


def write_lines(path: Path, *lines: object) -> str:
    """Write an input file; a text is written as it is."""
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return str(path)


@pytest.fixture
def ledger_of_three(shop: Path, tenure: Tenure) -> Path:
    """``tenure.db`` with a completed task (t1), one at a person (t2), another completed one (t3)."""
    lines = [{"task_id": "t1", "order": "A1"}, {"task_id": "t2", "order": "A2", "ask": True}]
    ran = tenure("run", "team.py", "--input", write_lines(shop / "in.jsonl", *lines, {"task_id": "t3", "order": "A3"}))
    assert ran.code == 0, ran.err
    return shop
