"""What a measure is: both sides, their ratio, what is required of it, and whether that was met."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field


class Spread(Struct, frozen=True):
    """The values of all rounds: their median, their extremes, and themselves in order."""

    median: float
    low: float
    high: float
    values: tuple[float, ...]


class Limit(Struct, frozen=True):
    """What is asked of a measured number. ``of`` says which number that is."""

    of: str
    at_least: float | None = None
    at_most: float | None = None
    exactly: int | None = None

    def holds(self, value: float | None) -> bool | None:
        """Whether a number keeps the limit; ``None`` without a number."""
        if value is None:
            return None
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.exactly is None or value == self.exactly)
        )

    def __str__(self) -> str:
        """As in ``>= 0.5``."""
        words = ((">=", self.at_least), ("<=", self.at_most), ("=", self.exactly))
        return " and ".join(f"{sign} {value:g}" for sign, value in words if value is not None)


class Point(Struct, frozen=True, omit_defaults=True):
    """One comparison of a measure, for example at one number of tasks.

    Attributes:
        sides: what each side took or reached, in the measure's unit. ratio: of the first side to the second, round
            by round, so that what slows both down at a time cancels out.
        detail: what else is worth knowing.
    """

    label: str
    sides: dict[str, Spread]
    ratio: Spread | None = None
    detail: dict[str, float | int | str] = field(default_factory=dict)


class Measure(Struct, frozen=True, omit_defaults=False):
    """One measure of one run.

    Attributes:
        kind: ``counted`` is exact, and a failure is the benchmark's; ``timed`` depends on the machine and is
            reported; ``compared`` has no requirement.
        measured: the number that ``required`` and ``aim`` speak of; ``None`` when it could not be measured.
        met, aim_met: ``None`` without a requirement, or without a number.
    """

    name: str
    title: str
    kind: Literal["counted", "timed", "compared"]
    unit: str
    required: Limit | None
    aim: Limit | None
    measured: float | None
    met: bool | None
    aim_met: bool | None
    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()


def measure(
    name: str,
    title: str,
    kind: Literal["counted", "timed", "compared"],
    unit: str,
    points: Sequence[Point],
    *,
    measured: float | None = None,
    required: Limit | None = None,
    aim: Limit | None = None,
    notes: Sequence[str] = (),
) -> Measure:
    """A measure, judged."""
    return Measure(
        name=name,
        title=title,
        kind=kind,
        unit=unit,
        required=required,
        aim=aim,
        measured=measured,
        met=required.holds(measured) if required else None,
        aim_met=aim.holds(measured) if aim else None,
        points=tuple(points),
        notes=tuple(notes),
    )


def spread(values: Sequence[float]) -> Spread:
    """Median and extremes, to five significant digits."""
    rounded = tuple(float(f"{value:.5g}") for value in values)
    return Spread(float(f"{statistics.median(rounded):.5g}"), min(rounded), max(rounded), rounded)


def compare(label: str, sides: Mapping[str, Sequence[float]], **detail: float | str) -> Point:
    """A point out of the rounds of two sides, the first divided by the second."""
    first, second = list(sides.values())[:2]
    ratio = spread([a / b for a, b in zip(first, second, strict=True)])
    return Point(label, {name: spread(values) for name, values in sides.items()}, ratio, dict(detail))


def interleave(rounds: int, sides: Mapping[str, Callable[[], float]], note: str) -> dict[str, list[float]]:
    """Measure the sides in turns, A B A B …: what disturbs the machine for a while disturbs all of them."""
    values: dict[str, list[float]] = {name: [] for name in sides}
    for n in range(rounds):
        for name, side in sides.items():
            gc.collect()
            say(f"{note}: round {n + 1} of {rounds}, {name}")
            values[name].append(side())
    return values


_STARTED = time.monotonic()


def say(text: str) -> None:
    """Progress, on standard error."""
    print(f"[{time.monotonic() - _STARTED:6.1f} s] {text}", file=sys.stderr, flush=True)
