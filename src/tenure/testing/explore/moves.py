"""Every move that is open in a world: what its actors may do, rightly or wrongly, and what may happen to them.

Actors tell the truth about what they observe (a work's end, a death, an answer); everything else they may get wrong:
they speak under old epochs, for tenures of others, with wrong digests, out of order, beyond the limits. A stalled
process is one that makes no move; its late awakening is any later move of it under the epoch that it believes in. A
repeated command is the same command once more, under a new id: under its old id the ledger answers from its record
and the core never sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tenure.protocol import commands as cmd
from tenure.protocol.decide import next_deadline
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import Reason, WorkEnd, WorkKind
from tenure.testing.explore import commands as make
from tenure.testing.explore.commands import NOTE, ROOT
from tenure.testing.explore.outside import next_outside, outside_moves
from tenure.testing.explore.owners import owner_moves, stale_moves
from tenure.testing.explore.scope import FAR, Scope
from tenure.testing.explore.world import DOWN, FLYING, FRESH, READY, UP, World, crash


class Move(NamedTuple):
    """One move: its line in a timeline, the world with the actor's own part done, the command that it then sends."""

    label: str
    world: World
    command: cmd.Command | None = None


def moves(scope: Scope, world: World) -> Iterator[Move]:
    """Every open move, in a fixed order."""
    if not world.tasks:
        yield Move("a task is submitted", world.but(constraints={ROOT: ("c",)}), make.submit(scope))
        return
    for task in world.tasks.values():
        for label, after, command in (
            *_offer_moves(scope, world, task),
            *owner_moves(scope, world, task),
            *stale_moves(scope, world, task),
            *_work_moves(scope, world, task),
            *_people_moves(scope, world, task),
            *_ledger_moves(world, task),
        ):
            yield Move(f"{label} [{task.task_id}]", after, command)
    for label, after, command in (*outside_moves(scope, world), *_fate_moves(scope, world)):
        yield Move(label, after, command)


Raw = tuple[str, World, cmd.Command | None]


