"""A worker in a process of its own, to be killed, stopped and started again: ``python -m tests.runtime.program …``.

What it does is written line by line to a log file, which outlives it. Handlers wait for the file ``go`` in the folder.
``--crash before:Release`` makes the process kill itself right before (or ``after:``) the ledger takes such a command.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tenure import Call, Complete, Confirmed, NotFound, Provider, Settings, Team, Tenure, Transfer
from tenure.ledger import Ledger, open_ledger
from tenure.protocol import commands as cmd
from tenure.runtime.offered import Offered
from tests.runtime.jobs.stubborn import python

SETTINGS = Settings(lease_ms=1_200)

BEATING = """
import os, pathlib, signal, sys, time
here = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for n in range(10**9):
    new = here.with_suffix(".new")
    new.write_text(f"{os.getpid()} {n}")
    new.rename(here)
    time.sleep(0.02)
"""
"""A grandchild that ignores SIGTERM and writes ``pid count`` again and again."""


def tool(beats: Path) -> list[str]:
    """A tool process that starts the beating grandchild and stays."""
    return python(f"import subprocess, sys, time; subprocess.Popen({python(BEATING, beats)!r}); time.sleep(60)")


class Folder:
    """The world outside: files in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def log(self, *words: object) -> None:
        with (self.path / "log").open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def lines(self, first: str = "") -> list[list[str]]:
        log = self.path / "log"
        found = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return [words for words in found if first in ("", words[0])]

    async def go(self, name: str = "go") -> None:
        """Wait for a file of that name; there is nothing but polling between processes."""
        file, pause = self.path / name, 0.02
        for _ in range(int(60 / pause)):
            if file.exists():
                return
            await asyncio.sleep(pause)
        raise TimeoutError(name)


class Orders(Provider):
    """Orders in the folder; each act is a line of the log. Can be asked what became of a key."""

    name = "orders"
    in_flight_limit = 0.2

    def __init__(self, folder: Folder, *, loses: bool) -> None:
        self.folder = folder
        self.loses = loses

    async def apply(self, request: Any, *, key: str) -> Any:
        self.folder.log("act", key)
        if self.loses:
            await asyncio.Event().wait()
        return Confirmed({"key": key}, key[:8])

    async def lookup(self, request: Any, *, key: str) -> Any:
        return Confirmed({"key": key}, key[:8]) if ["act", key] in self.folder.lines("act") else NotFound()


class Crashing:
    """A ledger beside which the process kills itself."""

    def __init__(self, ledger: Ledger, when: str, kind: str) -> None:
        self.far, self.when, self.kind = ledger, when, kind

    async def execute(self, command: cmd.Command) -> cmd.Receipt:
        mine = type(command).__name__ == self.kind
        if mine and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        receipt = await self.far.execute(command)
        if mine and self.when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return receipt

    def __getattr__(self, name: str) -> Any:
        return getattr(self.far, name)


class Desk:
    """The agents of every test with processes."""

    def __init__(self, folder: Folder, *, loses: bool) -> None:
        self.folder = folder
        self.orders = Orders(folder, loses=loses)

    async def on_offer(self, offered: Offered) -> str | None:
        self.folder.log("asked", offered.agent, os.getpid())
        return None

    async def a(self, own: Tenure[Any]) -> Transfer[Any] | Complete[Any]:
        """Hand over to ``b``, with a work left to retire if the input asks for one."""
        self.folder.log("began", "a", os.getpid(), own.epoch)
        if own.payload.trigger == "return" or own.epoch > 4:
            return Complete("back with a")
        if "work" in own.input:
            _ = own.spawn(asyncio.Event().wait(), policy="local", name="work")
            await own.save()
        return Transfer("b", own.input, summary="from a")

    async def b(self, own: Tenure[Any]) -> Complete[Any]:
        """Complete with the next message."""
        self.folder.log("began", "b", os.getpid(), own.epoch)
        known = (*own.payload.done, *own.in_flight.ended, *own.in_flight.works)
        self.folder.log("told", *sorted(f"{fact.what}:{fact.outcome}" for fact in known))
        if "raise" in own.input:
            raise RuntimeError("cannot start")
        message = await own.receive(timeout=10)
        return Complete(["b", message.value if message else None])

    async def turner(self, own: Tenure[Any]) -> Any:
        """Decide in one turn on a transfer to ``b`` and a note beside it, which waits for ``go-note``."""
        self.folder.log("began", "turner", os.getpid(), own.epoch)
        return await own.turn([Call("note", self.note), Transfer("b", own.input, summary="from turner")])

    async def note(self) -> str:
        self.folder.log("note", os.getpid())
        await self.folder.go("go-note")
        return "noted"

    async def stray(self, own: Tenure[Any]) -> Transfer[Any]:
        """Want a route that is not there, whatever it is told."""
        self.folder.log("began", "stray", os.getpid(), "nudged" if own.nudge else "plain")
        return Transfer("holder", own.input)

    async def holder(self, own: Tenure[Any]) -> Complete[Any]:
        """Start what the input asks for, wait for ``go``, and decide whatever happens to it meanwhile."""
        self.folder.log("began", "holder", os.getpid(), own.epoch)
        if own.epoch == 2 and "start" in own.input:
            for kind in own.input["start"]:
                self.start(own, kind)
            await own.save()
        if "order" in own.input:
            outcome = await own.effect(self.orders, own.input["order"], key=own.input["order"], patience=5)
            return Complete([own.epoch, type(outcome).__name__])
        while True:
            try:
                await self.folder.go()
                break
            except asyncio.CancelledError:
                self.folder.log("cancelled", os.getpid(), own.epoch)
        self.folder.log("ended", os.getpid(), own.epoch)
        return Complete(own.epoch)

    def start(self, own: Tenure[Any], kind: str) -> None:
        if kind == "coroutine":
            _ = own.spawn(asyncio.Event().wait(), name=kind)
        elif kind == "thread":
            _ = own.thread(time.sleep, 60, name=kind)
        else:
            _ = own.process(*tool(self.folder.path / "beats"), name=kind)


def team_in(folder: Folder, ledger: Any, *, loses: bool = False, hook: bool = False) -> Team:
    """The team of every test with processes."""
    team = Team("desk", ledger=ledger, settings=SETTINGS)
    desk = Desk(folder, loses=loses)
    team.agent(entry=True, may_transfer={"b": "goes on"})(desk.a)
    team.agent(on_offer=desk.on_offer if hook else None)(desk.b)
    team.agent(desk.holder)
    team.agent(may_transfer={"b": "goes on"})(desk.turner)
    team.agent(desk.stray)
    return team


async def main(arguments: argparse.Namespace) -> None:
    """Run a worker until the file ``stop`` is there."""
    folder = Folder(Path(arguments.folder))
    ledger: Any = open_ledger(arguments.ledger)
    if arguments.crash:
        ledger = Crashing(ledger, *arguments.crash.split(":"))
    team = team_in(folder, ledger, loses=arguments.loses, hook=arguments.hook)
    async with team.worker(name=arguments.name, concurrency=200, drain=arguments.drain):
        folder.log("up", arguments.name, os.getpid())
        await folder.go("stop")
    await ledger.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("ledger")
    parser.add_argument("folder")
    parser.add_argument("--name", default="w1")
    parser.add_argument("--crash", default="")
    parser.add_argument("--drain", type=float, default=0.2)
    parser.add_argument("--loses", action="store_true")
    parser.add_argument("--hook", action="store_true")
    asyncio.run(main(parser.parse_args()))
    sys.exit(0)
