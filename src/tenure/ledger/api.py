"""The ledger's contract, written for whoever implements a backend. One conformance suite holds all of them to it.

What must hold: one transaction per command; the write is guarded by the revision that was read and its changed row
count is checked; a command's id is looked up before anything else; events, state rows, bodies, deadline and the
command's receipt become durable together, before ``execute`` returns. Heartbeats are not events. Times are
milliseconds since the Unix epoch, by the database's clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from msgspec import Struct

from tenure.protocol.body import Body
from tenure.protocol.commands import Command, Receipt
from tenure.protocol.events import Event
from tenure.protocol.graph import Graph
from tenure.protocol.outside import Effect
from tenure.protocol.state import Task, Tree
from tenure.protocol.vocabulary import OfferKind, Phase


def root_of(task_id: str) -> str:
    """The root task's id: a child's id is its root's id, a dot and a part of its own."""
    return task_id.partition(".")[0]


class Recorded(Struct, frozen=True, kw_only=True):
    """One event as the ledger keeps it.

    Attributes:
        position: place in the feed; rises with every commit that becomes visible.
        seq: number within the task, from 1. epoch: the task's, after the event.
        digest: hash over the one before it and this event; bodies enter by their digests only.
    """

    position: int
    root_id: str
    task_id: str
    seq: int
    epoch: int
    event: Event
    digest: str


class Message(Struct, frozen=True, kw_only=True):
    """Live input number ``n`` of a task. ``body`` is ``None`` once it was erased."""

    n: int
    at: int
    sender: str
    question_id: str
    digest: str
    body: Body | None


class OpenOffer(Struct, frozen=True, kw_only=True):
    """An offer that one of the asked agents may pick up now."""

    root_id: str
    task_id: str
    epoch: int
    agent: str
    kind: OfferKind
    payload: str
    issued_at: int
    deadline: int


class TaskRow(Struct, frozen=True, kw_only=True):
    """A task in a list. ``overdue_ms`` is above zero when a deadline has passed and nobody has acted on it."""

    task: Task
    position: int
    overdue_ms: int
    lease_until: int


class EffectRow(Struct, frozen=True, kw_only=True):
    """An effect in a list. ``position`` is that of its intent's event."""

    effect: Effect
    position: int


class Beat(Struct, frozen=True, kw_only=True):
    """A heartbeat of one tenure."""

    task_id: str
    epoch: int
    instance: str


class Beaten(Struct, frozen=True, kw_only=True):
    """Answer to a heartbeat: the lease's new end, or the code of the error that it met.

    Attributes:
        cancel: the cancellation of the task is requested. asked: the tenure is asked for progress.
        received: number of messages that the task has received.
    """

    task_id: str
    epoch: int
    lease_until: int = 0
    error: str = ""
    cancel: bool = False
    asked: bool = False
    received: int = 0


class Instance(Struct, frozen=True, kw_only=True):
    """A process that takes tasks. ``name`` may be used again, ``instance_id`` never is.

    Attributes:
        host, boot, pid, started: as in :class:`tenure.protocol.state.Locator`.
        seen_at: its last heartbeat. lease_ms: how long after that its name stays taken.
        ended_at: when it said goodbye or was observed dead; 0 before.
    """

    instance_id: str
    name: str
    host: str
    boot: str
    pid: int
    started: int
    lease_ms: int
    seen_at: int = 0
    ended_at: int = 0


class SavedGraph(Struct, frozen=True, kw_only=True):
    """A version of a routing graph. It never changes and is never deleted: tasks keep the one they began under.

    Attributes:
        digest: its name. n: number of the version in this ledger, from 1. saved_at: when it was first saved.
    """

    digest: str
    n: int
    saved_at: int
    graph: Graph


