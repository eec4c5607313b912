"""Mutants: small mistakes put into the core on purpose. The explorer must find each, or it would not find yours.

A mutant replaces one piece of one function's source, or one entry of a table, while it is in force. It names the
invariant that it breaks, the scope that must catch it, and within how many states.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from msgspec import Struct

from tenure.protocol.evidence import EVIDENCE
from tenure.protocol.vocabulary import EffectState, EvidenceKind


class Mutant(Struct, frozen=True, kw_only=True):
    """One mistake.

    Attributes:
        name: says what is wrong. invariant: what it breaks, by its name in the design.
        where: ``module:function`` below ``tenure.protocol``, or ``table`` for the table of evidence.
        old, new: the piece of source, which must stand there exactly once, and what takes its place.
        scope, within: where it must be caught, and within how many states.
    """

    name: str
    invariant: str
    where: str
    old: str
    new: str
    scope: str
    within: int = 5_000


def _mutant(invariant: str, name: str, where: str, old: str, new: str, scope: str) -> Mutant:
    return Mutant(name=name, invariant=invariant, where=where, old=old, new=new, scope=scope)


MUTANTS: tuple[Mutant, ...] = (
    _mutant(
        "single-writer",
        "a reversal leaves the tenure in place",
        "decide.people:reverse",
        "end_tenure(draft, forced=True, reason=Reason.REVERSED)",
        "pass",
        "return",
    ),
    _mutant(
        "fencing",
        "an owner's commands are taken from anybody",
        "decide.guards:tenure_of",
        "if task.tenure is None or not owns(task, epoch, instance):",
        "if task.tenure is None:",
        "stale-epochs",
    ),
    _mutant(
        "fencing",
        "the fence looks at the instance only",
        "decide.guards:owns",
        "tenure.epoch == epoch and ",
        "",
        "stale-epochs",
    ),
    _mutant(
        "fencing",
        "the fence looks at the epoch only",
        "decide.guards:owns",
        " and tenure.instance == instance",
        "",
        "chain-0-2",
    ),
    _mutant(
        "fencing",
        "an acknowledgement is taken after the offer was issued again",
        "decide.guards:open_offer",
        "if task.epoch != epoch:",
        "if task.epoch < epoch:",
        "late-acks",
    ),
    _mutant(
        "fencing",
        "the end of a tenure does not raise the epoch",
        "evolve.tenure:_tenure_ended",
        "epoch=task.epoch + 1",
        "epoch=task.epoch",
        "chain-0-2",
    ),
    _mutant(
        "termination-honesty",
        "helpers that were not seen to end are forgotten",
        "decide.ending:end_tenure",
        "if left or unseen or forced:",
        "if left or forced:",
        "progress",
    ),
    _mutant(
        "termination-honesty",
        "a forced end claims that execution has stopped",
        "decide.ending:end_tenure",
        "if left or unseen or forced:",
        "if left or unseen:",
        "chain-0-2",
    ),
    _mutant(
        "termination-honesty",
        "the death of a process is taken as the end of its subprocesses",
        "decide.people:report_death",
        " and work.kind in DIES_WITH_PROCESS",
        "",
        "chain-0-2",
    ),
    _mutant(
        "effect-honesty",
        "an unanswered effect is not doubted when its tenure ends",
        "decide.ending:doubt_unanswered",
        "if guards.in_flight(note.state):",
        "if False:",
        "chain-1-1",
    ),
    _mutant(
        "effect-honesty",
        "effects.settled is claimed with effects open",
        "decide.guards:effects_settled",
        "return not task.effects",
        "return True",
        "chain-1-1",
    ),
    _mutant(
        "effect-honesty",
        "a look-up that finds nothing is taken as absence",
        "table",
        "lookup",
        "absent",
        "proof-of-death",
    ),
    _mutant(
        "effect-honesty",
        "absence is proven while a sender lives",
        "decide.evidence:absence_proven",
        "if effect.senders or not effect.dead_at or not effect.in_flight_ms:",
        "if not effect.in_flight_ms:",
        "proof-of-death",
    ),
    _mutant(
        "effect-honesty",
        "absence is proven before the in-flight limit has passed",
        "decide.evidence:absence_proven",
        "return effect.attempt.at > effect.dead_at + effect.in_flight_ms",
        "return True",
        "proof-of-death",
    ),
    _mutant(
        "no-stall",
        "a wait has no deadline",
        "decide.deadlines:next_deadline",
        "return task.wait.wake_by",
        "return None",
        "questions",
    ),
    _mutant(
        "no-stall",
        "an expiry of a question leads nowhere",
        "decide.deadlines:_expire_rest",
        "fail(draft, Reason.ESCALATION_EXPIRED)",
        "draft.emit(ev.InputReceived(at=draft.now, n=task.received + 1, body='', sender=''))",
        "questions",
    ),
    _mutant(
        "carry-forward",
        "a return gives the sender all of the task's authority",
        "decide.offering:give_back",
        "authority=hop.authority",
        "authority=None",
        "return",
    ),
    _mutant(
        "carry-forward",
        "a grant ignores what its edge allows",
        "decide.guards:authority_of",
        "return task.authority if entry.authority is None else within(entry.authority, task.authority)",
        "return task.authority",
        "return",
    ),
    _mutant(
        "carry-forward",
        "a constraint may be dropped on the way",
        "payload:check_carried",
        "if missing:",
        "if False:",
        "return",
    ),
    _mutant(
        "one-transfer",
        "a retiring tenure may decide again",
        "decide.guards:acting_owner",
        "if tenure.retiring is not None:",
        "if False:",
        "one-transfer",
    ),
    _mutant(
        "one-invocation",
        "an effect in doubt is simply sent again",
        "decide.effects:may_apply_again",
        "return effect.state is E.IN_DOUBT and inside_window(",
        "return effect.state is E.IN_DOUBT or inside_window(",
        "proof-of-death",
    ),
    _mutant(
        "one-invocation",
        "a call may begin in the provider's window and land after it",
        "decide.effects:inside_window",
        "now + effect.in_flight_ms < effect.applied_at + effect.idempotent_ms",
        "now < effect.applied_at + effect.idempotent_ms",
        "idempotent",
    ),
    _mutant(
        "fencing",
        "whoever reconciles makes a new request of what is absent",
        "decide.effects:_may_go_on",
        "if effect.state is not E.IN_DOUBT or",
        "if",
        "idempotent",
    ),
    _mutant(
        "one-invocation",
        "an intent that is open elsewhere in the tree is intended again",
        "decide.effects:intend",
        "if prior is not None:",
        "if False:",
        "shared-intent",
    ),
    _mutant(
        "no-lost-input",
        "a grant counts unread input as consumed",
        "evolve.tenure:_granted",
        "owner=event.agent,",
        "owner=event.agent, consumed=task.received, seen=task.received,",
        "live-input",
    ),
    _mutant(
        "no-lost-input",
        "input is consumed out of order",
        "decide.retiring:advance_books",
        "if not task.consumed <= consumed <= task.seen:",
        "if False:",
        "live-input",
    ),
    _mutant(
        "same-payload",
        "the acknowledged digest is not compared",
        "decide.offering:acknowledge",
        "if command.digest != offer.payload:",
        "if False:",
        "chain-0-2",
    ),
    _mutant(
        "budgets-before-spend",
        "transfers are counted after they were made",
        "decide.transferring:checked",
        "if task.transfers + 1 > task.settings.transfers:",
        "if task.transfers > task.settings.transfers:",
        "chain-0-2",
    ),
    _mutant(
        "budgets-before-spend",
        "one takeover more than allowed",
        "decide.lost:take_over",
        "if task.takeovers >= task.settings.takeovers:",
        "if task.takeovers > task.settings.takeovers:",
        "chain-0-2",
    ),
    _mutant(
        "budgets-before-spend",
        "delegations are counted after they were opened",
        "decide.routing:within_tree",
        "tree.delegations + more, limits.delegations",
        "tree.delegations, limits.delegations",
        "child",
    ),
    _mutant(
        "one-transfer",
        "a transfer that a turn has decided is forgotten with its instance",
        "decide.lost:take_over",
        "and initiate_decided(draft)",
        "and False",
        "turns",
    ),
    _mutant(
        "one-transfer",
        "a second turn is taken while a transfer is decided",
        "decide.guards:free_owner",
        "if tenure.pending is not None:",
        "if False:",
        "turns",
    ),
    _mutant(
        "one-transfer",
        "another decision is carried out than the turn's",
        "decide.retiring:_as_decided",
        "if pending is None or isinstance(decision, dec.StopAsAsked):",
        "if True:",
        "turns",
    ),
    _mutant(
        "budgets-before-spend",
        "a nudge is not counted",
        "evolve.turn:_nudged",
        "nudges=event.nudges",
        "nudges=task.nudges",
        "turns",
    ),
    _mutant(
        "one-transfer",
        "an ambiguous turn is never handed back",
        "turns:arbitrate",
        "if nudges_left and (forbidden or ambiguous):",
        "if nudges_left and forbidden:",
        "turns",
    ),
    _mutant(
        "one-transfer",
        "a transfer wins over the delegations beside it",
        "turns:arbitrate",
        "if open_delegations or not open_transfers:",
        "if not open_transfers:",
        "turns",
    ),
    _mutant(
        "replay",
        "a new work displaces the ones before",
        "evolve.tenure:_work_started",
        "works=(*task.works, work)",
        "works=(work,)",
        "chain-0-2",
    ),
    _mutant(
        "replay",
        "only the first of a commit's states is stored",
        "decide.draft:Draft.emit",
        "self._tasks[stream] = self._touched[stream] = after",
        "self._tasks[stream] = after; self._touched.setdefault(stream, after)",
        "child",
    ),
    _mutant(
        "routes-first",
        "a quiet end passes over open routes",
        "decide.retiring:retire",
        "not tenure.routes and ",
        "",
        "live-input",
    ),
    _mutant(
        "routes-first",
        "a release with open routes is taken",
        "decide.retiring:release",
        "if not command.routes_retired:",
        "if False:",
        "live-input",
    ),
    _mutant(
        "gate",
        "a grant passes a gate that is not met",
        "decide.offering:grant_if_gate_met",
        "if blocked:",
        "if False:",
        "critical-gate",
    ),
    _mutant(
        "gate",
        "a task completes with critical work open",
        "decide.retiring:_switch",
        "if blocked:",
        "if False:",
        "critical-gate",
    ),
    _mutant(
        "window",
        "a claim outlasts the transition window",
        "decide.offering:_pick_up",
        "until = min(draft.now + (task.hops[-1].ack_ms or task.settings.ack_ms), window_end(task))",
        "pass",
        "late-acks",
    ),
)
"""At least one for each invariant, and for the explorer's own rules: the gate, the window."""


