"""Whether the file that is open is still the one that others get when they open its path."""

from __future__ import annotations

from pathlib import Path

from tenure.errors import Unavailable

Identity = tuple[int, int]
"""Device and inode: no other file has both for as long as this one is open."""


class Place:
    """The path of a ledger's file and of its log, and which files they led to when it was opened.

    A file that was removed or replaced goes on being written by whoever has it open, and nobody else ever sees it.
    Make it while the file is open. The log counts too: it holds what the file does not have yet.
    """

    def __init__(self, path: str) -> None:
        file = Path(path).absolute()  # so that it stays the same one when the process changes its folder
        self._opened = {name: _identity(name) for name in (file, Path(f"{file}-wal"))}

    def problem(self) -> Unavailable | None:
        """What stands against writing now: ``ledger_unavailable``, or ``None``. Takes a few microseconds."""
        for name, opened in self._opened.items():
            if opened is None or _identity(name) != opened:
                detail = f"The file {name} was removed or replaced while it was open. Put it back, or open it anew."
                return Unavailable("ledger_unavailable", detail)
        return None


def _identity(name: Path) -> Identity | None:
    """``None`` when the path leads nowhere."""
    try:
        found = name.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