class Refusal(Struct, frozen=True, kw_only=True):
    """A refused or fenced command, or an erasure, kept outside revision and chain.

    Attributes:
        position: place in the audit, from 1; ``refusals(after=...)`` goes on behind it.
        command: the command's tag; ``heartbeat`` and ``erase`` for what is not a command.
        family, code: the error's; of an erasure ``erased``, with ``instance`` the one who ordered it.
    """

    position: int
    at: int
    root_id: str
    task_id: str
    command_id: str
    command: str
    family: str
    code: str
    detail: str
    epoch: int
    instance: str


class Verification(Struct, frozen=True, kw_only=True):
    """What a verification has found. Each word states one thing that was checked.

    It does not see what no event tells: the end of a lease, the audit, instances and their ends, a receipt that was
    deleted or changed to another one. Nor does it see, without heads kept elsewhere, that a tail of events or a whole
    tree was removed together with all that was derived from it, or that somebody computed a chain anew.

    Attributes:
        chain: ``verified`` or ``broken``. replay: ``equal`` or ``different``: the events give, or do not give, the
            stored states of tasks, trees and effects, and every row of messages, open offers, held instances and
            conversations, and every graph that they name is there as it was. file: ``sound`` or ``damaged``.
        heads: newest chain digest of each task, to be published elsewhere: a cut tail shows against them.
        erased: bodies that are gone by erasure. missing: bodies that are gone without one.
        problems: one sentence per finding, with task and event.
    """

    chain: str
    replay: str
    file: str
    events: int
    tasks: int
    erased: int
    missing: int
    heads: dict[str, str]
    problems: tuple[str, ...] = ()


