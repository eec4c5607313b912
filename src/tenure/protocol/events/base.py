"""What every event shares."""

from __future__ import annotations

from msgspec import Struct

VERSION = 2
"""Version of every event written by this code.

1: delegations and collected results were not counted, and a handoff had no mark. 2: as it is now. Folding an event of
an older version gives the state that the code of its time has stored.
"""

COUNTED = 2
"""From this version on, delegations and collected results are counted."""


class EventBase(Struct, frozen=True, kw_only=True, gc=False, tag_field="event"):
    """Base of all events. ``at`` is the ledger's time, in milliseconds since the Unix epoch.

    Events hold frozen values only, so no cycle can arise among them (``gc=False``).
    """

    at: int
    v: int = VERSION


def event_tag(event: EventBase) -> str:
    """The stable name of an event's type, for example ``tenure.granted``."""
    return str(event.__struct_config__.tag)
