"""``tenure graph``: every form, from every source, and what it says when it cannot."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from tenure.cli.problems import USAGE
from tests.cli.conftest import Tenure

FILE = """\
team = "shop"
entry = "triage"

[agents.triage]

[agents.billing]
accepts = "Case"

[[edges]]
from = "triage"
to = "billing"
kind = "transfer"
because = "billing answers for refunds"
ack_ms = 5000

[[edges]]
from = "triage"
to = "*"
"""

TEAM = """\
from tenure import Complete, Team, Tenure

team = Team("bakery")


@team.agent(entry=True, may_transfer={"oven": "the oven answers for bread"})
async def desk(own: Tenure) -> Complete:
    return Complete(None)


@team.agent
async def oven(own: Tenure) -> Complete:
    return Complete(None)
"""

AGENTS = """\
from agents import Agent, handoff

billing = Agent(name="billing", handoff_description="Answers for refunds.")
triage = Agent(name="triage", handoffs=[handoff(billing, is_enabled=False), Agent(name="orders")])
"""


@pytest.fixture
def graph_file(folder: Path) -> str:
    (folder / "team.toml").write_text(FILE)
    return "team.toml"


def test_without_a_terminal_it_is_svg(tenure: Tenure, graph_file: str) -> None:
    ran = tenure("graph", graph_file)
    assert (ran.code, ran.err) == (0, "")
    assert ET.fromstring(ran.out).get("aria-label") == "Routing of team shop: 2 agents, 1 transfer, 1 delegation"


def test_on_a_terminal_it_is_the_table(tenure: Tenure, graph_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    ran = tenure("graph", graph_file)
    assert ran.code == 0
    assert "triage  billing  transfer  (any)" in " ".join(ran.out.split("\n")[1].split(" ")).strip().replace(
        "   ", "  "
    )
    assert "because" not in ran.out


def test_edges_are_rows_with_their_defaults_in_parentheses(tenure: Tenure, graph_file: str) -> None:
    ran = tenure("graph", graph_file, "--edges")
    assert [line.split("\t") for line in ran.out.splitlines()] == [
        ["from", "to", "kind", "trigger", "payload", "gate", "pick-up", "ack", "termination"],
        [
            "triage",
            "billing",
            "transfer",
            "(any)",
            "(Case)",
            "(routing_retired)",
            "(600 s)",
            "5 s",
            "(end, return, escalate)",
        ],
        ["triage", "*", "delegate", "(any)", "(any)", "(none)", "(600 s)", "(30 s)", "(return)"],
    ]


@pytest.mark.parametrize("options", [("--json",), ("--edges", "--json")])
def test_edges_as_json_name_their_defaults(tenure: Tenure, graph_file: str, options: tuple[str, ...]) -> None:
    ran = tenure("graph", graph_file, *options)
    assert ran.json["team"] == "shop"
    first = ran.json["edges"][0]
    assert first["because"] == "billing answers for refunds"
    assert first["ack_ms"] == 5000
    assert first["defaults"] == ["trigger", "payload", "gate", "pickup_ms", "termination"]
    saved = tenure("graph", graph_file, *options, "--output", "edges.json")
    assert (saved.out, saved.err) == ("", "wrote edges.json\n")
    assert json.loads(Path("edges.json").read_text()) == ran.json


def test_the_name_of_the_output_says_the_form(tenure: Tenure, graph_file: str) -> None:
    assert tenure("graph", graph_file, "--output", "shop.svg").err == "wrote shop.svg\n"
    assert ET.parse("shop.svg").getroot().get("role") == "img"
    assert tenure("graph", graph_file, "--output", "shop.mmd").code == 0
    assert Path("shop.mmd").read_text() == tenure("graph", graph_file, "--mermaid").out
    assert Path("shop.mmd").read_text().startswith("flowchart LR\n")
    # A drawing is made anew whenever the graph has changed.
    assert tenure("graph", graph_file, "--output", "shop.svg").code == 0


def test_a_graph_file_that_is_there_is_never_overwritten(tenure: Tenure, graph_file: str) -> None:
    ran = tenure("graph", graph_file, "--json", "--output", "nowhere/edges.json")
    assert ran.code == USAGE
    assert ran.error["code"] == "not_writable"
    ran = tenure("graph", graph_file, "--toml", "--output", "team.toml")
    assert ran.code == USAGE
    assert "is there already" in ran.err
    assert Path("team.toml").read_text() == FILE


def test_a_team_in_python_has_a_graph_too(tenure: Tenure, folder: Path) -> None:
    (folder / "bakery.py").write_text(TEAM)
    for spec in ("bakery.py", "bakery.py:team", "bakery:team"):
        ran = tenure("graph", spec, "--mermaid")
        assert '==>|"the oven answers for bread"|' in ran.out
        assert tenure("graph", "--from", "bakery.py:team", "--mermaid").out == ran.out


def test_what_was_written_as_toml_reads_as_the_same_graph(tenure: Tenure, graph_file: str, folder: Path) -> None:
    (folder / "bakery.py").write_text(TEAM)
    for source in (graph_file, "bakery.py"):
        target = f"{Path(source).stem}-again.toml"
        assert tenure("graph", source, "--output", target).code == 0
        assert tenure("graph", target, "--json").json == tenure("graph", source, "--json").json


def test_the_agents_of_a_framework_give_a_graph_file(tenure: Tenure, folder: Path) -> None:
    (folder / "shop.py").write_text(AGENTS)
    ran = tenure("graph", "--from", "shop.py:triage")
    assert ran.code == 0
    note = "The handoff from triage to billing is disabled, and left out."
    assert ran.out.startswith(f"# {note}\n")
    assert f"note: {note}" in ran.err
    (folder / "inferred.toml").write_text(ran.out)
    edges = tenure("graph", "inferred.toml", "--json").json["edges"]
    assert [(edge["source"], edge["target"], edge["kind"], edge["because"]) for edge in edges] == [
        ("triage", "orders", "transfer", "")
    ]
    assert tenure("graph", "--from", "shop:triage", "--mermaid").out.count("==>") == 1


def test_the_schema_fits_the_file(tenure: Tenure, graph_file: str) -> None:
    import tomllib

    schema = tenure("graph", "--schema").json
    jsonschema.validate(tomllib.loads(FILE), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"team": "shop", "agnets": {}}, schema)


def test_a_graph_with_errors_is_drawn_and_they_are_told(tenure: Tenure, folder: Path) -> None:
    (folder / "team.toml").write_text(FILE.replace('to = "billing"', 'to = "ghost"'))
    ran = tenure("graph", "team.toml", "--mermaid")
    assert ran.code == 0
    assert "ghost<br/>unknown" in ran.out
    assert "`tenure check` names them" in ran.err


def test_what_cannot_be_read_is_told_with_its_place(tenure: Tenure, folder: Path) -> None:
    (folder / "team.toml").write_text(FILE.replace('kind = "transfer"', 'kind = "transfre"'))
    ran = tenure("graph", "team.toml", "--mermaid")
    assert (ran.code, ran.out) == (USAGE, "")
    assert "team.toml:12:" in ran.err
    assert "next: tenure check team.toml" in ran.err


def test_a_large_graph_is_drawn_with_a_word_about_it(tenure: Tenure, folder: Path) -> None:
    agents: dict[str, Any] = {f"a{number}": {} for number in range(130)}
    edges: list[dict[str, Any]] = [{"from": "a0", "to": name, "trigger": "x"} for name in agents if name != "a0"]
    (folder / "big.json").write_text(json.dumps({"team": "big", "entry": "a0", "agents": agents, "edges": edges}))
    assert "129 edges: beyond 120, their words stand in the titles only" in tenure("graph", "big.json", "--svg").err
    (folder / "big.json").write_text(json.dumps({"team": "big", "entry": "a0", "agents": agents, "edges": edges * 4}))
    assert "maxEdges is 500" in tenure("graph", "big.json", "--mermaid").err


def test_without_graphviz_it_is_said_what_to_do(
    tenure: Tenure, graph_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pygraphviz" else found(name))
    ran = tenure("graph", graph_file, "--svg")
    assert (ran.code, ran.out) == (2, "")
    assert "pip install 'tenure[draw]'" in ran.err
    assert tenure("graph", graph_file, "--mermaid").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Name a FILE, or agents with --from."),
        (("team.toml", "--from", "shop:agent"), "Name a FILE, or agents with --from."),
        (("none.toml",), "There is no graph file none.toml."),
        (("team.toml", "--output", "shop.png"), "shop.png does not say what to write."),
        (("team.toml", "--json", "--svg"), "--json and --svg exclude each other."),
        (("--from", "shop"), "'shop' names nothing to import."),
        (("--from", "none.py:agent"), "There is no team file none.py."),
        (("--from", "values.py:nothing"), "values.py has no attribute 'nothing'."),
        (("values.py:number",), "values.py:number is no Team: its type is int."),
    ],
)
def test_a_command_that_cannot_be_followed(
    tenure: Tenure, graph_file: str, folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    (folder / "values.py").write_text("number = 3\n")
    ran = tenure("graph", *arguments)
    assert (ran.code, ran.out) == (USAGE, "")
    assert words in ran.err
    assert "next" in ran.err


def test_what_belongs_to_no_framework_is_refused(tenure: Tenure, folder: Path) -> None:
    (folder / "values.py").write_text("number = 3\n")
    ran = tenure("graph", "--from", "values.py:number")
    assert ran.code == 2
    assert "This builtins.int is no agent of OpenAI Agents SDK" in ran.err


def test_drawing_as_mermaid_brings_neither_graphviz_nor_a_framework(folder: Path, graph_file: str) -> None:
    import subprocess

    code = (
        "import sys; from tenure.cli import invoke; invoke(['graph', 'team.toml', '--mermaid']); "
        "print(*sorted(name.partition('.')[0] for name in sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True)
    assert not {"pygraphviz", "agents", "google", "langgraph", "pydantic_ai", "rich"} & set(ran.stderr.split())
