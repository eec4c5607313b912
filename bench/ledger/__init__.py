"""The ledger on SQLite against a plain APSW program, and against DBOS: ``python -m bench ledger --json``."""

from __future__ import annotations

from bench.ledger.run import main

__all__ = ["SUMMARY", "main"]

SUMMARY = "handoffs per second, durable commits, CPU, growth, import: against a plain APSW program and DBOS"
