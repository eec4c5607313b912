"""Each part of a graph stands where a person would point at, in every way in which a format can write it."""

from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given

from tenure.graph import Graph
from tenure.graph.findings import Where
from tenure.graph.places import Places
from tenure.graph.reading import parse
from tenure.graph.writing import write_toml
from tests.graph.any_graph import GRAPHS
from tests.graph.counting import calls_of

Place = tuple[int, int]


def places(content: str, suffix: str) -> Places:
    return parse(content, suffix).places


TOML = """\
team = "t" # a comment
budgets.transfers = 3
agents."order desk".skills = [
  "ö", # "no"
  "two", "three"]
agents . 'b"c' . kind = "local"
"tools" = { "ü" = { policy = "external" }, y = { limits = { cents = 1 } } }

[policies]
"\\u00e4" = { grace_ms = 1 }

[[edges]]
from = "a"
to = "b"

  [[edges]]
  from = "ä"
  to = \"\"\"
b\"\"\"
  because = "x"

[ fallback ]
person = "p"
"""


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ((), (1, 1)),
        (("team",), (1, 1)),
        (("budgets",), (2, 1)),
        (("budgets", "transfers"), (2, 9)),
        (("agents",), (3, 1)),
        (("agents", "order desk"), (3, 8)),
        (("agents", "order desk", "skills"), (3, 21)),
        (("agents", "order desk", "skills", 0), (4, 3)),
        (("agents", "order desk", "skills", 1), (5, 3)),
        (("agents", "order desk", "skills", 2), (5, 10)),
        (("agents", 'b"c'), (6, 10)),
        (("agents", 'b"c', "kind"), (6, 18)),
        (("tools", "ü"), (7, 13)),
        (("tools", "ü", "policy"), (7, 21)),
        (("tools", "y", "limits", "cents"), (7, 61)),
        (("policies", "ä", "grace_ms"), (10, 14)),
        (("edges",), (12, 3)),
        (("edges", 0), (12, 3)),
        (("edges", 0, "to"), (14, 1)),
        (("edges", 1), (16, 5)),
        (("edges", 1, "from"), (17, 3)),
        (("edges", 1, "because"), (20, 3)),
        (("fallback",), (22, 3)),
        (("fallback", "person"), (23, 1)),
        (("fallback", "lost"), (22, 3)),
        (("edges", 1, "gate"), (16, 5)),
        (("edges", 7, "to"), (12, 3)),
        (("nothing", "of", "this"), (1, 1)),
    ],
)
def test_toml(where: Where, place: Place) -> None:
    assert places(TOML, ".toml").of(where) == place
    assert places(TOML.replace("\n", "\r\n"), ".toml").of(where) == place


def test_toml_arrays_of_tables_nest_and_a_key_in_between_means_the_newest() -> None:
    content = "[[a]]\n[[a.b]]\n[a.b.c]\nd = 1\n[[a.b]]\n[[a]]\n[[a.b]]\ne = [[1, 2], [{f = 3}]]\n"
    found = places(content, ".toml")
    wanted: dict[Where, Place] = {
        ("a", 0, "b", 0, "c", "d"): (4, 1),
        ("a", 0, "b", 1): (5, 5),
        ("a", 1, "b", 0, "e", 1): (8, 14),
        ("a", 1, "b", 0, "e", 1, 0, "f"): (8, 16),
    }
    assert {where: found.of(where) for where in wanted} == wanted


def test_json_with_escapes_on_one_line() -> None:
    content = '\n {"team": "🜁", "agents": {"\\u00e4 b": {"skills": ["ö", "p"]}}, "edges": [{"from": "a"}]}'
    found = places(content, ".json")
    line = content.split("\n")[1]
    wanted: dict[Where, Place] = {
        (): (2, 2),
        ("agents",): (2, line.index('"agents"') + 1),
        ("agents", "ä b", "skills", 1): (2, line.index('"p"') + 1),
        ("edges", 0): (2, line.index('{"from"') + 1),
        ("edges", 0, "from"): (2, line.index('"from"') + 1),
    }
    assert {where: found.of(where) for where in wanted} == wanted


