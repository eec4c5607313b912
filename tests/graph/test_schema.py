"""The schema takes every file that is read and turns away what is not, in each format; the reference names it all."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import given
from msgspec.structs import fields

from tenure.graph import Graph
from tenure.graph.reading import parse
from tenure.graph.schema import attributes_of, default_of, kinds, schema
from tenure.graph.writing import write_toml
from tenure.protocol.graph import Part
from tests.graph.any_graph import GRAPHS

ROOT = Path(__file__).parents[2]
SCHEMA = schema()
JUDGE = jsonschema.Draft202012Validator(SCHEMA)
LOAD: dict[str, Callable[[str], Any]] = {".toml": tomllib.loads, ".json": json.loads, ".yaml": yaml.safe_load}


def written(plain: dict[str, Any]) -> dict[str, str]:
    """A value in the formats that can say it; TOML can say no null."""
    texts = {".json": json.dumps(plain), ".yaml": yaml.safe_dump(plain)}
    return texts if "null" in texts[".json"] else {".toml": as_toml(plain), **texts}


def as_toml(plain: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(name)} = {inline(value)}\n" for name, value in plain.items())


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {inline(one)}" for name, one in value.items()) + "}"
    return f"[{', '.join(map(inline, value))}]" if isinstance(value, list) else json.dumps(value)


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert "$id" not in SCHEMA
    assert msgspec.json.decode(msgspec.json.encode(SCHEMA))["title"] == "Tenure routing graph"


@given(GRAPHS)
def test_any_graph_passes_in_every_format(graph: Graph) -> None:
    JUDGE.validate(json.loads(graph.content))
    JUDGE.validate(tomllib.loads(write_toml(graph)))


@pytest.mark.parametrize(
    "path", [ROOT / "examples/retail/team.toml", *sorted((ROOT / "tests/graph/findings").glob("*.toml"))], ids=str
)
def test_a_file_passes_exactly_when_it_is_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert JUDGE.is_valid(tomllib.loads(text)) == (parse(text, ".toml").graph is not None)


BROKEN: list[dict[str, Any]] = [
    {},
    {"team": 1},
    {"team": "t", "knd": 1},
    {"team": "t", "agents": {"a": {"knd": 1}}},
    {"team": "t", "agents": {"a": {"kind": "robot"}}},
    {"team": "t", "agents": {"a": {"skills": "one"}}},
    {"team": "t", "agents": {"a": {"skills": [1]}}},
    {"team": "t", "agents": {"a": None}},
    {"team": "t", "edges": {"a": "b"}},
    {"team": "t", "edges": [{"from": "a"}]},
    {"team": "t", "edges": [{"from": "a", "to": "b", "kind": "move"}]},
    {"team": "t", "edges": [{"from": "a", "to": "b", "termination": ["stop"]}]},
    {"team": "t", "edges": [{"from": "a", "to": "b", "gate": "open"}]},
    {"team": "t", "tools": {"x": {"approval": "yes"}}},
    {"team": "t", "tools": {"x": {"limits": {"cents": "1"}}}},
    {"team": "t", "policies": {"slow": {}}},
    {"team": "t", "budgets": {"depth": 1.5}},
    {"team": "t", "fallback": {"lost": "nobody"}},
    {"team": "t", "deadlines": {"takeovers": 1}},
]


@pytest.mark.parametrize("plain", BROKEN, ids=json.dumps)
def test_what_is_broken_fails_in_every_format(plain: dict[str, Any]) -> None:
    for suffix, text in written(plain).items():
        assert LOAD[suffix](text) == plain
        assert not JUDGE.is_valid(LOAD[suffix](text))
        assert parse(text, suffix).graph is None


def test_a_file_may_name_its_schema() -> None:
    plain = {"$schema": "./team.schema.json", "team": "t"}
    for suffix, text in written(plain).items():
        assert JUDGE.is_valid(LOAD[suffix](text))
        assert parse(text, suffix).graph == Graph(team="t")


def test_every_field_is_described_without_markup() -> None:
    for name, kind in kinds().items():
        properties = SCHEMA["$defs"][name]["properties"]
        for field in fields(kind):
            words = properties[field.encode_name].get("description", "")
            assert words, (name, field.name)
            assert not re.search(r"`|:\w+:|None", words), words


def test_a_default_is_the_one_that_holds() -> None:
    budgets = SCHEMA["$defs"]["Budgets"]["properties"]
    assert {name: one["default"] for name, one in budgets.items()} == {
        "transfers": 16,
        "delegations": 64,
        "turn_delegations": 8,
        "depth": 4,
        "tree_delegations": 64,
        "agents": 64,
    }
    assert SCHEMA["$defs"]["Fallback"]["properties"]["person"]["default"] == "person:operator"
    assert SCHEMA["$defs"]["Edge"]["properties"]["kind"]["default"] == "delegate"


def test_docstrings_are_taken_apart_at_names() -> None:
    class Told:
        """Something.

        Attributes:
            one: what it is: this. two, three: both of
                them. four: ``None`` as in :class:`tenure.x.Y`.
        """

    assert attributes_of(Told) == {
        "one": "what it is: this.",
        "two": "both of them.",
        "three": "both of them.",
        "four": "leaving it out as in Y.",
    }


# --- the reference --------------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs/reference/team-file.md").read_text(encoding="utf-8")
SECTIONS = {
    "The file": "Graph",
    "`[agents.NAME]`": "AgentNode",
    "`[[edges]]`": "Edge",
    "`[tools.NAME]`": "Tool",
    "`[policies.NAME]`": "PolicyNode",
    "`[budgets]`": "Budgets",
    "`[turns]`": "Turns",
    "`[oscillation]`": "Oscillation",
    "`[fallback]`": "Fallback",
    "`[deadlines]`": "Deadlines",
}


def rows(title: str) -> dict[str, tuple[str, str]]:
    """The fields in the table of one section of the page, with the type and the default that stand there."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    return {name: (kind, default) for name, kind, default, _ in found}


