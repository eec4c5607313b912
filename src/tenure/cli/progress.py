"""Progress on stderr: a bar where a person looks at it, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, Self

from tenure.cli.talk import say

EVERY = 1.0
"""Seconds between plain lines."""


class Progress(Protocol):
    """Told of every change; shows what it likes."""

    def show(self, done: int, total: int, words: str) -> None:
        """Tell how far it is."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def progress(title: str) -> Progress:
    """What suits stderr."""
    return Bar(title) if sys.stderr.isatty() else Lines(title)


class Lines:
    """A line every second."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def show(self, done: int, total: int, words: str) -> None:
        """Speak when the last line is old enough."""
        now = time.monotonic()
        if now - self._last >= EVERY:
            self._last = now
            of = f" of {total}" if total else ""
            say(f"{self._title}: {done}{of} {words}".rstrip())


class Bar:
    """A bar, drawn when something changed; no thread redraws it."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[words]}"),
        )
        self._bar = RichProgress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
        self._task = self._bar.add_task(title, total=None, words="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, done: int, total: int, words: str) -> None:
        """Draw."""
        self._bar.update(self._task, completed=done, total=total or None, words=words, refresh=True)
