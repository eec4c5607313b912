"""Turns: one decision on all that an agent asked for in one response, before any of it starts; the graph's version."""

from __future__ import annotations

from collections.abc import Mapping

from tenure.errors import Refused
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tenure.protocol.decide import guards, routing, transferring
from tenure.protocol.decide.draft import Draft, Verdict
from tenure.protocol.graph import Graph
from tenure.protocol.state import Candidate, Pending, Rejected
from tenure.protocol.turns import Arbitrated, Ruling, Wish, arbitrate
from tenure.protocol.vocabulary import Phase, Reason, TurnOutcome

REASONS = {
    "route_forbidden": Reason.ROUTE_FORBIDDEN,
    "unknown_agent": Reason.ROUTE_FORBIDDEN,
    "self_transfer": Reason.ROUTE_FORBIDDEN,
    "transfer_limit_exceeded": Reason.TRANSFER_LIMIT_EXCEEDED,
    "delegation_limit_exceeded": Reason.DELEGATION_LIMIT_EXCEEDED,
    "tree_stopped": Reason.DELEGATION_LIMIT_EXCEEDED,
    "oscillation": Reason.OSCILLATION,
}
"""Why a turn ends its task, by what its first rejection says; anything else is a fault in what was asked for."""


def take_turn(draft: Draft, command: cmd.TakeTurn) -> Verdict:
    """Arbitrate, and record what was decided: what goes on, what is rejected and why."""
    tenure = guards.free_owner(draft, command)
    _well_formed(command)
    in_force = routing.in_force(draft)
    judged = _judged(draft, command)
    refused = {name: error for name, error in judged.items() if isinstance(error, Refused)}
    codes = {name: refused[name].code for name in command.asked if name in refused}
    left = max(draft.task.settings.nudges - draft.task.nudges, 0)
    wishes = _wishes(command, tenure.agent, in_force)
    ruling = arbitrate([one.call_id for one in command.delegations], wishes, codes, nudges_left=left)
    rejected = tuple(
        Rejected(call_id=name, code=ruling.rejected[name], detail=refused[name].detail if name in refused else "")
        for name in command.asked
        if name in ruling.rejected
    )
    n, graph = tenure.turn + 1, draft.task.graph
    if ruling.outcome is TurnOutcome.NUDGE:
        nudges = draft.task.nudges + 1
        draft.emit(ev.TurnNudged(at=draft.now, n=n, asked=command.asked, rejected=rejected, nudges=nudges, graph=graph))
        return _answer(draft, ruling, rejected, left - 1)
    reason = REASONS.get(rejected[0].code, Reason.RAISED) if ruling.outcome is TurnOutcome.END else Reason.NONE
    decided = judged.get(ruling.transfer)
    draft.emit(
        ev.TurnDecided(
            at=draft.now,
            n=n,
            asked=command.asked,
            outcome=ruling.outcome,
            graph=graph,
            transfer=ruling.transfer,
            pending=decided if isinstance(decided, Pending) else None,
            merged=ruling.merged,
            rejected=rejected,
            reason=reason,
        )
    )
    if reason:
        _end(draft, command, reason)
    return _answer(draft, ruling, rejected, left, reason)


def adopt_graph(draft: Draft, command: cmd.AdoptGraph) -> Verdict:
    """Go on under another version. A transfer that was decided under the old one is carried out first."""
    task = guards.unfinished(draft)
    graph = routing.graph_of(draft, command.graph)
    if graph is None:
        raise Refused("invalid", "A task that has a graph keeps one; name a saved version.")
    if task.graph == command.graph:
        return draft.verdict("already")
    tenure = task.tenure
    if tenure is not None and (tenure.pending is not None or tenure.retiring is not None):
        raise Refused("transfer_decided" if tenure.pending else "retiring", "Adopt it once the task has moved on.")
    entries = task.offer.candidates if task.offer is not None else (Candidate(agent=task.owner),)
    for entry in entries:
        routing.node_of(graph, entry.agent)
    settings = graph.routing_settings(task.settings)
    draft.emit(
        ev.GraphAdopted(at=draft.now, graph=command.graph, settings=settings, by=command.by, reason=command.reason)
    )
    return draft.verdict()


def _well_formed(command: cmd.TakeTurn) -> None:
    """Refuse a turn whose ids do not name each thing once."""
    routed = [one.call_id for one in command.delegations] + [one.call_id for one in command.transfers]
    if len(set(command.asked)) < len(command.asked) or len(set(routed)) < len(routed) or set(routed) - {*command.asked}:
        raise Refused("invalid", "Each thing that a turn asks for has an id of its own, and stands in `asked`.")


def _judged(draft: Draft, command: cmd.TakeTurn) -> Mapping[str, Pending | Refused | None]:
    """What each handoff would be if it alone were asked for, or why it may not be."""
    found: dict[str, Pending | Refused | None] = {}
    for asked in command.transfers:
        try:
            found[asked.call_id] = transferring.checked(draft, asked.decision, calls_ms=draft.task.settings.calls_ms)
        except Refused as error:
            found[asked.call_id] = error
    ahead = 0
    for wanted in command.delegations:
        try:
            routing.delegated_to(draft, (Candidate(agent=wanted.agent),))
            routing.within_tree(draft.task, draft.tree, ahead, in_turn=ahead)
            ahead += 1  # what is refused takes no place in a budget
        except Refused as error:
            found[wanted.call_id] = error
    return found


def _wishes(command: cmd.TakeTurn, owner: str, graph: Graph | None) -> list[Wish]:
    found = []
    for asked in command.transfers:
        receivers = tuple(entry.agent for entry in asked.decision.candidates)
        rank = graph.rank(owner, receivers[0]) if graph is not None and receivers else 0
        found.append(Wish(call_id=asked.call_id, receivers=receivers, same=asked.same, rank=rank))
    return found


def _end(draft: Draft, command: cmd.TakeTurn, reason: Reason) -> None:
    """The nudges are used up and nothing is left that goes on with the task: it fails, by its policy."""
    if draft.task.phase is Phase.CANCEL_REQUESTED:
        return  # it ends by its cancellation
    draft.emit(
        ev.TenureRetiring(
            at=draft.now,
            decision="fail",
            deadline=draft.now + draft.task.settings.retire_ms,
            body=command.detail.digest if command.detail else "",
            reason=reason,
            constraints=draft.task.constraints,
        )
    )


def _answer(
    draft: Draft,
    ruling: Arbitrated,
    rejected: tuple[Rejected, ...],
    left: int,
    reason: Reason = Reason.NONE,
) -> Verdict:
    pending = draft.task.tenure.pending if draft.task.tenure else None
    return draft.verdict(
        ruling=Ruling(
            outcome=ruling.outcome,
            transfer=ruling.transfer,
            merged=ruling.merged,
            rejected=rejected,
            nudges_left=left,
            calls_by=pending.calls_by if pending else 0,
            reason=reason,
        )
    )
