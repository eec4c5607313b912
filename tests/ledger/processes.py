"""Processes that write one ledger file, run as a program: it forks them, kills them, and reports as JSON.

A process of its own, because a fork wants a parent without threads.
"""

import asyncio
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable

from tenure.ledger.sqlite import SqliteLedger
from tenure.protocol import commands as cmd
from tenure.testing.conformance.crowd import Crowd, Seat
from tenure.testing.conformance.driver import body, candidates, payload


def submit(name: str) -> cmd.Submit:
    return cmd.Submit(
        command_id=f"submit {name}", root_id=name, task_id=name, candidates=candidates("a"), payload=payload(name)
    )


def send(root_id: str, name: str) -> cmd.Send:
    return cmd.Send(command_id=name, root_id=root_id, task_id=root_id, message=body(name))


def fork(run: str, path: str, *arguments: str) -> tuple[int, int]:
    """Start a child; returns its pid and the end of a pipe on which it names what was acknowledged."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    os.close(reader)
    try:
        RUNS[run](SqliteLedger(path), writer, *arguments)
    finally:
        os._exit(0)


def stream(ledger: SqliteLedger, acknowledged: int, name: str) -> None:
    """Commands without an end, each acknowledged by a line."""
    ledger.execute_blocking(submit(name))
    os.write(acknowledged, f"submit {name}\n".encode())
    for n in range(1_000_000):
        ledger.execute_blocking(send(name, f"{name}/{n}"))
        os.write(acknowledged, f"{name}/{n}\n".encode())


def share(ledger: SqliteLedger, acknowledged: int, name: str, count: str) -> None:
    """As many commands to one task that all processes share."""
    for n in range(int(count)):
        ledger.execute_blocking(send("shared", f"{name}/{n}"))
        os.write(acknowledged, f"{name}/{n}\n".encode())


def part_of_a_crowd(ledger: SqliteLedger, acknowledged: int, name: str, n: str, of: str) -> None:
    """Speak for every ``of``-th tenure of the tree ``t``, and say what was refused."""
    tasks = [row.task for row in asyncio.run(ledger.tasks(limit=1_000))]
    owned = [(task, task.tenure) for task in tasks if task.tenure is not None][int(n) :: int(of)]
    part = Crowd(ledger, "t", name, int(n))
    part.join(
        [
            Seat(task_id=task.task_id, agent=tenure.agent, instance=tenure.instance, epoch=tenure.epoch)
            for task, tenure in owned
        ]
    )
    part.run(steps=6)
    os.write(acknowledged, "".join(f"{code}\n" for code in part.refused.elements()).encode())


RUNS: dict[str, Callable[..., None]] = {"stream": stream, "share": share, "crowd": part_of_a_crowd}


def lines(reader: int) -> list[str]:
    """Everything until the pipe's end; a line that was cut by the kill was acknowledged to nobody."""
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read()
    return text.decode()[: text.rfind(b"\n") + 1].splitlines()


def kills(path: str, count: int, seed: int) -> dict[str, list[str]]:
    """Kill one process after the other in the middle of its stream."""
    draw = random.Random(seed)
    acknowledged = {}
    for n in range(count):
        name = f"t{n}"
        pid, reader = fork("stream", path, name)
        select.select([reader], [], [], 30)
        time.sleep(draw.random() * 0.03)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            raise RuntimeError(f"{name} ended by itself: {status}")
        acknowledged[name] = lines(reader)
    return acknowledged


def together(path: str, count: int, each: int) -> dict[str, list[str]]:
    """Several processes at once on one task."""
    return gathered({f"p{n}": fork("share", path, f"p{n}", str(each)) for n in range(count)})


def crowd(path: str, count: int, _seed: int) -> dict[str, list[str]]:
    """Several processes at once on one tree."""
    return gathered({f"p{n}": fork("crowd", path, f"p{n}", str(n), str(count)) for n in range(count)})


def gathered(children: dict[str, tuple[int, int]]) -> dict[str, list[str]]:
    """What each of them has named."""
    acknowledged = {name: lines(reader) for name, (_, reader) in children.items()}
    for pid, _ in children.values():
        os.waitpid(pid, 0)
    return acknowledged


if __name__ == "__main__":
    what, path, first, second = sys.argv[1:]
    found = {"kills": kills, "together": together, "crowd": crowd}[what](path, int(first), int(second))
    sys.stdout.write(json.dumps(found))
