"""What an adapter of an outside system implements. Its methods say which evidence the system can give.

Only :meth:`Provider.apply` is required. A provider that adds ``lookup``, ``seal``, ``cancel`` or ``compensate`` gives
the runtime a way out of doubt; one that adds none leaves an effect in doubt to a person.
"""

from __future__ import annotations

import inspect
from typing import Any

from msgspec import Struct

from tenure.errors import Refused
from tenure.runtime.content import canonical


class Confirmed(Struct, frozen=True):
    """It happened. ``reference`` is the provider's name for it, ``value`` its answer."""

    value: Any = None
    reference: str = ""


class Accepted(Struct, frozen=True):
    """A job was taken on and has not ended; ``reference`` is its id."""

    reference: str
    value: Any = None


class Declined(Struct, frozen=True):
    """The provider refused it: nothing happened, and a repeat of the request would be refused again."""

    reason: str
    value: Any = None


class Failed(Struct, frozen=True):
    """An accepted job ended without effect."""

    reason: str
    value: Any = None


class Cancelled(Struct, frozen=True):
    """An accepted job was *seen* to end by cancellation."""

    reference: str = ""


class NotFound(Struct, frozen=True):
    """A look-up found nothing. By itself it proves nothing: a request may still be on its way."""


class Inconclusive(Struct, frozen=True):
    """A look-up or seal could not tell."""

    reason: str = ""


class Sealed(Struct, frozen=True):
    """The key is sealed: it was not applied, and no request with it can land any more."""


class NotSent(Exception):
    """The request was provably not sent; nothing can have happened."""


Answer = Confirmed | Accepted | Declined | Failed | Cancelled | NotFound | Inconclusive | Sealed


class Provider:
    """Base of providers; subclass it and override what the system can do.

    Attributes:
        name: stable; part of every intent.
        idempotent_for: seconds for which the system answers a repeated key from its record; 0 when it does not.
        in_flight_limit: longest time in seconds that a sent request can still land; 0 when unknown.
    """

    name: str = ""
    idempotent_for: float = 0
    in_flight_limit: float = 0

    def intent_key(self, request: Any) -> str:
        """The business intent of a request, when the caller names no key: by default the whole request."""
        return canonical(request).decode()

    async def apply(self, request: Any, *, key: str) -> Answer:
        """Make the call. Any exception but :class:`NotSent` leaves the effect in doubt.

        Args:
            request: plain data. key: the idempotency key; it is never shown to a model.
        """
        del request, key
        raise Refused("misuse", f"Provider {self.name} does not implement apply.")


def takes_reference(provider: Provider, method: str) -> bool:
    """Whether an optional method wants the provider's own name for the effect (a job's id) as ``reference``."""
    return "reference" in inspect.signature(getattr(provider, method)).parameters


def can(provider: Provider, method: str) -> bool:
    """Whether a provider implements an optional method."""
    return callable(getattr(provider, method, None))
