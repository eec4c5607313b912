"""Approvals: what a person has said about one effect before it is made."""

from __future__ import annotations

from msgspec import Struct


class Approval(Struct, frozen=True, kw_only=True, gc=False):
    """A person's word on one effect, before it is made: bound to its exact arguments, to the person and to a time.

    Attributes:
        question_id: the question that it answers. intent: digest of provider, tool and key.
        arguments: digest of the whole request. granted: ``False`` when the person refused. until: when it lapses.
    """

    question_id: str
    tool: str
    intent: str
    arguments: str
    by: str
    granted: bool
    until: int


class AskedApproval(Struct, frozen=True, kw_only=True, gc=False):
    """The effect that a question asks a person to approve; digests as in :class:`Approval`."""

    tool: str
    intent: str
    arguments: str
