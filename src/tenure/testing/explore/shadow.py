"""A second bookkeeping, made from the events alone and much simpler than the core's.

It is started from a task that was found equal to its shadow before, follows the events of one commit, and must then
equal the task again. So a core that changes anything without an event, or that forgets what an event said, is found
in the step in which it does so. It shares no code with ``evolve``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tenure.protocol import events as ev
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import EffectState, OfferKind, Purpose, Reason
from tenure.testing.explore.world import World

INVARIANTS = (
    "single-writer",
    "fencing",
    "termination-honesty",
    "effect-honesty",
    "no-stall",
    "carry-forward",
    "one-transfer",
    "one-invocation",
    "no-lost-input",
    "same-payload",
    "budgets-before-spend",
    "replay",
    "routes-first",
)
"""The invariants of the design, in its order."""


class Violation(Exception):
    """An invariant does not hold. ``invariant`` is its name in the design, or one of the explorer's own rules."""

    def __init__(self, invariant: str, what: str) -> None:
        """Say which invariant, and what was seen instead."""
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        """Survives the way between processes."""
        return (Violation, (self.invariant, self.what))


def must(condition: object, invariant: str, what: str) -> None:
    """Raise a violation unless a condition holds."""
    if not condition:
        raise Violation(invariant, what)


class Shadow:
    """One task, as its events tell it."""

    def __init__(self, task: Task | None, world: World) -> None:
        """Start from the task before the commit."""
        self.epoch = task.epoch if task else 0
        tenure = task.tenure if task else None
        self.owner = (tenure.epoch, tenure.instance, tenure.agent, tenure.authority) if tenure else None
        self.works = {work.work_id: (work.epoch, work.policy.gate.rank) for work in task.works} if task else {}
        self.hops = (
            [(hop.handoff_id, hop.sender, hop.authority, hop.payload, hop.gate) for hop in task.hops] if task else []
        )
        self.popped: tuple[str, tuple[str, ...]] | None = None
        self.offer = task.offer if task else None
        self.acknowledged = bool(task and task.offer and task.offer.gate_by)
        self.payload = task.payload if task else ""
        self.counts = [task.received, task.seen, task.consumed] if task else [0, 0, 0]
        self.transfers = task.transfers if task else 0
        self.takeovers = task.takeovers if task else 0
        self.initiated = bool(task and tenure and task.hops and task.hops[-1].state == "INITIATED")
        self.routing = ""
        self.ended = task.phase.ended if task else False
        self.children = {child.child_id: child.outcome for child in task.children} if task else {}
        self.effects = {
            effect.effect_id: (effect.state, effect.policy.gate.rank)
            for effect in world.effects.values()
            if task is not None and effect.task_id == task.task_id
        }
        self.retiring = bool(tenure and tenure.retiring)
        self.pending = tenure.pending.handoff_id if tenure and tenure.pending else ""
        self.nudges = task.nudges if task else 0
        self.allowed_nudges = task.settings.nudges if task else 0
        self.cancelling = bool(task and task.cancel)
        self.news = [ending.work_id for ending in task.endings] if task else []

    def follow(self, event: Any) -> None:
        """Take one event in."""
        rule = _RULES.get(type(event))
        if rule is not None:
            rule(self, event)

    def open_effects(self) -> list[str]:
        """Ids of effects without settling evidence."""
        return [name for name, (state, _) in self.effects.items() if not state.settled]


def _bump(shadow: Shadow, _event: Any) -> None:
    shadow.epoch += 1


def _submitted(shadow: Shadow, event: ev.TaskSubmitted) -> None:
    shadow.payload = event.payload


def _issued(shadow: Shadow, event: ev.OfferIssued) -> None:
    must(shadow.owner is None, "single-writer", "an offer was issued while somebody owns the task")
    shadow.epoch += 1
    shadow.offer = None
    shadow.acknowledged = False
    if event.kind is OfferKind.RETURN and shadow.popped is not None:
        sender, authority = shadow.popped
        entry = event.candidates[event.index]
        must(entry.agent == sender, "carry-forward", f"a return goes to {entry.agent}, the sender was {sender}")
        must(
            entry.authority == authority, "carry-forward", f"a return gives {entry.authority}, {sender} had {authority}"
        )
    if event.kind is OfferKind.TAKEOVER and event.attempt == 1:
        shadow.takeovers += 1
    must(event.deadline > event.at, "no-stall", "an offer is due when it is issued")


