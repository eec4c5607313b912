"""The hash chain of a task's events.

A link covers the one before it, where the event stands (root, task, number, epoch) and the digest of the event's
bytes. Events name bodies by digest only, so a body can be erased and every link still verifies.
"""

from __future__ import annotations

from hashlib import sha256

GENESIS = bytes(32)
"""What stands before the first event of every task."""


def link(before: bytes, root_id: str, task_id: str, seq: int, epoch: int, event: bytes) -> bytes:
    """The digest of an event, 32 bytes."""
    place = f"\0{root_id}\0{task_id}\0{seq}\0{epoch}\0".encode()
    return sha256(before + place + sha256(event).digest()).digest()
