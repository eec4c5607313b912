"""Ledgers for the runtime's tests."""

from tests.runtime.harness import ledger

__all__ = ["ledger"]
