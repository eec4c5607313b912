"""The invariants, checked on every step and in every state, from the world's truth and not from the core's guards."""

from __future__ import annotations

from typing import Any

import msgspec

from tenure.errors import TenureError
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.decide import Change, Verdict, decide, decide_heartbeat, next_deadline
from tenure.protocol.decisions import TransferTo
from tenure.protocol.events import decode_event, encode_event
from tenure.protocol.evolve import evolve
from tenure.protocol.payload import Payload
from tenure.protocol.state import Books, Candidate, Offer, Task
from tenure.protocol.vocabulary import EffectState, Gate, OfferKind, Phase, Purpose
from tenure.testing.explore.scope import Scope
from tenure.testing.explore.shadow import UNCOUNTED, Shadow, must, must_equal
from tenure.testing.explore.world import ANSWERED, FLYING, READY, Call, Key, World

PATIENCE = 24
"""An unattended task must have ended after this many expiries: every offer's attempts, a gate, a question."""


def check_step(scope: Scope, before: World, command: cmd.Command, verdict: Verdict, after: World) -> None:
    """Check one accepted command. ``before`` has the actor's own part done, ``after`` the commit."""
    _speaker_owns(before, command, verdict)
    _replays(before, verdict)
    shadows: dict[str, Shadow] = {}
    for change in verdict.changes:
        task_id = change.task_id
        task = before.tasks.get(task_id)
        shadow = shadows.get(task_id)
        if shadow is None:
            shadow = shadows[task_id] = Shadow(task, before)
        _proofs(scope, after, change, shadow)
        shadow.follow(change.event)
        _limits(change, shadow)
    for task_id, shadow in shadows.items():
        task = after.tasks[task_id]
        must_equal(shadow, task)
        _same_task(scope, before.tasks.get(task_id), task)
        for effect_id, (state, _) in shadow.effects.items():
            row = after.effects[effect_id].state
            if row is not state:
                must(condition=False, invariant="effect-honesty", what=f"{effect_id} is {row}, its events say {state}")
    for effect_id, effect in verdict.effects.items():
        must(effect == after.effects[effect_id], "replay", f"the row of {effect_id} is not what its events give")
    _constraints(before, command, verdict)


def _speaker_owns(before: World, command: cmd.Command, verdict: Verdict) -> None:
    """Whatever an owner may say was said under the one epoch and by the one instance that own the task."""
    task = before.tasks.get(command.task_id)
    if isinstance(command, cmd.Claim | cmd.Acknowledge | cmd.Decline):
        seen = task is not None and task.offer is not None and task.tenure is None and task.epoch == command.epoch
        must(seen, "fencing", f"an offer of epoch {command.epoch} was taken, it is over")
        return
    applies = isinstance(command, cmd.AttemptEffect) and command.purpose in (Purpose.APPLY, Purpose.COMPENSATE)
    if not isinstance(command, cmd.OwnerCommand) and not applies:
        return
    epoch, instance = getattr(command, "epoch", 0), getattr(command, "instance", "")
    if isinstance(command, cmd.AttemptEffect) and not epoch:
        _goes_on(before, command)
        return
    tenure = task.tenure if task else None
    if verdict.receipt.status == "late":
        kept = all(isinstance(change.event, ev.LateRecorded) for change in verdict.changes)
        must(kept, "fencing", "a late command moved something")
        return
    owns = tenure is not None and (tenure.epoch, tenure.instance) == (epoch, instance)
    must(owns, "fencing" if tenure else "single-writer", f"{instance} acted under epoch {epoch} and does not own")


def _goes_on(before: World, command: cmd.AttemptEffect) -> None:
    """Somebody without the task only goes on with what its owner began, is in doubt, and is still wanted."""
    effect, task = before.effects[command.effect_id], before.tasks[command.task_id]
    wanted = task.cancel is None and task.phase not in (Phase.FAILED, Phase.CANCELLED)
    doubt = command.purpose is Purpose.APPLY and effect.state is EffectState.IN_DOUBT
    must(doubt and wanted, "fencing", f"{command.instance} made {effect.effect_id} happen and does not own the task")


