"""Bad input: a clear error, the next step, the exit code of its family, and nothing changed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.ledger import Instance, open_ledger
from tests.cli.conftest import SHOP, Tenure, write_lines

HEAD = "from tenure import Complete, Team\nteam = Team('t')\n"
AGENT = "@team.agent\nasync def one(own):\n    return Complete()\n"

BAD_TEAMS = {
    "syntax": ("def broken(:\n", "team.py:1: SyntaxError: invalid syntax"),
    "raises": (HEAD + "VALUE = 1 / 0\n", "team.py:3: ZeroDivisionError: division by zero"),
    "exits": (HEAD + "raise SystemExit(3)\n", "team.py:3: SystemExit: 3"),
    "missing module": ("import no_such_module_here\n", "team.py:1: ModuleNotFoundError: No module named"),
    "no attribute": ("from tenure import Team\nshop = Team('t')\n", "has no attribute 'team'; it has shop."),
    "no team": ("team = 3\n", "'team' in team.py is no Team: its type is int; it has no Team at all."),
    "no agents": (HEAD, "Team 't' has no agents"),
    "no coroutine": (HEAD + "@team.agent\ndef one(own):\n    pass\n", "is not a coroutine function. (team.py:3)"),
    "no because": (
        HEAD + "@team.agent(may_transfer={'two': ''})\nasync def one(own):\n    pass\n",
        "The transfer one → two needs a because",
    ),
    "unknown agent": (
        HEAD + "@team.agent(may_transfer={'nobody': 'x'})\nasync def one(own):\n    pass\n",
        "No such agent in the team. The transfer one → nobody leads to 'nobody', which is no agent.",
    ),
    "task_of": (HEAD + AGENT + "task_of = 3\n", "'task_of' in team.py is no function."),
}


@pytest.mark.parametrize("name", BAD_TEAMS)
def test_a_malformed_team_is_told_with_its_cause_and_line(name: str, folder: Path, tenure: Tenure) -> None:
    source, said = BAD_TEAMS[name]
    (folder / "team.py").write_text(source)
    ran = tenure("run", "team.py", "--input", write_lines(folder / "in.jsonl", {}))
    assert ran.code == 2
    error, following = ran.err.splitlines()
    assert error.startswith("error: ")
    assert said in error
    assert following.startswith("next: correct the ")
    assert sorted(path.name for path in folder.iterdir()) == ["in.jsonl", "team.py"]


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [
        ("nowhere.py", 64, "There is no team file nowhere.py."),
        ("nowhere:team", 2, "There is no module 'nowhere'"),
        ("team.py:else", 2, "has no attribute 'else'"),
        ("team.py:", 64, "'team.py:' names no team."),
    ],
)
def test_a_team_that_is_not_there(spec: str, code: int, said: str, shop: Path, tenure: Tenure) -> None:
    ran = tenure("run", spec, "--input", write_lines(shop / "in.jsonl", {}), "--json")
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.error["message"]
    assert ran.error["exit_code"] == code


BAD_LINES = {
    "not JSON": ('{"order": "A2"', "This is not JSON"),
    "not UTF-8": ('{"order": "\udcff"}', "This is not JSON"),
    "no object": ("[1]", "A line is a JSON object, and this is a list."),
    "twice": ('{"task_id": "t1"}', "The task id 't1' stands in line 1 already."),
    "dotted": ('{"task_id": "a.b"}', "has a dot"),
    "transcript": (
        '{"chat": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}',
        "The payload carries a raw transcript.",
    ),
    "too large": ('{"text": "%s"}' % ("x" * 70_000), "The payload is larger than its limit."),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_file_with_a_bad_line_submits_nothing(name: str, shop: Path, tenure: Tenure) -> None:
    text, said = BAD_LINES[name]
    (shop / "in.jsonl").write_bytes(
        b'{"task_id": "t1", "order": "A1"}\n\n' + text.encode(errors="surrogateescape") + b'\n{"order": "A3"}\n'
    )
    ran = tenure("run", "team.py", "--input", "in.jsonl", "--json")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.error["message"]
    assert "in.jsonl, line 3: " in ran.error["message"]
    assert ran.error["line"] == 3
    assert not (shop / "tenure.db").exists()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return {'goal': line['nothing']}", "task_of raised KeyError: 'nothing'."),
        ("return None", "task_of returned a NoneType"),
        ("return {'data': 1}", "The goal is missing."),
        ("return {'goal': 'g', 'colour': 1}", "colour: no arguments of submit"),
        ("return {'goal': 'g', 'to': 'nobody'}", "'nobody'; the team has one."),
        ("return {'goal': 'g', 'data': 'text'}", "The receiver does not accept it"),
        ("return {'goal': 'g', 'data': object()}", "object has no JSON form"),
    ],
)
def test_a_line_that_its_team_cannot_read(body: str, said: str, folder: Path, tenure: Tenure) -> None:
    (folder / "team.py").write_text(
        f"{HEAD}@team.agent(accepts=int)\nasync def one(own):\n    return Complete()\ndef task_of(line):\n    {body}\n"
    )
    ran = tenure("run", "team.py", "--input", write_lines(folder / "in.jsonl", {}))
    assert ran.code == 2
    assert said in ran.err
    assert "line 1" in ran.err


def test_an_input_file_that_is_not_there(shop: Path, tenure: Tenure) -> None:
    ran = tenure("run", "team.py", "--input", "nothing.jsonl")
    assert ran.code == 64
    assert "File 'nothing.jsonl' does not exist." in ran.err


@pytest.mark.parametrize(
    "command", [["tasks"], ["show", "t1"], ["events"], ["verify"], ["erase", "t1", "--by", "me", "--yes"]]
)
def test_reading_makes_no_ledger(command: list[str], folder: Path, tenure: Tenure) -> None:
    ran = tenure(*command, "--json")
    assert ran.code == 64
    assert ran.error["code"] == "no_ledger"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("url", "code"), [("memory://", 64), ("tenure.db", 2), ("mysql://x", 2)])
def test_a_url_that_is_none(url: str, code: int, folder: Path, tenure: Tenure) -> None:
    ran = tenure("tasks", "--ledger", url)
    assert ran.code == code
    assert ran.err.startswith("error: ")


def spoil(path: Path, how: str) -> None:
    if how == "corrupt":
        path.with_name(f"{path.name}-wal").unlink(missing_ok=True)
        path.write_bytes(b"no database at all" * 100)
        return
    if how == "foreign":
        path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other (a)" if how == "foreign" else "PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize("how", ["corrupt", "foreign", "newer"])
def test_a_file_that_is_no_usable_ledger_is_named_and_left_alone(
    how: str, ledger_of_three: Path, tenure: Tenure
) -> None:
    path = ledger_of_three / "tenure.db"
    spoil(path, how)
    content = path.read_bytes()
    for command in (["tasks"], ["show", "t1"], ["events"], ["run", "team.py", "--input", "in.jsonl"]):
        ran = tenure(*command, "--json")
        assert (ran.code, ran.out) == (2, "")
        assert ran.error["code"] == f"{how}_file"
        assert ran.error["next"]
    assert path.read_bytes() == content


def test_verify_says_of_a_damaged_file_what_it_can(ledger_of_three: Path, tenure: Tenure) -> None:
    spoil(ledger_of_three / "tenure.db", "corrupt")
    ran = tenure("verify", "--json")
    assert ran.code == 1
    assert (ran.json["chain"], ran.json["replay"], ran.json["file"]) == (
        "not determinable",
        "not determinable",
        "damaged",
    )


@pytest.fixture
def locked(tenure: Tenure, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a team and its input in which this process, root or not, cannot write."""
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    (place / "team.py").write_text(SHOP)
    write_lines(place / "in.jsonl", {"order": "A1"})
    monkeypatch.chdir(place)
    place.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield place
    if root:
        os.seteuid(0)
    place.chmod(0o755)
    shutil.rmtree(place)


