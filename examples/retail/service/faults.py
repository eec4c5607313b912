"""What the service can be told to do badly, and the seeded chance that decides when."""

from __future__ import annotations

import random
import time
from collections import Counter

import msgspec


class Chance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often a fault happens (`p`, 0 to 1), how long it lasts, and how many times at most."""

    p: float = 0.0
    seconds: float = 0.0
    times: int | None = None


class Faults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every fault of the service. The default is a service without any."""

    seed: int = 0
    slow: Chance = Chance()
    """The answer comes `seconds` late: the request, read or write, has been acted on before the wait."""
    late: Chance = Chance()
    """A write is acted on only `seconds` after it arrived: a client that gives up meanwhile did not stop it."""
    lose: Chance = Chance()
    """A write is committed, then the connection is closed without an answer."""
    refuse: Chance = Chance()
    """A write is refused although the rules allow it; the refusal is on record like any other."""
    down: Chance = Chance()
    """An outage begins: for `seconds`, every request is answered 503 before anything is done."""
    down_for: float = 0.0
    """An outage of this many seconds begins at once."""


class FaultPlan:
    """Draws the faults. The same seed, namespace and key draw the same ones, in whatever order requests arrive."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.drawn: Counter[str] = Counter()
        self._arrivals: Counter[str] = Counter()
        self._down_until = time.monotonic() + faults.down_for

    def arrive(self, what: str) -> str:
        """Register one arrival of a request and return the name under which its faults are drawn."""
        self._arrivals[what] += 1
        return f"{what}:{self._arrivals[what]}"

    def strikes(self, kind: str, arrival: str) -> bool:
        """Whether fault `kind` happens to this arrival; counts it if so."""
        chance: Chance = getattr(self.faults, kind)
        if chance.times is not None and self.drawn[kind] >= chance.times:
            return False
        if random.Random(f"{self.faults.seed}:{kind}:{arrival}").random() >= chance.p:
            return False
        self.drawn[kind] += 1
        return True

    def seconds(self, kind: str, arrival: str) -> float:
        """Return how long this arrival has to wait because of `kind`; 0 when the fault does not happen."""
        return float(getattr(self.faults, kind).seconds) if self.strikes(kind, arrival) else 0.0

    def is_down(self, arrival: str) -> bool:
        """Whether an outage is on, or begins with this arrival."""
        if self.down_left() > 0:
            return True
        if self.strikes("down", arrival):
            self._down_until = time.monotonic() + self.faults.down.seconds
            return True
        return False

    def down_left(self) -> float:
        """Return the seconds that the outage still lasts; 0 when there is none."""
        return max(0.0, self._down_until - time.monotonic())
