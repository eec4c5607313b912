"""Events of turns: what an agent asked for in one response, and what was decided on it."""

from __future__ import annotations

from tenure.protocol.events.base import EventBase
from tenure.protocol.state import Pending, Rejected
from tenure.protocol.vocabulary import Reason, TurnOutcome


class TurnDecided(EventBase, frozen=True, kw_only=True, tag="turn.decided"):
    """The one decision on a turn, before anything of it starts.

    Attributes:
        n: number of the turn in its tenure. asked: ids of all that was asked for, in order.
        outcome: ``go``, ``transfer`` or ``end``. transfer: id of the transfer that won. pending: what it moves.
        merged: ids of transfers that are identical to an earlier one. rejected: what is not done, and why.
        graph: digest of the graph by which it was decided. reason: of an ``end``.
    """

    n: int
    asked: tuple[str, ...]
    outcome: TurnOutcome
    graph: str = ""
    transfer: str = ""
    pending: Pending | None = None
    merged: tuple[str, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    reason: Reason = Reason.NONE


class TurnNudged(EventBase, frozen=True, kw_only=True, tag="turn.nudged"):
    """A turn was handed back: nothing of it starts. ``nudges``: how often by now, this time included."""

    n: int
    asked: tuple[str, ...]
    rejected: tuple[Rejected, ...]
    nudges: int
    graph: str = ""
