"""Where randomness enters: ids of tasks, commands and instances, nonces of bodies."""

from __future__ import annotations

import secrets

from tenure.protocol.body import text_digest


def new_id(prefix: str) -> str:
    """A fresh id: a prefix and 80 random bits."""
    return f"{prefix}-{secrets.token_hex(10)}"


def nonce() -> str:
    """Random text that keeps a short body from being guessed out of its digest: 96 bits."""
    return secrets.token_hex(12)


def jitter(seconds: float) -> float:
    """A random part, 0.5 to 1.0, of a pause, so that workers do not act in step."""
    return seconds * (0.5 + secrets.randbelow(512) / 1024)


def child_id(root_id: str, parent_id: str, key: str) -> str:
    """The id of a delegation: the same key in the same parent task gives the same child, also after a crash."""
    return f"{root_id}.{text_digest(f'{parent_id}|{key}')[:20]}"
