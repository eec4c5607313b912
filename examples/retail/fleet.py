"""Worker processes of one ledger that can be killed, stopped and resumed, each act counted only when it was seen.

Killed is a process that was reaped as dead by SIGKILL; stopped is one that the system reported as stopped.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

TEAM = Path(__file__).with_name("team.py")
SEEN_WITHIN = 5.0  # s from a signal until its effect must have been seen
LOOK_EVERY = 0.005
READY = b" acts for "
"""What a worker says once it is known to the ledger and picks offers up."""


class FleetError(RuntimeError):
    """A worker did what no worker should: it ended by itself, or a signal did not reach it."""


@dataclass
class Member:
    """One worker process."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    stopped: bool = False
    ready_at: float = 0.0
    """`time.monotonic` when it was first seen to work; 0 before."""

    @property
    def alive(self) -> bool:
        """Whether it was not seen to end."""
        return self.process.returncode is None

    def working_for(self) -> float:
        """Seconds since it was first seen to work: it says so in its log. 0 before that."""
        now = time.monotonic()
        if not self.ready_at and READY in self.log.read_bytes():
            self.ready_at = now
        return now - self.ready_at if self.ready_at else 0.0


@dataclass
class Fleet:
    """All worker processes of a run, dead ones included. End it in any case: nobody else ends its processes.

    Attributes:
        ledger: URL that the workers share. environment: variables on top of this process's. folder: for their logs.
        concurrency: tenures at once in each.
    """

    ledger: str
    environment: Mapping[str, str]
    folder: Path
    concurrency: int = 8
    members: list[Member] = field(default_factory=list)

    def start(self) -> Member:
        """Start one more worker. A name is never used twice: the name of a killed worker is free only later."""
        name = f"worker-{len(self.members) + 1}"
        command = [sys.executable, "-m", "tenure", "worker", str(TEAM), "--ledger", self.ledger, "--name", name]
        command += ["--concurrency", str(self.concurrency), "--drain", "20"]
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            # A session of its own: Ctrl-C at the terminal is for the program that runs the fleet, which then ends it.
            process = subprocess.Popen(
                command, stdout=out, stderr=out, env={**os.environ, **self.environment}, start_new_session=True
            )
        member = Member(name, process, log)
        self.members.append(member)
        return member

    @property
    def alive(self) -> list[Member]:
        """Those that have not ended, stopped ones included."""
        return [member for member in self.members if member.alive]

    def check(self) -> None:
        """Notice workers that have ended by themselves.

        Raises:
            FleetError: with the end of its log.
        """
        for member in self.alive:
            # A stopped process is left alone: `poll` would not see it any better.
            if not member.stopped and member.process.poll() is not None:
                raise FleetError(f"{member.name} ended with {member.process.returncode}: {_tail(member.log)}")

    def kill(self, member: Member) -> None:
        """End it with SIGKILL, as the loss of a machine would, and reap it.

        Raises:
            FleetError: it had ended otherwise before.
        """
        member.process.send_signal(signal.SIGKILL)
        code = member.process.wait(SEEN_WITHIN)
        if code != -signal.SIGKILL:
            raise FleetError(f"{member.name} ended with {code} before it was killed: {_tail(member.log)}")

    def stop(self, member: Member) -> None:
        """Stop it with SIGSTOP, as a frozen machine, and wait until the system says that it is stopped.

        Raises:
            FleetError: it ended instead.
        """
        member.process.send_signal(signal.SIGSTOP)
        limit = time.monotonic() + SEEN_WITHIN
        while time.monotonic() < limit:
            pid, status = os.waitpid(member.process.pid, os.WUNTRACED | os.WNOHANG)
            if pid and os.WIFSTOPPED(status):
                member.stopped = True
                return
            if pid:
                member.process.returncode = os.waitstatus_to_exitcode(status)
                raise FleetError(f"{member.name} ended with {member.process.returncode}: {_tail(member.log)}")
            time.sleep(LOOK_EVERY)
        raise FleetError(f"{member.name} was not seen to stop")

    def resume(self, member: Member) -> None:
        """Let a stopped one go on."""
        member.process.send_signal(signal.SIGCONT)
        member.stopped = False

    def drain(self, seconds: float) -> dict[str, int]:
        """Ask all to finish what they are at (SIGTERM), and wait; returns the exit codes by name.

        Raises:
            FleetError: one had ended before, or did not end in time.
        """
        members = self.alive
        limit = time.monotonic() + seconds
        for member in members:
            if member.stopped:
                self.resume(member)
            while not member.working_for() and time.monotonic() < limit:
                self.check()  # one that is just starting does not listen to SIGTERM yet: it would die of it
                time.sleep(LOOK_EVERY)
        self.check()
        for member in members:
            member.process.terminate()
        try:
            return {member.name: member.process.wait(max(0.1, limit - time.monotonic())) for member in members}
        except subprocess.TimeoutExpired as error:
            raise FleetError(f"a worker still ran {seconds:g} s after SIGTERM: {error}") from error

    def end(self) -> None:
        """Kill whatever is left, stopped or not. Leaves no process behind; may be called at any time."""
        for member in self.alive:
            member.process.kill()
        for member in self.alive:
            member.process.wait()


def _tail(log: Path, lines: int = 12) -> str:
    return " | ".join(log.read_text(errors="replace").splitlines()[-lines:]) or "it said nothing"
