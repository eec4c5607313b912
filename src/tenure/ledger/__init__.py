"""What did happen. :func:`open_ledger` is the only door to a backend."""

from __future__ import annotations

from tenure.errors import Refused
from tenure.ledger.api import (
    Beat,
    Beaten,
    EffectRow,
    Instance,
    Ledger,
    Message,
    OpenOffer,
    Recorded,
    Refusal,
    SavedGraph,
    TaskRow,
    Verification,
    root_of,
)
from tenure.ledger.clock import Clock, system_clock

__all__ = [
    "Beat",
    "Beaten",
    "EffectRow",
    "Instance",
    "Ledger",
    "Message",
    "OpenOffer",
    "Recorded",
    "Refusal",
    "SavedGraph",
    "TaskRow",
    "Verification",
    "open_ledger",
    "root_of",
]


def open_ledger(url: str, *, clock: Clock | None = None) -> Ledger:
    """Open a ledger by its URL: ``memory://`` or ``sqlite:///path/to/file.db`` (four slashes: an absolute path).

    Opening a file blocks for as long as that takes; afterwards nothing of a ledger blocks an event loop.
    ``clock``, in milliseconds since the Unix epoch, takes the place of the database's: for simulated time.

    Raises:
        Refused: ``invalid`` for another scheme; what the backend finds wrong with its file.
        Unavailable: the file or its folder cannot be used now.
    """
    scheme, separator, rest = url.partition("://")
    if scheme == "memory" and separator:
        from tenure.ledger.memory import MemoryLedger

        return MemoryLedger(clock or system_clock)
    if scheme == "sqlite" and rest.startswith("/"):
        from tenure.ledger.sqlite import SqliteLedger

        return SqliteLedger(rest[1:], clock=clock)
    raise Refused("invalid", f"{url!r} is not a ledger URL; use memory:// or sqlite:///path/to/file.db.")
