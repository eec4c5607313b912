"""What a backend is to the shared path of a command, and that path itself: look up, load, plan, write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from tenure.errors import Fenced, Refused, Unavailable
from tenure.ledger.api import Refusal, root_of
from tenure.ledger.commit import Held, Plan, View, command_digest, decode_receipt, plan
from tenure.protocol import commands as cmd
from tenure.protocol.graph import Graph
from tenure.protocol.outside import Effect
from tenure.protocol.state import Books, Task, Tree
from tenure.protocol.vocabulary import EffectState

T = TypeVar("T")
ATTEMPTS = 8
"""How often a command is decided again when its task changed between load and write."""

MAY_END_TENURE = frozenset(
    {
        cmd.Retire,
        cmd.Release,
        cmd.Expire,
        cmd.Reverse,
        cmd.ReportDeath,
        cmd.EndWork,
        cmd.RecordOutcome,
        cmd.Attest,
    }
)
"""Commands that can end a tenure, and so put every effect without an answer in doubt."""


NO_TREE = frozenset(
    {
        cmd.Claim,
        cmd.Acknowledge,
        cmd.Advance,
        cmd.See,
        cmd.StartWork,
        cmd.LocateWork,
        cmd.CancelWork,
        cmd.OpenRoute,
        cmd.CloseRoute,
        cmd.Intend,
        cmd.AttemptEffect,
        cmd.AskAboutEffect,
        cmd.Send,
    }
)
"""Commands that neither end nor open a task: the tree's counters are not loaded for them."""


NO_GRAPH = NO_TREE - {cmd.Intend}
"""Commands for which the routing graph has nothing to say."""


PICKS_UP = frozenset({cmd.Claim, cmd.Acknowledge})
"""Commands by which an instance becomes responsible for a task."""


NAMES_EFFECT = frozenset({cmd.Intend, cmd.AttemptEffect, cmd.RecordOutcome, cmd.AskAboutEffect, cmd.Attest})
"""Commands about one effect."""


class Conflict(Exception):
    """A row is not at the revision that was read; the number of changed rows has shown it."""


class Shelf(Protocol):
    """A backend inside one transaction. Every look-up is by key; nothing here grows with the ledger."""

    last: int
    """The feed's newest position, this transaction's included."""

    def recorded(self, root_id: str, command_id: str) -> tuple[bytes, bytes] | None:
        """Digest and receipt of a command that was accepted before."""

    def held(self, root_id: str, task_id: str) -> Held | None:
        """A task."""

    def tree(self, root_id: str) -> Tree | None:
        """A tree."""

    def effect(self, root_id: str, effect_id: str) -> Effect | None:
        """An effect by its id."""

    def intended(self, root_id: str, intent: str) -> list[Effect]:
        """Every effect of a tree with an intent, oldest first: no two of them may be under way."""

    def open_effects(self, root_id: str, task_id: str) -> list[Effect]:
        """Every open effect of a task, oldest first."""

    def graph(self, digest: str) -> Graph | None:
        """A saved version of a routing graph. Versions never change, so a backend may keep what it has decoded."""

    def conversing(self, conversation: str) -> str:
        """Id of the task that a conversation points to, or an empty string."""

    def ended(self, instance_id: str) -> bool:
        """Whether an instance was registered and recorded as ended."""

    def write(self, plan: Plan) -> None:
        """Write all of a plan.

        Raises:
            Conflict: a guard did not match; nothing of it may be committed.
        """


def run(shelf: Shelf, command: cmd.Command, now: int) -> cmd.Receipt:
    """Take one command through the ledger, inside the backend's transaction.

    Raises:
        Refused, Fenced: nothing was written.
        Conflict: see :func:`again`.
    """
    check_ids(command)
    known = shelf.recorded(command.root_id, command.command_id)
    if known is not None:
        return _repeated(command, *known)
    if type(command) in PICKS_UP:
        _alive(shelf, command)
    planned = plan(load(shelf, command), command, now, shelf.last)
    if planned.events:
        shelf.write(planned)
    return planned.receipt


def again(attempt: Callable[[], T]) -> T:
    """Do something again, from the look-up on, while a row changes between its load and its write.

    Raises:
        Unavailable: ``ledger_unavailable`` when it does so :data:`ATTEMPTS` times in a row.
    """
    for _ in range(ATTEMPTS):
        try:
            return attempt()
        except Conflict:
            continue
    raise Unavailable("ledger_unavailable", f"The task kept changing; decided {ATTEMPTS} times.")


