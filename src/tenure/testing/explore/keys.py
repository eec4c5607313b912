"""When two worlds count as one state. Every reduction stands here, with its reason.

Dropped, because no rule reads it (a test holds these lists to the fields that exist):

- revision, time of the last event, creation: only the ids of questions that the core makes derive from the revision,
  and a question is told from an older one by being open or not. The time of the last event is never later than now.
- what an ended task gives as reason or result, and the news of works that ended: for owners to read;
- when a work or tenure began; names; display-only next-check times (the checks look at them on the way).
- of effects, what belongs to compensations, to persons and to how often it was looked for: no scope has them;
- the versions of effects: compared for equality only, with what an actor has just read or with an older one, which
  is tried as such in every state.
- the version of the graph, its deadlines, and approvals: no scope has them; what a nudge said is for owners to read.
- the trail, the counts of delegations and of collected results: no scope allows as many transfers as an edge may be
  repeated, nor as many delegations as a task or a turn may open; the tree's own count is kept.
- settings, goal, authority and constraints of a task in their own right: they are the scope's, and a change of them
  is a violation found by the checks before a key is made. The constraints that the truth has collected are kept.

Normalised: times are relative to now, since only differences are compared. A span that began long ago is kept
exactly while a rule can still compare it.

In *reduced* scopes epochs are replaced by their rank among all epochs in sight: the core compares them for equality,
and a new one is always one more. That assumes that an epoch is never used again, which is what fencing promises; so
the unreduced scopes keep epochs as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tenure.protocol.outside import Effect
from tenure.protocol.state import Candidate, Offer, Question, Task, Tenure, Wait
from tenure.testing.explore.scope import FAR, Scope
from tenure.testing.explore.world import FLYING, READY, Call, World

DROPPED: dict[str, frozenset[str]] = {
    "Task": frozenset(
        {"root_id", "task_id", "parent", "depth", "conversation", "goal", "authority", "settings", "revision", "at"}
        | {"created_at", "reason", "result", "vacant_since", "constraints", "document", "endings"}
        | {"graph", "nudged", "trail", "delegated", "collected", "approvals"}
    ),
    "Tenure": frozenset({"since", "turn", "delegated"}),
    "Retiring": frozenset({"at"}),
    "Offer": frozenset({"reason"}),
    "Question": frozenset({"question_id", "reason", "body", "approval"}),
    "Hop": frozenset({"n", "pickup_ms", "ack_ms"}),
    "Pending": frozenset({"mark", "pickup_ms", "ack_ms", "told", "broadcast", "constraints"}),
    "Step": frozenset({"sender", "receiver", "mark"}),
    "Rejected": frozenset({"call_id", "code", "detail"}),
    "Work": frozenset({"name", "started_at", "delivered", "locator"}),
    "OpenEffect": frozenset({"intent", "gate", "instance", "next_check"}),
    "Effect": frozenset(
        {"root_id", "task_id", "provider", "tool", "request", "compared", "policy", "version", "idempotent_ms"}
        | {"in_flight_ms", "check_ms", "next_check", "reference", "evidence", "key_scope", "scope"}
        | {"undo", "undo_reference", "checks", "asked", "finding", "granted"}
    ),
    "Child": frozenset({"agent", "result", "reason"}),
    "Cancel": frozenset({"by", "reason"}),
}
"""Fields that are not part of a state, by type. Why: see above."""

Epochs = Callable[[int], int]


def digest_of(scope: Scope, world: World) -> bytes:
    """The state that a world is in, as 16 bytes."""
    name: Epochs = ranks(world).__getitem__ if scope.reduced else int
    now = world.now
    parts = (
        [task_key(task, now, name, world.leases.get(task_id, 0)) for task_id, task in sorted(world.tasks.items())],
        [effect_key(effect, now, name) for _, effect in sorted(world.effects.items())],
        (world.tree.stopped, world.tree.delegations) if world.tree else None,
        sorted(world.processes.items()),
        sorted((task, instance, name(epoch)) for task, instance, epoch in world.held),
        sorted(
            (task, name(work.epoch), "handler" if work_id.startswith("handler:") else work_id, work.instance, work.kind)
            for (task, work_id), work in world.running.items()
        ),
        sorted((task, name(epoch)) for task, epoch in world.routes),
        sorted(
            (
                c.effect_id,
                c.n,
                c.purpose,
                name(c.epoch),
                c.instance,
                c.generation,
                _age(scope, c, now),
                c.state,
                c.answer,
            )
            for c in world.calls
        ),
        sorted((key, k.applied_by, k.result, max(k.until - now, 0), k.sealed) for key, k in world.keys.items()),
        sorted(world.constraints.items()),
        sorted(world.budget.items()),
        world.ticks,
    )
    return hashlib.blake2b(msgspec.msgpack.encode(parts), digest_size=16).digest()


def _age(scope: Scope, call: Call, now: int) -> int:
    """Since when a request is on its way, where a limit counts it; before that, whether time has passed."""
    if call.state == FLYING:
        return now - call.at if scope.outside.limit_ms else 0
    return int(call.state == READY and now > call.at)


def ranks(world: World) -> dict[int, int]:
    """Each epoch in sight, by its place in their order."""
    seen = {0}
    for task in world.tasks.values():
        seen.add(task.epoch)
        seen.update(_epochs_of(task))
    seen.update(epoch for _, _, epoch in world.held)
    seen.update(work.epoch for work in world.running.values())
    seen.update(epoch for _, epoch in world.routes)
    seen.update(call.epoch for call in world.calls)
    seen.update(effect.attempt.epoch for effect in world.effects.values())
    return {epoch: place for place, epoch in enumerate(sorted(seen))}


def _epochs_of(task: Task) -> Iterator[int]:
    if task.tenure is not None:
        yield task.tenure.epoch
    for work in task.works:
        yield work.epoch


def task_key(task: Task, now: int, name: Epochs, lease: int) -> tuple[Any, ...]:
    """A task as far as a rule can tell two of them apart."""
    return (
        task.phase,
        name(task.epoch),
        task.owner,
        task.answerable,
        task.payload,
        task.given,
        task.held_authority,
        task.document_version,
        task.tenure and _tenure_key(task, task.tenure, now, name, lease),
        task.offer and _offer_key(task, task.offer, now),
        task.wait and _wait_key(task.wait, now),
        task.question and _question_key(task.question, now),
        task.cancel and task.cancel.due - now,
        [
            (
                h.handoff_id,
                h.sender,
                _entries(h.receivers),
                h.receiver,
                h.state,
                h.payload,
                h.given,
                h.authority,
                h.gate,
            )
            for h in task.hops
        ],
        [
            (
                f"handler:{name(w.epoch)}" if w.work_id.startswith("handler:") else w.work_id,
                w.kind,
                w.policy.gate,
                name(w.epoch),
                w.instance,
                w.state,
            )
            for w in task.works
        ],
        [(note.effect_id, note.state) for note in task.effects],
        [(child.child_id, child.outcome) for child in task.children],
        (task.received, task.seen, task.consumed, task.transfers, task.takeovers, task.hop_count, task.nudges),
    )


def _tenure_key(task: Task, tenure: Tenure, now: int, name: Epochs, lease: int) -> tuple[Any, ...]:
    asked = tenure.asked_at - now if tenure.asked_at else None
    retiring, pending = tenure.retiring, tenure.pending
    return (
        tenure.agent,
        tenure.instance,
        name(tenure.epoch),
        tenure.authority,
        tenure.progress_at - now if task.settings.progress_ms < FAR else None,
        asked,
        tenure.routes,
        pending
        and (
            pending.handoff_id,
            _entries(pending.candidates),
            pending.payload,
            pending.gate,
            max(pending.calls_by - now, 0),
        ),
        lease - now,
        retiring
        and (
            retiring.decision,
            retiring.deadline - now,
            retiring.handoff_id,
            retiring.body,
            retiring.reason,
            retiring.broadcast,
            retiring.wait and _wait_key(retiring.wait, now),
            retiring.question and _question_key(retiring.question, now),
            retiring.released,
            retiring.unseen,
        ),
    )


def _offer_key(task: Task, offer: Offer, now: int) -> tuple[Any, ...]:
    return (
        offer.kind,
        _entries(offer.candidates),
        offer.deadline - now,
        offer.payload,
        offer.index,
        offer.attempt,
        offer.state,
        offer.handoff_id,
        offer.gate,
        offer.pickup and (offer.pickup.agent, offer.pickup.instance, offer.pickup.until - now),
        offer.gate_by and offer.gate_by - now,
        # The window counts for the hop in transit only.
        task.hops[-1].initiated_at - now if _window_matters(task, offer) else None,
    )


def _window_matters(task: Task, offer: Offer) -> bool:
    return bool(offer.handoff_id and task.hops) and task.settings.transition_ms < FAR


def _entries(candidates: tuple[Candidate, ...]) -> list[tuple[str, tuple[str, ...] | None]]:
    return [(entry.agent, entry.authority) for entry in candidates]


def _wait_key(wait: Wait, now: int) -> tuple[Any, ...]:
    return (wait.on, wait.wake_by - now, wait.child_id)


def _question_key(question: Question, now: int) -> tuple[Any, ...]:
    return (question.who, question.allowed, question.due - now)


def effect_key(effect: Effect, now: int, name: Epochs) -> tuple[Any, ...]:
    """An effect's row as far as a rule can tell two of them apart."""
    attempt = effect.attempt
    settled = effect.state.settled
    return (
        effect.effect_id,
        effect.intent,
        effect.state,
        (attempt.n, attempt.purpose, name(attempt.epoch), attempt.instance, attempt.in_flight),
        # Of a settled effect no rule compares a time again before a new attempt has set it.
        None if settled else (attempt.at - now, effect.applied_at - now, effect.dead_at and effect.dead_at - now),
        (effect.sends, effect.senders, effect.generation, effect.first, effect.sealed),
    )
