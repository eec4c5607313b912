"""The command ``tenure``: prints what the ledger says, starts workers, decides nothing.

What a command does not need, it does not import: this module brings click and the commands' own short files, so that
``tenure --help`` starts fast.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

import click

from tenure import __version__
from tenure.cli.adopt import adopt
from tenure.cli.attest import attest
from tenure.cli.check import check
from tenure.cli.effects import effects
from tenure.cli.erase import erase
from tenure.cli.events import events
from tenure.cli.graph import graph
from tenure.cli.graphs import graphs
from tenure.cli.init import init
from tenure.cli.problems import exit_code_of, report
from tenure.cli.reconcile import reconcile
from tenure.cli.residual import residual
from tenure.cli.run import run
from tenure.cli.show import show
from tenure.cli.stopping import end_within
from tenure.cli.talk import Wishes
from tenure.cli.tasks import tasks
from tenure.cli.verify import verify
from tenure.cli.worker import worker

__all__ = ["app", "invoke", "main"]

LINGER = 5.0
"""Seconds that threads of a team may hold the end of the process."""


@click.group(
    invoke_without_command=True,
    context_settings={"auto_envvar_prefix": "TENURE", "help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="tenure")
@click.pass_context
def app(context: click.Context) -> int:
    """Move a task from one agent to another so that exactly one may act on it.

    stdout is data, stderr is talk. Each option can be set by an environment variable: TENURE, the command, the option,
    as in TENURE_RUN_CONCURRENCY=4; the ledger of every command by TENURE_LEDGER.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
    return 0


for _command in (
    run,
    worker,
    tasks,
    show,
    events,
    effects,
    reconcile,
    attest,
    residual,
    verify,
    check,
    graph,
    graphs,
    adopt,
    erase,
    init,
):
    app.add_command(_command)


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors are told on stderr."""
    wishes = Wishes(json="--json" in arguments)
    try:
        code = app.main(list(arguments), prog_name="tenure", standalone_mode=False, obj=wishes)
    except Exception as error:  # noqa: BLE001 - the one place where every error becomes words and a code
        report(error, as_json=wishes.json)
        return exit_code_of(error)
    return code if isinstance(code, int) else 0


def main() -> NoReturn:
    """Entry point of the console script."""
    code = invoke(sys.argv[1:])
    if threading.active_count() > 1:
        end_within(LINGER, code)
    sys.exit(code)
