"""How turns, approvals and versions of the graph change a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tenure.protocol import events as ev
from tenure.protocol.evolve.base import progressed, tenure_of
from tenure.protocol.state import Task


def _decided(task: Task, event: ev.TurnDecided) -> Task:
    tenure = progressed(task, event.at, turn=event.n, delegated=0, pending=event.pending)
    # A good turn earns no new nudges: an agent that starts again and again would never come to an end.
    return replace(task, tenure=tenure, nudged=())


def _nudged(task: Task, event: ev.TurnNudged) -> Task:
    tenure_of(task)
    return replace(task, nudges=event.nudges, nudged=event.rejected)


def _adopted(task: Task, event: ev.GraphAdopted) -> Task:
    return replace(task, graph=event.graph, settings=event.settings)


def _approval(task: Task, event: ev.ApprovalDecided) -> Task:
    holding = tuple(one for one in task.approvals if one.until > event.at)
    return replace(task, approvals=(*holding, event.approval)[-task.settings.open_items :])


RULES: dict[type[ev.EventBase], Callable[[Task, Any], Task]] = {
    ev.TurnDecided: _decided,
    ev.TurnNudged: _nudged,
    ev.GraphAdopted: _adopted,
    ev.ApprovalDecided: _approval,
}
