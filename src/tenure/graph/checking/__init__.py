"""Judging a graph: :func:`errors` is what keeps it from being run, :func:`check` is everything that can be found."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from tenure.graph.checking.edges import edge_findings
from tenure.graph.checking.grants import grant_findings
from tenure.graph.checking.limits import limit_findings
from tenure.graph.findings import Finding, Severity
from tenure.graph.reading import Read
from tenure.protocol.graph import Graph

__all__ = ["check", "errors", "placed"]


def errors(graph: Graph) -> tuple[Finding, ...]:
    """The findings that are errors, in the order of the graph. They need no library of graphs."""
    return _ordered(graph, (one for one in _by_themselves(graph) if one.severity is Severity.ERROR))


def check(graph: Graph) -> tuple[Finding, ...]:
    """Every finding, in the order of the graph: by place, then by code."""
    from tenure.graph.checking.structure import structure_findings  # noqa: PLC0415 - it imports networkx
    from tenure.graph.checking.words import word_findings  # noqa: PLC0415 - not needed to run a graph

    return _ordered(graph, [*_by_themselves(graph), *structure_findings(graph), *word_findings(graph)])


def placed(findings: tuple[Finding, ...], source: Read) -> tuple[Finding, ...]:
    """The findings with their places in a file, in the order in which they stand there."""
    found = []
    for one in findings:
        line, column = source.places.of(one.where)
        found.append(replace(one, file=source.file, line=line, column=column))
    return tuple(sorted(found, key=lambda one: (one.line, one.column, one.code, one.message)))


def _by_themselves(graph: Graph) -> list[Finding]:
    """What can be said of names, edges, grants and numbers without looking at the whole."""
    return [*edge_findings(graph), *grant_findings(graph), *limit_findings(graph)]


def _ordered(graph: Graph, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    found = list(findings)
    return tuple(sorted(found, key=_place(graph))) if len(found) > 1 else tuple(found)


_Key = tuple[tuple[tuple[int, str], ...], str, str]


def _place(graph: Graph) -> Callable[[Finding], _Key]:
    """The order of places inside a graph: tables and names as they stand in it, elements of lists by their number."""
    tables = {name: number for number, name in enumerate(graph.__struct_fields__)}
    named: dict[str, dict[str, int]] = {
        table: {name: number for number, name in enumerate(part)}
        for table, part in (("agents", graph.agents), ("tools", graph.tools), ("policies", graph.policies))
    }

    def key(one: Finding) -> _Key:
        steps = []
        for depth, step in enumerate(one.where):
            ranks = tables if depth == 0 else named.get(str(one.where[0]), {}) if depth == 1 else {}
            steps.append((step, "") if isinstance(step, int) else (ranks.get(step, 0), step))
        return tuple(steps), one.code, one.message

    return key