def _alive(shelf: Shelf, command: cmd.Command) -> None:
    """Keep an instance that was recorded as ended from owning anything again, should it only be slow to go."""
    instance_id: str = getattr(command, "instance", "")
    if shelf.ended(instance_id):
        raise Fenced("stale_epoch", f"{instance_id} was recorded as ended; only a new instance may own a task.")


def check_ids(command: cmd.Command) -> None:
    """Refuse ids that do not belong together.

    Raises:
        Refused: ``invalid``.
    """
    if not command.command_id or not command.task_id:
        raise Refused("invalid", "A command needs a command_id and a task_id.")
    ids = [command.task_id, command.child_id] if isinstance(command, cmd.Delegate) else [command.task_id]
    for task_id in ids:
        if root_of(task_id) != command.root_id:
            raise Refused("invalid", f"Task {task_id!r} is not in the tree of {command.root_id!r}.")


def _repeated(command: cmd.Command, digest: bytes, receipt: bytes) -> cmd.Receipt:
    if digest != command_digest(command):
        raise Refused("command_conflict", f"{command.command_id} was another command of {command.root_id}.")
    return decode_receipt(receipt)


def load(shelf: Shelf, command: cmd.Command) -> View:
    """Load the books that a command needs."""
    root_id = command.root_id
    held = shelf.held(root_id, command.task_id)
    parent = shelf.held(root_id, held.task.parent) if held and held.task.parent else None
    touched = {one.task.task_id: one for one in (held, parent) if one is not None}
    books = Books(
        tree=None if type(command) in NO_TREE else shelf.tree(root_id),
        task=held.task if held else None,
        parent=parent.task if parent else None,
        child=_child(shelf, command),
        effects=_effects(shelf, command, held),
        graph=_graph(shelf, command, held),
        conversing=_conversing(shelf, command),
        lease_until=held.lease_until if held else 0,
        parent_lease_until=parent.lease_until if parent else 0,
    )
    return View(books, touched)


def _graph(shelf: Shelf, command: cmd.Command, held: Held | None) -> Graph | None:
    """The version that the command names, else the one in force."""
    if type(command) in NO_GRAPH:
        return None
    digest = command.graph if isinstance(command, cmd.Submit | cmd.AdoptGraph) else held.task.graph if held else ""
    return shelf.graph(digest) if digest else None


def _child(shelf: Shelf, command: cmd.Command) -> Task | None:
    if not isinstance(command, cmd.Delegate):
        return None
    held = shelf.held(command.root_id, command.child_id)
    return held.task if held else None


def _conversing(shelf: Shelf, command: cmd.Command) -> Task | None:
    if not isinstance(command, cmd.Submit) or not command.conversation:
        return None
    task_id = shelf.conversing(command.conversation)
    held = shelf.held(root_of(task_id), task_id) if task_id else None
    return held.task if held else None


def _effects(shelf: Shelf, command: cmd.Command, held: Held | None) -> tuple[Effect, ...]:
    """The named effect first, then those that the end of the tenure would put in doubt."""
    found = _named(shelf, command) if type(command) in NAMES_EFFECT else []
    if held is not None and type(command) in MAY_END_TENURE:
        named = found[0].effect_id if found else ""
        unanswered = any(note.state is EffectState.INTENDED and note.effect_id != named for note in held.task.effects)
        if unanswered or isinstance(command, cmd.ReportDeath):
            found += shelf.open_effects(command.root_id, command.task_id)
    return tuple({effect.effect_id: effect for effect in found}.values()) if found else ()


def _named(shelf: Shelf, command: cmd.Command) -> list[Effect]:
    """The effect that a command is about, and where another attempt may begin, those with the same intent."""
    effect_id: str = getattr(command, "effect_id", "")
    effect = shelf.effect(command.root_id, effect_id)
    if isinstance(command, cmd.Intend):
        same = shelf.intended(command.root_id, command.intent)
        return [*same, effect] if effect is not None else same
    if effect is None:
        return []
    return [effect, *(shelf.intended(command.root_id, effect.intent) if isinstance(command, cmd.AttemptEffect) else ())]


def refusal(command: cmd.Command, error: Refused | Fenced, now: int, position: int = 0) -> Refusal:
    """The audit's note of a refused or fenced command."""
    return Refusal(
        position=position,
        at=now,
        root_id=command.root_id,
        task_id=command.task_id,
        command_id=command.command_id,
        command=str(command.__struct_config__.tag),
        family=error.family,
        code=error.code,
        detail=error.detail,
        epoch=getattr(command, "epoch", 0),
        instance=getattr(command, "instance", ""),
    )