def _proofs(scope: Scope, after: World, change: Change, shadow: Shadow) -> None:
    """What an event claims about the outside is true there."""
    event, task_id = change.event, change.task_id
    if isinstance(event, ev.ExecutionStopped) and shadow.owner is not None:
        epoch = shadow.owner[0]
        alive = [name for (owner, name), work in after.running.items() if owner == task_id and work.epoch == epoch]
        must(not alive, "termination-honesty", f"execution.stopped of epoch {epoch}, but {alive} run")
        left = [name for name, (started, _) in shadow.works.items() if started == epoch]
        must(not left, "termination-honesty", f"execution.stopped of epoch {epoch}, but {left} were not seen to end")
    elif isinstance(event, ev.WorkStopped):
        runs = (task_id, event.work_id) in after.running
        must(not runs, "termination-honesty", f"{event.work_id} was recorded as ended, and runs")
    elif isinstance(event, ev.RoutingRetired) and shadow.owner is not None:
        taking = (task_id, shadow.owner[0]) in after.routes
        must(not taking, "routes-first", "routing.retired, but a route takes input")
    elif isinstance(event, ev.TenureGranted):
        _grant(scope, after, change, event, shadow)
    elif isinstance(event, ev.TaskCompleted | ev.TaskCancelled):
        critical = _in_the_way(shadow, Gate.ROUTING_RETIRED)
        must(not critical, "gate", f"the task ended with {critical} open")


def _in_the_way(shadow: Shadow, required: Gate) -> list[str]:
    """Items whose own class, or the gate, does not allow another owner while they are open."""
    works = [name for name, (_, rank) in shadow.works.items() if max(rank, required.rank) > 0]
    effects = [
        name
        for name, (state, rank) in shadow.effects.items()
        if not state.settled and max(rank, required.rank) == Gate.SETTLED.rank
    ]
    return works + effects


def _grant(scope: Scope, after: World, change: Change, event: ev.TenureGranted, shadow: Shadow) -> None:
    """A grant: its gate, its authority, its window, the input's fence."""
    offer = shadow.offer
    must(shadow.acknowledged and offer is not None, "same-payload", "a tenure was granted without acknowledgement")
    if offer is None:
        return
    task = change.after
    if offer.gate is None:
        # Only the way back to a sender whose gate was not met in time; asking it a second time changes nothing.
        must(offer.kind is OfferKind.RETURN, "gate", f"the gate of a {offer.kind} was waived")
    else:
        required = shadow.hops[-1][4] if offer.handoff_id else offer.gate
        must(not _in_the_way(shadow, required), "gate", f"granted with {_in_the_way(shadow, required)} in the way")
    must(_covers(scope.authority, event.authority), "carry-forward", f"{event.authority} is more than the task's")
    entry = _entry(offer, event.agent)
    if entry is not None and entry.authority is not None:
        must(_covers(entry.authority, event.authority), "carry-forward", f"{event.authority} is more than the edge's")
    # What an earlier tenure still subscribes to must be behind the fence: it cannot consume under its epoch.
    old = [epoch for owner, epoch in after.routes if owner == change.task_id and epoch != task.epoch]
    for epoch in old:
        must(epoch < task.epoch, "routes-first", f"a route of epoch {epoch} is open beside epoch {task.epoch}")


def _entry(offer: Offer, agent: str) -> Candidate | None:
    return next((entry for entry in offer.candidates if entry.agent == agent), None)


