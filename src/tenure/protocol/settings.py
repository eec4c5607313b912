"""Deadlines, limits and policies. Plain values; everything is a setting, in milliseconds."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tenure.errors import Refused
from tenure.protocol.vocabulary import Gate

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Policy(Struct, frozen=True, kw_only=True):
    """How a class of work or effect is retired.

    Attributes:
        name: the class.
        grace_ms: how long a cancelled work may take before it is declared residual.
        booked: whether it gets a row in the ledger; ``helper`` work is only counted.
        gate: what must be over before another owner may act.
        doubt: a reconciler may ``retry`` an effect in doubt, where one more call cannot act twice, or only ``look``.
        orphan: to ``keep`` or ``compensate`` what turns out to have happened after its task ended without success.
    """

    name: str
    grace_ms: int
    booked: bool = True
    gate: Gate = Gate.ROUTING_RETIRED
    doubt: Literal["retry", "look"] = "retry"
    orphan: Literal["keep", "compensate"] = "keep"


HELPER = Policy(name="helper", grace_ms=SECOND, booked=False)
LOCAL = Policy(name="local", grace_ms=SECOND)
EXTERNAL = Policy(name="external", grace_ms=5 * SECOND)
CRITICAL = Policy(name="critical", grace_ms=30 * SECOND, gate=Gate.SETTLED)

POLICIES: dict[str, Policy] = {policy.name: policy for policy in (HELPER, LOCAL, EXTERNAL, CRITICAL)}
"""The four classes of the design. One second is a published system's constant, not an optimum."""


class Limits(Struct, frozen=True, kw_only=True):
    """Budgets of a delegation tree, counted at its root.

    Attributes:
        depth: deepest allowed child; the root has depth 0.
        delegations: child tasks ever opened in the tree. agents: unfinished tasks at the same time, the root's too.
    """

    depth: int = 4
    delegations: int = 64
    agents: int = 64


_MAY_BE_NONE = frozenset({"transfers", "delegations", "turn_delegations", "nudges", "repeats"})
"""Budgets: none at all is a budget too."""


class Settings(Struct, frozen=True, kw_only=True):
    """Deadlines and fallbacks of one task. Durations are milliseconds.

    Attributes:
        lease_ms: how long an instance may act without a heartbeat.
        progress_ms: longest time without a step that the ledger can see; then the tenure is asked.
        progress_grace_ms: from being asked to being taken over.
        pickup_ms: from an offer's issue to its claim.
        ack_ms: from claim to acknowledgement.
        attempts: how often one offer is issued before its fallback.
        transition_ms: upper bound of the window in which nobody may write.
        gate_ms: longest wait for the gate.
        retire_ms: longest time from INITIATED to the end of the tenure; at least every grace.
        cancel_ms: longest wait for a requested cancellation before a person is asked.
        question_ms: due time of an escalation that names none.
        transfers, delegations: budgets of the task, counted apart. turn_delegations: budget of one turn.
        nudges: how often a turn is handed back with words before its fallback, from one handoff to the next.
        calls_ms: how long the calls beside a transfer may take before they are asked to end.
        repeats: how often an edge may be used again without progress.
        approval_ms: how long a person's approval of an effect holds.
        checks: how many calls of reconcilers one open effect gets before a person is asked.
        takeovers: how often a lost tenure is offered again before a person is asked.
        payload_bytes: size limit of the sender's part.
        unread: limit of input that nobody has consumed.
        open_items: limit of open works, effects and delegations, each.
        on_ack_timeout: fallback of a transfer whose attempts are used up.
        on_lost: who is offered a task whose tenure was lost.
        on_failure: what a failure without a sender leads to.
        on_unanswered: finite fallback of an escalation that nobody answers.
        fallback: the agent or person who answers for what is left open in the end.
        supervisor: the agent that gets a task which goes round in circles; without one a person does.
    """

    lease_ms: int = 15 * SECOND
    progress_ms: int = 10 * MINUTE
    progress_grace_ms: int = 30 * SECOND
    pickup_ms: int = 10 * MINUTE
    ack_ms: int = 30 * SECOND
    attempts: int = 3
    transition_ms: int = 45 * MINUTE
    gate_ms: int = MINUTE
    retire_ms: int = 2 * MINUTE
    cancel_ms: int = 2 * MINUTE
    question_ms: int = DAY
    transfers: int = 16
    delegations: int = 64
    turn_delegations: int = 8
    nudges: int = 2
    calls_ms: int = 10 * SECOND
    repeats: int = 2
    approval_ms: int = HOUR
    checks: int = 8
    takeovers: int = 8
    payload_bytes: int = 64 * 1024
    unread: int = 1_000
    open_items: int = 256
    on_ack_timeout: Literal["return", "escalate"] = "return"
    on_lost: Literal["same", "return", "person"] = "same"
    on_failure: Literal["escalate", "fail"] = "escalate"
    on_unanswered: Literal["fail", "cancel"] = "fail"
    fallback: str = "person:operator"
    supervisor: str = ""

    def check(self) -> None:
        """Refuse values that contradict each other.

        Raises:
            Refused: ``invalid`` for a duration or limit below one; ``deadline_below_grace`` for a retirement
                that ends before a grace that it must wait for.
        """
        for name in self.__struct_fields__:
            value = getattr(self, name)
            least = 0 if name in _MAY_BE_NONE else 1
            if isinstance(value, int | float) and (isinstance(value, float) or value < least):
                raise Refused("invalid", f"{name} is {value}; it must be a whole number, at least {least}.")
        if not self.fallback:
            raise Refused("invalid", "fallback is empty; somebody must answer for what is left open.")
        if self.ack_ms > self.transition_ms:
            raise Refused("deadline_below_grace", "transition_ms is shorter than ack_ms.")

    def check_policy(self, policy: Policy) -> None:
        """Refuse a policy whose grace outlasts ``retire_ms``.

        Raises:
            Refused: ``deadline_below_grace``.
        """
        if policy.grace_ms > self.retire_ms:
            detail = f"retire_ms={self.retire_ms} but policy {policy.name} has grace_ms={policy.grace_ms}."
            raise Refused("deadline_below_grace", detail)
