"""A transfer, from what a tenure asks for to the hop on the stack."""

from __future__ import annotations

from tenure.errors import Refused
from tenure.protocol import events as ev
from tenure.protocol.decide import routing
from tenure.protocol.decide.draft import Draft
from tenure.protocol.decisions import TransferTo
from tenure.protocol.payload import Payload, check_carried, read_payload
from tenure.protocol.state import Pending, Task


def checked(draft: Draft, decision: TransferTo, *, calls_ms: int = 0) -> Pending:
    """A transfer that is allowed now: by its own shape, the graph, the budget, the payload's rules and the path.

    Raises:
        Refused: ``invalid``, ``self_transfer``, ``unknown_agent``, ``route_forbidden``, ``transfer_limit_exceeded``,
            ``oscillation``, and what a payload is refused for.
    """
    task = draft.task
    if not decision.candidates:
        raise Refused("invalid", "A transfer needs at least one candidate.")
    if decision.handoff_id in ("", *(hop.handoff_id for hop in task.hops)):
        raise Refused("invalid", f"A handoff needs an id of its own, not {decision.handoff_id!r}.")
    payload = read_payload(decision.payload.content, task.settings.payload_bytes)
    candidates, edge = routing.transferred_to(draft, decision, payload.trigger)
    if task.transfers + 1 > task.settings.transfers:
        limit = task.settings.transfers
        raise Refused("transfer_limit_exceeded", f"{limit} are used.", limit=limit)
    constraints = check_carried(payload, task)
    if (payload.handoff_id, payload.hop) != (decision.handoff_id, task.hop_count + 1):
        raise Refused("payload_invalid", f"It is not the payload of hop {task.hop_count + 1}.")
    mark = routing.progress_mark(task, payload)
    if not _pending(task):
        routing.goes_on(task, task.owner, candidates, mark)
    return Pending(
        handoff_id=decision.handoff_id,
        candidates=candidates,
        payload=decision.payload.digest,
        constraints=constraints,
        gate=routing.gate_of(decision.gate, edge),
        calls_by=draft.now + calls_ms,
        mark=mark,
        broadcast=decision.broadcast,
        told=_told(task, payload),
        pickup_ms=edge.pickup_ms if edge else 0,
        ack_ms=edge.ack_ms if edge else 0,
    )


def initiate(draft: Draft, transfer: Pending) -> None:
    """Put the hop on the stack; the transfer budget is counted in this commit."""
    draft.emit(
        ev.HandoffInitiated(
            at=draft.now,
            handoff_id=transfer.handoff_id,
            candidates=transfer.candidates,
            payload=transfer.payload,
            constraints=transfer.constraints,
            gate=transfer.gate,
            told=transfer.told,
            graph=draft.task.graph,
            mark=transfer.mark,
            pickup_ms=transfer.pickup_ms,
            ack_ms=transfer.ack_ms,
        )
    )


def initiate_decided(draft: Draft) -> bool:
    """Initiate what a turn has decided, for an instance that was lost before it did; ``False`` when it may not be."""
    task = draft.task
    transfer = task.tenure.pending if task.tenure else None
    if transfer is None or not routing.still_allowed(draft, task.owner, transfer.candidates):
        return False
    draft.emit(
        ev.TenureRetiring(
            at=draft.now,
            decision="transfer",
            deadline=draft.now + task.settings.retire_ms,
            body=transfer.payload,
            handoff_id=transfer.handoff_id,
            broadcast=transfer.broadcast,
            constraints=transfer.constraints,
        )
    )
    initiate(draft, transfer)
    return True


def _pending(task: Task) -> bool:
    """Whether the turn has decided on it: what was allowed then is not judged for progress again."""
    return task.tenure is not None and task.tenure.pending is not None


def _told(task: Task, payload: Payload) -> tuple[str, ...]:
    """The ended works that a sender's part states; one that ended while it was built stays news for the receiver."""
    stated = {fact.id for fact in payload.done}
    return tuple(ending.work_id for ending in task.endings if ending.work_id in stated)