class Ledger(ABC):
    """Where the truth is kept. Open one with :func:`tenure.ledger.open_ledger`."""

    url: str

    # --- writing ------------------------------------------------------------------------------------------------

    @abstractmethod
    async def execute(self, command: Command) -> Receipt:
        """Decide one command and make it durable.

        Raises:
            Refused, Fenced: nothing changed; the refusal is in the audit.
            Unavailable: nothing was written; the same command may be sent again.
            OutcomeUnknown: the commit's fate is not known; send the same command again, its id tells.
        """

    @abstractmethod
    def execute_blocking(self, command: Command) -> Receipt:
        """The same from any thread but the event loop's; does not need a running loop."""

    @abstractmethod
    def heartbeat(self, beats: Sequence[Beat], instance_id: str = "") -> list[Beaten]:
        """Prolong leases, and an instance's own; blocking, from any thread. One durable write for all of them.

        A beat that is fenced gets its error in its answer; the others are not affected.

        Raises:
            Unavailable: no lease was prolonged.
        """

    @abstractmethod
    def register(self, instance: Instance) -> None:
        """Make an instance known; blocking.

        Raises:
            Refused: ``worker_name_taken`` while another instance of that name has neither ended nor been silent
                for longer than its ``lease_ms``.
        """

    @abstractmethod
    def retire_instance(self, instance_id: str) -> None:
        """Record that an instance has ended; blocking. It can pick nothing up any more: ``stale_epoch``."""

    @abstractmethod
    async def erase(self, task_id: str, *, by: str, reason: str = "") -> int:
        """Delete the bodies of a task; the chain still verifies. Returns their number; noted in the audit.

        Raises:
            Refused: ``unknown_task``; ``wrong_phase`` while the task has not ended.
        """

    @abstractmethod
    async def save_graph(self, graph: Graph) -> str:
        """Keep a version of a routing graph, and return its digest. Saving the same one again changes nothing.

        The graph is kept as it is; whether it is a good one is for ``tenure check`` to say.
        """

    # --- reading ------------------------------------------------------------------------------------------------

    @abstractmethod
    def now_blocking(self) -> int:
        """The database's clock."""

    @abstractmethod
    async def task(self, task_id: str) -> Task | None:
        """A task's state."""

    @abstractmethod
    async def row(self, task_id: str) -> TaskRow | None:
        """A task's state with what only the ledger knows of it."""

    @abstractmethod
    async def tasks(
        self, *, phases: Sequence[Phase] = (), root_id: str = "", after: int = 0, limit: int = 100
    ) -> list[TaskRow]:
        """Tasks in order of their submission, after a ``position``."""

    @abstractmethod
    async def tree(self, root_id: str) -> Tree | None:
        """Counters and stop flag of a tree."""

    @abstractmethod
    async def effects(self, task_id: str, *, open_only: bool = False) -> list[Effect]:
        """Effects of a task, oldest first, settled ones too."""

    @abstractmethod
    async def effects_due(self, *, limit: int = 100) -> list[Effect]:
        """Effects of all tasks after which somebody should look by now, the longest due first.

        Those that are open, and those that happened although their task ended without success, where their policy
        says that they are undone then.
        """

    @abstractmethod
    async def effect_rows(self, *, open_only: bool = False, after: int = 0, limit: int = 100) -> list[EffectRow]:
        """Effects of all tasks in order of their intents, after a ``position``; only those that need somebody."""

    @abstractmethod
    async def residual(self, *, after: int = 0, limit: int = 100) -> list[TaskRow]:
        """Tasks with residual work, ended ones too, in order of their submission, after a ``position``."""

    @abstractmethod
    async def effect_counts(self) -> dict[str, int]:
        """Number of effects in the ledger by state."""

    @abstractmethod
    async def messages(self, task_id: str, *, after: int = 0, limit: int = 100) -> list[Message]:
        """Live input of a task after number ``after``, in order."""

    @abstractmethod
    async def body(self, root_id: str, digest: str) -> Body | None:
        """A body; ``None`` when it was erased.

        Raises:
            Refused: ``invalid`` when the ledger never had it.
        """

    @abstractmethod
    async def graph(self, digest: str) -> SavedGraph | None:
        """A version of a routing graph by its digest."""

    @abstractmethod
    async def graphs(self, *, team: str = "", limit: int = 100) -> list[SavedGraph]:
        """Saved versions, the newest first, of one team or of all."""

    @abstractmethod
    async def conversation(self, conversation: str) -> str:
        """Id of the newest task of a conversation, or an empty string."""

    @abstractmethod
    async def offers(self, agents: Sequence[str], *, limit: int = 100) -> list[OpenOffer]:
        """Offers open to these agents, neither claimed nor past their deadline, oldest first."""

    @abstractmethod
    async def overdue(self, *, limit: int = 100) -> list[str]:
        """Ids of tasks with a deadline that has passed, the longest overdue first."""

    @abstractmethod
    def overdue_blocking(self, *, limit: int = 100) -> list[str]:
        """The same from any thread but the event loop's."""

    @abstractmethod
    async def instances(self, *, open_only: bool = False) -> list[Instance]:
        """Instances, newest first: all that were ever registered, or those not ended or still holding something."""

    @abstractmethod
    async def held_by(self, instance_id: str) -> list[str]:
        """Ids of tasks in which an instance has its tenure, a pick-up, an open work or an unanswered effect."""

    @abstractmethod
    async def events(self, *, after: int = 0, task_id: str = "", limit: int = 1000) -> list[Recorded]:
        """The feed after a position, of one task or of all. Resumable: no event that becomes visible is skipped."""

    @abstractmethod
    async def refusals(self, *, task_id: str = "", after: int = 0, limit: int = 100) -> list[Refusal]:
        """The audit of refused commands and erasures."""

    @abstractmethod
    async def wait(self, position: int, timeout: float) -> int:
        """Return the feed's newest position once it is above ``position``, or after ``timeout`` seconds."""

    @abstractmethod
    async def verify(self, progress: Callable[[int, int], None] | None = None) -> Verification:
        """Check the file, every task's chain, and that folding its events gives all that is stored of it.

        :class:`Verification` says what cannot be seen.

        Args:
            progress: called now and then, from whatever thread verifies, with the number of events that were checked
                and that of all events.
        """

    @abstractmethod
    async def close(self) -> None:
        """Finish what was handed over and let go of the file. Idempotent."""

    async def __aenter__(self) -> Self:
        """Use as ``async with open_ledger(url) as ledger``."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()
