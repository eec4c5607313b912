"""SARIF is held to what the standard demands of the parts that are written."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest

from tenure.graph.checking import check, placed
from tenure.graph.findings import CODES, Finding
from tenure.graph.reading import parse, read
from tenure.graph.sarif import sarif

GRAPHS = Path(__file__).parent / "findings"

# The parts that are used of OASIS SARIF 2.1.0, sections 3.13 to 3.49; no property beyond them.
TEXT = {"type": "object", "required": ["text"], "additionalProperties": False, "properties": {"text": {"minLength": 1}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
FROM_1 = {"type": "integer", "minimum": 1}


def table(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}


def array(items: dict[str, Any], least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least}


ARTIFACT = table(["uri"], uri={"pattern": r"^[A-Za-z0-9._~!$&'()*+,;=@/%:-]+$"})
PHYSICAL = table(
    ["artifactLocation"],
    artifactLocation=ARTIFACT,
    region=table(["startLine"], startLine=FROM_1, startColumn=FROM_1),
)
RULE = table(
    ["id"],
    id={"type": "string", "minLength": 1},
    shortDescription=TEXT,
    help=TEXT,
    defaultConfiguration=table(["level"], level=LEVEL),
)
RESULT = table(
    ["message"],
    ruleId={"type": "string"},
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    message=TEXT,
    locations=array(
        table(
            [],
            physicalLocation=PHYSICAL,
            logicalLocations=array(table(["fullyQualifiedName"], fullyQualifiedName={"type": "string"})),
        ),
        least=1,
    ),
)
DRIVER = table(["name"], name={"minLength": 1}, version={"type": "string"}, rules={**array(RULE), "uniqueItems": True})
RUN = table(
    ["tool"],
    tool=table(["driver"], driver=DRIVER),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results=array(RESULT),
)
LOG = table(
    ["version", "runs"], **{"$schema": {"pattern": "^https://"}, "version": {"const": "2.1.0"}, "runs": array(RUN, 1)}
)


def held(findings: tuple[Finding, ...]) -> dict[str, Any]:
    """The one run of a log that has the demanded structure."""
    log = json.loads(json.dumps(sarif(findings, "1.2.3")))
    jsonschema.Draft202012Validator(LOG).validate(log)
    run: dict[str, Any] = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    return run


def found_in(path: Path) -> tuple[Finding, ...]:
    source = read(path)
    return source.problems if source.graph is None else placed(check(source.graph), source)


def one_at(file: str, line: int = 3, column: int = 5) -> Finding:
    return Finding(code="no_entry", message="None.", where=("entry",), file=file, line=line, column=column)


@pytest.mark.parametrize("code", CODES)
def test_each_finding_becomes_a_result_with_its_rule_and_region(code: str) -> None:
    path = GRAPHS / f"{code}.toml"
    (finding,) = found_in(path)
    run = held((finding,))
    (rule,), (result,) = run["tool"]["driver"]["rules"], run["results"]
    severity, meaning, step = CODES[code]
    assert (rule["id"], rule["shortDescription"]["text"], rule["help"]["text"]) == (code, meaning, step)
    assert rule["defaultConfiguration"]["level"] == result["level"] == severity
    assert finding.message in result["message"]["text"]
    physical = result["locations"][0]["physicalLocation"]
    assert physical["region"] == {"startLine": finding.line, "startColumn": finding.column}
    assert unquote(urlsplit(physical["artifactLocation"]["uri"]).path) == str(path)


def test_a_run_without_findings_is_still_a_run() -> None:
    run = held(())
    assert run["results"] == []
    assert run["tool"]["driver"]["rules"] == []


def test_a_rule_stands_once_however_often_it_was_broken() -> None:
    run = held((one_at("a.toml"), one_at("b.toml"), Finding(code="bad_grant", message="It.", file="b.toml")))
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["bad_grant", "no_entry"]
    assert [result["ruleIndex"] for result in run["results"]] == [1, 1, 0]


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("team.toml", "team.toml"),
        ("graphs/our team#1.yaml", "graphs/our%20team%231.yaml"),
        ("grüße.json", "gr%C3%BC%C3%9Fe.json"),
        ("/srv/our graphs/team.toml", "file:///srv/our%20graphs/team.toml"),
        ("shop/team.py:team", "shop/team.py"),
        ("shop/team.py", "shop/team.py"),
    ],
)
def test_files_are_uris(file: str, uri: str) -> None:
    (result,) = held((one_at(file),))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": uri}


@pytest.mark.parametrize("file", ["<stdin>", "shop.teams:team", "shop", ""])
def test_what_is_no_file_has_a_place_in_the_graph_only(file: str) -> None:
    (result,) = held((one_at(file),))["results"]
    assert result["locations"] == [{"logicalLocations": [{"fullyQualifiedName": "entry"}]}]


def test_a_finding_without_a_line_has_no_region() -> None:
    (result,) = held((one_at("team.py", line=0),))["results"]
    assert result["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "team.py"}}


def test_columns_count_characters_as_the_run_says() -> None:
    text = 'team = "t"\nentry = "a"\nfallback = { person = "person:o" }\nagents = { "grüße🜁" = {}, "a" = {} }\n'
    source = parse(text.encode(), ".toml", "team.toml")
    assert source.graph is not None
    run = held(placed(check(source.graph), source))
    (result,) = run["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert text.splitlines()[region["startLine"] - 1][region["startColumn"] - 1 :].startswith('"grüße🜁"')
    assert run["columnKind"] == "unicodeCodePoints"
    assert result["locations"][0]["logicalLocations"] == [{"fullyQualifiedName": "agents.grüße🜁"}]
