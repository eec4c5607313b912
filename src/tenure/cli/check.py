"""``tenure check``: judge routing graphs before they are saved and run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tenure import __version__
from tenure.cli.options import json_option
from tenure.cli.problems import FOUND, Misused
from tenure.cli.talk import emit, emit_json, plural, say

if TYPE_CHECKING:
    from tenure.graph.findings import Finding
    from tenure.protocol.graph import Graph

FORMATS = (".toml", ".yaml", ".yml", ".json")


@click.command()
@click.argument("sources", metavar="FILE…", nargs=-1, required=True)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="warning",
    show_default=True,
    help="Least severity that makes the exit code 1.",
)
@click.option("--format", "kind", type=click.Choice(["toml", "yaml", "json"]), help="Of a graph on stdin, named `-`.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF 2.1.0, for code hosts and editors.")
@json_option('Print one object: "findings", each with its place, and "edges" with their four elements.')
def check(sources: tuple[str, ...], *, fail_on: str, kind: str | None, as_sarif: bool, json: bool) -> int:
    """Judge routing graphs: team.toml, YAML, JSON, or the graph of a team in Python.

    Each finding has a code, a severity, its place and a next step. The exit code is 1 when anything is found at or
    above --fail-on, so that it serves a pipeline. What an edge does not say is filled by defaults; --json shows them.
    """
    found: list[Finding] = []
    edges: list[dict[str, object]] = []
    for source in sources:
        findings, elements = _judged(source, kind)
        found += findings
        edges += elements
    if as_sarif:
        from tenure.graph.sarif import sarif

        emit_json(sarif(found, __version__))
    elif json:
        emit_json({"findings": [_line(one) for one in found], "edges": edges})
    else:
        _tell(found)
        errors = sum(one.severity == "error" for one in found)
        graphs = plural(len(sources), "graph")
        say(f"{graphs}: {plural(errors, 'error')}, {plural(len(found) - errors, 'warning')}")
    grave = [one for one in found if fail_on in ("warning", one.severity)]
    return FOUND if grave else 0


def _tell(findings: list[Finding]) -> None:
    """One line for each finding, and one for its next step, whatever the names in a graph are made of."""
    from tenure.graph.cast import printable

    for one in findings:
        place = f"{one.file}:{one.line}:{one.column}" if one.line else one.file
        emit(f"{place}: {one.severity} {one.code}: {printable(one.message)}\n  next: {one.next_step}")


def _line(one: Finding) -> dict[str, object]:
    return {
        "code": one.code,
        "severity": str(one.severity),
        "message": one.message,
        "next": one.next_step,
        "where": list(one.where),
        "file": one.file,
        "line": one.line,
        "column": one.column,
    }


def _judged(source: str, kind: str | None) -> tuple[tuple[Finding, ...], list[dict[str, object]]]:
    """The findings of one source, and the elements of its edges."""
    import msgspec

    from tenure.graph.checking import check as judge
    from tenure.graph.checking import placed
    from tenure.graph.elements import elements
    from tenure.graph.reading import parse, read

    path = Path(source)
    if source == "-":
        if kind is None:
            raise Misused("The format of stdin is not known.", code="no_format", hint="add --format toml")
        found = parse(sys.stdin.buffer.read(), f".{kind}", "<stdin>")
    elif path.suffix.lower() in FORMATS:
        if not path.is_file():
            raise Misused(f"There is no graph file {path}.", code="no_graph", hint="name a file that exists")
        found = read(path)
    else:
        graph = _team(source)
        told = tuple(msgspec.structs.replace(one, file=source) for one in judge(graph))
        return told, [msgspec.to_builtins(one) for one in elements(graph)]
    if found.graph is None:
        return found.problems, []
    return placed(judge(found.graph), found), [msgspec.to_builtins(one) for one in elements(found.graph)]


def _team(source: str) -> Graph:
    """The graph of a team in Python: ``path/team.py`` or ``module``, each with ``:attribute`` or without."""
    from importlib.util import find_spec

    from tenure.cli.teamfile import load_unchecked
    from tenure.errors import Refused

    path = Path(source)
    may_be_a_name = ":" in source or path.suffix == ".py"
    if path.is_file() and not may_be_a_name:
        hint = f"name a file that ends in {', '.join(FORMATS)} or .py"
        raise Misused(f"{path} is neither a graph file nor a team.", code="no_graph", hint=hint)
    try:
        return load_unchecked(source).graph
    except Refused:
        top = source.partition(".")[0]
        if may_be_a_name or (top.isidentifier() and find_spec(top) is not None):
            raise
    raise Misused(f"There is no graph file or team {path}.", code="no_graph", hint="name a file that exists")
