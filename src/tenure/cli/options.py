"""Options that several commands share, and the door to a ledger that exists."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tenure.cli.problems import Misused
from tenure.cli.talk import Wishes
from tenure.ledger import Ledger, open_ledger

DEFAULT_LEDGER = "sqlite:///tenure.db"

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def _note_json(context: click.Context, parameter: click.Parameter, value: object) -> object:
    """Errors follow the wish too, also when it came from the environment."""
    del parameter
    wishes = context.find_object(Wishes)
    if wishes is not None and value:
        wishes.json = True
    return value


def json_option(what: str) -> Callable[[F], F]:
    """``--json``, with what it prints."""
    return click.option(
        "--json", is_flag=True, is_eager=True, callback=_note_json, help=f"{what} Errors are JSON on stderr."
    )


def read_ledger_option(command: F) -> F:
    """``--ledger`` of a command that reads: the file that `run` and `worker` wrote."""
    return click.option(
        "--ledger",
        "url",
        metavar="URL",
        envvar="TENURE_LEDGER",
        default=DEFAULT_LEDGER,
        show_default=True,
        show_envvar=True,
        help="Ledger to read: sqlite:///FILE.",
    )(command)


def team_ledger_option(command: F) -> F:
    """``--ledger`` of a command that runs a team."""
    return click.option(
        "--ledger",
        "url",
        metavar="URL",
        envvar="TENURE_LEDGER",
        default="",
        show_envvar=True,
        help="Ledger to use instead of the team's own: sqlite:///FILE or memory://.",
    )(command)


def open_existing(url: str) -> Ledger:
    """Open a ledger to read it; never make one.

    Raises:
        Misused: there is nothing at that URL.
        TenureError: what the backend finds wrong.
    """
    if url.startswith("memory:"):
        hint = "run the team on sqlite:///FILE, and name that with --ledger"
        raise Misused(
            "A memory:// ledger ends with its process: there is nothing to read.", code="no_ledger", hint=hint
        )
    path = url.removeprefix("sqlite:///")
    # An empty file is none either: opening it would make a ledger of it.
    if path != url and not (Path(path).exists() and Path(path).stat().st_size):
        hint = "name one with --ledger or TENURE_LEDGER; `tenure run` makes one"
        raise Misused(f"There is no ledger file {path}.", code="no_ledger", hint=hint)
    return open_ledger(url)


def with_ledger(url: str, work: Callable[[Ledger], Awaitable[T]]) -> T:
    """Open a ledger that exists, do the work, close it."""

    async def use() -> T:
        async with ledger:
            return await work(ledger)

    ledger = open_existing(url)
    return asyncio.run(use())
