"""Where time enters the ledger. Everything else is given ``now`` as milliseconds since the Unix epoch."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Gives the time in milliseconds since the Unix epoch."""


def system_clock() -> int:
    """The machine's clock."""
    return time.time_ns() // 1_000_000
