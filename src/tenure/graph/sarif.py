"""Findings as SARIF 2.1.0, which code hosts and editors show at the lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenure.graph.findings import CODES, Finding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(findings: Sequence[Finding], version: str) -> dict[str, Any]:
    """One run. ``version`` is that of the tool."""
    rules = sorted({one.code for one in findings})
    driver = {
        "name": "tenure check",
        "version": version,
        "rules": [_rule(code) for code in rules],
    }
    results = [_result(one, rules.index(one.code)) for one in findings]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


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
    if finding.file:
        place: dict[str, Any] = {"artifactLocation": {"uri": finding.file}}
        if finding.line:
            place["region"] = {"startLine": finding.line, "startColumn": max(finding.column, 1)}
        result["locations"] = [{"physicalLocation": place}]
    return result
