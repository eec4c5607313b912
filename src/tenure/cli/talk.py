"""stdout is data, stderr is talk."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click
import msgspec


@dataclass
class Wishes:
    """What the command line asked for that also matters after it has failed."""

    json: bool = False


class OutputClosed(Exception):
    """Whoever read stdout has gone."""


def emit(text: str) -> None:
    """Write data to stdout, with a newline, at once.

    Raises:
        OutputClosed: nobody reads it any more.
    """
    try:
        click.echo(text)
    except BrokenPipeError:
        raise OutputClosed from None


def emit_json(value: Any) -> None:
    """Write one JSON value in one line."""
    emit(msgspec.json.encode(value).decode())


def say(text: str) -> None:
    """Tell something on stderr. That nobody listens is no error."""
    try:
        click.echo(text, err=True)
    except OSError:
        return


def silence_stdout() -> None:
    """Let the interpreter's last flush go nowhere, after stdout was closed by its reader."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device, not a path
        os.dup2(nowhere.fileno(), descriptor)


def when(milliseconds: int) -> str:
    """A time of the ledger in UTC: ``2026-03-01 09:30:00.250Z``."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def seconds(milliseconds: int) -> str:
    """A duration for people."""
    return f"{milliseconds / 1000:.1f} s"


def one_line(text: str) -> str:
    """A text without line breaks."""
    return " ".join(text.split())


def plural(number: int, noun: str) -> str:
    """``1 task``, ``2 tasks``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
