"""``evolve(task, event)``: the only place where the state of a task changes.

Every move of a machine is looked up in :mod:`tenure.protocol.machines`; a step that its table does not know raises
and leaves the state as it was. Folding a task's events gives its stored state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from tenure.errors import Refused
from tenure.protocol import events as ev
from tenure.protocol.events import event_tag
from tenure.protocol.evolve import offer, tenure, turn
from tenure.protocol.evolve import task as whole
from tenure.protocol.evolve.effect import evolve_effect
from tenure.protocol.state import Task, Tree
from tenure.protocol.vocabulary import Phase

__all__ = ["evolve", "evolve_effect", "evolve_tree", "fold"]

_RULES: dict[type[ev.EventBase], Callable[[Task, Any], Task]] = {
    **whole.RULES,
    **offer.RULES,
    **tenure.RULES,
    **turn.RULES,
}


_OF_TREES = frozenset({ev.TaskSubmitted, ev.TaskCompleted, ev.TaskFailed, ev.TaskCancelled, ev.TreeStopped})
"""Events that change the tree."""


def evolve(task: Task | None, event: ev.Event) -> Task:
    """The task after an event. ``None`` is the state before ``task.submitted``.

    Raises:
        Refused: ``wrong_phase`` for a step that no table knows.
    """
    if task is None:
        if not isinstance(event, ev.TaskSubmitted):
            raise Refused("wrong_phase", f"{event_tag(event)} cannot come first.")
        return _submitted(event)
    changed = _RULES[type(event)](task, event)
    return replace(changed, revision=task.revision + 1, at=event.at)


def fold(events: Iterable[ev.Event]) -> Task | None:
    """The state that a task's events give, in order."""
    task: Task | None = None
    for event in events:
        task = evolve(task, event)
    return task


def evolve_tree(tree: Tree | None, event: ev.Event) -> Tree | None:
    """The tree after an event of any of its tasks. Counters commute, so the order between tasks does not matter."""
    if type(event) not in _OF_TREES:
        return tree
    if isinstance(event, ev.TaskSubmitted):
        if not event.parent:
            return Tree(root_id=event.root_id, limits=event.limits)
        return tree and replace(
            tree, tasks=tree.tasks + 1, unfinished=tree.unfinished + 1, delegations=tree.delegations + 1
        )
    if tree is None:
        return None
    if isinstance(event, ev.TaskCompleted | ev.TaskFailed | ev.TaskCancelled):
        return replace(tree, unfinished=tree.unfinished - 1)
    return replace(tree, stopped=True)


def _submitted(event: ev.TaskSubmitted) -> Task:
    return Task(
        root_id=event.root_id,
        task_id=event.task_id,
        parent=event.parent,
        depth=event.depth,
        conversation=event.conversation,
        goal=event.goal,
        constraints=event.constraints,
        authority=event.authority,
        settings=event.settings,
        phase=Phase.OFFERED,
        revision=1,
        epoch=0,
        at=event.at,
        created_at=event.at,
        vacant_since=event.at,
        owner=event.agent,
        answerable=event.agent,
        payload=event.payload,
        given=event.payload,
        graph=event.graph,
        approvals=event.approvals,
    )
