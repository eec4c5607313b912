"""Arbitration: what wins in a turn that asks for several things. A pure rule, the same in whatever order they complete.

1. Transfers that are identical are one.
2. Anything forbidden, or beyond a budget, hands the whole turn back with words (a nudge), as long as nudges are left;
after that it takes no part. When nothing else was asked that goes on with the task, the turn ends it.
3. Two transfers, or a transfer beside delegations, are ambiguous: a nudge, as long as nudges are left; after that
delegations win over transfers, and among transfers the first in the graph's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tenure.protocol.state import Rejected
from tenure.protocol.vocabulary import Reason, TurnOutcome


class Wish(Struct, frozen=True, kw_only=True):
    """A transfer that is asked for.

    Attributes:
        receivers, same: two wishes that share both are identical. rank: place in the graph's order.
    """

    call_id: str
    receivers: tuple[str, ...]
    same: str = ""
    rank: int = 0


class Arbitrated(Struct, frozen=True, kw_only=True):
    """The outcome; ``rejected`` is id → code, in the order in which they were asked for."""

    outcome: TurnOutcome
    transfer: str = ""
    merged: tuple[str, ...] = ()
    rejected: dict[str, str] = {}


AMBIGUOUS = "ambiguous_turn"


def arbitrate(
    delegations: Sequence[str], wishes: Sequence[Wish], refused: Mapping[str, str], *, nudges_left: int
) -> Arbitrated:
    """Decide on a turn. ``refused``: id → code of what may not be done at all."""
    distinct: dict[tuple[tuple[str, ...], str], Wish] = {}
    for wish in wishes:
        distinct.setdefault((wish.receivers, wish.same), wish)
    transfers = list(distinct.values())
    merged = tuple(wish.call_id for wish in wishes if wish not in transfers)
    forbidden = {name: code for name, code in refused.items() if name not in merged}
    open_transfers = [wish for wish in transfers if wish.call_id not in forbidden]
    open_delegations = [name for name in delegations if name not in forbidden]
    ambiguous = len(open_transfers) > 1 or bool(open_transfers and open_delegations)
    if nudges_left and (forbidden or ambiguous):
        unclear = [*(wish.call_id for wish in open_transfers), *open_delegations] if ambiguous else []
        rejected = forbidden | dict.fromkeys(unclear, AMBIGUOUS)
        return Arbitrated(outcome=TurnOutcome.NUDGE, merged=merged, rejected=rejected)
    if forbidden and not (open_transfers or open_delegations):
        return Arbitrated(outcome=TurnOutcome.END, merged=merged, rejected=forbidden)
    if open_delegations or not open_transfers:
        rejected = forbidden | {wish.call_id: AMBIGUOUS for wish in open_transfers}
        return Arbitrated(outcome=TurnOutcome.GO, merged=merged, rejected=rejected)
    winner = min(open_transfers, key=lambda wish: wish.rank)  # the first of equals
    losers = {wish.call_id: AMBIGUOUS for wish in open_transfers if wish is not winner}
    return Arbitrated(outcome=TurnOutcome.TRANSFER, transfer=winner.call_id, merged=merged, rejected=forbidden | losers)


class Ruling(Struct, frozen=True, kw_only=True):
    """What was decided on a turn.

    Attributes:
        outcome: ``go``: start what is not rejected. ``transfer``: start the calls, then hand over.
            ``nudge``: nothing starts, tell the agent. ``end``: nothing starts, the tenure is retiring.
        transfer: id of the transfer that won. merged, rejected: as in the event ``turn.decided``.
        nudges_left: how often another turn like this one would be handed back. calls_by: until when calls may run.
    """

    outcome: TurnOutcome
    transfer: str = ""
    merged: tuple[str, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    nudges_left: int = 0
    calls_by: int = 0
    reason: Reason = Reason.NONE
