"""Real processes and real signals: the first drains, the second stops, --follow just ends."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Process, Tenure, write_lines

Start = Callable[..., Process]

pytestmark = pytest.mark.may_block  # the handlers of these tests touch files

SLOW = """
import asyncio, pathlib, time
from tenure import Complete, Team

team = Team("slow", ledger="sqlite:///tenure.db")

@team.agent
async def one(own):
    pathlib.Path(f"began-{own.task_id}").touch()
    if own.input.get("block"):
        time.sleep(60)
    while not pathlib.Path("go").exists():
        try:
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            if not own.input.get("stubborn"):
                raise
    return Complete()
"""


@pytest.fixture
def slow(folder: Path) -> Path:
    (folder / "team.py").write_text(SLOW)
    return folder


def began(folder: Path) -> int:
    return len(list(folder.glob("began-*")))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_running_tenures_end(
    number: signal.Signals, slow: Path, start: Start, tenure: Tenure
) -> None:
    file = write_lines(slow / "in.jsonl", *({"task_id": f"t{n}"} for n in range(9)))
    run = start("run", "team.py", "--input", file, "--json", "--concurrency", "1")
    run.until(lambda: began(slow) == 1)
    run.signal(number)
    run.until(lambda: "draining" in run.err)
    (slow / "go").touch()
    ran = run.end()
    assert ran.code == 130
    summary = ran.json
    assert (summary["completed"], summary["interrupted"]) == (1, True)
    assert (summary["unfinished"], summary["unsent"]) == (3, 5)
    assert tenure("verify").code == 0
    (again,) = [tenure("run", "team.py", "--input", file, "--json")]
    assert (again.code, again.json["completed"]) == (0, 9)


@pytest.mark.parametrize(
    "line", [{}, {"stubborn": True}, {"block": True}], ids=["sleeps", "stubborn", "blocks the loop"]
)
def test_the_second_signal_stops_at_once(line: dict[str, bool], slow: Path, start: Start) -> None:
    run = start("run", "team.py", "--input", write_lines(slow / "in.jsonl", line), "--json")
    run.until(lambda: began(slow) == 1)
    run.signal()
    run.until(lambda: "draining" in run.err)
    assert run.process.poll() is None
    started = time.monotonic()
    run.signal()
    ran = run.end()
    assert ran.code == 130
    assert time.monotonic() - started < 8
    assert "Traceback" not in ran.err


def test_a_drain_is_bounded(slow: Path, start: Start) -> None:
    run = start(
        "run", "team.py", "--input", write_lines(slow / "in.jsonl", {"stubborn": True}), "--json", "--drain", "0.3"
    )
    run.until(lambda: began(slow) == 1)
    run.signal()
    ran = run.end(15)
    assert ran.code == 130
    assert (ran.json["unfinished"], ran.json["completed"]) == (1, 0)


def test_a_worker_works_until_a_signal(slow: Path, start: Start, tenure: Tenure) -> None:
    (slow / "go").touch()
    worker = start("worker", "team.py", "--name", "w", "--agents", "one")
    worker.until(lambda: "worker w acts for one on sqlite:///tenure.db" in worker.err)
    other = start("worker", "team.py", "--name", "w")
    refused = other.end()
    assert (refused.code, "A live worker has this name." in refused.err) == (2, True)
    worker.signal(signal.SIGTERM)
    ran = worker.end()
    assert (ran.code, ran.out) == (0, "")
    assert "worker w ended: nothing was running" in ran.err
    again = start("worker", "team.py", "--name", "w")
    again.until(lambda: "worker w acts for" in again.err)
    again.signal()
    assert again.end().code == 0


def test_a_worker_drains_and_says_what_it_left(slow: Path, start: Start) -> None:
    worker = start("worker", "team.py", "--drain", "0.3")
    run = start(
        "run",
        "team.py",
        "--input",
        write_lines(slow / "in.jsonl", *({"n": n} for n in range(40))),
        "--concurrency",
        "1",
    )
    worker.until(lambda: began(slow) > 2)
    worker.signal(signal.SIGTERM)
    ran = worker.end()
    assert ran.code == 1
    assert "still ran after 0.3 s; nothing is claimed of them" in ran.err
    run.signal()
    run.signal()


def test_a_run_that_was_killed_is_finished_by_the_next(slow: Path, start: Start, tenure: Tenure) -> None:
    file = write_lines(slow / "in.jsonl", *({"task_id": f"t{n}"} for n in range(3)))
    run = start("run", "team.py", "--input", file)
    run.until(lambda: began(slow) == 3)
    run.process.kill()
    run.process.wait()
    (slow / "go").touch()
    ran = tenure("run", "team.py", "--input", file, "--json")
    assert (ran.code, ran.json["completed"]) == (0, 3)
    assert tenure("verify").code == 0
    tenures = tenure("show", "t0", "--json").json["termination"]["tenures"]
    assert [(each["forced"], each["termination"]) for each in tenures][-1] == (False, "execution.stopped")
    assert tenures[0]["forced"] is True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_follow_shows_what_other_processes_commit_and_ends_on_a_signal(
    number: signal.Signals, slow: Path, start: Start, tenure: Tenure
) -> None:
    (slow / "go").touch()
    assert tenure("run", "team.py", "--input", write_lines(slow / "in.jsonl", {"task_id": "t1"})).code == 0
    before = tenure("events", "--json").out.splitlines()
    follow = start("events", "--follow", "--json")
    follow.until(lambda: len(follow.out.splitlines()) == len(before))
    assert tenure("run", "team.py", "--input", write_lines(slow / "in.jsonl", {"task_id": "t2"})).code == 0
    follow.until(lambda: '"task.completed"' in follow.out.splitlines()[-1] or "t2" in follow.out)
    everything = tenure("events", "--json").out
    follow.until(lambda: follow.out == everything)
    follow.signal(number)
    ran = follow.end()
    assert (ran.code, ran.err) == (0, "")
    assert [json.loads(line)["position"] for line in ran.out.splitlines()] == [
        json.loads(line)["position"] for line in everything.splitlines()
    ]


def test_progress_is_told_in_lines_where_no_terminal_is(slow: Path, start: Start) -> None:
    file = write_lines(slow / "in.jsonl", {"task_id": "a"})
    run = start("run", "team.py", "--input", file)
    run.until(lambda: began(slow) == 1)
    time.sleep(1.1)
    (slow / "go").touch()
    assert "tasks at rest: 1 of 1 1 completed" in run.end().err


def test_progress_is_drawn_on_a_terminal(slow: Path) -> None:
    (slow / "go").touch()
    write_lines(slow / "in.jsonl", {"task_id": "a"})
    pid, terminal = os.forkpty()
    if pid == 0:  # pragma: no cover - the child becomes another program
        import sys

        os.chdir(slow)
        os.execv(sys.executable, [sys.executable, "-m", "tenure", "run", "team.py", "--input", "in.jsonl"])
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"tasks at rest" in seen
    assert b"1/1" in seen
    assert b"1 task: 1 completed" in seen


def test_show_reads_a_task_while_it_is_owned_elsewhere(slow: Path, start: Start, tenure: Tenure) -> None:
    run = start("run", "team.py", "--input", write_lines(slow / "in.jsonl", {"task_id": "t1"}), "--name", "w")
    run.until(lambda: began(slow) == 1)
    shown = tenure("show", "t1", "--json").json
    assert (shown["execution"]["phase"], shown["execution"]["owner"], shown["execution"]["overdue_ms"]) == (
        "active",
        "one",
        0,
    )
    assert shown["execution"]["instance"].startswith("w-")
    assert [(each["until"], each["termination"]) for each in shown["termination"]["tenures"]] == [(0, "")]
    text = tenure("show", "t1").out
    assert "one may act, as instance w-" in text
    assert "its lease ends in" in text
    assert "one receives live input" in text
    assert "epoch 2 one: not ended" in text
    (slow / "go").touch()
    assert run.end().code == 0