def _covers(held: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    return "*" in held or set(asked) <= set(held)


def _limits(change: Change, shadow: Shadow) -> None:
    """Limits hold in the commit that spends, and the window of a transfer has its upper bound."""
    event, task = change.event, change.after
    settings = task.settings
    if isinstance(event, ev.HandoffInitiated):
        must(shadow.transfers <= settings.transfers, "budgets-before-spend", f"transfer {shadow.transfers} was made")
    elif isinstance(event, ev.OfferIssued):
        must(event.attempt <= settings.attempts, "budgets-before-spend", f"attempt {event.attempt} of an offer")
        first = event.kind is OfferKind.TAKEOVER and event.attempt == 1 and event.reason not in UNCOUNTED
        within = not first or shadow.takeovers <= settings.takeovers
        must(within, "budgets-before-spend", f"takeover {shadow.takeovers} was offered")
        shadow.offer = task.offer
    elif isinstance(event, ev.OfferAcknowledged) and shadow.offer is not None and shadow.offer.handoff_id:
        end = task.hops[-1].initiated_at + settings.transition_ms
        must(event.at < end, "window", f"acknowledged at {event.at}, the window ended at {end}")
    elif isinstance(event, ev.WorkStarted):
        own = [work for work in task.works if not work.work_id.startswith("handler:")]
        must(len(own) <= settings.open_items, "budgets-before-spend", f"{len(own)} works are open")
    elif isinstance(event, ev.InputReceived) and not event.question_id:
        unread = shadow.counts[0] - shadow.counts[2]
        must(unread <= settings.unread, "budgets-before-spend", f"{unread} messages are unread")


def _same_task(scope: Scope, before: Task | None, after: Task) -> None:
    """What never changes has not changed; an end is an end."""
    del scope
    if before is None:
        return
    fixed = (before.task_id, before.goal, before.authority, before.settings, before.parent)
    must(
        fixed == (after.task_id, after.goal, after.authority, after.settings, after.parent),
        "carry-forward",
        "id, goal, authority or settings of the task changed",
    )
    must(set(before.constraints) <= set(after.constraints), "carry-forward", "a constraint of the task was dropped")
    must(not before.phase.ended or after.phase is before.phase, "terminal", f"{before.phase} became {after.phase}")
    must(after.epoch >= before.epoch, "fencing", f"the epoch fell from {before.epoch} to {after.epoch}")


def _constraints(before: World, command: cmd.Command, verdict: Verdict) -> None:
    """Every constraint that was ever stated goes on with the next hop."""
    if not isinstance(command, cmd.Retire) or not isinstance(command.decision, TransferTo):
        return
    if verdict.receipt.status == "late":
        return
    part = msgspec.json.decode(command.decision.payload.content, type=Payload)
    missing = set(before.constraints[command.task_id]) - set(part.constraints)
    must(not missing, "carry-forward", f"the constraints {sorted(missing)} did not go with the hop")


def _replays(before: World, verdict: Verdict) -> None:
    """The events, written down and read back, give the very states of the verdict."""
    folded: dict[str, Task | None] = {}
    for change in verdict.changes:
        event = decode_event(encode_event(change.event))
        must(event == change.event, "replay", f"{change.event} does not survive being written down")
        state = folded[change.task_id] if change.task_id in folded else before.tasks.get(change.task_id)
        folded[change.task_id] = evolve(state, event)
    must(folded == verdict.tasks, "replay", "folding the events does not give the stored state")


def check_refusal(before: World, books: Books, error: TenureError) -> None:
    """A refusal says what to do next, and the books that were loaded are as they were."""
    must(error.next_action, "refusal", f"{error.code} says nothing about what to do next")
    task = books.task
    must(task is None or before.tasks.get(task.task_id) is task, "refusal", "a refused command changed the books")


def check_state(scope: Scope, world: World) -> None:
    """What must hold at any moment."""
    for task in world.tasks.values():
        _one_task(task)
    for effect in world.effects.values():
        _effect_truth(scope, world, effect)
    intents = [effect.intent for effect in world.effects.values() if not effect.state.settled]
    must(len(intents) == len(set(intents)), "one-invocation", f"two open effects have the same intent: {intents}")
    for intent in scope.outside.intents:
        applied = [name for key, value in world.keys.items() if key[0] == intent for name in value.applied_by]
        must(len(applied) <= 1, "one-invocation", f"{intent} happened {len(applied)} times: {applied}")
    if world.tree is not None:
        opened = sum(1 for task in world.tasks.values() if task.parent)
        counted = (world.tree.delegations, world.tree.tasks)
        must(counted == (opened, len(world.tasks)), "budgets-before-spend", f"the tree counts {counted}, not {opened}")
        must(opened <= world.tree.limits.delegations, "budgets-before-spend", f"{opened} delegations were opened")
    _heartbeats(world)


def _one_task(task: Task) -> None:
    must(task.answerable, "effect-honesty", "nobody answers for what is open")
    must(all(note.next_check for note in task.effects), "effect-honesty", "an open effect has no next check")
    holders = (task.tenure is not None) + (task.offer is not None) + (task.wait is not None)
    must(holders <= 1, "single-writer", "a task is owned, offered or waiting at once")
    must(not task.hops or task.phase is not Phase.ESCALATED, "replay", "an escalated task has open hops")
    if task.phase.ended:
        left = task.hops or task.offer or task.tenure or task.wait or task.question
        must(not left, "terminal", f"an ended task still has {left}")


def _effect_truth(scope: Scope, world: World, effect: Any) -> None:
    """What the books say about the outside is true there, and stays true whatever is still on its way."""
    tenure = world.tasks[effect.task_id].tenure
    if effect.state is EffectState.INTENDED:
        attempt = effect.attempt
        sender = tenure is not None and (tenure.epoch, tenure.instance) == (attempt.epoch, attempt.instance)
        must(sender, "effect-honesty", f"{effect.effect_id} is intended, and its sender's tenure is over")
        return
    keys = [value for (intent, _), value in world.keys.items() if intent == effect.intent]
    mine = [key for key in keys if effect.effect_id in key.applied_by]
    if effect.state in (EffectState.ABSENT, EffectState.REFUSED):
        must(not mine, "effect-honesty", f"{effect.effect_id} is {effect.state}, and it happened")
        can = [call.n for call in world.calls if call.effect_id == effect.effect_id and can_apply(scope, world, call)]
        must(not can, "effect-honesty", f"{effect.effect_id} is {effect.state}, and request {can} can still land")
    elif effect.state is EffectState.CONFIRMED:
        must(
            any(key.applied_by for key in keys), "effect-honesty", f"{effect.effect_id} is confirmed, it never happened"
        )


def can_apply(scope: Scope, world: World, call: Call) -> bool:
    """Whether a request can still make its effect happen."""
    if call.purpose is not Purpose.APPLY or call.state == ANSWERED:
        return False
    if call.state == READY and not world.up(call.instance):
        return False
    key = world.keys.get((call.intent, call.generation), Key())
    if key.sealed:
        return False
    if not key.result or not scope.outside.window_ms:
        return True
    lands_by = (call.at if call.state == FLYING else world.now) + scope.outside.limit_ms
    return lands_by >= key.until


def _heartbeats(world: World) -> None:
    """A lease is prolonged for exactly the pair that owns the task."""
    for task_id, instance, epoch in world.held:
        task = world.tasks[task_id]
        tenure = task.tenure
        owns = tenure is not None and (tenure.epoch, tenure.instance) == (epoch, instance)
        try:
            decide_heartbeat(task, epoch, instance, world.now)
            accepted = True
        except TenureError:
            accepted = False
        must(accepted == owns, "fencing", f"a heartbeat of {instance} under epoch {epoch}: accepted={accepted}")


def expiries_to_end(task: Task, lease: int, now: int, effects: tuple[Any, ...]) -> int:
    """How many expiries bring a task that nobody attends to its end.

    Raises:
        Violation: ``no-stall`` without a deadline, without an effect, or without an end.
    """
    for count in range(PATIENCE):
        if task.phase.ended:
            return count
        due = next_deadline(task, lease)
        must(due is not None, "no-stall", f"a task that is {task.phase} has no deadline")
        now = max(now, due or 0)
        expire = cmd.Expire(command_id="x", root_id=task.root_id, task_id=task.task_id)
        try:
            verdict = decide(Books(task=task, effects=effects, lease_until=lease), expire, now)
        except TenureError as error:
            must(condition=False, invariant="no-stall", what=f"nothing expires at {due} while {task.phase}: {error}")
            raise
        must(verdict.changes, "no-stall", f"an expiry changed nothing while the task is {task.phase}")
        task = verdict.tasks[task.task_id]
    must(condition=False, invariant="no-stall", what=f"no end after {PATIENCE} expiries; the task is {task.phase}")
    return PATIENCE
