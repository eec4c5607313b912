"""What did happen. :func:`open_ledger` is the only door to a backend."""

from __future__ import annotations

from tenure.errors import Refused
from tenure.ledger.api import (
    Beat,
    Beaten,
    Instance,
    Ledger,
    Message,
    OpenOffer,
    Recorded,
    Refusal,
    TaskRow,
    Verification,
    root_of,
)

__all__ = [
    "Beat",
    "Beaten",
    "Instance",
    "Ledger",
    "Message",
    "OpenOffer",
    "Recorded",
    "Refusal",
    "TaskRow",
    "Verification",
    "open_ledger",
    "root_of",
]


def open_ledger(url: str) -> Ledger:
    """Open a ledger by its URL: ``memory://`` or ``sqlite:///path/to/file.db`` (four slashes: an absolute path).

    Raises:
        Refused: ``invalid`` for another scheme; what the backend finds wrong with its file.
        Unavailable: the file or its folder cannot be used now.
    """
    scheme, separator, rest = url.partition("://")
    if scheme == "memory" and separator:
        from tenure.ledger.memory import MemoryLedger

        return MemoryLedger()
    if scheme == "sqlite" and rest.startswith("/"):
        from tenure.ledger.sqlite import SqliteLedger

        return SqliteLedger(rest[1:])
    raise Refused("invalid", f"{url!r} is not a ledger URL; use memory:// or sqlite:///path/to/file.db.")
