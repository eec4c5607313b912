"""``tenure adopt``: let tasks go on under another version of the routing graph."""

from __future__ import annotations

from pathlib import Path

import click

from tenure.cli.options import json_option, read_ledger_option, with_ledger
from tenure.cli.problems import FOUND, Misused
from tenure.cli.talk import emit, emit_json, say
from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.protocol.graph import Graph

DIGEST = 64


@click.command()
@click.argument("task_ids", metavar="TASK…", nargs=-1, required=True)
@click.option(
    "--graph",
    "named",
    required=True,
    metavar="FILE|DIGEST",
    help="The graph file, which is checked and saved first, or the digest of a saved version.",
)
@click.option("--by", required=True, metavar="WHO", help="Who orders it; stands in the task's events.")
@click.option("--reason", default="", help="Why; stands in the task's events.")
@read_ledger_option
@json_option("Print one object.")
def adopt(task_ids: tuple[str, ...], named: str, by: str, reason: str, url: str, *, json: bool) -> int:
    """Move unfinished tasks to another version of the routing graph.

    A task keeps the version under which it was submitted until it is told to move. It takes the new edges, budgets and
    fallbacks, and keeps its deadlines. A task that cannot move is named with the reason, and the exit code is 1; the
    others move.
    """
    if not by.strip():
        raise Misused("--by is empty.", code="usage", hint="name who orders it")
    graph = None if _is_digest(named) else _checked(Path(named))

    async def work(ledger: Ledger) -> tuple[str, dict[str, str]]:
        from tenure.runtime.handle import TaskHandle

        digest = await ledger.save_graph(graph) if graph is not None else named
        refused: dict[str, str] = {}
        for task_id in task_ids:
            try:
                await TaskHandle(ledger, task_id).adopt(digest, by=by, reason=reason)
            except Refused as error:
                refused[task_id] = str(error)
        return digest, refused

    digest, refused = with_ledger(url, work)
    adopted = [task_id for task_id in task_ids if task_id not in refused]
    if json:
        emit_json({"ledger": url, "graph": digest, "adopted": adopted, "refused": refused})
    else:
        for task_id in adopted:
            emit(f"{task_id} goes on under {digest}")
        for task_id, why in refused.items():
            say(f"error: {task_id}: {why}")
    return FOUND if refused else 0


def _is_digest(named: str) -> bool:
    return len(named) == DIGEST and all(letter in "0123456789abcdef" for letter in named)


def _checked(path: Path) -> Graph:
    """The graph of a file, once it has no errors."""
    from tenure.runtime.written import check_graph, given_graph

    if not path.is_file():
        hint = "name a graph file, or the digest of a version that `tenure graphs` lists"
        raise Misused(f"There is no graph file {path}.", code="no_graph", hint=hint)
    graph = given_graph(path)
    if graph is None:
        raise Misused(f"{path} is no graph.", code="no_graph", hint="`tenure check` says why")
    check_graph(graph)
    return graph
