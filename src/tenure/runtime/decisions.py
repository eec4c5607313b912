"""What a handler returns: one decision, by construction."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from tenure.protocol.approvals import AskedApproval
from tenure.protocol.payload import Artifact, Fact
from tenure.protocol.vocabulary import Gate, Reason

T = TypeVar("T")


class Transfer(Struct, Generic[T], frozen=True):
    """Hand the task over for good; the sender gets no result.

    Attributes:
        to: the receiver, or several that are asked in order.
        data: what the receiver accepts; validated by its type.
        summary: what happened and why it is handed over. trigger: the edge's trigger.
        constraints, decisions, done, artifacts: added to what the task carries already.
        open_questions: replace the earlier ones.
        gate: what must be over before the receiver acts; an edge may demand more.
        id: the response's own name for it, when a turn asks for it.
    """

    to: str | tuple[str, ...]
    data: T | None = None
    summary: str = ""
    trigger: str = ""
    constraints: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    done: tuple[Fact, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    open_questions: tuple[str, ...] = ()
    gate: Gate = Gate.ROUTING_RETIRED
    id: str = ""


class Complete(Struct, Generic[T], frozen=True):
    """The goal is reached. ``result`` is any value with a JSON form."""

    result: T | None = None


class GiveBack(Struct, frozen=True):
    """Return the task to its sender, with a reason of the closed vocabulary and words for it."""

    reason: Reason = Reason.GAVE_BACK
    detail: str = ""


class Escalate(Struct, frozen=True):
    """Ask a person and give the task up until the answer.

    Attributes:
        question: the question. evidence: data that helps to answer it.
        allowed: choices; empty means any. who: parties that may answer; the task's fallback by default.
        within: seconds until the finite fallback applies; the task's default when it is 0.
        approval: set by ``own.effect`` when the question is whether one effect may be made.
    """

    question: str
    allowed: tuple[str, ...] = ()
    who: tuple[str, ...] = ()
    evidence: Any = None
    within: float = 0
    approval: AskedApproval | None = None


class Wait(Struct, frozen=True):
    """Keep the task, without a lease, until something happens; ``within`` seconds at the latest.

    A wait for an ``answer`` carries its question. The handler starts again from its first line when it wakes.
    """

    on: Literal["input", "child", "answer", "time"]
    within: float
    child: str = ""
    question: Escalate | None = None


Decision = Transfer[Any] | Complete[Any] | GiveBack | Escalate | Wait
