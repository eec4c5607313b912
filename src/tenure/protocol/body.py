"""Bodies: content that may be personal, kept apart from the events so that it can be erased.

An event names a body by digest only. Erasing a body leaves the chain of events verifiable, and the nonce, erased
with it, keeps short content from being guessed back out of its digest.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct


class Body(Struct, frozen=True, dict=True):
    """Content with a nonce.

    Attributes:
        content: JSON text, UTF-8.
        nonce: random text made by the client; empty only where the content itself is unguessable.
    """

    content: bytes
    nonce: str = ""

    @cached_property
    def digest(self) -> str:
        """SHA-256 over nonce and content, as 64 hexadecimal digits; computed once, for it is asked for often."""
        return hashlib.sha256(self.nonce.encode() + b"\0" + self.content).hexdigest()

    def value(self) -> Any:
        """The content as plain data."""
        return msgspec.json.decode(self.content)


def text_digest(text: str, salt: str = "") -> str:
    """The digest by which a goal, a constraint or an intent is compared: SHA-256, 32 hexadecimal digits.

    The salt is the tree's, kept in its payloads and erased with them, so that a text cannot be guessed afterwards.
    """
    return hashlib.sha256(salt.encode() + b"\0" + text.encode()).hexdigest()[:32]
