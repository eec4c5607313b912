"""``tenure run``: what it counts, what it finds again, how it reads lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Tenure, write_lines

LINES = [
    {"task_id": "t1", "order": "A1"},
    {"task_id": "t2", "order": "A2", "ask": True},
    {"task_id": "t3", "order": "A3"},
]


def test_json_ends_with_one_object_of_counts(shop: Path, tenure: Tenure) -> None:
    ran = tenure("run", "team.py", "--input", write_lines(shop / "in.jsonl", *LINES), "--json")
    assert ran.code == 0
    assert ran.out.count("\n") == 1
    assert ran.json == {
        "ledger": "sqlite:///tenure.db",
        "interrupted": False,
        "tasks": 3,
        "completed": 2,
        "failed": 0,
        "cancelled": 0,
        "escalated": 1,
        "waiting": 0,
        "unfinished": 0,
        "refused": 0,
        "unsent": 0,
        "handoffs": 3,
        "effects": {"confirmed": 2},
        "residual": 0,
        "running": 0,
        "unseen": 0,
    }


def test_without_json_the_summary_is_for_people(shop: Path, tenure: Tenure) -> None:
    ran = tenure("run", "team.py", "--input", write_lines(shop / "in.jsonl", *LINES))
    assert ran.out.splitlines() == [
        "3 tasks: 2 completed, 1 escalated",
        "3 handoffs reached the receiver",
        "effects: 2 confirmed",
        "work not seen to end: 0 residual, 0 running",
        "ledger: sqlite:///tenure.db",
    ]


def test_a_second_run_finds_the_tasks_of_the_first(shop: Path, tenure: Tenure) -> None:
    file = write_lines(shop / "in.jsonl", *LINES)
    first = tenure("run", "team.py", "--input", file, "--json")
    before = tenure("verify", "--json").json["events"]
    second = tenure("run", "team.py", "--input", file, "--json")
    assert second.json == first.json
    assert tenure("verify", "--json").json["events"] == before


def test_the_summary_speaks_of_this_run_only(ledger_of_three: Path, tenure: Tenure) -> None:
    file = write_lines(ledger_of_three / "more.jsonl", {"task_id": "t9", "order": "A9"})
    ran = tenure("run", "team.py", "--input", file, "--json")
    assert (ran.json["tasks"], ran.json["handoffs"], ran.json["effects"]) == (1, 1, {"confirmed": 1})
    assert len(tenure("tasks", "--json").json["tasks"]) == 4


def test_another_ledger_can_be_named(shop: Path, tenure: Tenure) -> None:
    file = write_lines(shop / "in.jsonl", *LINES)
    ran = tenure("run", "team.py", "--input", file, "--ledger", "sqlite:///other.db", "--json")
    assert ran.json["ledger"] == "sqlite:///other.db"
    assert not (shop / "tenure.db").exists()
    assert tenure("verify", "--ledger", "sqlite:///other.db").code == 0


def test_a_memory_ledger_is_still_counted_at_the_end(shop: Path, tenure: Tenure) -> None:
    file = write_lines(shop / "in.jsonl", *LINES)
    ran = tenure("run", "team.py", "--input", file, "--ledger", "memory://", "--json")
    assert (ran.json["tasks"], ran.json["completed"], ran.json["handoffs"]) == (3, 2, 3)


def test_a_failed_task_gives_exit_code_1(folder: Path, tenure: Tenure) -> None:
    (folder / "team.py").write_text(
        "from tenure import Settings, Team\n"
        "team = Team('t', settings=Settings(on_failure='fail'))\n"
        "@team.agent\nasync def one(own):\n    raise RuntimeError('broke')\n"
    )
    ran = tenure("run", "team.py", "--input", write_lines(folder / "in.jsonl", {"a": 1}), "--json")
    assert ran.code == 1
    assert (ran.json["failed"], ran.json["completed"]) == (1, 0)


def test_task_of_decides_what_a_line_means(folder: Path, tenure: Tenure) -> None:
    (folder / "team.py").write_text(
        "from tenure import Complete, Team\n"
        "team = Team('t', ledger='sqlite:///tenure.db')\n"
        "@team.agent\nasync def one(own):\n    return Complete([own.goal, own.input])\n"
        "def task_of(line):\n    return {'task_id': line['id'], 'goal': line['want'], 'data': line['n'] + 1}\n"
    )
    assert tenure("run", "team.py", "--input", write_lines(folder / "in", {"id": "x", "want": "w", "n": 1})).code == 0
    assert tenure("show", "x", "--json").json["result"] == ["w", 2]


def test_without_task_of_the_object_is_the_data_and_may_name_its_goal(folder: Path, tenure: Tenure) -> None:
    (folder / "team.py").write_text(
        "from tenure import Complete, Team\n"
        "team = Team('t', ledger='sqlite:///tenure.db')\n"
        "@team.agent\nasync def one(own):\n    return Complete([own.goal, own.input])\n"
    )
    lines = [{"task_id": "a", "goal": "g"}, '{"task_id": "b"}']
    assert tenure("run", "team.py", "--input", write_lines(folder / "in", lines[0], "", lines[1])).code == 0
    assert tenure("show", "a", "--json").json["result"] == ["g", {"task_id": "a", "goal": "g"}]
    assert tenure("show", "b", "--json").json["result"] == ['{"task_id": "b"}', {"task_id": "b"}]


def test_lines_of_one_conversation_follow_each_other(folder: Path, tenure: Tenure) -> None:
    (folder / "team.py").write_text(
        "from tenure import Complete, Escalate, Team\n"
        "team = Team('t', ledger='sqlite:///tenure.db')\n"
        "@team.agent\nasync def one(own):\n"
        "    return Escalate('?') if own.input['n'] == 3 else Complete(own.input['n'])\n"
        "def task_of(line):\n    return {'goal': 'g', 'data': line, 'conversation': 'c'}\n"
    )
    file = write_lines(folder / "in.jsonl", {"n": 1}, {"n": 2})
    assert tenure("run", "team.py", "--input", file, "--json").json["completed"] == 2
    file = write_lines(folder / "in.jsonl", {"n": 3}, {"n": 4})
    ran = tenure("run", "team.py", "--input", file, "--json")
    assert ran.code == 2
    assert (ran.json["escalated"], ran.json["refused"], ran.json["tasks"]) == (1, 1, 1)
    assert "line 2 refused: The conversation has an unfinished task." in ran.err


def test_a_task_at_rest_with_its_delegation_ends_the_run(folder: Path, tenure: Tenure) -> None:
    (folder / "team.py").write_text(
        "from tenure import Complete, Escalate, Team\n"
        "team = Team('t', ledger='sqlite:///tenure.db')\n"
        "@team.agent(entry=True)\nasync def one(own):\n    return Complete((await own.delegate('two', 1)).value)\n"
        "@team.agent\nasync def two(own):\n    return Escalate('?')\n"
    )
    ran = tenure("run", "team.py", "--input", write_lines(folder / "in", {"a": 1}), "--json", "--drain", "0.2")
    assert (ran.json["tasks"], ran.json["unfinished"], ran.json["escalated"]) == (1, 1, 0)
    assert [task["phase"] for task in tenure("tasks", "--json").json["tasks"]] == ["active", "escalated"]


def test_more_lines_than_places_all_get_their_turn(shop: Path, tenure: Tenure) -> None:
    lines = [{"task_id": f"t{n}", "order": f"A{n}"} for n in range(30)]
    ran = tenure("run", "team.py", "--input", write_lines(shop / "in", *lines), "--json", "--concurrency", "2")
    assert (ran.code, ran.json["completed"]) == (0, 30)


def test_the_team_of_a_package_is_imported_as_its_module(folder: Path, tenure: Tenure) -> None:
    package = folder / "pack" / "inner"
    package.mkdir(parents=True)
    for each in (package.parent, package):
        (each / "__init__.py").write_text("")
    (package / "more.py").write_text("VALUE = 7\n")
    (package / "squad.py").write_text(
        "from tenure import Complete, Team\nfrom .more import VALUE\nsquad = Team('t', ledger='sqlite:///tenure.db')\n"
        "@squad.agent\nasync def one(own):\n    return Complete([VALUE, __name__])\n"
    )
    file = write_lines(folder / "in", {"task_id": "a"})
    assert tenure("run", "pack/inner/squad.py:squad", "--input", file).code == 0
    assert tenure("show", "a", "--json").json["result"] == [7, "pack.inner.squad"]
    assert tenure("run", "pack.inner.squad:squad", "--input", file).code == 0


def test_options_come_from_the_environment(shop: Path, tenure: Tenure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_RUN_INPUT", write_lines(shop / "in.jsonl", *LINES))
    monkeypatch.setenv("TENURE_RUN_JSON", "1")
    monkeypatch.setenv("TENURE_LEDGER", "sqlite:///env.db")
    monkeypatch.setenv("TENURE_TASKS_PHASE", "escalated")
    assert tenure("run", "team.py").json["ledger"] == "sqlite:///env.db"
    assert [task["task_id"] for task in tenure("tasks", "--json").json["tasks"]] == ["t2"]
    monkeypatch.setenv("TENURE_RUN_CONCURRENCY", "0")
    refused = tenure("run", "team.py")
    assert (refused.code, refused.error["family"]) == (64, "usage")
