"""A graph is read from TOML, YAML and JSON alike; whatever is wrong has its line and column, and is told at once."""

import sys
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given

from tenure.graph import AgentNode, Edge, Graph
from tenure.graph.reading import parse, read
from tenure.graph.writing import write_toml
from tests.graph.any_graph import GRAPHS

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
        # the syntax of TOML
        ('team = "t"\n[agents.a\n', ".toml", 2, 10, "Expected ']'"),
        ('team = "t"\n  team = "u"\n', ".toml", 2, 3, "Cannot overwrite a value"),
        ('entry = """\nö"""\nentry = """\n"""\n', ".toml", 3, 1, "Cannot overwrite a value"),
        ("[agents.a]\n[agents.a]\n", ".toml", 2, 2, "twice"),
        ("budgets = { depth = 1, depth = 2 }\n", ".toml", 1, 24, "Duplicate inline table key 'depth'"),
        ('team = "t', ".toml", 1, 10, "Unterminated string"),
        ('team = "t"\nx = ' + "[" * 5_000, ".toml", 1, 1, "nested too deeply"),
        ("[budgets]\ndepth = " + "9" * 5_000, ".toml", 2, 9, "too many digits"),
        # shape
        ('team = "t"\n[agents."ä"]\nknd = 1\n', ".toml", 3, 1, "no field 'knd' in agents.\"ä\"; did you mean 'kind'?"),
        ('team = "t"\nqq = []\n', ".toml", 2, 1, "no field 'qq' in the graph; known there: team, entry, agents"),
        ('team = "t"\n[[edges]]\nfrom = "a"\nto = 3\n', ".toml", 4, 1, "edges[0].to: Expected `str`, got `int`."),
        ('team = "t"\n[[edges]]\nfrom = "a"\n', ".toml", 2, 3, "The field 'to' is missing in edges[0]."),
        ('team = "t"\n[[edges]]\nfrom = "a"\ntoo = "b"\n', ".toml", 4, 1, "did you mean 'to'?"),
        (
            'team = "t"\n[[edges]]\nfrom = "a"\nto = "b"\nkind = "tansfer"\n',
            ".toml",
            5,
            1,
            "'tansfer'; allowed: delegate, transfer; did you mean 'transfer'?",
        ),
        ('team = "t"\nfallback.lost = 3\n', ".toml", 2, 10, "allowed: same, return, person."),
        ('team = "t"\n[agents]\na = { skills = ["ö", 3] }\n', ".toml", 3, 22, "agents.a.skills[1]: Expected `str`"),
        ('team = "t"\n[tools.x]\nlimits.y = inf\n', ".toml", 3, 8, "tools.x.limits.y: inf is no number"),
        ('team = "t"\nbudgets.depth = 99999999999999999999\n', ".toml", 2, 9, "more than 64 bits"),
        ('team = "t"\nbudgets.depth = 1.5\n', ".toml", 2, 9, "Expected `int`, got `float`"),
        ("entry = 'a'\n", ".toml", 1, 1, "The field 'team' is missing in the graph."),
        (" \n", ".toml", 1, 1, "It is empty"),
        # JSON
        ('{"team": "t", "agents": {"a": {"kind": 1}}}', ".json", 1, 32, "Expected `str`, got `int`"),
        ('{"team": "t",\n "team": "u"}', ".json", 2, 2, "The key 'team' stands twice"),
        ('{"team": "ö", "te\\u0061m": "u"}', ".json", 1, 15, "The key 'team' stands twice"),
        ('{"team": "ö", "budgets": }', ".json", 1, 26, "Expecting value"),
        ('{"team": "t"} x', ".json", 1, 15, "Extra data"),
        ('{"team": "t",\n "x": NaN}', ".json", 2, 7, "NaN is no value of JSON."),
        ('{"team": "\\ud83d\\ude00\\ud800"}', ".json", 1, 23, "Half of a surrogate pair is no text."),
        ('{"team": "\\ud83d\\ude00", "x": 1e999}', ".json", 1, 1, "Number out of range"),
        ("[" * 100_000, ".json", 1, 1, "nested too deeply"),
        ('{"team": ' + "9" * 5_000 + "}", ".json", 1, 10, "too many digits"),
        ("\n[1]", ".json", 2, 1, "the graph: Expected `object`, got `array`"),
        ("", ".json", 1, 1, "It is empty"),
        # YAML
        ("team: t\nagents:\n  a: {}\n  a: {}\n", ".yaml", 4, 3, "The key 'a' stands twice"),
        ("team: t\nagents:\n  on: {}\n", ".yaml", 3, 3, "not text but bool; write it in quotes"),
        ("team: [\n", ".yaml", 2, 1, "node content"),
        ("team: !!python/name:os.system x\n", ".yaml", 1, 7, "could not determine a constructor"),
        ("team: ö\x00\n", ".yaml", 1, 8, "not allowed"),
        ("team: t\nentry: 2020-13-45\n", ".yaml", 1, 1, "month must be in 1..12"),
        ("team: t\n---\nteam: u\n", ".yaml", 2, 1, "another document"),
        ("- " * 100_000, ".yaml", 1, None, "nest"),
        ("# nothing\n", ".yaml", 1, 1, "The field 'team' is missing"),
        (
            "team: t\nedges:\n- from: a\n  to: b\n  gate: x\n",
            ".yaml",
            5,
            3,
            "edges[0].gate: Invalid enum value 'x'; allowed: routing_retired, stopped, settled.",
        ),
        # neither
        ("team", ".ini", 1, 1, "'.ini' is none of .toml, .yaml, .yml, .json"),
        ("team", "", 1, 1, "'' is none of"),
        ("ä\ud800", ".toml", 1, 2, "not UTF-8"),
    ],
    ids=range(46),
)
def test_a_problem_has_its_place(content: str, suffix: str, line: int, column: int | None, said: str) -> None:
    found = parse(content, suffix, "f")
    assert found.graph is None
    told = [one for one in found.problems if said in one.message]
    assert len(told) == 1, [one.message for one in found.problems]
    assert (told[0].code, told[0].file, told[0].line) == ("unreadable", "f", line)
    assert column in (None, told[0].column)