@pytest.mark.parametrize(
    ("command", "code", "following"),
    [
        (["run", "team.py", "--input", "in.jsonl"], 4, "next: make the file and its folder writable"),
        (["worker", "team.py"], 4, "next: make the file and its folder writable"),
        (["init", "new"], 64, "next: name a folder that you may write to"),
    ],
)
def test_a_read_only_folder(command: list[str], code: int, following: str, locked: Path, tenure: Tenure) -> None:
    ran = tenure(*command)
    assert (ran.code, ran.out) == (code, "")
    assert [line.partition(": ")[0] for line in ran.err.splitlines()] == ["error", "next"]
    assert following in ran.err
    assert sorted(path.name for path in locked.iterdir()) == ["in.jsonl", "team.py"]


def test_two_workers_of_one_name(shop: Path, tenure: Tenure) -> None:
    ledger = open_ledger("sqlite:///tenure.db")
    seen = ledger.now_blocking()
    ledger.register(
        Instance(instance_id="w-1", name="w", host="h", boot="b", pid=1, started=1, lease_ms=60_000, seen_at=seen)
    )
    for command in (
        ["worker", "team.py"],
        ["run", "team.py", "--input", write_lines(shop / "in.jsonl", {"order": "A1"})],
    ):
        ran = tenure(*command, "--name", "w")
        assert ran.code == 2
        assert ran.err.splitlines()[-1].startswith("next: give this worker another --name")
        assert "A live worker has this name." in ran.err
    assert tenure("tasks", "--json").json["tasks"] == []


def test_a_worker_for_an_agent_that_the_team_does_not_have(shop: Path, tenure: Tenure) -> None:
    ran = tenure("worker", "team.py", "--agents", "triage,nobody")
    assert ran.code == 2
    assert "'nobody'; the team has triage, billing." in ran.err


@pytest.mark.parametrize("command", [["show", "nope"], ["events", "nope"], ["erase", "nope", "--by", "me", "--yes"]])
def test_an_unknown_task(command: list[str], ledger_of_three: Path, tenure: Tenure) -> None:
    ran = tenure(*command, "--json")
    assert (ran.code, ran.out) == (2, "")
    assert (ran.error["family"], ran.error["code"]) == ("refused", "unknown_task")


def test_only_an_ended_task_can_be_erased(ledger_of_three: Path, tenure: Tenure) -> None:
    ran = tenure("erase", "t2", "--by", "customer-07", "--yes", "--json")
    assert (ran.code, ran.error["code"]) == (2, "wrong_phase")
    assert tenure("show", "t2", "--json").json["erased"] is False


def test_usage_errors_have_a_code_of_their_own(folder: Path, tenure: Tenure) -> None:
    for command in (["nope"], ["tasks", "--nope"], ["show"], ["tasks", "--phase", "nope"], ["erase", "t1"]):
        ran = tenure(*command)
        assert ran.code == 64
        assert [line.partition(":")[0] for line in ran.err.splitlines()] == ["error", "next"]
