"""Tenure moves a task from one agent to another so that exactly one agent may act on it at any moment.

It never claims more than it has evidence for: that work stopped, that an effect did not happen, that a handoff is
over. What is public stands in ``__all__``; errors are in :mod:`tenure.errors`.
"""

from tenure.protocol.payload import Artifact, Fact
from tenure.protocol.settings import Limits, Policy, Settings
from tenure.runtime.decisions import Complete, Escalate, GiveBack, Transfer, Wait
from tenure.runtime.delegation import Result
from tenure.runtime.outcomes import Done, InDoubt, Refused
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

__version__ = "0.1.0"

__all__ = [
    "Accepted",
    "Artifact",
    "Cancelled",
    "Complete",
    "Confirmed",
    "Declined",
    "Done",
    "Escalate",
    "Fact",
    "Failed",
    "GiveBack",
    "InDoubt",
    "Inconclusive",
    "Limits",
    "NotFound",
    "NotSent",
    "Policy",
    "Provider",
    "Refused",
    "Result",
    "Sealed",
    "Settings",
    "Team",
    "Tenure",
    "Transfer",
    "Wait",
]
