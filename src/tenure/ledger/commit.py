"""From what was loaded, a command and a time to everything that its commit writes. Pure, and the same for all backends.

A backend only loads (:class:`View`) and writes (:class:`Plan`), so the same commands give the same records on each.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec
from msgspec import Struct

from tenure.ledger.chain import GENESIS, link, stream
from tenure.protocol import events as ev
from tenure.protocol.body import Body
from tenure.protocol.commands import Command, Receipt, Submit, bodies_of, encode_command
from tenure.protocol.decide import Verdict, decide, next_deadline
from tenure.protocol.events import encode_event
from tenure.protocol.outside import Effect
from tenure.protocol.state import Books, Offer, Task, Tree
from tenure.protocol.vocabulary import OfferState, WorkState

EventRow = tuple[int, str, str, int, int, bytes, bytes]
"""position, root_id, task_id, seq, epoch, digest, the event as JSON."""
InputRow = tuple[str, str, int, int, str, str, str]
"""root_id, task_id, n, at, sender, question_id, digest of the body."""
OfferRow = tuple[str, str, str, int, int, str, str, int, int]
"""root_id, task_id, agent, position, epoch, kind, payload, issued_at, deadline."""
HoldingRow = tuple[str, str, str, str]
"""instance_id, root_id, task_id, source: the task itself (empty) or the effect whose sender it is."""
EffectColumns = tuple[str, str, str, str, str, int, int, int]
"""root_id, effect_id, task_id, intent, phase, settled (0 or 1), version, check_at."""

encode_receipt = msgspec.json.Encoder().encode
decode_receipt = msgspec.json.Decoder(Receipt).decode


class Held(Struct):
    """A task as a backend keeps it: its state, the end of its tenure's lease (0 without), its newest chain digest."""

    task: Task
    lease_until: int
    head: bytes


class View(Struct):
    """What was loaded for one command. ``held`` has the tasks that it may touch, by id."""

    books: Books
    held: dict[str, Held]


class TaskWrite(Struct):
    """A task's new row, valid only while its row is at revision ``before`` (0: it must not exist).

    ``position`` is that of its first event, set only for a new task.
    """

    task: Task
    before: int
    lease_until: int
    due_at: int | None
    head: bytes
    position: int


class EffectWrite(Struct):
    """An effect's new row. ``before`` is its version, 0 for a new one; ``position`` that of its intent's event."""

    effect: Effect
    before: int
    position: int


class Plan(Struct):
    """Everything that the commit of one command writes. Without events, nothing is written.

    Attributes:
        tree: set only when it changed. conversation: set when it shall point to the task.
        closed: ids of tasks whose open offer is gone. opened: offers that are open now.
        held, dropped: which instances are mentioned from now on, and no more.
    """

    root_id: str
    command_id: str
    receipt: Receipt
    command_digest: bytes = b""
    events: list[EventRow] = []
    tasks: list[TaskWrite] = []
    tree: Tree | None = None
    effects: list[EffectWrite] = []
    bodies: list[Body] = []
    inputs: list[InputRow] = []
    conversation: str = ""
    closed: list[str] = []
    opened: list[OfferRow] = []
    held: list[HoldingRow] = []
    dropped: list[HoldingRow] = []


def command_digest(command: Command) -> bytes:
    """By which a repeated command is told from another one with the same id."""
    return sha256(encode_command(command)).digest()


def plan(view: View, command: Command, now: int, last: int) -> Plan:
    """Decide a command and lay out its commit. ``last`` is the feed's newest position.

    Raises:
        Refused, Fenced: as the protocol decides.
    """
    verdict = decide(view.books, command, now)
    result = Plan(command.root_id, command.command_id, verdict.receipt)
    if not verdict.changes:
        return result
    result.command_digest = command_digest(command)
    if verdict.tree is not view.books.tree:
        result.tree = verdict.tree
    if type(command) is Submit:
        result.conversation = command.conversation
    began, heads = _events(result, view, verdict, last)
    result.bodies = [body for body in bodies_of(command) if _referred_to(body, result.events)]
    for task in verdict.tasks.values():
        _task(result, view.held.get(task.task_id), task, heads[task.task_id], began)
    if verdict.effects:
        _effects(result, view.books, verdict, began)
    return result


def _events(result: Plan, view: View, verdict: Verdict, last: int) -> tuple[dict[str, int], dict[str, bytes]]:
    """Number, encode and chain the events.

    Returns the positions at which tasks, offers (``offer:<task>``) and effects (``effect:<id>``) began, and the newest
    digest of each task.
    """
    root_id, rows, began = result.root_id, result.events, {}
    heads = {task_id: held.head for task_id, held in view.held.items()}
    streams: dict[str, bytes] = {}
    for position, change in enumerate(verdict.changes, last + 1):
        event, after, task_id = change.event, change.after, change.task_id
        name = streams.get(task_id)
        if name is None:
            name = streams[task_id] = stream(root_id, task_id)
        seq, epoch, encoded = after.revision, after.epoch, encode_event(event)
        head = heads[task_id] = link(heads.get(task_id, GENESIS), name, seq, epoch, encoded)
        rows.append((position, root_id, task_id, seq, epoch, head, encoded))
        kind = type(event)
        if kind is ev.OfferIssued:
            began["offer:" + task_id] = position
        elif kind in _BEGIN:
            _began(result, began, event, task_id, position)
    return began, heads


