"""Events of a tenure, its milestones and its live input."""

from __future__ import annotations

from tenure.protocol.events.base import EventBase
from tenure.protocol.state import Question, Wait
from tenure.protocol.vocabulary import Reason


class TenureGranted(EventBase, frozen=True, kw_only=True, tag="tenure.granted"):
    """One agent owns the task; raises the epoch. The books are those of this commit.

    Attributes:
        window_ms: how long nobody could write, from the end of the tenure before.
        works, effects, children: ids of what is in flight. received, consumed: bounds of the unread input.
    """

    agent: str
    instance: str
    authority: tuple[str, ...]
    window_ms: int
    works: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    received: int = 0
    consumed: int = 0


class TenureRetiring(EventBase, frozen=True, kw_only=True, tag="tenure.retiring"):
    """The tenure stated its decision and takes nothing new. ``constraints``: what the task then has."""

    decision: str
    deadline: int
    body: str = ""
    reason: Reason = Reason.NONE
    handoff_id: str = ""
    broadcast: bool = False
    constraints: tuple[str, ...] = ()
    wait: Wait | None = None
    question: Question | None = None


class TenureReleased(EventBase, frozen=True, kw_only=True, tag="tenure.released"):
    """Retired, but the end of the task waits for the gate until ``gate_by``."""

    gate_by: int
    unseen: int


class TenureEnded(EventBase, frozen=True, kw_only=True, tag="tenure.ended"):
    """Nobody may write; raises the epoch. ``forced`` ends claim nothing about what runs."""

    forced: bool
    reason: Reason = Reason.NONE


class ProgressAsked(EventBase, frozen=True, kw_only=True, tag="tenure.progress_asked"):
    """No step was visible for the progress limit."""


class Advanced(EventBase, frozen=True, kw_only=True, tag="tenure.advanced"):
    """A turn was committed."""

    consumed: int
    collected: tuple[str, ...] = ()
    document: str = ""


class LateRecorded(EventBase, frozen=True, kw_only=True, tag="late.recorded"):
    """A fenced command, kept as evidence. It moved no ownership."""

    command: str
    epoch: int
    instance: str
    body: str = ""
    effect_id: str = ""


class RoutingRetired(EventBase, frozen=True, kw_only=True, tag="routing.retired"):
    """The routes of the tenure take no input any more."""

    routes: tuple[str, ...] = ()


class RoutingFenced(EventBase, frozen=True, kw_only=True, tag="routing.fenced"):
    """The instance can consume no input any more; its routes were not seen to close."""

    routes: tuple[str, ...] = ()


class ExecutionStopped(EventBase, frozen=True, kw_only=True, tag="execution.stopped"):
    """Every work of the tenure was seen to end."""


class ResidualDeclared(EventBase, frozen=True, kw_only=True, tag="residual.declared"):
    """Work of the tenure was not seen to end.

    Attributes:
        works: ids that stay on the books. unseen: helpers, counted only. handler: the handler itself was not seen
            to end, and is booked as ``handler:<epoch>``.
    """

    works: tuple[str, ...] = ()
    unseen: int = 0
    handler: bool = False


class EffectsSettled(EventBase, frozen=True, kw_only=True, tag="effects.settled"):
    """Every effect of the task has settling evidence."""


class InputReceived(EventBase, frozen=True, kw_only=True, tag="input.received"):
    """Live input number ``n`` of the task."""

    n: int
    body: str
    sender: str = ""
    question_id: str = ""


class InputSeen(EventBase, frozen=True, kw_only=True, tag="input.seen"):
    """Input up to ``upto`` is about to be shown to the tenure."""

    upto: int


class RouteOpened(EventBase, frozen=True, kw_only=True, tag="route.opened"):
    """The tenure takes live input."""

    route_id: str


class RouteClosed(EventBase, frozen=True, kw_only=True, tag="route.closed"):
    """The tenure ended a subscription."""

    route_id: str
