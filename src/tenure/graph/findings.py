"""What a check can find, each with a stable code, a severity, a place and a next step."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

Where = tuple[str | int, ...]
"""A place inside a graph as keys and positions: ``("edges", 3, "because")``, ``("agents", "billing")``."""


class Severity(StrEnum):
    """An ``error`` keeps a graph from being saved or run; a ``warning`` is a design to look at again."""

    ERROR = "error"
    WARNING = "warning"


class Finding(Struct, frozen=True, kw_only=True):
    """One finding.

    Attributes:
        code: a key of :data:`CODES`. message: what was found, with its names. where: the place inside the graph.
        file, line, column: the place in the file, from 1; empty and 0 when the graph is not from a file.
    """

    code: str
    message: str
    where: Where = ()
    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def severity(self) -> Severity:
        """How grave it is, by its code."""
        return CODES[self.code][0]

    @property
    def next_step(self) -> str:
        """What to do, by its code."""
        return CODES[self.code][2]


CODES: dict[str, tuple[Severity, str, str]] = {
    "unreadable": (
        Severity.ERROR,
        "The file is not a graph.",
        "Correct the file; `tenure graph --schema` prints what an editor needs to help.",
    ),
}
"""Stable code → (severity, what it means, next step)."""
