"""The hash chain of a task's events.

A link covers the one before it, where the event stands (root, task, number, epoch) and the event's bytes. Events name
bodies by digest only, so a body can be erased and every link still verifies. The parts cannot run into each other: the
first has 32 bytes, and a NUL, which no id and no number has, ends each of the others but the last.
"""

from __future__ import annotations

from hashlib import sha256

GENESIS = bytes(32)
"""What stands before the first event of every task."""


def stream(root_id: str, task_id: str) -> bytes:
    """The part of every link that names the task."""
    return f"\0{root_id}\0{task_id}\0".encode()


def link(before: bytes, stream: bytes, seq: int, epoch: int, event: bytes) -> bytes:
    """The digest of an event, 32 bytes. ``stream`` is its task's."""
    return sha256(b"%b%b%d\0%d\0%b" % (before, stream, seq, epoch, event)).digest()
