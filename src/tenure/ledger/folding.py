"""What the events of one task give: its state, and with it every row that other tables should have of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tenure.errors import Refused
from tenure.ledger.chain import GENESIS
from tenure.ledger.commit import (
    EventRow,
    HoldingRow,
    InputRow,
    OfferRow,
    holding_rows,
    input_row,
    mentioned,
    offer_rows,
    open_offer,
    senders,
)
from tenure.protocol import events as ev
from tenure.protocol.evolve import evolve, evolve_effect
from tenure.protocol.outside import Effect
from tenure.protocol.state import Task


class Folded:
    """Give it the task's events one by one. It keeps the state and the effects, not the events.

    Attributes:
        head: digest of the last event. seq: number of events. position: that of the first one.
        task: ``None`` before the first event that could be replayed.
    """

    def __init__(self, root_id: str, task_id: str) -> None:
        self.head = GENESIS
        self.seq = 0
        self.position = 0
        self.task: Task | None = None
        self.effects: dict[str, Effect] = {}
        self._root_id = root_id
        self._task_id = task_id
        self._issued: list[OfferRow] = []

    def apply(self, event: ev.Event, row: EventRow) -> Task:
        """The next event, whose row it came from. Raises what a wrong event raises, with nothing changed."""
        after = evolve(self.task, event)
        effect_id = getattr(event, "effect_id", "")
        effect = evolve_effect(self.effects.get(effect_id), event, after) if effect_id else None
        if (after.root_id, after.task_id) != (self._root_id, self._task_id):
            raise Refused("invalid", f"It is about task {after.task_id}.")
        if effect is not None:
            self.effects[effect_id] = effect
        if isinstance(event, ev.OfferIssued) and after.offer is not None:
            self._issued = offer_rows(after, after.offer, row[0])
        self.task = after
        return after

    def input(self, event: ev.Event) -> InputRow | None:
        """The row that a message should have."""
        return input_row(self._root_id, self._task_id, event) if isinstance(event, ev.InputReceived) else None

    def offers(self) -> list[OfferRow]:
        """The rows of the offer that is open now."""
        return self._issued if open_offer(self.task) else []

    def holdings(self) -> Iterator[HoldingRow]:
        """The rows of the instances that the task mentions now."""
        yield from holding_rows(mentioned(self.task), self._root_id, self._task_id, "")
        for effect in self.effects.values():
            yield from holding_rows(senders(effect), self._root_id, self._task_id, effect.effect_id)
