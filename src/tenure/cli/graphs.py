"""``tenure graphs``: the versions of routing graphs in a ledger."""

from __future__ import annotations

import click

from tenure.cli.options import json_option, read_ledger_option, with_ledger
from tenure.cli.talk import emit, emit_json, when
from tenure.ledger import Ledger, SavedGraph


@click.command()
@click.option("--team", default="", help="Only versions of this team's graph.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Most versions to list.")
@click.option("--content", "digest", default="", metavar="DIGEST", help="Print one version as JSON instead.")
@read_ledger_option
@json_option('Print one object: "graphs", the newest first.')
def graphs(team: str, limit: int, digest: str, url: str, *, json: bool) -> int:
    """List the saved versions of routing graphs, the newest first.

    A team saves its graph when it takes its first task; a version never changes, and is named by its digest.
    """

    async def read(ledger: Ledger) -> list[SavedGraph]:
        if not digest:
            return await ledger.graphs(team=team, limit=limit)
        found = await ledger.graph(digest)
        return [] if found is None else [found]

    found = with_ledger(url, read)
    if digest:
        _content(found, digest)
    elif json:
        emit_json({"graphs": [_line(saved) for saved in found]})
    else:
        emit("\n".join("\t".join(row) for row in (_COLUMNS, *map(_cells, found))))
    return 0


_COLUMNS = ("version", "team", "saved", "agents", "edges", "digest")


def _line(saved: SavedGraph) -> dict[str, object]:
    graph = saved.graph
    return {
        "n": saved.n,
        "team": graph.team,
        "saved_at": saved.saved_at,
        "agents": len(graph.agents),
        "edges": len(graph.edges),
        "digest": saved.digest,
    }


def _cells(saved: SavedGraph) -> tuple[str, ...]:
    graph = saved.graph
    counts = (str(len(graph.agents)), str(len(graph.edges)))
    return (str(saved.n), graph.team, when(saved.saved_at), *counts, saved.digest)


def _content(found: list[SavedGraph], digest: str) -> None:
    from tenure.errors import Refused

    if not found:
        raise Refused("unknown_graph", digest)
    emit(found[0].graph.content.decode())
