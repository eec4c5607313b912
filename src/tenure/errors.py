"""Errors, in four families by who must act.

::

    TenureError
    ├── Refused          your request breaks a rule: nothing changed, change the request
    ├── Fenced           someone newer owns the task: stop, touch nothing
    ├── Unavailable      nothing happened: try again
    └── OutcomeUnknown   it may have happened: look before you repeat it

Every error has a stable ``code``, a message that names the cause and a ``next_action``. Codes are listed in
:data:`CODES`; an unknown code is a programming error. No other exception crosses the public surface on purpose.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar


class NextAction(StrEnum):
    """What the caller should do now."""

    WAIT = "wait"
    USE_RESULT = "use_result"
    RECONCILE = "reconcile"
    ASK = "ask"
    STOP = "stop"
    FIX = "fix"
    RETRY = "retry"


CODES: dict[str, tuple[str, NextAction]] = {
    # the request as such
    "invalid": ("The request is not well formed.", NextAction.FIX),
    "invalid_team": ("The team is not well formed.", NextAction.FIX),
    "unknown_task": ("No such task in this ledger.", NextAction.FIX),
    "unknown_agent": ("No such agent in the team.", NextAction.FIX),
    "unknown_effect": ("No such effect in this task.", NextAction.FIX),
    "unknown_work": ("No such open work in this task.", NextAction.FIX),
    "unknown_handoff": ("No such open handoff in this task.", NextAction.FIX),
    "unknown_question": ("No such open question in this task.", NextAction.FIX),
    "task_exists": ("A task with this id exists already.", NextAction.USE_RESULT),
    "task_ended": ("The task has ended.", NextAction.USE_RESULT),
    "command_conflict": ("This command id was used for another command.", NextAction.FIX),
    "conversation_open": ("The conversation has an unfinished task.", NextAction.WAIT),
    # offers and handoffs
    "no_offer": ("The task has no open offer.", NextAction.STOP),
    "already_claimed": ("Another instance has claimed this offer.", NextAction.STOP),
    "not_a_candidate": ("The agent is not a candidate of this offer.", NextAction.STOP),
    "offer_lapsed": ("The deadline of this offer has passed.", NextAction.STOP),
    "wrong_digest": ("The acknowledged digest is not the digest of the sender's part.", NextAction.FIX),
    "route_forbidden": ("The routing graph forbids this handoff.", NextAction.FIX),
    "unknown_graph": ("The ledger has no such version of a routing graph.", NextAction.FIX),
    "invalid_graph": ("The routing graph has errors.", NextAction.FIX),
    "ambiguous_turn": ("The turn asks for more than one that goes on with the task.", NextAction.FIX),
    "transfer_decided": ("A transfer was decided in this turn; nothing else may begin.", NextAction.STOP),
    "oscillation": ("The task goes in circles: its edges are used again without progress.", NextAction.ASK),
    "self_transfer": ("An agent cannot transfer a task to itself.", NextAction.FIX),
    "retiring": ("The tenure is retiring: it may only finish what it started.", NextAction.STOP),
    "not_retiring": ("The tenure is not retiring.", NextAction.FIX),
    "transfer_limit_exceeded": ("The task has used up its transfers.", NextAction.ASK),
    "delegation_limit_exceeded": ("The tree has used up its delegations, agents or depth.", NextAction.ASK),
    "tree_stopped": ("The tree was stopped: no new task may start in it.", NextAction.STOP),
    "wrong_phase": ("The task is not in a phase that allows this.", NextAction.FIX),
    "not_due": ("Nothing is overdue.", NextAction.WAIT),
    "already_answered": ("The question has been answered.", NextAction.USE_RESULT),
    "not_allowed": ("This party or answer is not among the allowed ones.", NextAction.FIX),
    # payload and input
    "payload_invalid": ("The payload breaks the rules of the sender's part.", NextAction.FIX),
    "payload_too_large": ("The payload is larger than its limit.", NextAction.FIX),
    "raw_transcript": ("The payload carries a raw transcript.", NextAction.FIX),
    "constraints_dropped": ("A constraint of the task is missing from the payload.", NextAction.FIX),
    "authority_widened": ("The authority asked for is wider than the task's.", NextAction.FIX),
    "input_order": ("Input is consumed in order and once.", NextAction.FIX),
    "backlog_full": ("The task has too much unread input or too many open items.", NextAction.WAIT),
    "deadline_below_grace": ("A deadline is shorter than the grace of the same policy.", NextAction.FIX),
    # effects and works
    "work_exists": ("A work with this id is on the books.", NextAction.FIX),
    "effect_open": ("An effect with this intent is open in the tree.", NextAction.RECONCILE),
    "intent_conflict": ("The same intent was recorded with another request.", NextAction.ASK),
    "attempt_open": ("An attempt of this effect is in flight.", NextAction.WAIT),
    "attempt_unsafe": ("Another call could act twice: no proof allows it.", NextAction.RECONCILE),
    "owner_needed": ("Only the owner of the task may do this to the effect.", NextAction.ASK),
    "version_conflict": ("The effect has changed since it was read.", NextAction.RECONCILE),
    "evidence_insufficient": ("This evidence does not settle that state.", NextAction.RECONCILE),
    # the runtime and its files
    "worker_name_taken": ("A live worker has this name.", NextAction.FIX),
    "misuse": ("The library was used in a way that it cannot make safe.", NextAction.FIX),
    "tool_not_allowed": ("The agent has no such capability.", NextAction.FIX),
    "limit_exceeded": ("The request is beyond what the agent may do with this tool.", NextAction.ASK),
    "approval_required": ("This effect waits for a person's approval.", NextAction.ASK),
    "not_approved": ("A person has refused this effect.", NextAction.STOP),
    "newer_version": ("The record was written by a newer version of Tenure.", NextAction.STOP),
    "newer_file": ("The ledger file was written by a newer version of Tenure.", NextAction.STOP),
    "foreign_file": ("The file is a database, but not a Tenure ledger.", NextAction.FIX),
    "corrupt_file": ("The ledger file is damaged.", NextAction.STOP),
    "erased": ("The content was erased.", NextAction.STOP),
    # fenced
    "stale_epoch": ("The task has moved on: this epoch and instance no longer own it.", NextAction.STOP),
    "lease_lost": ("This tenure may have lost its lease and has stopped itself.", NextAction.STOP),
    # unavailable
    "ledger_unavailable": ("The ledger could not take the command; nothing was written.", NextAction.RETRY),
    "ledger_busy": ("Another process holds the ledger's write lock.", NextAction.RETRY),
    "ledger_read_only": ("The ledger file or its folder cannot be written.", NextAction.FIX),
    "disk_full": ("The disk is full; nothing was written.", NextAction.RETRY),
    "ledger_closed": ("The ledger is closed.", NextAction.STOP),
    # outcome unknown
    "commit_unknown": ("The commit may or may not have happened.", NextAction.RECONCILE),
}
"""Stable code → (default message, next action)."""


class TenureError(Exception):
    """Base of the four families. Raise one of them, never this.

    Args:
        code: a key of :data:`CODES`.
        detail: what exactly was wrong, in one sentence; appended to the code's message.
        facts: values for programs (ids, limits, states); kept as ``error.facts``.
    """

    exit_code: ClassVar[int] = 1
    family: ClassVar[str] = "error"

    def __init__(self, code: str, detail: str = "", **facts: Any) -> None:
        message, self.next_action = CODES[code]
        self.code = code
        self.detail = detail
        self.facts = facts
        super().__init__(f"{message} {detail}".strip())

    def as_dict(self) -> dict[str, Any]:
        """The error as plain data: ``family, code, message, next_action`` and its facts."""
        return {
            "family": self.family,
            "code": self.code,
            "message": str(self),
            "next_action": str(self.next_action),
            **{name: value for name, value in self.facts.items() if isinstance(value, str | int | float | bool)},
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors survive pickling between processes, with their facts."""
        return (_rebuild, (type(self), self.code, self.detail, self.facts))


def _rebuild(kind: type[TenureError], code: str, detail: str, facts: dict[str, Any]) -> TenureError:
    return kind(code, detail, **facts)


class Refused(TenureError):
    """The request breaks a rule. Nothing changed; the refusal is in the audit."""

    exit_code = 2
    family = "refused"


class Fenced(TenureError):
    """Someone newer owns the task. Stop; what you brought may have been kept as evidence (``facts["kept"]``)."""

    exit_code = 3
    family = "fenced"


class Unavailable(TenureError):
    """Nothing happened. Try again."""

    exit_code = 4
    family = "unavailable"


class OutcomeUnknown(TenureError):
    """It may have happened. Look at the ledger or the provider before you repeat it."""

    exit_code = 5
    family = "outcome_unknown"
