"""New tasks: a root that is submitted, a child that is delegated."""

from __future__ import annotations

from msgspec.structs import replace

from tenure.errors import Refused
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.authority import ANY, tools_of, within
from tenure.protocol.decide import guards, routing
from tenure.protocol.decide.draft import Draft, Verdict
from tenure.protocol.payload import Payload, constraint_digests, goal_digest, read_payload
from tenure.protocol.settings import Settings
from tenure.protocol.state import Candidate, Task
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
    graph = routing.graph_of(draft, command.graph)
    candidates = tuple(routing.granted(graph, entry) for entry in command.candidates)
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
            graph=command.graph,
        ),
        candidates,
        broadcast=command.broadcast,
    )
    if command.message is not None:
        draft.emit(ev.InputReceived(at=draft.now, n=1, body=command.message.digest, sender="submit"))
    return draft.verdict()


def delegate(draft: Draft, command: cmd.Delegate) -> Verdict:
    """Open a child under the caller, within the tree's budgets and the caller's constraints and authority."""
    tenure = guards.free_owner(draft, command)
    task, tree = draft.task, routing.within_tree(draft.task, draft.tree)
    candidates = routing.delegated_to(draft, command.candidates)
    settings = _inherited(command.settings or task.settings, task)
    payload = _first_payload(command.payload.content, settings, command.child_id, command.candidates)
    missing = set(task.constraints) - set(constraint_digests(payload))
    if missing:
        raise Refused("constraints_dropped", f"{len(missing)} of the caller's are missing.")
    authority = within(command.authority, tenure.authority)
    _not_wider(command.authority, authority)
    if draft.books.child is not None:
        raise Refused("task_exists", command.child_id)
    agent = command.candidates[0].agent
    draft.emit(
        ev.DelegationOpened(at=draft.now, child_id=command.child_id, agent=agent, graph=task.graph), task.task_id
    )
    submitted = ev.TaskSubmitted(
        at=draft.now,
        root_id=task.root_id,
        task_id=command.child_id,
        agent=agent,
        goal=goal_digest(payload),
        constraints=constraint_digests(payload),
        authority=authority,
        settings=settings,
        limits=tree.limits,
        payload=command.payload.digest,
        parent=task.task_id,
        depth=task.depth + 1,
        graph=task.graph,
        approvals=tuple(one for one in task.approvals if one.granted and one.until > draft.now),
    )
    _open(draft, submitted, candidates, broadcast=command.broadcast)
    return draft.verdict()


def _inherited(settings: Settings, task: Task) -> Settings:
    """Settings of a child: what its caller has left of the budgets is all that a nested run can have."""
    own = task.settings
    return replace(
        settings,
        transfers=min(settings.transfers, max(own.transfers - task.transfers, 0)),
        delegations=min(settings.delegations, own.delegations),
        turn_delegations=min(settings.turn_delegations, own.turn_delegations),
        nudges=min(settings.nudges, own.nudges),
        repeats=min(settings.repeats, own.repeats),
    )


def _not_wider(asked: tuple[str, ...], held: tuple[str, ...]) -> None:
    wider = sorted(tools_of(asked) - tools_of(held) - {ANY})
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
            graph=event.graph,
        ),
        event.task_id,
    )
