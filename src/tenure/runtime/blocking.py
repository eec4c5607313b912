"""What a gate waits for, in words: each work and effect that is in the way, how it stands, and what asks for more."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from tenure.protocol.outside import Effect
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import Gate, OfferState, Phase, WorkState


class Blocker(Struct, frozen=True, kw_only=True):
    """One thing that a gate waits for.

    Attributes:
        id, what: the work or effect. state: how it stands. needs: ``stopped`` or ``settled``. by: what asks for that,
            the edge (``the gate``) or its own policy, by name.
    """

    id: str
    what: str
    state: str
    needs: str
    by: str

    def __str__(self) -> str:
        return f"{self.id} {self.what} is {self.state}; {self.by} needs it {self.needs}"


def gate_of(task: Task) -> Gate | None:
    """The gate that a task stands at now; ``None`` while it stands at none.

    That is before a grant, before its end, and while a person is asked, whose answer can lead to either.
    """
    offer, tenure = task.offer, task.tenure
    if offer is not None and offer.state is OfferState.ACKNOWLEDGED:
        return offer.gate
    released = tenure is not None and tenure.retiring is not None and tenure.retiring.released
    if released or task.phase is Phase.ESCALATED:
        return Gate.ROUTING_RETIRED
    return None


def blockers(task: Task, effects: Iterable[Effect]) -> tuple[Blocker, ...]:
    """What is in the way of a task that stands at a gate; empty for one that does not.

    ``effects`` are read after the task. One that is not among them was settled in between, and is in the way no more.
    """
    gate = gate_of(task)
    if gate is None:
        return ()
    found = []
    for work in task.works:
        needs = max(gate, work.policy.gate, key=lambda each: each.rank)
        if work.state is not WorkState.STOPPED and needs is not Gate.ROUTING_RETIRED:
            by = "the gate" if gate.rank >= needs.rank else f"policy {work.policy.name}"
            found.append(Blocker(id=work.work_id, what=work.name, state=str(work.state), needs="stopped", by=by))
    by_id = {effect.effect_id: effect for effect in effects}
    for note in task.effects:
        effect = by_id.get(note.effect_id)
        if effect is not None and max(gate.rank, note.gate.rank) >= Gate.SETTLED.rank:
            by = "the gate" if gate is Gate.SETTLED else f"policy {effect.policy.name}"
            state = str(effect.state).replace("_", " ")
            found.append(Blocker(id=note.effect_id, what=effect.tool, state=state, needs="settled", by=by))
    return tuple(found)
