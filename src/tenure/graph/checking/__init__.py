"""Judging a graph: :func:`errors` is what keeps it from being run, :func:`check` is everything that can be found."""

from __future__ import annotations

from msgspec.structs import replace

from tenure.graph.checking.edges import edge_findings
from tenure.graph.checking.limits import limit_findings
from tenure.graph.findings import Finding, Severity
from tenure.graph.reading import Read
from tenure.protocol.graph import Graph


def errors(graph: Graph) -> tuple[Finding, ...]:
    """The findings that are errors, in the order of the graph. They need no library of graphs."""
    found = [*edge_findings(graph), *limit_findings(graph)]
    return tuple(one for one in found if one.severity is Severity.ERROR)


def check(graph: Graph) -> tuple[Finding, ...]:
    """Every finding, in the order of the graph."""
    from tenure.graph.checking.structure import structure_findings  # noqa: PLC0415 - it imports networkx
    from tenure.graph.checking.words import word_findings  # noqa: PLC0415 - not needed to run a graph

    found = [*edge_findings(graph), *limit_findings(graph)]
    return (*found, *structure_findings(graph), *word_findings(graph))


def placed(findings: tuple[Finding, ...], source: Read) -> tuple[Finding, ...]:
    """The findings with their places in a file, in the order in which they stand there."""
    found = []
    for one in findings:
        line, column = source.places.of(one.where)
        found.append(replace(one, file=source.file, line=line, column=column))
    return tuple(sorted(found, key=lambda one: (one.line, one.column, one.code, one.message)))
