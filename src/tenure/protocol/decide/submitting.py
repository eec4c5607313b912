"""New tasks: a root that is submitted, a child that is delegated."""

from __future__ import annotations

from tenure.errors import Refused
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.decide import guards
from tenure.protocol.decide.draft import Draft, Verdict
from tenure.protocol.payload import Payload, constraint_digests, goal_digest, read_payload
from tenure.protocol.settings import Settings
from tenure.protocol.state import Candidate, Task, Tree
from tenure.protocol.vocabulary import OfferKind


def submit(draft: Draft, command: cmd.Submit) -> Verdict:
    """Make a root task; refuse a second one for an unfinished conversation."""
    if draft.books.task is not None:
        raise Refused("task_exists", command.task_id)
    if not command.task_id or command.task_id != command.root_id:
        raise Refused("invalid", "A submitted task is the root of its own tree.")
    conversing = draft.books.conversing
    if conversing is not None and not conversing.phase.ended:
        detail = f"{command.conversation} is at task {conversing.task_id}."
        raise Refused("conversation_open", detail, task_id=conversing.task_id)
    payload = _first_payload(command.payload.content, command.settings, command.task_id, command.candidates)
    _open(
        draft,
        ev.TaskSubmitted(
            at=draft.now,
            root_id=command.root_id,
            task_id=command.task_id,
            agent=command.candidates[0].agent,
            goal=goal_digest(payload),
            constraints=constraint_digests(payload),
            authority=command.authority,
            settings=command.settings,
            limits=command.limits,
            payload=command.payload.digest,
            conversation=command.conversation,
        ),
        command.candidates,
        broadcast=command.broadcast,
    )
    if command.message is not None:
        draft.emit(ev.InputReceived(at=draft.now, n=1, body=command.message.digest, sender="submit"))
    return draft.verdict()


def delegate(draft: Draft, command: cmd.Delegate) -> Verdict:
    """Open a child under the caller, within the tree's budgets and the caller's constraints and authority."""
    tenure = guards.acting_owner(draft, command)
    task, tree = draft.task, draft.tree
    if tree is None or tree.stopped:
        raise Refused("tree_stopped")
    _within_budget(task, tree)
    settings = command.settings or task.settings
    payload = _first_payload(command.payload.content, settings, command.child_id, command.candidates)
    missing = set(task.constraints) - set(constraint_digests(payload))
    if missing:
        raise Refused("constraints_dropped", f"{len(missing)} of the caller's are missing.")
    authority = guards.within(command.authority, tenure.authority)
    _not_wider(command.authority, authority)
    if draft.books.child is not None:
        raise Refused("task_exists", command.child_id)
    draft.emit(
        ev.DelegationOpened(at=draft.now, child_id=command.child_id, agent=command.candidates[0].agent), task.task_id
    )
    submitted = ev.TaskSubmitted(
        at=draft.now,
        root_id=task.root_id,
        task_id=command.child_id,
        agent=command.candidates[0].agent,
        goal=goal_digest(payload),
        constraints=constraint_digests(payload),
        authority=authority,
        settings=settings,
        limits=tree.limits,
        payload=command.payload.digest,
        parent=task.task_id,
        depth=task.depth + 1,
    )
    _open(draft, submitted, command.candidates, broadcast=command.broadcast)
    return draft.verdict()


def _within_budget(task: Task, tree: Tree) -> None:
    """Checked in the commit that spends it."""
    limits = tree.limits
    if task.depth + 1 > limits.depth:
        raise Refused("delegation_limit_exceeded", f"Depth {limits.depth} is reached.", limit=limits.depth)
    if tree.delegations + 1 > limits.delegations:
        raise Refused("delegation_limit_exceeded", f"{limits.delegations} are used.", limit=limits.delegations)
    if tree.unfinished + 1 > limits.agents:
        raise Refused("delegation_limit_exceeded", f"{limits.agents} agents are at work.", limit=limits.agents)
    if len(task.children) >= task.settings.open_items:
        raise Refused("backlog_full", f"{len(task.children)} results were not collected.")


def _not_wider(asked: tuple[str, ...], held: tuple[str, ...]) -> None:
    wider = sorted(set(asked) - set(held) - {guards.ANY})
    if wider:
        raise Refused("authority_widened", f"Not held: {', '.join(wider)}.")


def _first_payload(content: bytes, settings: Settings, task_id: str, candidates: tuple[Candidate, ...]) -> Payload:
    if not candidates:
        raise Refused("invalid", "A task needs at least one candidate.")
    settings.check()
    payload = read_payload(content, settings.payload_bytes)
    if payload.task_id != task_id:
        raise Refused("payload_invalid", f"It names task {payload.task_id}, not {task_id}.")
    return payload


def _open(draft: Draft, event: ev.TaskSubmitted, candidates: tuple[Candidate, ...], *, broadcast: bool) -> None:
    draft.emit(event, event.task_id)
    draft.emit(
        ev.OfferIssued(
            at=draft.now,
            kind=OfferKind.CLAIM if broadcast else OfferKind.START,
            candidates=candidates,
            deadline=draft.now + event.settings.pickup_ms,
            payload=event.payload,
        ),
        event.task_id,
    )
