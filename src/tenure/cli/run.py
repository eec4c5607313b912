"""``tenure run``: submit a file of tasks and work on them until each has come to rest."""

from __future__ import annotations

from pathlib import Path

import click

from tenure.cli.options import json_option, team_ledger_option


@click.command()
@click.argument("team", metavar="TEAM")
@click.option(
    "--input",
    metavar="FILE",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON Lines, a task a line. A function task_of(line) of the team file makes the arguments of Team.submit of a "
    "line; without one the object is the data, with goal and task_id taken from it.",
)
@team_ledger_option
@click.option("--name", default="", help="Name of the worker. [default: a new one]")
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
    help="Tenures at once. Four times as many tasks are submitted and not at rest.",
)
@click.option(
    "--drain",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long running tenures may take to end after the first signal.",
)
@json_option("End with one JSON object on stdout.")
def run(team: str, input: Path, url: str, name: str, concurrency: int, drain: float, *, json: bool) -> int:
    """Submit a file of tasks to TEAM and work on them here.

    TEAM is module:attribute, path/to/team.py (attribute team) or path/to/team.py:attribute. Ends when every task has
    ended or waits for a person. A line with a task_id that the ledger has already is that task, found and not made
    again.

    The first Ctrl-C or SIGTERM drains: nothing more is submitted or picked up, running tenures may end. The second one
    stops at once. Exit code: 0 when no task failed, 1 when one did, 2 when the ledger refused a line, 130 after a
    signal.
    """
    from tenure.cli.lines import read_lines
    from tenure.cli.running import Runner
    from tenure.cli.stopping import run_stoppable
    from tenure.cli.teamfile import load

    loaded = load(team)
    lines = read_lines(input, loaded)
    if url:
        loaded.team.use_ledger(url)
    runner = Runner(loaded.team, lines, name=name, concurrency=concurrency, drain=drain, as_json=json)
    return run_stoppable(runner.run, first="draining: no new task; a second signal stops at once")
