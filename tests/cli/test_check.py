"""``tenure check``: text, JSON and SARIF, and an exit code that serves a pipeline."""

import io
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Tenure

GRAPHS = Path(__file__).parents[1] / "graph" / "findings"


def test_a_finding_is_told_with_its_place_and_the_next_step(tenure: Tenure) -> None:
    path = GRAPHS / "self_transfer.toml"
    ran = tenure("check", str(path))
    assert ran.code == 1
    first, second = ran.out.splitlines()[:2]
    assert first == f"{path}:12:3: error self_transfer: a has a transfer to itself."
    assert second.startswith("  next: Remove the edge")
    assert "1 graph: 1 error, 0 warnings" in ran.err


def test_the_level_that_fails_may_be_chosen(tenure: Tenure) -> None:
    path = str(GRAPHS / "unreachable.toml")
    assert tenure("check", path).code == 1
    assert tenure("check", path, "--fail-on", "error").code == 0


def test_json_has_findings_and_the_elements_of_edges_with_their_defaults(tenure: Tenure) -> None:
    ran = tenure("check", str(GRAPHS / "transfer_cycle.toml"), "--json")
    assert [one["code"] for one in ran.json["findings"]] == ["transfer_cycle"]
    assert len(ran.json["edges"]) == 2
    assert ran.code == 1


def test_sarif_has_a_rule_and_a_region_for_each_result(tenure: Tenure) -> None:
    ran = tenure("check", str(GRAPHS / "bad_grant.toml"), str(GRAPHS / "no_entry.toml"), "--sarif")
    assert (ran.json["version"], len(ran.json["runs"])) == ("2.1.0", 1)
    run = ran.json["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["bad_grant", "no_entry"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] == "error"
        region = result["locations"][0]["physicalLocation"]["region"]
        assert region["startLine"] >= 1
        assert region["startColumn"] >= 1


def test_a_file_that_is_not_there_is_a_wrong_command_line(tenure: Tenure) -> None:
    ran = tenure("check", "none.toml")
    assert ran.code == 64
    assert "There is no graph file none.toml" in ran.err
    assert tenure("check", "-").code == 64


def test_a_team_in_python_is_judged_as_it_is(folder: Path, tenure: Tenure) -> None:
    source = (
        "from tenure import Team\nteam = Team('t')\n@team.agent(may_transfer={'two': 'x'})\nasync def one(own): ...\n"
    )
    (folder / "team.py").write_text(source)
    ran = tenure("check", "team.py", "--json")
    assert "unknown_agent" in [one["code"] for one in ran.json["findings"]]


def test_a_source_that_is_neither_a_file_nor_a_team_is_a_wrong_command_line(folder: Path, tenure: Tenure) -> None:
    (folder / "team.txt").write_text("team = 't'")
    for source in ("team.txt", "none.tml", "./none", "none.py", "none.toml"):
        assert tenure("check", source).code == 64
    assert "neither a graph file nor a team" in tenure("check", "team.txt").err


def test_several_files_are_judged_with_one_summary(folder: Path, tenure: Tenure) -> None:
    good = 'team = "t"\nentry = "a"\n[fallback]\nperson = "person:lead"\n[agents.a]\n'
    (folder / "good.toml").write_text(good)
    ran = tenure("check", "good.toml", str(GRAPHS / "no_entry.toml"), str(GRAPHS / "unreachable.toml"))
    told = [line for line in ran.out.splitlines() if not line.startswith("  next: ")]
    assert [line.split(": ")[1] for line in told] == ["error no_entry", "warning unreachable"]
    assert ran.err.splitlines() == ["3 graphs: 1 error, 1 warning"]
    assert tenure("check", "good.toml").code == 0
    assert tenure("check", "good.toml", "none.toml").code == 64


def test_stdin_is_read_in_the_format_that_is_named(tenure: Tenure, monkeypatch: pytest.MonkeyPatch) -> None:
    given = b'{"team": "t", "entry": "b", "agents": {"a": {}}, "fallback": {"person": "person:lead"}}'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    ran = tenure("check", "-", "--format", "json")
    assert ran.out.startswith("<stdin>:1:15: error unknown_agent: ")
    assert ran.code == 1


def test_what_a_name_is_made_of_cannot_forge_a_line(folder: Path, tenure: Tenure) -> None:
    name = r"x\u001b[31m\nteam.toml:1:1: error no_entry: "
    agents = f'[agents.a]\n[agents."{name}"]\n'
    (folder / "team.toml").write_text(f'team = "t"\nentry = "a"\nfallback.person = "person:lead"\n{agents}')
    ran = tenure("check", "team.toml")
    assert [line[:10] for line in ran.out.splitlines()] == ["team.toml:", "  next: Ad"]
    assert "\x1b" not in ran.out


def test_sarif_of_a_file_whose_name_is_no_uri(folder: Path, tenure: Tenure) -> None:
    (folder / "our team.toml").write_bytes((GRAPHS / "unreachable.toml").read_bytes())
    (result,) = tenure("check", "our team.toml", "--sarif").json["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "our%20team.toml"


def test_graphs_are_listed_printed_and_adopted(folder: Path, tenure: Tenure) -> None:
    """A task waits under one version and is moved to another by an operator."""
    source = (
        "from tenure import Team, Wait\nteam = Team('t', ledger='sqlite:///tenure.db')\n"
        "@team.agent(entry=True)\nasync def a(own): return Wait('input', 600)\n"
    )
    (folder / "team.py").write_text(source)
    (folder / "in.jsonl").write_text('{"task_id": "t1", "goal": "g"}\n')
    assert tenure("run", "team.py", "--input", "in.jsonl").code == 0
    (saved,) = tenure("graphs", "--json").json["graphs"]
    assert (saved["team"], saved["agents"]) == ("t", 1)
    assert tenure("graphs", "--content", saved["digest"]).json["entry"] == "a"
    assert tenure("graphs", "--content", "0" * 64).code == 2
    graph = 'team = "t"\nentry = "a"\n[agents.a]\n[budgets]\ntransfers = 3\n[fallback]\nperson = "person:lead"\n'
    (folder / "new.toml").write_text(graph)
    ran = tenure("adopt", "t1", "--graph", "new.toml", "--by", "person:lead", "--json")
    assert ran.json["adopted"] == ["t1"]
    assert tenure("show", "t1", "--json").json["graph"]["digest"] == ran.json["graph"]
    assert tenure("adopt", "t1", "nobody", "--graph", saved["digest"], "--by", "person:lead").code == 1
    assert tenure("adopt", "t1", "--graph", "none.toml", "--by", "person:lead").code == 64
    assert tenure("adopt", "t1", "--graph", "new.toml", "--by", " ").code == 64
