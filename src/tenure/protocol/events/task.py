"""Events of a task as a whole, of its delegations and of the people who decide on it."""

from __future__ import annotations

from tenure.protocol.approvals import Approval
from tenure.protocol.events.base import EventBase
from tenure.protocol.settings import Limits, Settings
from tenure.protocol.state import Question, Wait
from tenure.protocol.vocabulary import Reason


class TaskSubmitted(EventBase, frozen=True, kw_only=True, tag="task.submitted"):
    """A task exists. Its first offer follows in the same commit."""

    root_id: str
    task_id: str
    agent: str
    goal: str
    constraints: tuple[str, ...]
    authority: tuple[str, ...]
    settings: Settings
    limits: Limits
    payload: str
    parent: str = ""
    depth: int = 0
    conversation: str = ""
    graph: str = ""
    approvals: tuple[Approval, ...] = ()


class TaskWaiting(EventBase, frozen=True, kw_only=True, tag="task.waiting"):
    """The agent keeps the task without lease or instance."""

    wait: Wait
    question: Question | None = None


class TaskEscalated(EventBase, frozen=True, kw_only=True, tag="task.escalated"):
    """A person is asked; all open hops end with the reason."""

    question: Question


class TaskCompleted(EventBase, frozen=True, kw_only=True, tag="task.completed"):
    """The goal was reported as reached by the owner; all open hops complete."""

    result: str


class TaskFailed(EventBase, frozen=True, kw_only=True, tag="task.failed"):
    """The task ended without success."""

    reason: Reason
    detail: str = ""


class TaskCancelled(EventBase, frozen=True, kw_only=True, tag="task.cancelled"):
    """The task ended as its cancellation asked, with the gate met."""

    by: str
    reason: str = ""


class CancelRequested(EventBase, frozen=True, kw_only=True, tag="task.cancel_requested"):
    """The owner was asked to stop. Nothing is claimed about what runs."""

    by: str
    reason: str
    due: int


class TreeStopped(EventBase, frozen=True, kw_only=True, tag="tree.stopped"):
    """No new task may start in the tree."""

    by: str
    reason: str = ""


class DelegationOpened(EventBase, frozen=True, kw_only=True, tag="delegation.opened"):
    """A child task was opened by this task."""

    child_id: str
    agent: str
    graph: str = ""


class DelegationEnded(EventBase, frozen=True, kw_only=True, tag="delegation.ended"):
    """A child task ended. ``unclaimed`` when this task had ended before."""

    child_id: str
    outcome: str
    result: str
    reason: Reason
    unclaimed: bool = False


class QuestionAnswered(EventBase, frozen=True, kw_only=True, tag="question.answered"):
    """A question got its one answer."""

    question_id: str
    by: str
    action: str
    choice: str = ""
    agent: str = ""
    body: str = ""


class ApprovalDecided(EventBase, frozen=True, kw_only=True, tag="approval.decided"):
    """A person approved or refused one effect, by its exact arguments."""

    approval: Approval


class GraphAdopted(EventBase, frozen=True, kw_only=True, tag="graph.adopted"):
    """The task goes on under another version of the routing graph, with that version's budgets and fallbacks."""

    graph: str
    settings: Settings
    by: str
    reason: str = ""


class QuestionExpired(EventBase, frozen=True, kw_only=True, tag="question.expired"):
    """Nobody answered in time. Expired is not rejected."""

    question_id: str
