"""Wishes, in the imperative. Each names the task that it touches and carries an id made by its client.

A command's id is looked up first: repeating a command gives its recorded answer, even under a newer epoch. Commands
of an owner also carry the epoch and instance of the tenure that speaks.
"""

from __future__ import annotations

from functools import cache
from typing import get_args, get_type_hints

import msgspec
from msgspec import Struct

from tenure.protocol.body import Body
from tenure.protocol.commands.base import CommandBase, OwnerCommand
from tenure.protocol.commands.effects import AskAboutEffect, AttemptEffect, Attest, Intend, RecordOutcome
from tenure.protocol.decisions import Decision, TransferTo
from tenure.protocol.outside import Effect
from tenure.protocol.settings import Limits, Policy, Settings
from tenure.protocol.state import Candidate, Locator
from tenure.protocol.turns import Ruling
from tenure.protocol.vocabulary import (
    EvidenceKind,
    Phase,
    Reason,
    WorkEnd,
    WorkKind,
)

__all__ = [
    "Acknowledge",
    "AdoptGraph",
    "Advance",
    "Answer",
    "AskAboutEffect",
    "AskedDelegation",
    "AskedTransfer",
    "AttemptEffect",
    "Attest",
    "CancelWork",
    "Claim",
    "CloseRoute",
    "Command",
    "CommandBase",
    "Decline",
    "Delegate",
    "EndWork",
    "Ended",
    "Expire",
    "Intend",
    "LocateWork",
    "OpenRoute",
    "OwnerCommand",
    "Receipt",
    "RecordOutcome",
    "Release",
    "ReportDeath",
    "RequestCancel",
    "Retire",
    "Reverse",
    "See",
    "Send",
    "StartWork",
    "StopTree",
    "Submit",
    "TakeTurn",
    "bodies_of",
    "encode_command",
]


class Submit(CommandBase, frozen=True, kw_only=True):
    """Make a root task and offer it. ``task_id`` equals ``root_id``; ``graph`` is the digest of a saved version."""

    candidates: tuple[Candidate, ...]
    payload: Body
    authority: tuple[str, ...] = ("*",)
    settings: Settings = Settings()
    limits: Limits = Limits()
    conversation: str = ""
    message: Body | None = None
    broadcast: bool = False
    graph: str = ""


class Claim(CommandBase, frozen=True, kw_only=True):
    """Pick an offer up. The first commit wins."""

    epoch: int
    agent: str
    instance: str


class Acknowledge(CommandBase, frozen=True, kw_only=True):
    """Confirm the payload's digest and own the task; also claims an offer that is still open."""

    epoch: int
    agent: str
    instance: str
    digest: str
    readback: Body | None = None


class Decline(CommandBase, frozen=True, kw_only=True):
    """Turn a claimed or open offer down. ``start_failed`` may be re-sent to the same agent, the others not."""

    epoch: int
    agent: str
    instance: str
    reason: Reason = Reason.DECLINED
    detail: Body | None = None


class Advance(OwnerCommand, frozen=True, kw_only=True):
    """Commit a turn: input consumed up to a number, results taken, the state document."""

    consumed: int = 0
    collected: tuple[str, ...] = ()
    document: Body | None = None


class See(OwnerCommand, frozen=True, kw_only=True):
    """Mark input as shown to this tenure, before it is shown."""

    upto: int


class AskedTransfer(Struct, frozen=True, kw_only=True):
    """A transfer that a turn asks for. Two with the same receivers and the same ``same`` are one."""

    call_id: str
    decision: TransferTo
    same: str = ""


class AskedDelegation(Struct, frozen=True, kw_only=True):
    """A delegation that a turn asks for. It is opened by a command of its own, once the turn goes on."""

    call_id: str
    agent: str


class TakeTurn(OwnerCommand, frozen=True, kw_only=True):
    """Decide on everything that an agent asked for in one response, before any of it starts.

    Attributes:
        asked: ids of all of it, in the order of the response; calls of tools are those that stand nowhere else.
        detail: what is kept if the turn ends the task.
    """

    asked: tuple[str, ...]
    delegations: tuple[AskedDelegation, ...] = ()
    transfers: tuple[AskedTransfer, ...] = ()
    detail: Body | None = None


class AdoptGraph(CommandBase, frozen=True, kw_only=True):
    """Let an unfinished task go on under another saved version of the routing graph."""

    graph: str
    by: str
    reason: str = ""


class Retire(OwnerCommand, frozen=True, kw_only=True):
    """State the one decision of this tenure and stop intake.

    Attributes:
        consumed, collected, document: as in ``Advance``, in the same commit.
        quiet: nothing is left to retire: every helper was seen to end, no route is open. With no booked work open
            either, the release happens in this commit.
    """

    decision: Decision
    consumed: int = 0
    collected: tuple[str, ...] = ()
    document: Body | None = None
    quiet: bool = False


class Ended(Struct, frozen=True, kw_only=True):
    """A work that was seen to end, with what it brought."""

    work_id: str
    how: WorkEnd
    result: Body | None = None


class Release(OwnerCommand, frozen=True, kw_only=True):
    """Finish retiring. Works that are not among ``ended`` become residual.

    Attributes:
        routes_retired: no route of this tenure takes input any more.
        delivered: works that are known to have got the request to end.
        unseen: number of helpers that were not seen to end.
    """

    routes_retired: bool
    ended: tuple[Ended, ...] = ()
    delivered: tuple[str, ...] = ()
    unseen: int = 0


