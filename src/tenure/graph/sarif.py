"""Findings as SARIF 2.1.0, which code hosts and editors show at the lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tenure.graph.findings import CODES, Finding, Where

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(findings: Sequence[Finding], version: str) -> dict[str, Any]:
    """One run, with a rule for each code that was found. ``version`` is that of the tool."""
    rules = sorted({one.code for one in findings})
    numbers = {code: number for number, code in enumerate(rules)}
    driver = {"name": "tenure check", "version": version, "rules": [_rule(code) for code in rules]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",  # columns count characters
        "results": [_result(one, numbers[one.code]) for one in findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    severity, meaning, step = CODES[code]
    return {
        "id": code,
        "shortDescription": {"text": meaning},
        "help": {"text": step},
        "defaultConfiguration": {"level": str(severity)},
    }


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": str(finding.severity),
        "message": {"text": f"{finding.message} {finding.next_step}"},
    }
    location = _location(finding)
    if location:
        result["locations"] = [location]
    return result


def _location(finding: Finding) -> dict[str, Any]:
    """The place in the file, as far as there is one, and the part of the graph."""
    location: dict[str, Any] = {}
    uri = _uri(finding.file)
    if uri:
        location["physicalLocation"] = {"artifactLocation": {"uri": uri}}
        if finding.line:
            region = {"startLine": finding.line, "startColumn": max(finding.column, 1)}
            location["physicalLocation"]["region"] = region
    if finding.where:
        location["logicalLocations"] = [{"fullyQualifiedName": _path(finding.where)}]
    return location


def _uri(file: str) -> str:
    """A file as a URI; empty for what is none: a graph from stdin or from a module."""
    path = file.rpartition(":")[0] or file
    if path.endswith(".py"):
        file = path  # `team.py:attribute`
    elif not Path(file).suffix or ":" in file or file.startswith("<"):
        return ""
    return Path(file).as_uri() if Path(file).is_absolute() else quote(Path(file).as_posix())


def _path(where: Where) -> str:
    """A place inside a graph, as in ``edges[3].because``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where).removeprefix(".")