def test_the_reference_has_every_struct() -> None:
    assert set(SECTIONS.values()) == set(kinds())
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE)[: len(SECTIONS)] == list(SECTIONS)


@pytest.mark.parametrize(("title", "name"), SECTIONS.items(), ids=SECTIONS.values())
def test_the_reference_has_every_field_with_its_type_and_default(title: str, name: str) -> None:
    kind = kinds()[name]
    shown = {field.encode_name: (typed(kind, field.encode_name), default(kind, field.name)) for field in fields(kind)}
    assert rows(title) == shown


def typed(kind: type[Part], name: str) -> str:
    """A type in words, from the schema."""
    return in_words(SCHEMA["$defs"][kind.__name__]["properties"][name])


WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


def in_words(part: dict[str, Any]) -> str:
    if "anyOf" in part:
        others = [one for one in part["anyOf"] if one.get("type") != "null"]
        part = others[0] if len(others) == 1 else {"type": "number"}
    if "$ref" in part:
        found = SCHEMA["$defs"][part["$ref"].rpartition("/")[2]]
        return in_words(found) if "enum" in found else "table"
    if "enum" in part:
        return ", ".join(f"`{one}`" for one in sorted(one for one in part["enum"] if one is not None))
    if part["type"] == "array":
        inside = in_words(part["items"])
        return "list of tables" if inside == "table" else f"list of {inside.replace('text', 'texts')}"
    if part["type"] == "object":
        inside = in_words(part["additionalProperties"])
        return f"{inside}s by name"
    return WORDS[str(part["type"])]


def default(kind: type[Part], name: str) -> str:
    """A default as the page shows it; one that depends on more than the field is told in words."""
    if next(one for one in fields(kind) if one.name == name).required:
        return "required"
    value = default_of(kind, name)
    if value is None:
        return "as told"
    return f"`{json.dumps(value)}`" if isinstance(value, int) or value else "empty"