class StartWork(OwnerCommand, frozen=True, kw_only=True):
    """Put a work on the books before it starts."""

    work_id: str
    kind: WorkKind
    name: str
    policy: Policy
    locator: Locator | None = None


class LocateWork(OwnerCommand, frozen=True, kw_only=True):
    """Say where a started work runs."""

    work_id: str
    locator: Locator


class CancelWork(CommandBase, frozen=True, kw_only=True):
    """Record that a work was asked to end, and whether the request is known to have arrived."""

    work_id: str
    delivered: bool = False


class EndWork(CommandBase, frozen=True, kw_only=True):
    """Record that a work was *seen* to end, or a person's word on it. Valid under any epoch: no act of the owner.

    Attributes:
        instance: the one that the work belongs to. evidence: what was observed. by: who has seen it, if it was another
            instance or a person. result: what it brought, or a person's words.
    """

    work_id: str
    instance: str
    how: WorkEnd
    result: Body | None = None
    evidence: EvidenceKind = EvidenceKind.ENDED
    by: str = ""


class OpenRoute(OwnerCommand, frozen=True, kw_only=True):
    """Subscribe this tenure to live input."""

    route_id: str


class CloseRoute(OwnerCommand, frozen=True, kw_only=True):
    """End a subscription."""

    route_id: str


class Delegate(OwnerCommand, frozen=True, kw_only=True):
    """Open a child task. The caller keeps its own."""

    child_id: str
    candidates: tuple[Candidate, ...]
    payload: Body
    authority: tuple[str, ...] = ("*",)
    settings: Settings | None = None
    broadcast: bool = False


class Send(CommandBase, frozen=True, kw_only=True):
    """Give the task live input."""

    message: Body
    sender: str = ""


class Answer(CommandBase, frozen=True, kw_only=True):
    """Answer an open question, once.

    Attributes:
        action: ``resume`` the owner, ``reassign`` to ``agent``, or ``abort`` the task.
    """

    question_id: str
    by: str
    action: str = "resume"
    choice: str = ""
    agent: str = ""
    body: Body | None = None


class RequestCancel(CommandBase, frozen=True, kw_only=True):
    """Ask for the end of a task. Accepting the request proves nothing about what runs."""

    by: str
    reason: str = ""


class StopTree(CommandBase, frozen=True, kw_only=True):
    """Forbid new tasks in the tree. ``task_id`` is the root's; descendants are then cancelled one by one."""

    by: str
    reason: str = ""


class Reverse(CommandBase, frozen=True, kw_only=True):
    """End an open hop and all above it; the task is offered back to that hop's sender."""

    handoff_id: str
    by: str
    reason: str = ""


class Expire(CommandBase, frozen=True, kw_only=True):
    """Apply what is overdue by the ledger's clock."""


class ReportDeath(CommandBase, frozen=True, kw_only=True):
    """The process of an instance was observed dead. Proves the end of what dies with a process, and no more."""

    instance: str
    by: str


Command = (
    Submit
    | Claim
    | Acknowledge
    | Decline
    | Advance
    | See
    | TakeTurn
    | AdoptGraph
    | Retire
    | Release
    | StartWork
    | LocateWork
    | CancelWork
    | EndWork
    | OpenRoute
    | CloseRoute
    | Intend
    | AttemptEffect
    | RecordOutcome
    | AskAboutEffect
    | Attest
    | Delegate
    | Send
    | Answer
    | RequestCancel
    | StopTree
    | Reverse
    | Expire
    | ReportDeath
)


class Receipt(Struct, frozen=True, kw_only=True):
    """The recorded answer to an accepted command.

    Attributes:
        status: ``done``; ``gate`` when an acknowledgement or completion waits for the gate; ``late`` when the
            command was fenced and kept as evidence; ``already`` when the effect had been settled before.
        epoch, revision, phase: the task's, after the command.
        blocked_by: ids that the gate waits for. effect: the effect that the command touched.
        ruling: what was decided on a turn.
    """

    status: str
    task_id: str
    epoch: int
    revision: int
    phase: Phase
    blocked_by: tuple[str, ...] = ()
    effect: Effect | None = None
    ruling: Ruling | None = None


def bodies_of(command: Struct) -> tuple[Body, ...]:
    """Every body that a command carries, at any depth of its decision."""
    found: list[Body] = []
    for name in _may_carry(type(command)):
        value = getattr(command, name)
        if isinstance(value, Body):
            found.append(value)
        elif isinstance(value, Struct):
            found.extend(bodies_of(value))
        elif value is not None:
            found.extend(body for ended in value for body in bodies_of(ended))
    return tuple(found)


@cache
def _may_carry(kind: type[Struct]) -> tuple[str, ...]:
    """Fields in which a body can stand; every command is asked for them, so they are found once per type."""
    hints = get_type_hints(kind)
    nested = ("decision", "question", "ended", "transfers")
    return tuple(
        name for name in kind.__struct_fields__ if name in nested or Body in (hints[name], *get_args(hints[name]))
    )


encode_command = msgspec.json.Encoder().encode
"""A command as JSON bytes; equal commands give equal bytes."""
