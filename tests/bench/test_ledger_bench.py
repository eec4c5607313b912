"""The benchmark's shape, and what makes its two sides comparable. No number that depends on the machine is judged."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

import bench.__main__
from bench import ledger, measure
from bench.ledger import clones, commits, dbos, handoffs, recording, run, wal
from bench.ledger.script import STEPS, task_id
from bench.measure import Limit
from tenure.ledger.sqlite import SqliteLedger

ROOT = Path(__file__).parents[2]


def report_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert ledger.main(["--json", "--quick", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_subjects_are_listed_and_a_wrong_one_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.__main__.main([]) == 0
    assert "ledger" in capsys.readouterr().out
    assert bench.__main__.main(["nonesuch"]) == 2
    assert "nonesuch" in capsys.readouterr().err


def test_the_command_prints_one_json_object_and_progress_elsewhere() -> None:
    command = [sys.executable, "-m", "bench", "ledger", "--json", "--quick", "--only", "commits"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["subject"] == "ledger"
    assert "commits: counting" in done.stderr


@pytest.mark.parametrize("name", ["handoffs", "cpu", "events", "tasks", "import"])
def test_a_timed_measure_has_both_sides_their_ratio_and_a_verdict(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = report_of(capsys, "--only", name)
    (found,) = report["measures"]
    assert (found["name"], found["kind"]) == (name, "timed")
    assert found["met"] == report["timed_met"]
    limit = found["required"]
    assert found["met"] == (
        found["measured"] >= limit["at_least"] if limit["at_least"] else found["measured"] <= limit["at_most"]
    )
    for point in found["points"]:
        first, second = point["sides"].values()
        assert len(first["values"]) == len(second["values"]) == len(point["ratio"]["values"])
        assert 0 < first["low"] <= first["median"] <= first["high"]
        ratios = [a / b for a, b in zip(first["values"], second["values"], strict=True)]
        assert point["ratio"]["values"] == pytest.approx(ratios, rel=1e-3)


def test_commits_are_as_required(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(capsys, "--only", "commits")
    (found,) = report["measures"]
    assert (found["kind"], found["measured"], found["met"]) == ("counted", 0, True)
    counts = {point["label"]: point["sides"]["outside"]["median"] for point in found["points"]}
    assert counts["transfer, nothing left to retire"] == 1
    assert counts["transfer, a work left to retire"] == 2


def test_a_wrong_count_is_a_failure_and_said_aloud(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def wrong() -> list[commits.Count]:
        return [commits.Count("submit", 1, 1, 1), commits.Count("transfer", 1, 2, 2)]

    monkeypatch.setattr(commits, "count", wrong)
    assert ledger.main(["--only", "commits"]) == 1
    printed = capsys.readouterr()
    assert "NOT MET" in printed.out
    assert "NOT MET: commits: 1, required = 0" in printed.err


def test_a_timed_measure_that_is_not_met_is_said_aloud_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def slow(*, quick: bool) -> list[measure.Measure]:
        assert quick
        point = measure.compare("x", {"tenure": [9.0, 9.0], "plain": [1.0, 2.0]})
        limit = Limit("ratio", at_most=4)
        return [measure.measure("cpu", "slow", "timed", "us", [point], measured=6.75, required=limit)]

    monkeypatch.setitem(run.MEASURES, "cpu", slow)
    report = report_of(capsys, "--only", "cpu")
    assert (report["counted_met"], report["timed_met"]) == (True, False)
    assert ledger.main(["--quick", "--only", "cpu"]) == 0
    assert "NOT MET: cpu: 6.75, required <= 4" in capsys.readouterr().err


def test_without_dbos_the_comparison_says_why_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.delenv("UV", raising=False)
    (found,) = report_of(capsys, "--only", "dbos")["measures"]
    assert (found["points"], found["met"]) == ([], None)
    assert "uv is not on the path" in found["notes"][-1]


def test_a_dbos_process_that_ends_is_no_failure_of_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dbos, "command", lambda: ([sys.executable, "-c", "raise SystemExit(3)"], ""))
    (found,) = report_of(capsys, "--only", "dbos")["measures"]
    assert "ended with code 3" in found["notes"][-1]


def test_both_sides_leave_the_same_rows() -> None:
    rows = handoffs.rows_left()
    assert rows["tenure"] == rows["plain"]
    assert rows["tenure"]["events"] > 20 * len(STEPS)


def test_rows_of_the_plain_program_have_the_sizes_of_the_recorded_ones() -> None:
    recorded = recording.record()
    for step, written in zip(recording.keyed(recorded, task_id(1, "sizes")), recorded.steps, strict=True):
        for (sql, rows), original in zip(step, written, strict=True):
            assert sql == original.sql
            for row, source in zip(rows, original.rows, strict=True):
                texts = [(a, b) for a, b in zip(row, source, strict=True) if isinstance(b, str | bytes)]
                assert all(isinstance(a, str | bytes) and len(a) == len(b) for a, b in texts)


@pytest.mark.may_block
async def test_cloned_tasks_pass_verification_and_can_be_handed_over(tmp_path: Path) -> None:
    path = tmp_path / "cloned.db"
    assert list(clones.fill(path, 30, "cloned")) == [30]
    async with SqliteLedger(str(path)) as opened:
        found = await opened.verify()
        assert (found.chain, found.replay, found.file, found.problems) == ("verified", "equal", "sound", ())
        assert (found.tasks, found.events, found.missing) == (30, 60, 0)


def test_commits_are_counted_in_the_bytes_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "plain.db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    assert wal.commits(path) == 0
    connection.execute("CREATE TABLE t (x)")
    for n in range(3):
        connection.execute("BEGIN; INSERT INTO t VALUES (zeroblob(20000)); INSERT INTO t VALUES (?); COMMIT", (n,))
    assert wal.commits(path) == 4
    connection.execute("BEGIN; INSERT INTO t VALUES (1); ROLLBACK; BEGIN; COMMIT")
    assert wal.commits(path) == 4
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    connection.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(RuntimeError, match="restarted"):
        wal.commits(path)
    connection.close()


def test_sides_take_turns() -> None:
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return float(len(order))

    sides = {"a": lambda: side("a"), "b": lambda: side("b")}
    assert measure.interleave(2, sides, "turns") == {"a": [1, 3], "b": [2, 4]}
    assert order == ["a", "b", "a", "b"]


def test_a_limit_without_a_number_gives_no_verdict() -> None:
    assert Limit("ratio", at_most=4).holds(None) is None
    assert str(Limit("ratio", at_least=0.5, at_most=1)) == ">= 0.5 and <= 1"