def test_yaml_blocks_flows_anchors_and_merges() -> None:
    content = (
        "# ö\u2028\nteam: t\nagents:\n  'ä b': &x {skills: [ö, p], kind: local}\n  c: *x\n  d:\n    <<: *x\n"
        "    kind: remote\nedges:\n- from: c\n  to: d\n"
    )
    found = places(content, ".yaml")
    wanted: dict[Where, Place] = {
        ("team",): (2, 1),
        ("agents", "ä b"): (4, 3),
        ("agents", "ä b", "skills", 1): (4, 26),
        ("agents", "c"): (5, 3),
        ("agents", "c", "kind"): (4, 30),
        ("agents", "d", "kind"): (8, 5),
        ("agents", "d", "skills"): (4, 14),
        ("edges", 0): (10, 3),
        ("edges", 0, "to"): (11, 3),
    }
    assert {where: found.of(where) for where in wanted} == wanted
    assert parse(content, ".yaml").problems == ()


def test_yaml_that_contains_itself_or_multiplies_ends() -> None:
    assert places("team: &a\n  x: *a\n", ".yaml").of(("team", "x", "x", "x")) == (2, 3)
    layers = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert places(f"l0: &l0 [x]\n{layers}", ".yaml").of(("l29", 8, 8, 8))[0] == 27


def written(graph: Graph) -> dict[str, str]:
    plain = msgspec.json.decode(graph.content)
    return {
        ".toml": write_toml(graph),
        ".json": msgspec.json.format(graph.content, indent=1).decode(),
        ".yaml": yaml.safe_dump(plain, default_style='"', allow_unicode=True, width=10**6, sort_keys=False),
    }


def keys(value: Any, where: Where = ()) -> list[Where]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [one for name, part in inside for one in [(*where, name), *keys(part, (*where, name))]]


def spelt(name: str, suffix: str) -> tuple[str, ...]:
    if suffix == ".yaml":
        return (yaml.safe_dump(name, default_style='"', allow_unicode=True, width=10**6).rstrip("\n"),)
    quoted = msgspec.json.encode(name).decode()
    return (quoted,) if suffix == ".json" else (name, quoted.replace("\x7f", "\\u007f"))


@given(GRAPHS)
def test_every_key_of_any_graph_stands_where_it_is_written(graph: Graph) -> None:
    for suffix, content in written(graph).items():
        found, lines = places(content, suffix), content.split("\n")
        for where in keys(msgspec.json.decode(graph.content)):
            line, column = found.of(where)
            if isinstance(where[-1], str):
                assert lines[line - 1][column - 1 :].startswith(spelt(where[-1], suffix)), (suffix, where)
            else:
                assert (line, column) >= found.of(where[:-1])


def edges(count: int, suffix: str) -> str:
    """A file of many edges: one line of JSON with a letter of two bytes, or blocks of TOML and YAML."""
    if suffix == ".json":
        return '{"team":"ä","edges":[' + ",".join(f'{{"from":"a{n}","to":"ä"}}' for n in range(count)) + "]}"
    if suffix == ".toml":
        return 'team = "t"\n' + "".join(f'[[edges]]\nfrom = "a{n}"\nto = "b"\n' for n in range(count))
    return "team: t\nedges:\n" + "".join(f"- from: a{n}\n  to: b\n" for n in range(count))


@pytest.mark.parametrize("suffix", [".toml", ".json", ".yaml"])
def test_eight_times_the_edges_take_about_eight_times_as_many_calls(suffix: str) -> None:
    def calls(count: int) -> int:
        content = edges(count, suffix)
        assert parse(content, suffix).graph is not None
        return calls_of(lambda: parse(content, suffix))

    assert calls(2_000) < 10 * calls(250)  # quadratic would be 64 times
