"""What every part of the suite has: a clock that a test moves, and a ledger that is verified at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenure.ledger import Ledger
from tenure.ledger.clock import Clock
from tenure.testing.conformance.driver import Driver


class VirtualClock:
    """Milliseconds since the Unix epoch, moved by hand."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        """The time."""
        return self.now


class Rules:
    """Base of the parts of the suite."""

    def open(self, folder: Path, clock: Clock) -> Ledger:
        """Open a ledger on an empty folder."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> VirtualClock:
        """The ledger's clock."""
        return VirtualClock()

    @pytest.fixture
    async def ledger(self, tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Ledger]:
        """A ledger. Whatever a test has done with it, chain and replay must verify."""
        async with self.open(tmp_path, clock) as ledger:
            yield ledger
            found = await ledger.verify()
            assert (found.chain, found.replay, found.file, found.missing, found.problems) == (
                "verified",
                "equal",
                "sound",
                0,
                (),
            )

    @pytest.fixture
    def driver(self, ledger: Ledger) -> Driver:
        """Commands for task ``t``."""
        return Driver(ledger)