def _withdrawn(shadow: Shadow, _event: ev.OfferWithdrawn) -> None:
    shadow.epoch += 1
    shadow.offer = None


def _granted(shadow: Shadow, event: ev.TenureGranted) -> None:
    must(shadow.owner is None, "single-writer", "a tenure was granted while another one lasts")
    shadow.epoch += 1
    if shadow.hops and shadow.offer is not None and shadow.offer.handoff_id:
        shadow.takeovers = 0
    shadow.owner = (shadow.epoch, event.instance, event.agent, event.authority)
    shadow.offer = None
    read = (event.received, event.consumed)
    must(read == (shadow.counts[0], shadow.counts[2]), "no-lost-input", f"the grant read {read} of {shadow.counts}")
    must(set(event.works) == set(shadow.works), "carry-forward", "the grant did not read the open works")
    must(set(event.effects) == set(shadow.open_effects()), "carry-forward", "the grant did not read the open effects")
    must(set(event.children) == set(shadow.children), "carry-forward", "the grant did not read the delegations")


def _decided(shadow: Shadow, event: ev.TurnDecided) -> None:
    must(not shadow.pending, "one-transfer", "a turn was decided while a transfer is pending")
    rivals = [one.call_id for one in event.rejected if one.code == "ambiguous_turn"]
    if rivals:
        used = shadow.nudges >= shadow.allowed_nudges
        must(used, "one-transfer", f"{rivals} were dropped, and the agent was not told first")
    if event.pending is not None:
        refused = {one.call_id for one in event.rejected if one.code != "ambiguous_turn"}
        delegations = [name for name in event.asked if name.startswith("d") and name not in refused]
        must(not delegations, "one-transfer", f"{event.transfer} won over {delegations}")
        shadow.pending = event.pending.handoff_id
    elif event.outcome == "go":
        wishes = {name for name in event.asked if name.startswith("t")} - set(event.merged)
        lost = wishes - {one.call_id for one in event.rejected}
        must(not lost, "one-transfer", f"{sorted(lost)} were neither decided nor rejected")


def _nudged(shadow: Shadow, event: ev.TurnNudged) -> None:
    must(not shadow.pending, "one-transfer", "a turn was handed back while a transfer is pending")
    must(event.rejected, "one-transfer", "a turn was handed back for no reason")
    shadow.nudges += 1
    must(shadow.nudges <= shadow.allowed_nudges, "budgets-before-spend", f"nudge {shadow.nudges} is one too many")


def _ended(shadow: Shadow, event: ev.TenureEnded) -> None:
    carried = shadow.initiated or shadow.cancelling or event.reason is Reason.REVERSED
    must(not shadow.pending or carried, "one-transfer", "a tenure ended, and its decided transfer is gone")
    shadow.pending = ""
    must(shadow.owner is not None, "single-writer", "a tenure ended that did not exist")
    must(shadow.routing, "routes-first", "a tenure ended before its routes were retired or fenced")
    if event.forced:
        must(shadow.routing == "fenced", "termination-honesty", "a forced end claims retired routes")
    shadow.epoch += 1
    shadow.owner = None
    shadow.retiring = False
    shadow.initiated = False


def _hop_opened(shadow: Shadow, event: ev.HandoffInitiated) -> None:
    must(not shadow.initiated, "one-transfer", "a second transfer of the same tenure was initiated")
    must(shadow.owner is not None, "single-writer", "a transfer was initiated by nobody")
    _, _, agent, authority = shadow.owner or (0, "", "", ())
    must(shadow.pending in ("", event.handoff_id), "one-transfer", f"{shadow.pending} was decided, not this transfer")
    shadow.initiated = True
    shadow.nudges = 0
    shadow.transfers += 1
    shadow.news = [name for name in shadow.news if name not in event.told]
    shadow.payload = event.payload
    shadow.hops = [*shadow.hops, (event.handoff_id, agent, authority, event.payload, event.gate)]


def _hop_ended(shadow: Shadow, event: ev.HandoffEnded) -> None:
    must(shadow.hops and shadow.hops[-1][0] == event.handoff_id, "one-transfer", "a hop ended that is not the newest")
    handoff_id, sender, authority, _, _ = shadow.hops[-1]
    del handoff_id
    shadow.popped = (sender, authority)
    shadow.hops = shadow.hops[:-1]


