"""Ledgers for the acceptance cases."""

from tests.runtime.harness import ledger

__all__ = ["ledger"]
