"""Between the user's types and bodies: msgspec Structs, dataclasses, TypedDicts, pydantic models, plain data."""

from __future__ import annotations

from typing import Any

import msgspec

from tenure.errors import Refused
from tenure.protocol.body import Body
from tenure.runtime.ids import nonce


def to_plain(value: Any) -> Any:
    """A value as JSON-compatible plain data.

    Raises:
        Refused: ``invalid`` for what has no JSON form.
    """
    try:
        return msgspec.to_builtins(value, enc_hook=_pydantic_out)
    except (TypeError, msgspec.ValidationError) as error:
        raise Refused("invalid", f"{type(value).__name__} has no JSON form: {error}.") from None


def to_body(value: Any) -> Body:
    """A value as a body with a fresh nonce."""
    return Body(msgspec.json.encode(to_plain(value)), nonce())


def canonical(value: Any) -> bytes:
    """A value as JSON with sorted keys, to compare requests."""
    return msgspec.json.encode(to_plain(value), order="sorted")


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
    except (ValueError, TypeError) as error:
        raise Refused("payload_invalid", f"The receiver does not accept it: {error}") from None


def _pydantic_out(value: Any) -> Any:
    """Pydantic models are known by their method, so that pydantic itself stays optional."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} is neither plain data nor a known kind of model")
    return dump(mode="json")
