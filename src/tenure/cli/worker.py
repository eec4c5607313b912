"""``tenure worker``: pick tasks up until a signal."""

from __future__ import annotations

import click

from tenure.cli.options import team_ledger_option


@click.command()
@click.argument("team", metavar="TEAM")
@team_ledger_option
@click.option("--name", default="", help="Name of the worker, free again when it has ended. [default: a new one]")
@click.option("--agents", default="", metavar="NAME,…", help="Agents to act for. [default: all of the team]")
@click.option("--concurrency", type=click.IntRange(min=1), default=16, show_default=True, help="Tenures at once.")
@click.option(
    "--drain",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long running tenures may take to end after the first signal.",
)
def worker(team: str, url: str, name: str, agents: str, concurrency: int, drain: float) -> int:
    """Pick up and work on tasks of TEAM until SIGTERM or Ctrl-C.

    TEAM is module:attribute, path/to/team.py (attribute team) or path/to/team.py:attribute.

    The first signal drains: nothing more is picked up, running tenures may end. The second one stops at once. Exit
    code: 0 after a drain that left nothing running, 1 when something still ran at its end, 130 after a stop at once.
    """
    from tenure.cli.stopping import run_stoppable
    from tenure.cli.teamfile import load
    from tenure.cli.working import Shift

    loaded = load(team)
    if url:
        loaded.team.use_ledger(url)
    chosen = tuple(part.strip() for part in agents.split(",") if part.strip())
    shift = Shift(loaded.team, name=name, agents=chosen, concurrency=concurrency, drain=drain)
    return run_stoppable(shift.run, first="draining: nothing more is picked up; a second signal stops at once")
