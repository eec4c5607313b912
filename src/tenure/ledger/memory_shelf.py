"""The tables of the ledger in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tenure.ledger.api import Instance, Refusal, SavedGraph, Verification
from tenure.ledger.commit import (
    EventRow,
    Held,
    HoldingRow,
    InputRow,
    OfferRow,
    Plan,
    effect_columns,
    encode_receipt,
    residual_of,
)
from tenure.ledger.shelf import Conflict
from tenure.ledger.verifying import Stored, Verifier
from tenure.protocol.body import Body
from tenure.protocol.decide import next_deadline
from tenure.protocol.graph import Graph
from tenure.protocol.outside import Effect
from tenure.protocol.state import Tree


class MemoryShelf:
    """Rows by key; whoever uses it holds the ledger's lock."""

    def __init__(self) -> None:
        self.last = 0
        self.events: list[EventRow] = []
        self.tasks: dict[str, Held] = {}
        self.positions: dict[str, int] = {}
        self.trees: dict[str, Tree] = {}
        self.effects: dict[tuple[str, str], Effect] = {}
        self.effect_positions: dict[tuple[str, str], int] = {}
        self.by_intent: dict[tuple[str, str], list[str]] = {}
        self.bodies: dict[tuple[str, str], Body | None] = {}
        self.inputs: dict[str, list[InputRow]] = {}
        self.commands: dict[tuple[str, str], tuple[bytes, bytes]] = {}
        self.conversations: dict[str, str] = {}
        self.offers: dict[str, list[OfferRow]] = {}
        self.holdings: set[HoldingRow] = set()
        self.instances: dict[str, Instance] = {}
        self.graphs: dict[str, SavedGraph] = {}
        self.audit: list[Refusal] = []

    def recorded(self, root_id: str, command_id: str) -> tuple[bytes, bytes] | None:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        return self.commands.get((root_id, command_id))

    def held(self, root_id: str, task_id: str) -> Held | None:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        del root_id
        return self.tasks.get(task_id)

    def tree(self, root_id: str) -> Tree | None:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        return self.trees.get(root_id)

    def effect(self, root_id: str, effect_id: str) -> Effect | None:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        return self.effects.get((root_id, effect_id))

    def intended(self, root_id: str, intent: str) -> list[Effect]:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        return [self.effects[root_id, effect_id] for effect_id in self.by_intent.get((root_id, intent), ())]

    def open_effects(self, root_id: str, task_id: str) -> list[Effect]:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        mine = (effect for effect in self.effects.values() if (effect.root_id, effect.task_id) == (root_id, task_id))
        return [effect for effect in mine if not effect.state.settled]

    def graph(self, digest: str) -> Graph | None:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        saved = self.graphs.get(digest)
        return saved.graph if saved else None

    def conversing(self, conversation: str) -> str:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        return self.conversations.get(conversation, "")

    def ended(self, instance_id: str) -> bool:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        instance = self.instances.get(instance_id)
        return instance is not None and instance.ended_at > 0

    def events_of(self, task_id: str) -> Iterator[bytes]:
        """The events of a task, as stored."""
        return (row[6] for row in self.events if row[2] == task_id)

    def write(self, plan: Plan) -> None:
        """See :class:`tenure.ledger.shelf.Shelf`."""
        for change in plan.tasks:
            held = self.tasks.get(change.task.task_id)
            if (held.task.revision if held else 0) != change.before:
                raise Conflict
        self._write_states(plan)
        self.events += plan.events
        self.last += len(plan.events)
        self.commands[plan.root_id, plan.command_id] = (plan.command_digest, encode_receipt(plan.receipt))
        for body in plan.bodies:
            self.bodies[plan.root_id, body.digest] = body
        for row in plan.inputs:
            self.inputs.setdefault(row[1], []).append(row)
        if plan.conversation:
            self.conversations[plan.conversation] = plan.root_id
        for task_id in plan.closed:
            del self.offers[task_id]
        for offer in plan.opened:
            self.offers.setdefault(offer[1], []).append(offer)
        self.holdings.difference_update(plan.dropped)
        self.holdings.update(plan.held)

    def _write_states(self, plan: Plan) -> None:
        for change in plan.tasks:
            self.tasks[change.task.task_id] = Held(change.task, change.lease_until, change.head)
            if not change.before:
                self.positions[change.task.task_id] = change.position
        if plan.tree is not None:
            self.trees[plan.root_id] = plan.tree
        for write in plan.effects:
            effect = write.effect
            self.effects[plan.root_id, effect.effect_id] = effect
            if not write.before:
                self.effect_positions[plan.root_id, effect.effect_id] = write.position
                self.by_intent.setdefault((plan.root_id, effect.intent), []).append(effect.effect_id)


def verify_shelf(shelf: MemoryShelf, progress: Callable[[int, int], None] | None) -> Verification:
    """Check the tables against the events."""

    def conversing(conversation: str) -> tuple[str, int]:
        task_id = shelf.conversing(conversation)
        return task_id, shelf.positions.get(task_id, 0)

    verifier = Verifier(len(shelf.events), conversing, progress)
    for root_id, tree in shelf.trees.items():
        verifier.open_tree(root_id)
        for task_id, held in shelf.tasks.items():
            if held.task.root_id == root_id:
                stream = (row for row in shelf.events if row[2] == task_id)
                verifier.task(_stored(shelf, held), stream, iter(shelf.inputs.get(task_id, ())))
        bodies = ((digest, body) for (root, digest), body in shelf.bodies.items() if root == root_id)
        receipts = ((name, receipt) for (root, name), (_, receipt) in shelf.commands.items() if root == root_id)
        verifier.close_tree(tree, bodies, receipts)
    verifier.conversations(len(shelf.conversations))
    verifier.graphs((digest, saved.graph.team, saved.graph.content) for digest, saved in shelf.graphs.items())
    return verifier.finding()


def _stored(shelf: MemoryShelf, held: Held) -> Stored:
    task = held.task
    return Stored(
        root_id=task.root_id,
        task_id=task.task_id,
        position=shelf.positions[task.task_id],
        revision=task.revision,
        phase=task.phase.value,
        due_at=next_deadline(task, held.lease_until),
        lease_until=held.lease_until,
        residual=residual_of(task),
        head=held.head,
        task=task,
        effects=[(effect_columns(one), one) for one in shelf.effects.values() if one.task_id == task.task_id],
        offers=shelf.offers.get(task.task_id, []),
        holdings=[row for row in shelf.holdings if row[2] == task.task_id],
    )