_BEGIN = frozenset({ev.InputReceived, ev.TaskSubmitted, ev.EffectIntended})


def _began(result: Plan, began: dict[str, int], event: ev.Event, task_id: str, position: int) -> None:
    """Note what begins with an event."""
    if isinstance(event, ev.InputReceived):
        result.inputs.append(input_row(result.root_id, task_id, event))
    elif isinstance(event, ev.EffectIntended):
        began["effect:" + event.effect_id] = position
    else:
        began[task_id] = position


def input_row(root_id: str, task_id: str, event: ev.InputReceived) -> InputRow:
    """The row of a message."""
    return (root_id, task_id, event.n, event.at, event.sender, event.question_id, event.body)


def _referred_to(body: Body, events: list[EventRow]) -> bool:
    """Whether an event names the body: one that none names could never be found again, nor erased."""
    digest = body.digest.encode()
    return any(digest in row[6] for row in events)


def _task(result: Plan, held: Held | None, task: Task, head: bytes, began: dict[str, int]) -> None:
    """The row of a touched task, its lease and deadline, its open offer and whom it mentions."""
    before = held.task if held else None
    tenure, lease_until = task.tenure, 0
    if tenure is not None:
        same = before is not None and before.tenure is not None and before.tenure.epoch == tenure.epoch
        lease_until = held.lease_until if held and same else task.at + task.settings.lease_ms
    revision = before.revision if before else 0
    due_at = next_deadline(task, lease_until)
    result.tasks.append(TaskWrite(task, revision, lease_until, due_at, head, began.get(task.task_id, 0)))
    old, new = open_offer(before), open_offer(task)
    if old is not new:
        # Keep the list of offers that may be picked up in step with the task.
        if old is not None:
            result.closed.append(task.task_id)
        if new is not None:
            result.opened += offer_rows(task, new, began["offer:" + task.task_id])
    _holdings(result, task.task_id, "", mentioned(before), mentioned(task))


def open_offer(task: Task | None) -> Offer | None:
    """A task's offer while it may be picked up."""
    offer = task.offer if task else None
    return offer if offer is not None and offer.state is OfferState.OPEN else None


def offer_rows(task: Task, offer: Offer, position: int) -> list[OfferRow]:
    """One row for each agent that may pick an open offer up. ``task``: as it was when the offer was issued."""
    offered = (position, task.epoch, offer.kind, offer.payload, task.at, offer.deadline)
    return [
        (task.root_id, task.task_id, agent, *offered) for agent in dict.fromkeys(one.agent for one in offer.open_to)
    ]


def mentioned(task: Task | None) -> set[str]:
    """Instances that have the tenure, a pick-up or an open work."""
    if task is None:
        return set()
    found = {work.instance for work in task.works}
    if task.tenure is not None:
        found.add(task.tenure.instance)
    if task.offer is not None and task.offer.pickup is not None:
        found.add(task.offer.pickup.instance)
    return found


def holding_rows(names: set[str], root_id: str, task_id: str, source: str) -> list[HoldingRow]:
    """One row for each instance that a task mentions, itself or as the sender of an effect."""
    return [(name, root_id, task_id, source) for name in sorted(names)]


def _holdings(result: Plan, task_id: str, source: str, before: set[str], after: set[str]) -> None:
    if before != after:
        result.dropped += holding_rows(before - after, result.root_id, task_id, source)
        result.held += holding_rows(after - before, result.root_id, task_id, source)


def _effects(result: Plan, books: Books, verdict: Verdict, began: dict[str, int]) -> None:
    """Rows of touched effects; whoever may still have a request under way is mentioned while the effect is open."""
    loaded = {effect.effect_id: effect for effect in books.effects}
    for effect in verdict.effects.values():
        before = loaded.get(effect.effect_id)
        if before is effect:
            continue
        position = began.get("effect:" + effect.effect_id, 0)
        result.effects.append(EffectWrite(effect, before.version if before else 0, position))
        _holdings(result, effect.task_id, effect.effect_id, senders(before), senders(effect))


def senders(effect: Effect | None) -> set[str]:
    """Instances whose request may still be under way."""
    return set() if effect is None or effect.state.settled else set(effect.senders)


def effect_columns(effect: Effect) -> EffectColumns:
    """What stands beside an effect's state, so that its row is found."""
    state = effect.state
    key = (effect.root_id, effect.effect_id, effect.task_id, effect.intent)
    return (*key, state.value, int(state.settled), effect.version, effect.next_check)


def residual_of(task: Task) -> int:
    """How many works of a task are residual."""
    return sum(work.state is WorkState.RESIDUAL for work in task.works)