@contextmanager
def in_force(mutant: Mutant) -> Iterator[None]:
    """Put a mistake into the core, and take it out again.

    Raises:
        ValueError: the piece of source does not stand there exactly once: the core has changed, the mutant must follow.
    """
    if mutant.where == "table":
        with _table_entry(EvidenceKind(mutant.old), EffectState(mutant.new)):
            yield
        return
    function = _function(mutant.where)
    code = function.__code__
    function.__code__ = _mutated(function, mutant).__code__
    try:
        yield
    finally:
        function.__code__ = code


def _function(where: str) -> FunctionType:
    module, _, path = where.partition(":")
    value: Any = importlib.import_module(f"tenure.protocol.{module}")
    for part in path.split("."):
        value = getattr(value, part)
    if not isinstance(value, FunctionType):
        raise TypeError(f"{where} is not a function.")
    return value


def _mutated(function: FunctionType, mutant: Mutant) -> FunctionType:
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.old!r} stands {source.count(mutant.old)} times in {mutant.where}.")
    code = compile(source.replace(mutant.old, mutant.new), mutant.where, "exec", annotations.compiler_flag)
    made: dict[str, Any] = {}
    exec(code, dict(function.__globals__), made)  # noqa: S102 - the source is this project's own, changed in one place
    mutated: FunctionType = made[function.__name__]
    return mutated


@contextmanager
def _table_entry(kind: EvidenceKind, state: EffectState) -> Iterator[None]:
    table: dict[EvidenceKind, frozenset[EffectState]] = EVIDENCE  # type: ignore[assignment]  # read-only to everybody else
    kept = table[kind]
    table[kind] = kept | {state}
    try:
        yield
    finally:
        table[kind] = kept
