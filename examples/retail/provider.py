"""The retail service as a provider of effects: which answer of the service is which evidence.

============================  ==========================================================================
the client says               the evidence
============================  ==========================================================================
``Applied``                   `Confirmed`, with the service's reference
``Refused``, ``Misuse``       `Declined`: on record, or no valid request; a repeat is turned away again
``NotSent``                   `NotSent`: no connection was made, so nothing can have happened
``OutcomeUnknown``            raised as it is: whatever is raised leaves the effect in doubt
``InFlight``                  `Inconclusive`: a call with the key is being acted on at this moment
``absent`` (look-up)          `NotFound`: proves nothing by itself, the call may still be on its way
``absent`` and sealed (seal)  `Sealed`: it was not done and never will be under this key
============================  ==========================================================================
"""

from __future__ import annotations

from typing import Any

import msgspec

from examples.retail import client as shop
from examples.retail.rules import digest
from tenure import Confirmed, Declined, Inconclusive, NotFound, NotSent, Provider, Sealed

KEYS_KEPT_FOR = 365 * 24 * 3600.0
"""Seconds for which a repeated key is answered from the record. The service's keys never expire; a year is plenty."""


class Write(msgspec.Struct, frozen=True):
    """The request of one effect: which namespace, which operation, with what."""

    ns: str
    operation: str
    arguments: dict[str, Any]


class Retail(Provider):
    """Writes of the retail service. Connect it while a worker runs; its requests are `Write` as plain data.

    ``in_flight_limit`` stays 0, "unknown": the service says nothing about how late a call may still land. It needs
    no such limit, for a repeated key and a seal settle every doubt without one.
    """

    name = "retail"
    idempotent_for = KEYS_KEPT_FOR

    def __init__(self) -> None:
        """Not connected yet."""
        self._client: shop.RetailClient | None = None

    @property
    def client(self) -> shop.RetailClient:
        """The connection.

        Raises:
            RuntimeError: outside the life of a worker.
        """
        if self._client is None:
            raise RuntimeError("The retail service is connected while a worker of the team runs.")
        return self._client

    def connect(self, client: shop.RetailClient | None) -> None:
        """Use this connection from now on; ``None`` ends it."""
        self._client = client

    def intent_key(self, request: Any) -> str:
        """The intent when the caller names no key: the same operation with the same arguments in one namespace."""
        wanted = msgspec.convert(request, Write)
        return f"{wanted.ns}/{digest(wanted.operation, wanted.arguments)}"

    async def apply(self, request: Any, *, key: str) -> Confirmed | Declined | Inconclusive:
        """Ask for the write under its key."""
        wanted = msgspec.convert(request, Write)
        try:
            answer = await self.client.write(wanted.ns, wanted.operation, wanted.arguments, key)
        except shop.NotSent as error:
            raise NotSent(str(error)) from error
        except (shop.Misuse, shop.NotFound) as error:
            return Declined(str(error))
        match answer:
            case shop.Applied(reference, result):
                return Confirmed(result, reference)
            case shop.Refused(reference, reason):
                return Declined(reason, {"reference": reference})
            case shop.InFlight():
                return Inconclusive("a call with this key is being acted on")
            case shop.Sealed():
                # That it is sealed says a look-up or a seal with authority; this call only ran into it.
                return Inconclusive("the key is sealed")

    async def lookup(self, request: Any, *, key: str) -> Confirmed | Declined | Inconclusive | NotFound | Sealed:
        """What is on record under the key."""
        known = await self.client.lookup(msgspec.convert(request, Write).ns, key)
        if known.state == "in_flight":
            return Inconclusive("a call with this key is being acted on")
        return _evidence(known) or (Sealed() if known.sealed else NotFound())

    async def seal(self, request: Any, *, key: str) -> Confirmed | Declined | Inconclusive | Sealed:
        """Make sure that nothing new is done under the key, and say what was done before."""
        known = await self.client.seal(msgspec.convert(request, Write).ns, key)
        return _evidence(known) or (Sealed() if known.sealed else Inconclusive(f"not sealed: {known.state}"))


def _evidence(known: shop.Known) -> Confirmed | Declined | None:
    """What a record settles; ``None`` when there is no record yet."""
    if known.state == "applied":
        return Confirmed(known.result, known.reference or "")
    if known.state == "refused":
        return Declined(known.reason or "", {"reference": known.reference})
    return None