def test_all_problems_of_a_file_are_told_at_once() -> None:
    content = """
team = 1
[agents.a]
knd = 1
skills = ["x", 2]
[agents.b]
kind = "robot"
tools = "all"
[[edges]]
from = 1
too = "b"
[budgets]
depth = "4"
depht = 4
"""
    found = parse(content, ".toml").problems
    assert [one.line for one in found] == [2, 4, 5, 7, 8, 10, 11, 13, 14]
    assert {one.code for one in found} == {"unreadable"}


def test_keys_that_stand_twice_do_not_hide_other_problems() -> None:
    found = parse('{"team": "t",\n"entry": "a",\n"entry": "b",\n"x": 1}', ".json")
    assert found.graph is None
    assert [one.line for one in found.problems] == [3, 4]


def test_a_key_that_is_no_text_is_told_once() -> None:
    assert [one.line for one in parse("team: t\nagents:\n  on: {}\n  1: {}\n", ".yaml").problems] == [3, 4]


def test_a_file_may_name_its_schema_and_begin_with_a_byte_order_mark() -> None:
    assert parse('\ufeff{"$schema": "x.json", "team": "t"}'.encode(), ".JSON").graph == Graph(team="t")
    assert parse("\ufeffteam: t\n".encode(), ".yml").graph == Graph(team="t")
    assert parse('\ufeffteam = "t"\n', ".toml").graph == Graph(team="t")


def test_what_is_no_text_or_no_file_is_a_problem(tmp_path: Path) -> None:
    (one,) = parse("team = 't'\nö".encode() + b"\xff", ".toml").problems
    assert (one.line, one.column, one.message) == (2, 2, "It is not UTF-8: invalid start byte.")
    for path in (tmp_path / "none.toml", tmp_path, tmp_path / "a\0b.toml"):
        found = read(path)
        assert found.graph is None
        assert "cannot be read" in found.problems[0].message
        assert (found.problems[0].file, found.problems[0].line) == (str(path), 1)


def test_a_file_is_read_by_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "team.TOML"
    path.write_text(GOOD, encoding="utf-8")
    found = read(path)
    assert found.graph == parse(GOOD, ".toml").graph
    assert (found.file, found.problems) == (str(path), ())
    (tmp_path / "team.txt").write_text(GOOD, encoding="utf-8")
    assert "'.txt' is none of" in read(tmp_path / "team.txt").problems[0].message


def test_without_the_extra_yaml_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (one,) = parse("team: t\n", ".yaml").problems
    assert "pip install 'tenure[yaml]'" in one.message


def test_without_its_fast_loader_yaml_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert parse("team: ö\nagents: {ä: {}, b: {}}\n", ".yaml").places.of(("agents", "b")) == (2, 17)
    deep = parse("[" * 5_000, ".yaml").problems
    assert [one.message for one in deep] == ["It is nested too deeply."]


@given(GRAPHS)
def test_what_is_written_is_read_back(graph: Graph) -> None:
    again = parse(write_toml(graph), ".toml")
    assert again.problems == ()
    assert again.graph == graph
    assert write_toml(again.graph) == write_toml(graph)


def test_what_is_long_is_written_in_lines() -> None:
    skills = tuple(f"skill number {number} of many" for number in range(5))
    text = write_toml(Graph(team="t", agents={"order desk": AgentNode(skills=skills)}))
    assert text.startswith('team = "t"\n\n[agents."order desk"]\nskills = [\n  "skill number 0 of many",\n')
    assert max(map(len, text.splitlines())) <= 100
