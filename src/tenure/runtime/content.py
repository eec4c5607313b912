"""Between the user's types and bodies: msgspec Structs, dataclasses, TypedDicts, pydantic models, plain data."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tenure.errors import Refused
from tenure.protocol.body import Body
from tenure.runtime.ids import nonce

MOST_WORDS = 4_000
"""How much of an error's text is kept: it is for people, and may quote a whole response."""


def to_plain(value: Any) -> Any:
    """A value as JSON-compatible plain data.

    Raises:
        Refused: ``invalid`` for what has no JSON form.
    """
    try:
        return msgspec.to_builtins(value, enc_hook=_pydantic_out)
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused("invalid", f"{type(value).__name__} has no JSON form: {error}.") from None


def to_body(value: Any) -> Body:
    """A value as a body with a fresh nonce."""
    return Body(encoded(to_plain(value)), nonce())


def canonical(value: Any) -> bytes:
    """A value as JSON with sorted keys, to compare requests."""
    return encoded(to_plain(value), order="sorted")


def encoded(value: Any, *, order: Literal["sorted"] | None = None) -> bytes:
    """Plain data or a Struct as JSON.

    Raises:
        Refused: ``invalid`` for text that is no Unicode (half a surrogate pair, as in undecodable file names).
    """
    try:
        return msgspec.json.encode(value, order=order)
    except (UnicodeEncodeError, RecursionError) as error:
        raise Refused("invalid", f"It has no JSON form: {error}.") from None


def from_plain(value: Any, kind: Any) -> Any:
    """Plain data as the type that a receiver accepts; ``None`` and ``Any`` accept everything.

    Raises:
        Refused: ``payload_invalid`` with the place and the reason.
    """
    if kind is None or kind is Any:
        return value
    validate = getattr(kind, "model_validate", None)
    try:
        if validate is not None:
            return validate(value)
        return msgspec.convert(value, kind)
    except Exception as error:  # noqa: BLE001 - the type's own code runs here, and may raise anything
        raise Refused("payload_invalid", f"The receiver does not accept it: {words_of(error)}") from None


def words_of(error: BaseException) -> str:
    """An error in words that can be kept: bounded, and Unicode whatever it quotes."""
    try:
        words = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - its own code runs here
        words = type(error).__name__
    kept = words.encode(errors="backslashreplace").decode()
    return kept if len(kept) <= MOST_WORDS else f"{kept[:MOST_WORDS]}…"


def _pydantic_out(value: Any) -> Any:
    """Pydantic models are known by their method, so that pydantic itself stays optional."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} is neither plain data nor a known kind of model")
    return dump(mode="json")