def _speakers(scope: Scope, world: World, agents: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Instances that may pick something up. Unused ones of an agent are alike, so only the first of them is tried."""
    for agent in agents:
        for instance in scope.agents.get(agent, ()):
            state = world.processes[instance]
            if state == UP or (state == DOWN and scope.late):
                yield agent, instance
            elif state == FRESH:
                yield agent, instance
                break


def _offer_moves(scope: Scope, world: World, task: Task) -> Iterator[Raw]:
    offer = task.offer
    base: dict[str, Any] = {"command_id": "x", "root_id": ROOT, "task_id": task.task_id}
    if offer is not None:
        asked = tuple(entry.agent for entry in offer.open_to)
        for agent, instance in _speakers(scope, world, asked):
            who: dict[str, Any] = {**base, "epoch": task.epoch, "agent": agent, "instance": instance}
            yield f"{instance} acknowledges", world, cmd.Acknowledge(**who, digest=offer.payload)
            yield f"{instance} acknowledges a wrong digest", world, cmd.Acknowledge(**who, digest="wrong")
            if scope.separate_claim:
                yield f"{instance} claims", world, cmd.Claim(**who)
            if world.left("declines"):
                spent = world.but(spend="declines")
                yield f"{instance} declines", spent, cmd.Decline(**who, reason=Reason.DECLINED)
                yield f"{instance} fails to start", spent, cmd.Decline(**who, reason=Reason.START_FAILED)
        others = tuple(agent for agent in scope.agents if agent not in asked)
        for agent, instance in list(_speakers(scope, world, others))[:1]:
            who = {**base, "epoch": task.epoch, "agent": agent, "instance": instance}
            yield f"{instance}, not asked, acknowledges", world, cmd.Acknowledge(**who, digest=offer.payload)
    yield from _late_acks(scope, world, task, base)


def _late_acks(scope: Scope, world: World, task: Task, base: dict[str, Any]) -> Iterator[Raw]:
    """Acknowledgements of earlier offers. In a late scope: of every epoch, by everybody, dead senders too."""
    first = 1 if scope.late else max(task.epoch - 1, 1)
    digest = task.offer.payload if task.offer else task.payload
    for agent in scope.agents:
        for instance in scope.agents[agent] if scope.late else scope.agents[agent][:1]:
            if world.processes[instance] == FRESH and not scope.late:
                continue
            for epoch in range(first, task.epoch + (task.offer is None)):
                command = cmd.Acknowledge(**base, epoch=epoch, agent=agent, instance=instance, digest=digest)
                yield f"{instance}'s acknowledgement of epoch {epoch} arrives late", world, command


def _work_moves(scope: Scope, world: World, task: Task) -> Iterator[Raw]:
    """Works end, and their ends are seen.

    In a reduced scope a work ends in the moment in which its end is seen. While it is not seen it counts as running,
    which is the harder case: a claim that is false while it runs is made no truer by an end that nobody saw. The
    unreduced scopes keep the two apart.
    """
    base: dict[str, Any] = {"command_id": "x", "root_id": ROOT, "task_id": task.task_id}
    booked = {work.work_id: work for work in task.works}
    for key, work in world.running.items():
        task_id, work_id = key
        if task_id != task.task_id:
            continue
        owned = task.tenure is not None and task.tenure.epoch == work.epoch
        if work.kind is WorkKind.HANDLER and owned:
            continue  # the handler of a tenure ends with its decision, which is an owner's move
        over = world.but(running={other: value for other, value in world.running.items() if other != key})
        if scope.reduced and work_id in booked:
            command = cmd.EndWork(**base, work_id=work_id, instance=work.instance, how=WorkEnd.RETURNED)
            yield f"{work_id} of {work.instance} ends and is seen to", over, command
        else:
            yield f"{work_id} of {work.instance} ends", over, None
    for item in task.works:
        if (task.task_id, item.work_id) not in world.running:
            command = cmd.EndWork(**base, work_id=item.work_id, instance=item.instance, how=WorkEnd.RETURNED)
            yield f"the end of {item.work_id} is seen", world, command


def _people_moves(scope: Scope, world: World, task: Task) -> Iterator[Raw]:
    base: dict[str, Any] = {"command_id": "x", "root_id": ROOT, "task_id": task.task_id}
    if world.left("sends"):
        yield "a message is sent", world.but(spend="sends"), cmd.Send(**base, message=NOTE)
    if world.left("cancels"):
        yield "cancellation is requested", world.but(spend="cancels"), cmd.RequestCancel(**base, by="customer")
    if world.left("stops") and task.task_id == ROOT:
        yield "the tree is stopped", world.but(spend="stops"), cmd.StopTree(**base, by="customer")
    if world.left("reversals"):
        spent = world.but(spend="reversals")
        for hop in task.hops:
            command = cmd.Reverse(**base, handoff_id=hop.handoff_id, by="person:supervisor")
            yield f"{hop.handoff_id} is reversed", spent, command
    if world.left("answers"):
        yield from _answers(scope, world, task, base)


def _answers(scope: Scope, world: World, task: Task, base: dict[str, Any]) -> Iterator[Raw]:
    question = task.question
    spent = world.but(spend="answers")
    if question is None:
        yield "an old question is answered", spent, cmd.Answer(**base, question_id="q", by=task.settings.fallback)
        return
    said: dict[str, Any] = {**base, "question_id": question.question_id, "by": question.who[0]}
    yield "the question is answered: resume", spent, cmd.Answer(**said, body=NOTE)
    yield "the question is answered: abort", spent, cmd.Answer(**said, action="abort")
    agent = list(scope.agents)[-1]
    yield f"the question is answered: to {agent}", spent, cmd.Answer(**said, action="reassign", agent=agent)
    yield "the question is answered by a stranger", spent, cmd.Answer(**{**said, "by": "person:stranger"})


def _ledger_moves(world: World, task: Task) -> Iterator[Raw]:
    """The watchdog expires what is due; the death of a process is reported, but only after it."""
    base: dict[str, Any] = {"command_id": "x", "root_id": ROOT, "task_id": task.task_id}
    yield "the watchdog looks", world.but(ticks=0), cmd.Expire(**base)
    for instance, state in world.processes.items():
        if state == DOWN:
            yield f"{instance} is reported dead", world, cmd.ReportDeath(**base, instance=instance, by="host")


def _fate_moves(scope: Scope, world: World) -> Iterator[Raw]:
    if world.left("crashes"):
        for instance, state in world.processes.items():
            if state == UP:
                yield f"{instance} crashes", crash(world, instance), None
    yield from _time(scope, world)


def _time(scope: Scope, world: World) -> Iterator[Raw]:
    """The clock moves to whatever comes due next.

    Not past the landing of a request whose provider has a limit: it lands, or is lost, before. And not further than
    the watchdog may sleep.
    """
    due = [
        moment
        for task in world.tasks.values()
        if (moment := next_deadline(task, world.leases.get(task.task_id, 0))) is not None
    ]
    stated = [moment for task in world.tasks.values() for moment in _stated(task)]
    coming = [moment for moment in (*due, *stated, *next_outside(scope, world)) if moment > world.now]
    asleep = any(moment <= world.now for moment in due)
    if not coming or (asleep and world.ticks >= scope.ticks) or ("clock" in world.budget and not world.left("clock")):
        return
    now = min(coming)
    limit = scope.outside.limit_ms
    if limit and any(call.state == FLYING and call.at + limit < now for call in world.calls):
        return
    spend = "clock" if "clock" in world.budget else ""
    later = world.but(spend=spend, now=now, ticks=world.ticks + asleep)
    if scope.outside.window_ms:
        # Whoever relies on a provider's window sends at once, or looks at its clock and does not send.
        later = later.but(calls=tuple(call for call in world.calls if call.state != READY))
    yield f"{now - world.now} ms pass", later, None


def _stated(task: Task) -> Iterator[int]:
    """Every moment that stands in a task, whether or not the core would call it due: the clock trusts nobody."""
    offer, tenure, settings = task.offer, task.tenure, task.settings
    if offer is not None:
        yield offer.deadline
        yield offer.gate_by
        if offer.pickup is not None:
            yield offer.pickup.until
        if offer.handoff_id and task.hops and settings.transition_ms < FAR:
            yield task.hops[-1].initiated_at + settings.transition_ms
    if tenure is not None:
        if tenure.retiring is not None:
            yield tenure.retiring.deadline
        if settings.progress_ms < FAR:
            yield (
                tenure.asked_at + settings.progress_grace_ms
                if tenure.asked_at
                else tenure.progress_at + settings.progress_ms
            )
    if task.wait is not None:
        yield task.wait.wake_by
    if task.question is not None:
        yield task.question.due
    if task.cancel is not None:
        yield task.cancel.due
