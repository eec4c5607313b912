"""Counting durable commits from outside: in the bytes of SQLite's write-ahead log.

Format: a header of 32 bytes, then frames of 24 bytes and one page each. A frame whose second word is not zero ends a
transaction; with ``synchronous=FULL`` each of those is one sync of the file. https://www.sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import struct
from pathlib import Path

_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")


def commits(database: Path) -> int:
    """Number of transactions that stand in the log of a database. Exact as long as the log was never restarted."""
    log = Path(f"{database}-wal")
    content = log.read_bytes() if log.exists() else b""
    if not content:
        return 0
    _, _, page, restarts, *salts, _, _ = _HEADER.unpack_from(content)
    if restarts:
        raise RuntimeError("The log was restarted by a checkpoint; commits before it cannot be counted any more.")
    found = 0
    for at in range(_HEADER.size, len(content) - _FRAME.size - page + 1, _FRAME.size + page):
        _, ends, *frame_salts, _, _ = _FRAME.unpack_from(content, at)
        if frame_salts != salts:
            break
        found += ends != 0
    return found
