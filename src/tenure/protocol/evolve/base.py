"""What the rules of several machines share: looking a move up, and the parts of a task that must be there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from tenure.errors import Refused
from tenure.protocol.machines import HANDOFF
from tenure.protocol.state import Hop, Offer, Task, Tenure

_S = TypeVar("_S")


def step(machine: Mapping[_S, Mapping[str, _S]], state: _S, name: str) -> _S:
    """Look one move up.

    Raises:
        Refused: ``wrong_phase`` when the table has no such move.
    """
    try:
        return machine[state][name]
    except KeyError:
        raise Refused("wrong_phase", f"{name} cannot follow {state}.") from None


def tenure_of(task: Task) -> Tenure:
    """The tenure that an event of a tenure needs."""
    if task.tenure is None:
        raise Refused("wrong_phase", "The task has no tenure.")
    return task.tenure


def progressed(task: Task, at: int, **changes: Any) -> Tenure:
    """A step that the ledger can see, made by the tenure itself."""
    return replace(tenure_of(task), progress_at=at, asked_at=0, **changes)


def offer_of(task: Task) -> Offer:
    """The offer that an event of an offer needs."""
    if task.offer is None:
        raise Refused("wrong_phase", "The task has no offer.")
    return task.offer


def hop_of(task: Task) -> Hop:
    """The newest open hop, which an event of a handoff needs."""
    if not task.hops:
        raise Refused("wrong_phase", "The task has no open hop.")
    return task.hops[-1]


def move_hop(task: Task, name: str, **changes: Any) -> tuple[Hop, ...]:
    """Move the newest hop by its table."""
    hop = hop_of(task)
    return (*task.hops[:-1], replace(hop, state=step(HANDOFF, hop.state, name), **changes))
