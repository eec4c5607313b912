"""Tenure moves a task from one agent to another so that exactly one agent may act on it at any moment.

It never claims more than it has evidence for: that work stopped, that an effect did not happen, that a handoff is
over. What is public stands in ``__all__``; errors are in :mod:`tenure.errors`.
"""

from tenure.protocol.payload import Artifact, Fact
from tenure.protocol.settings import Limits, Policy, Settings
from tenure.runtime.decisions import Complete, Escalate, GiveBack, Transfer, Wait
from tenure.runtime.delegation import Result
from tenure.runtime.outcomes import Done, Held, InDoubt, Refused
from tenure.runtime.provider import (
    Accepted,
    Cancelled,
    Confirmed,
    Declined,
    Failed,
    Inconclusive,
    NotFound,
    NotSent,
    Provider,
    Sealed,
)
from tenure.runtime.team import Team
from tenure.runtime.tenure import Tenure
from tenure.runtime.turns import Answered, Call, Delegate, Nudged
from tenure.runtime.undoing import Compensation, Undone

__version__ = "0.1.0"

__all__ = [
    "Accepted",
    "Answered",
    "Artifact",
    "Call",
    "Cancelled",
    "Compensation",
    "Complete",
    "Confirmed",
    "Declined",
    "Delegate",
    "Done",
    "Escalate",
    "Fact",
    "Failed",
    "GiveBack",
    "Held",
    "InDoubt",
    "Inconclusive",
    "Limits",
    "NotFound",
    "NotSent",
    "Nudged",
    "Policy",
    "Provider",
    "Refused",
    "Result",
    "Sealed",
    "Settings",
    "Team",
    "Tenure",
    "Transfer",
    "Undone",
    "Wait",
]