def _retiring(shadow: Shadow, event: ev.TenureRetiring) -> None:
    other = event.decision != "stop" and event.handoff_id != shadow.pending
    must(not shadow.pending or not other, "one-transfer", f"{shadow.pending} was decided, {event.decision} is done")
    shadow.retiring = True
    if event.decision == "return" and event.body:
        shadow.payload = event.body


def _acknowledged(shadow: Shadow, event: ev.OfferAcknowledged) -> None:
    frozen = shadow.hops[-1][3] if shadow.offer is not None and shadow.offer.handoff_id else shadow.payload
    must(event.digest == frozen, "same-payload", f"{event.digest[:8]} was acknowledged, {frozen[:8]} was frozen")
    must(event.gate_by > event.at, "no-stall", "the gate has no deadline")
    shadow.acknowledged = True


def _work_started(shadow: Shadow, event: ev.WorkStarted) -> None:
    shadow.works[event.work_id] = (shadow.owner[0] if shadow.owner else 0, event.policy.gate.rank)


def _work_stopped(shadow: Shadow, event: ev.WorkStopped) -> None:
    started, _ = shadow.works.pop(event.work_id)
    # Its own tenure, while it decides nothing yet, knows; for everybody else it is news.
    if shadow.owner is None or shadow.owner[0] != started or shadow.retiring:
        shadow.news = [*shadow.news, event.work_id]


def _residual(shadow: Shadow, event: ev.ResidualDeclared) -> None:
    epoch = shadow.owner[0] if shadow.owner else 0
    mine = {name for name, (started, _) in shadow.works.items() if started == epoch}
    must(mine <= set(event.works), "termination-honesty", f"{sorted(mine)} run on, {event.works} were declared")
    if event.handler:
        shadow.works[f"handler:{epoch}"] = (epoch, 0)


def _settled(shadow: Shadow, _event: ev.EffectsSettled) -> None:
    must(not shadow.open_effects(), "effect-honesty", f"effects.settled with {shadow.open_effects()} open")


def _intended(shadow: Shadow, event: ev.EffectIntended) -> None:
    shadow.effects[event.effect_id] = (EffectState.INTENDED, event.policy.gate.rank)


def _attempted(shadow: Shadow, event: ev.EffectAttempted) -> None:
    state, rank = shadow.effects[event.effect_id]
    if event.purpose is Purpose.APPLY and state is EffectState.ABSENT:
        shadow.effects[event.effect_id] = (EffectState.INTENDED, rank)


def _observed(shadow: Shadow, event: ev.EffectObserved) -> None:
    _, rank = shadow.effects[event.effect_id]
    must(not event.state.settled or event.evidence != "none", "effect-honesty", "an effect was settled by nothing")
    shadow.effects[event.effect_id] = (event.state, rank)


def _received(shadow: Shadow, event: ev.InputReceived) -> None:
    must(event.n == shadow.counts[0] + 1, "no-lost-input", f"message {event.n} follows {shadow.counts[0]}")
    shadow.counts[0] = event.n


def _seen(shadow: Shadow, event: ev.InputSeen) -> None:
    shadow.counts[1] = event.upto


def _advanced(shadow: Shadow, event: ev.Advanced) -> None:
    received, seen, consumed = shadow.counts
    must(
        consumed <= event.consumed <= seen <= received, "no-lost-input", f"{event.consumed} consumed of {shadow.counts}"
    )
    must(shadow.owner is not None, "single-writer", "a turn was committed by nobody")
    shadow.counts[2] = event.consumed
    shadow.takeovers = 0
    for child_id in event.collected:
        must(shadow.children.pop(child_id, ""), "no-lost-input", f"{child_id} was collected without a result")


def _routing(shadow: Shadow, event: ev.RoutingRetired | ev.RoutingFenced) -> None:
    shadow.routing = "fenced" if isinstance(event, ev.RoutingFenced) else "retired"


def _closed(shadow: Shadow, _event: Any) -> None:
    must(shadow.owner is None, "single-writer", "a task ended or was escalated under a tenure")
    shadow.hops = []
    shadow.offer = None


