"""How much a piece of work does, counted in calls: the machine's load decides nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable


def calls_of(work: Callable[[], object]) -> int:
    """The number of calls that a piece of work makes, of Python's and of built-in functions."""
    made = 0

    def note(_frame: object, event: str, _value: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return made
