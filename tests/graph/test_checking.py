"""One graph per finding gives exactly that code, at the line that says it; a good graph gives none."""

from pathlib import Path

import pytest

from tenure.graph import Graph
from tenure.graph.checking import check, errors, placed
from tenure.graph.findings import CODES, Finding, Severity
from tenure.graph.reading import parse, read

ROOT = Path(__file__).parents[2]
GRAPHS = Path(__file__).parent / "findings"
PAGE = ROOT / "docs" / "reference" / "findings.md"


def found_in(path: Path) -> tuple[Finding, ...]:
    source = read(path)
    return source.problems if source.graph is None else placed(check(source.graph), source)


def test_there_is_a_graph_for_each_finding() -> None:
    assert {path.stem for path in GRAPHS.glob("*.toml")} == CODES.keys()


LINES = {
    "grant_twice": "tools = [",
    "unreadable": "knd", "no_agents": "team", "no_entry": "team", "unknown_agent": 'to = "nobody"',
    "self_transfer": "[[edges]]", "self_delegation": "[[edges]]", "route_forbidden": 'to = "p"',
    "wildcard_transfer": 'to = "*"', "because_missing": "because", "needs_result": "because",
    "transfer_first": "[agents.a]", "transfer_cycle": "[[edges]]", "delegation_cycle": "[[edges]]",
    "unreachable": "[agents.b]", "dead_end": "[agents.b]", "edge_without_end": "termination", "no_person": "team",
    "deadline_below_grace": "transition_ms", "gate_below_tool": "gate", "unknown_tool": "tools = [",
    "unknown_policy": "policy", "bad_grant": "tools = [", "authority_widened": 'tools = ["note", "refund"]',
    "payload_mismatch": "payload", "limit_invalid": "transfers",
}  # fmt: skip


@pytest.mark.parametrize("code", CODES)
def test_a_graph_gives_exactly_its_finding_at_its_line(code: str) -> None:
    path = GRAPHS / f"{code}.toml"
    (found,) = found_in(path)
    assert found.code == code
    assert found.message.endswith((".", "?"))
    line = path.read_text().splitlines()[found.line - 1]
    if code == "duplicate_edge":
        assert (line, found.line) == ("[[edges]]", path.read_text().count("\n", 0, path.read_text().rindex("[[")) + 1)
    else:
        assert line.startswith(LINES[code])
    assert found.column >= 1


def test_the_retail_example_gives_none() -> None:
    assert found_in(ROOT / "examples" / "retail" / "team.toml") == ()


def test_every_code_stands_in_the_reference_with_its_next_step() -> None:
    page = PAGE.read_text()
    for code, (severity, meaning, step) in CODES.items():
        assert f"| `{code}` | {severity} | {meaning} | {step} |" in page


def test_every_code_has_an_example_in_the_reference_and_it_gives_that_finding() -> None:
    sections = PAGE.read_text().split("\n### ")[1:]
    assert [section.split("\n", 1)[0] for section in sections] == list(CODES)
    for section in sections:
        code, example = section.split("\n", 1)[0], section.split("```toml\n", 1)[1].split("```", 1)[0]
        if "team = " not in example:
            example = f'team = "t"\nentry = "a"\nfallback.person = "person:operator"\n{example}'
        source = parse(example.encode(), ".toml")
        found = source.problems if source.graph is None else check(source.graph)
        assert [one.code for one in found] == [code]


def test_errors_are_what_a_team_is_refused_for() -> None:
    for code, (severity, _, _) in CODES.items():
        source = read(GRAPHS / f"{code}.toml")
        if source.graph is not None:
            assert [one.code for one in errors(source.graph)] == ([code] if severity is Severity.ERROR else [])


def test_a_graph_of_nothing_but_an_agent_is_checked_without_a_file() -> None:
    graph = Graph(team="t", agents={})
    assert [(one.code, one.file, one.line) for one in errors(graph)] == [("no_agents", "", 0)]
