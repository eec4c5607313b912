"""The conformance suite of ledgers: what every backend must do, as tests that a backend's own tests inherit.

::

    class TestMyLedger(LedgerConformance):
        def open(self, folder: Path, clock: Clock) -> Ledger:
            return MyLedger(folder / "ledger", clock=clock)

Needs pytest with pytest-asyncio in auto mode; nothing else of the package imports them. The clock stands still unless a
test moves it, so a backend must take its time from it.
"""

from __future__ import annotations

from tenure.testing.conformance.base import VirtualClock
from tenure.testing.conformance.budgets import BudgetRules
from tenure.testing.conformance.commands import CommandRules
from tenure.testing.conformance.driver import Driver
from tenure.testing.conformance.effects import EffectRules
from tenure.testing.conformance.erasing import ErasureRules
from tenure.testing.conformance.fencing import FencingRules
from tenure.testing.conformance.following import FeedRules
from tenure.testing.conformance.graphs import GraphRules
from tenure.testing.conformance.reading import ReadingRules
from tenure.testing.conformance.timing import TimingRules
from tenure.testing.conformance.turns import TurnRules

__all__ = ["Driver", "LedgerConformance", "VirtualClock"]


class LedgerConformance(
    CommandRules,
    FencingRules,
    EffectRules,
    ReadingRules,
    FeedRules,
    TimingRules,
    ErasureRules,
    GraphRules,
    TurnRules,
    BudgetRules,
):
    """All rules. Override ``open``."""
