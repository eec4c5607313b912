"""A graph is read from TOML, YAML and JSON alike; whatever is wrong has its line and column, and is told at once."""

from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tenure.graph import AgentNode, Edge, Graph, Tool
from tenure.graph.reading import parse, read
from tenure.graph.schema import schema
from tenure.graph.writing import write_toml

GOOD = """
team = "t"
entry = "a"
[agents."order desk"]
skills = [
  "one", "two"]
[agents.a]
[[edges]]
from = "a"
to = "order desk"
"""


def problems(content: str, suffix: str = ".toml") -> list[tuple[int, int, str]]:
    found = parse(content.encode(), suffix, "f")
    assert found.graph is None
    return [(one.line, one.column, one.message) for one in found.problems]


def test_three_formats_give_one_graph() -> None:
    graph = parse(GOOD.encode(), ".toml").graph
    assert graph is not None
    assert graph.edges == (Edge(source="a", target="order desk"),)
    plain = msgspec.json.decode(graph.content)
    assert parse(yaml.safe_dump(plain).encode(), ".yaml").graph == graph
    assert parse(graph.content, ".json").graph == graph


@pytest.mark.parametrize(
    ("content", "suffix", "line", "column", "said"),
    [
        ('team = "t"\n[agents.a\n', ".toml", 2, 10, "Expected ']'"),
        ('team = "t"\nteam = "u"\n', ".toml", 2, 11, "Cannot overwrite a value"),
        ('team = "t"\n[agents."ä"]\nknd = 1\n', ".toml", 3, 1, "did you mean 'kind'?"),
        ('team = "t"\nédges = []\n'.replace("é", "x"), ".toml", 2, 1, "There is no field 'xdges' here"),
        ('team = "t"\n[[edges]]\nfrom = "a"\nto = 3\n', ".toml", 4, 1, "Expected `str`, got `int`"),
        ('team = "t"\n[[edges]]\nfrom = "a"\n', ".toml", 2, 3, "missing required field `to`"),
        ('team = "t"\n[[edges]]\nfrom = "a"\nto = "b"\nkind = "move"\n', ".toml", 5, 1, "allowed: delegate, transfer"),
        ('team = "t"\n[agents]\na = { skills = ["x", 3] }\n', ".toml", 3, 22, "Expected `str`, got `int`"),
        ("entry = 'a'\n", ".toml", 1, 1, "does not name its team"),
        ("", ".toml", 1, 1, "It is empty"),
        ('{"team": "t", "agents": {"a": {"kind": 1}}}', ".json", 1, 32, "Expected `str`, got `int`"),
        ('{"team": "t",\n "team": "u"}', ".json", 1, 1, "The key 'team' stands twice"),
        ('{"team": }', ".json", 1, 10, "Expecting value"),
        ("[1]", ".json", 1, 1, "A graph is a table, not list"),
        ("team: t\nagents:\n  a: {}\n  a: {}\n", ".yaml", 3, 3, "The key 'a' stands twice"),
        ("team: [\n", ".yaml", 2, 1, "expected the node content"),
        ("", ".yaml", 1, 1, "It is empty"),
        (
            "team: t\nedges:\n- from: a\n  to: b\n  gate: x\n",
            ".yaml",
            5,
            3,
            "routing_retired, settled, stopped",
        ),
        ("team", ".ini", 1, 1, "'.ini' is none of"),
    ],
)
def test_a_problem_has_its_place(content: str, suffix: str, line: int, column: int, said: str) -> None:
    ((at, where, message),) = problems(content, suffix)
    assert said in message
    assert (at, where) == (line, column)


def test_all_problems_of_a_file_are_told_at_once() -> None:
    content = 'team = "t"\nx = 1\n[agents.a]\nknd = 1\nskils = []\n[[edges]]\nfrom = 1\nto = "b"\n'
    assert [line for line, _, _ in problems(content)] == [2, 4, 5, 7]


def test_what_is_no_text_or_no_file_is_a_problem(tmp_path: Path) -> None:
    assert "not UTF-8" in parse(b"team = '\xff'", ".toml").problems[0].message
    assert "cannot be read" in read(tmp_path / "none.toml").problems[0].message
    assert "cannot be read" in read(tmp_path).problems[0].message


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=8)
GRAPHS = st.builds(
    Graph,
    team=NAMES,
    entry=NAMES,
    agents=st.dictionaries(
        NAMES,
        st.builds(AgentNode, description=NAMES, skills=st.lists(NAMES, max_size=3).map(tuple)),
        max_size=3,
    ),
    edges=st.lists(st.builds(Edge, source=NAMES, target=NAMES, because=NAMES), max_size=3).map(tuple),
    tools=st.dictionaries(
        NAMES, st.builds(Tool, limits=st.dictionaries(NAMES, st.integers(-9, 9), max_size=2)), max_size=2
    ),
)


@given(GRAPHS)
def test_what_is_written_is_read_back(graph: Graph) -> None:
    assert parse(write_toml(graph).encode(), ".toml").graph == graph


def test_the_schema_takes_what_is_read_and_refuses_what_is_not() -> None:
    described = schema()
    jsonschema.Draft202012Validator.check_schema(described)
    graph = parse(GOOD.encode(), ".toml").graph
    assert graph is not None
    jsonschema.validate(msgspec.json.decode(graph.content), described)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"team": "t", "agents": {"a": {"knd": 1}}}, described)
    assert described["$defs"]["Edge"]["properties"]["because"]["description"].startswith("why this is a transfer")


def test_a_large_file_is_placed_in_linear_time() -> None:
    edges = "".join(f'[[edges]]\nfrom = "a{n}"\nto = "b"\n' for n in range(5_000))
    found = parse(f'team = "t"\n{edges}'.encode(), ".toml")
    assert found.places.of(("edges", 4_999, "to")) == (15_001, 1)
    assert found.places.of(("edges", 9_999, "to")) == (2, 3)
