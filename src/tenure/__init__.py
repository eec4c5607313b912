"""Tenure moves a task from one agent to another.

Exactly one agent may act on a task at any moment, and nothing is claimed without evidence: that work stopped, that an
effect outside did not happen, that a handoff is complete.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
