"""Commands: a group of their own, over when nothing of it is alive, whatever the leader says."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tenure.protocol.vocabulary import WorkEnd
from tenure.runtime.jobs import ProcessJob, hosts, process, process_alive, retire, table
from tenure.runtime.jobs.table import LINUX
from tests.runtime.jobs.stubborn import (
    BRIEF,
    DAEMON_PROGRAM,
    DEAF_PROGRAM,
    MIDDLE,
    OBEDIENT_PROGRAM,
    QUIET_DAEMON_PROGRAM,
    ROOMY,
    Asked,
    leader_of,
    mine,
    pid_in,
    python,
    retired,
    started,
    until,
)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that nobody counted does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def state_of(pid: int) -> str:
    """The letters of ``ps``: T is stopped."""
    return subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout


async def test_a_command_that_exits_is_over_with_its_code_and_output() -> None:
    job = await started(["sh", "-c", "cat; echo problem >&2; exit 3"], "exits", stdin=b"given")
    outcome = await job.wait(5)
    assert outcome is not None
    assert (outcome.how, outcome.value) == (WorkEnd.EXITED, 3)
    assert (job.output.stdout, job.output.stderr, job.survivors()) == (b"given", b"problem\n", ())


async def test_a_command_runs_where_and_with_what_it_was_told() -> None:
    job = await started(["/bin/sh", "-c", "pwd; echo $A $TENURE_WORK"], "told", cwd="/", env={"A": "1"})
    await job.wait(5)
    assert job.output.stdout.decode().split() == ["/", "1", job.work_id]


async def test_a_command_that_does_not_exist_never_ran_and_says_so() -> None:
    job = ProcessJob(["no-such-program"], work_id="none", name="none", policy=BRIEF)
    seen: list[object] = []
    job.on_end(seen.append)
    with pytest.raises(FileNotFoundError):
        await job.start()
    assert job.outcome is not None
    assert job.outcome.how is WorkEnd.RAISED
    await until(lambda: seen == [job])


async def test_a_command_killed_by_a_signal_is_told_from_one_that_exits() -> None:
    job = await started(["sh", "-c", "kill -9 $$"], "killed")
    outcome = await job.wait(5)
    assert outcome is not None
    assert (outcome.how, outcome.value) == (WorkEnd.KILLED, -9)


async def test_its_locator_finds_it_and_proves_its_death(tmp_path: Path) -> None:
    job = await started(python(OBEDIENT_PROGRAM, tmp_path / "ready"), "found", ROOMY)
    assert job.locator is not None
    assert job.locator.group == job.locator.pid == await pid_in(tmp_path / "ready")
    assert process_alive(job.locator) is True
    await retired(job)
    assert process_alive(job.locator) is False


async def test_much_more_output_than_a_pipe_holds_neither_blocks_nor_is_kept() -> None:
    program = "import sys; sys.stdout.write('x' * 3_000_000 + 'end'); sys.stderr.write('y' * 300_000)"
    job = await started(python(program), "chatty", keep=1_000)
    outcome = await job.wait(10)
    assert outcome is not None
    assert (len(job.output.stdout), job.output.stdout[-3:]) == (1_000, b"end")
    assert job.output.dropped == 3_000_003 + 300_000 - 2_000


async def test_input_that_is_never_read_is_no_obstacle() -> None:
    job = await started(["sh", "-c", "exit 0"], "deaf-to-input", stdin=b"x" * 1_000_000)
    assert await job.wait(5) is not None


async def test_the_whole_group_is_signalled_and_observed_dead(tmp_path: Path) -> None:
    """CA-05 (b): the tools of the old owner are closed, the grandchild with them."""
    job = await started(leader_of(OBEDIENT_PROGRAM, tmp_path / "ready", stays=True), "group", ROOMY)
    grandchild = await pid_in(tmp_path / "ready")
    asked = Asked()
    done = await retire([job], on_cancel=asked)
    assert done.ended[job.work_id].how is WorkEnd.KILLED
    assert asked.told == [(job.work_id, True)]
    assert not alive(grandchild)


async def test_a_grandchild_deaf_to_sigterm_is_killed_within_the_grace(tmp_path: Path) -> None:
    job = await started(leader_of(DEAF_PROGRAM, tmp_path / "ready", stays=True), "deaf", MIDDLE)
    grandchild = await pid_in(tmp_path / "ready")
    done = await retired(job)
    assert list(done.ended) == [job.work_id]
    assert not alive(grandchild)


async def test_a_stopped_process_is_killed_all_the_same(tmp_path: Path) -> None:
    job = await started(python(OBEDIENT_PROGRAM, tmp_path / "ready"), "stopped", MIDDLE)
    pid = await pid_in(tmp_path / "ready")
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: state_of(pid).startswith("T"))
    done = await retired(job)
    assert done.ended[job.work_id].value == -signal.SIGKILL


async def test_the_leaders_exit_is_no_end_while_a_grandchild_lives(tmp_path: Path) -> None:
    """CA-05 (a): the tool itself is gone; the survivor is named and keeps the work on the books."""
    job = await started(leader_of(DEAF_PROGRAM, tmp_path / "ready", stays=False), "orphan", ROOMY)
    grandchild = await pid_in(tmp_path / "ready")
    await until(lambda: job.output.code == 7 and job.survivors()[0].startswith(f"pid {grandchild} ("))
    assert await job.wait(0.05) is None
    assert job.outcome is None
    assert len(job.survivors()) == 1
    os.kill(grandchild, signal.SIGKILL)
    outcome = await job.wait(5)
    assert outcome is not None
    assert (outcome.how, outcome.value) == (WorkEnd.EXITED, 7)


async def test_an_orphaned_group_is_still_signalled_after_its_leader_is_gone(tmp_path: Path) -> None:
    """CA-05 (a): after a time-out the whole group is observed dead, not only the direct child."""
    job = await started(leader_of(OBEDIENT_PROGRAM, tmp_path / "ready", stays=False), "headless", ROOMY)
    await pid_in(tmp_path / "ready")
    await until(lambda: job.output.code is not None)
    done = await retired(job)
    assert done.ended[job.work_id].value == 7
    assert job.delivered


async def test_what_is_not_seen_to_end_in_its_grace_is_named_and_reported_later(tmp_path: Path) -> None:
    """CA-05 (b): nobody is told that the tools are closed while a survivor is alive."""
    job = await started(leader_of(DEAF_PROGRAM, tmp_path / "ready", stays=True), "late", BRIEF)
    await pid_in(tmp_path / "ready")
    job.insist_limit = 0  # as if SIGKILL did not help, as for a process that hangs in the kernel
    seen: list[object] = []
    job.on_end(seen.append)
    done = await retired(job)
    assert (done.ended, done.unseen) == ({}, (job,))
    await until(lambda: len(job.survivors()) == 1)  # the leader obeyed
    assert seen == []
    job.insist_limit = 1
    job.insist()
    await until(lambda: seen == [job])


@pytest.mark.parametrize("program", [DAEMON_PROGRAM, QUIET_DAEMON_PROGRAM])
async def test_a_grandchild_that_left_the_session_is_found_where_it_can_be(program: str, tmp_path: Path) -> None:
    """CA-05 (a): found by the mark in its environment on Linux; elsewhere by the output that it holds."""
    job = await started(leader_of(program, tmp_path / "ready", stays=False), "daemon", MIDDLE)
    daemon = await pid_in(tmp_path / "ready")
    await until(lambda: job.output.code == 7)
    if LINUX:
        await until(lambda: job.survivors() and str(daemon) in job.survivors()[0])
        assert job.outcome is None
        done = await retired(job)
        assert list(done.ended) == [job.work_id]
        assert not alive(daemon)
    else:
        os.kill(daemon, signal.SIGKILL)


async def test_a_daemon_without_mark_that_holds_the_output_is_alive_though_not_found(tmp_path: Path) -> None:
    program = (
        "import os, subprocess, sys, time, pathlib\n"
        f"subprocess.Popen({python(DAEMON_PROGRAM, tmp_path / 'ready')!r}, env={{}})\n"
        f"while not pathlib.Path({str(tmp_path / 'ready')!r}).exists(): time.sleep(0.005)\n"
        "os._exit(7)"
    )
    job = await started(python(program), "hidden", ROOMY)
    daemon = await pid_in(tmp_path / "ready")
    await until(lambda: job.output.code == 7 and "holds the output" in "".join(job.survivors()))
    assert await job.wait(0.05) is None
    os.kill(daemon, signal.SIGKILL)
    assert await job.wait(5) is not None


async def test_cancelling_the_start_loses_no_process(tmp_path: Path) -> None:
    job = ProcessJob(python(OBEDIENT_PROGRAM, tmp_path / "ready"), work_id=mine("cut"), name="cut", policy=ROOMY)
    starting = asyncio.create_task(job.start())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    job.request_cancel()
    outcome = await job.wait(5)
    assert outcome is not None
    assert outcome.how is WorkEnd.KILLED


async def test_cancelling_whoever_waits_does_nothing_to_the_process(tmp_path: Path) -> None:
    job = await started(python(OBEDIENT_PROGRAM, tmp_path / "ready"), "waited", ROOMY)
    waiting = asyncio.create_task(job.wait())
    pid = await pid_in(tmp_path / "ready")
    waiting.cancel()
    await asyncio.wait([waiting])
    assert alive(pid)
    assert job.outcome is None


async def test_when_the_table_cannot_be_read_nothing_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> list[object]:
        raise PermissionError("no table")

    with monkeypatch.context() as patch:
        patch.setattr("tenure.runtime.jobs.table.rows", unreadable)
        job = await started(["sh", "-c", "exit 0"], "unread", ROOMY)
        await until(lambda: job.survivors() == ("pid 0 (not determinable)",))
        assert await job.wait(0.05) is None
    assert await job.wait(5) is not None


async def test_without_proc_a_group_is_seen_and_ended_by_ps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CA-05 (a), as on macOS: by the group and by the output that it holds."""
    for module in (table, hosts, process):
        monkeypatch.setattr(module, "LINUX", False)
    job = await started(leader_of(DEAF_PROGRAM, tmp_path / "ready", stays=False), "by-ps", ROOMY)
    grandchild = await pid_in(tmp_path / "ready")
    await until(lambda: job.output.code == 7 and job.survivors()[0].startswith(f"pid {grandchild} ("))
    done = await retired(job)
    assert list(done.ended) == [job.work_id]
    assert not alive(grandchild)
