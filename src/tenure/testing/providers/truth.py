"""What is true outside, and whether what a provider says agrees with it."""

from __future__ import annotations

from msgspec import Struct

from tenure.runtime.provider import (
    Accepted,
    Answer,
    Cancelled,
    Confirmed,
    Declined,
    Failed,
    Inconclusive,
    NotFound,
    NotSent,
    Sealed,
)


class Truth(Struct, frozen=True):
    """What the bench has counted: deeds that are done, and jobs that can still do it."""

    acts: int
    running: int = 0

    @property
    def total(self) -> int:
        """What was done or can still be."""
        return self.acts + self.running


NOTHING = Truth(0)


def happened(said: object) -> bool:
    """Whether it says that something was done or taken on."""
    return isinstance(said, Confirmed | Accepted)


def absent(said: object) -> bool:
    """Whether it says that nothing was done and nothing will be: a repeat under another key would be safe."""
    if isinstance(said, NotFound):
        return said.final
    return isinstance(said, NotSent | Declined | Failed | Cancelled | Sealed)


def doubtful(said: object) -> bool:
    """Whether it claims nothing. What is raised, :class:`NotSent` apart, never does."""
    return isinstance(said, Inconclusive | BaseException | NotFound) and not absent(said)


def contradiction(said: object, truth: Truth) -> str:
    """Say how an answer is not true; empty when it is, or claims nothing."""
    words = f"It said {shown(said)}; the truth: done {truth.acts} times, {truth.running} still going on."
    if not isinstance(said, Answer | BaseException):
        return f"It said {shown(said)}, which is no answer."
    if absent(said) and truth.total:
        return words
    if isinstance(said, Confirmed) and not truth.acts:
        return words
    return words if isinstance(said, Accepted) and not truth.total else ""


def shown(said: object) -> str:
    """An answer or exception in words."""
    return repr(said)