def _finished(shadow: Shadow, event: Any) -> None:
    must(not shadow.ended, "replay", "a task that had ended has ended again")
    _closed(shadow, event)
    shadow.ended = True


def _opened(shadow: Shadow, event: ev.DelegationOpened) -> None:
    must(not shadow.pending, "one-transfer", "a delegation was opened while a transfer is pending")
    shadow.children[event.child_id] = ""


def _delegation_ended(shadow: Shadow, event: ev.DelegationEnded) -> None:
    if event.child_id in shadow.children:
        shadow.children[event.child_id] = event.outcome


def _cancelling(shadow: Shadow, _event: ev.CancelRequested) -> None:
    shadow.cancelling = True


def _answered(shadow: Shadow, _event: ev.QuestionAnswered) -> None:
    shadow.nudges = 0


_RULES: dict[type[ev.EventBase], Callable[[Shadow, Any], None]] = {
    ev.TurnDecided: _decided,
    ev.TurnNudged: _nudged,
    ev.CancelRequested: _cancelling,
    ev.QuestionAnswered: _answered,
    ev.TaskSubmitted: _submitted,
    ev.OfferIssued: _issued,
    ev.OfferWithdrawn: _withdrawn,
    ev.TenureGranted: _granted,
    ev.TenureEnded: _ended,
    ev.HandoffInitiated: _hop_opened,
    ev.HandoffEnded: _hop_ended,
    ev.TenureRetiring: _retiring,
    ev.OfferAcknowledged: _acknowledged,
    ev.WorkStarted: _work_started,
    ev.WorkStopped: _work_stopped,
    ev.ResidualDeclared: _residual,
    ev.EffectsSettled: _settled,
    ev.EffectIntended: _intended,
    ev.EffectAttempted: _attempted,
    ev.EffectObserved: _observed,
    ev.InputReceived: _received,
    ev.InputSeen: _seen,
    ev.Advanced: _advanced,
    ev.RoutingRetired: _routing,
    ev.RoutingFenced: _routing,
    ev.TaskEscalated: _closed,
    ev.TaskCompleted: _finished,
    ev.TaskFailed: _finished,
    ev.TaskCancelled: _finished,
    ev.DelegationOpened: _opened,
    ev.DelegationEnded: _delegation_ended,
}


def must_equal(shadow: Shadow, task: Task) -> None:
    """Compare a shadow with the task that the core made of the same events."""
    for invariant, what, stored, told in _compared(shadow, task):
        if stored != told:
            raise Violation(invariant, f"{what}: stored is {stored}, the events say {told}")


def _compared(shadow: Shadow, task: Task) -> Iterator[tuple[str, str, Any, Any]]:
    tenure = task.tenure
    owner = (tenure.epoch, tenure.instance, tenure.agent, tenure.authority) if tenure else None
    effects = {name: state for name, (state, _) in shadow.effects.items() if not state.settled}
    yield "fencing", "epoch", task.epoch, shadow.epoch
    yield "single-writer", "owner", owner, shadow.owner
    yield "replay", "open works", {work.work_id for work in task.works}, set(shadow.works)
    yield "replay", "open hops", [hop.handoff_id for hop in task.hops], [hop[0] for hop in shadow.hops]
    yield "no-lost-input", "received, seen, consumed", [task.received, task.seen, task.consumed], shadow.counts
    yield "budgets-before-spend", "transfers", task.transfers, shadow.transfers
    pending = tenure.pending.handoff_id if tenure and tenure.pending else ""
    yield "one-transfer", "decided transfer", pending, shadow.pending
    yield "budgets-before-spend", "nudges", task.nudges, shadow.nudges
    yield "budgets-before-spend", "takeovers", task.takeovers, shadow.takeovers
    yield "effect-honesty", "open effects", {note.effect_id: note.state for note in task.effects}, effects
    yield "same-payload", "payload", task.payload, shadow.payload
    news = [ending.work_id for ending in task.endings]
    yield "carry-forward", "news of works", news, shadow.news[-task.settings.open_items :]
    yield "carry-forward", "delegations", {child.child_id: child.outcome for child in task.children}, shadow.children


UNCOUNTED = frozenset({Reason.REASSIGNED})
"""Takeovers that a person orders: they are not limited by the number of automatic ones."""
