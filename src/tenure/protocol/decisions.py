"""How a tenure ends by its own will: one decision, taken once."""

from __future__ import annotations

from msgspec import Struct

from tenure.protocol.approvals import AskedApproval
from tenure.protocol.body import Body
from tenure.protocol.state import Candidate
from tenure.protocol.vocabulary import Gate, Reason, WaitOn


class Decided(Struct, frozen=True, kw_only=True, tag_field="decision"):
    """Base of the decisions."""


class TransferTo(Decided, frozen=True, kw_only=True, tag="transfer"):
    """Permanent change of owner. Candidates are asked in order; the sender gets no result."""

    handoff_id: str
    candidates: tuple[Candidate, ...]
    payload: Body
    gate: Gate = Gate.ROUTING_RETIRED
    broadcast: bool = False


class GiveBackTo(Decided, frozen=True, kw_only=True, tag="return"):
    """Return to the sender of the newest hop. Without one, by policy: a person or the end of the task."""

    reason: Reason
    payload: Body | None = None


class CompleteWith(Decided, frozen=True, kw_only=True, tag="complete"):
    """The goal is reached; all open hops complete."""

    result: Body


class EscalateTo(Decided, frozen=True, kw_only=True, tag="escalate"):
    """Ask a person, and give the task up until the answer. ``due_ms`` of 0 takes the task's default.

    ``approval`` makes it a question for the approval of one effect: its answers are ``approve`` and ``refuse``.
    """

    question_id: str
    body: Body
    who: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    reason: Reason = Reason.ESCALATED
    due_ms: int = 0
    approval: AskedApproval | None = None


class WaitFor(Decided, frozen=True, kw_only=True, tag="wait"):
    """Keep the task without lease or instance until something happens, ``within_ms`` at the latest."""

    on: WaitOn
    within_ms: int
    child_id: str = ""
    question: EscalateTo | None = None


class FailWith(Decided, frozen=True, kw_only=True, tag="fail"):
    """Failure without return: a person or the end of the task, by policy."""

    reason: Reason
    detail: Body


class StopAsAsked(Decided, frozen=True, kw_only=True, tag="stop"):
    """The tenure has stopped because cancellation was requested."""


Decision = TransferTo | GiveBackTo | CompleteWith | EscalateTo | WaitFor | FailWith | StopAsAsked
