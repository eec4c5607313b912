"""Both backends, one suite."""

from pathlib import Path

from tenure.ledger import Ledger
from tenure.ledger.clock import Clock
from tenure.ledger.memory import MemoryLedger
from tenure.ledger.sqlite import SqliteLedger
from tenure.testing.conformance import LedgerConformance


class TestMemory(LedgerConformance):
    def open(self, folder: Path, clock: Clock) -> Ledger:
        return MemoryLedger(clock)


class TestSqlite(LedgerConformance):
    def open(self, folder: Path, clock: Clock) -> Ledger:
        return SqliteLedger(str(folder / "ledger.db"), clock=clock)
