"""What an adapter of an outside system implements. Its methods say which evidence the system can give.

Only :meth:`Provider.apply` is required. Each optional method gives the runtime a way out of doubt, or a way back; a
provider that has none leaves an effect in doubt to a person:

==========================================  ==================================================================
``lookup(request, *, key)``                 what became of it: an answer, ``NotFound`` or ``Inconclusive``
``seal(request, *, key)``                   see to it that nothing with this key can land any more
``cancel(request, *, key)``                 ask for the end of what was taken on, and say what was *seen*
``compensate(request, *, key)``             undo what is confirmed, under a key of its own
``lookup_compensation(request, *, key)``    what became of the undoing
``status(reference)``                       of work that runs there: ``Accepted`` while it does, or how it ended
``stop(reference)``                         ask such work to end: ``Accepted`` when the request was taken
==========================================  ==================================================================

Those with a key get ``reference=`` too, the provider's own name for the effect, if they have a parameter of that name;
``lookup_compensation`` also ``undo_reference=``, that of its compensation. In the same way ``apply`` and ``compensate``
get ``repeat=``: whether a request with this key may have been sent before. What refuses a repeat need not have refused
the one before it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
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
    """A look-up found nothing. By itself it proves nothing: a request may still be on its way.

    ``final`` is the provider's word that nothing with this key is in flight or can land any more.
    """

    final: bool = False


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
        key_scope: where a key counts at the system, for example an account: a key repeated elsewhere is a new one.
        in_flight_limit: longest time in seconds that a sent request can still land; 0 when unknown.
        undo_idempotent_for: ``idempotent_for``, of ``compensate``.
    """

    name: str = ""
    idempotent_for: float = 0
    key_scope: str = ""
    in_flight_limit: float = 0
    undo_idempotent_for: float = 0

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


def takes(provider: Provider, method: str, parameter: str) -> bool:
    """Whether a method wants ``reference``, ``undo_reference`` or ``repeat``."""
    return parameter in inspect.signature(getattr(provider, method)).parameters


def can(provider: Provider, method: str) -> bool:
    """Whether a provider implements an optional method."""
    return callable(getattr(provider, method, None))


def named(providers: Iterable[Provider]) -> dict[str, Provider]:
    """Providers by their names.

    Raises:
        Refused: ``misuse`` for one without a name, or two of one name.
    """
    found: dict[str, Provider] = {}
    for provider in providers:
        if not provider.name or provider.name in found:
            why = f"the name {provider.name!r} is taken" if provider.name else "it has no name"
            raise Refused("misuse", f"{type(provider).__name__}: {why}.")
        found[provider.name] = provider
    return found
