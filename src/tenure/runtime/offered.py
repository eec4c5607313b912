"""What an ``on_offer`` hook is asked about."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tenure.protocol.payload import Payload
from tenure.protocol.vocabulary import OfferKind


class Offered(Struct, frozen=True, kw_only=True):
    """An offer before it is acknowledged: return ``None`` to accept it, or words for why not."""

    task_id: str
    agent: str
    kind: OfferKind
    given: Any
    payload: Payload
