"""The holder's own clock: it counts suspended time, so a machine that slept knows that its lease may be over."""

from __future__ import annotations

import time

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC_RAW", time.CLOCK_MONOTONIC))


def uptime_ms() -> int:
    """Milliseconds that only ever rise; on macOS the raw monotonic clock, which counts sleep there."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000
