"""The ledger in a SQLite file: one host, several processes, nothing else to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tenure.errors import TenureError, Unavailable
from tenure.ledger.api import (
    Beat,
    Beaten,
    EffectRow,
    Instance,
    Ledger,
    Message,
    OpenOffer,
    Recorded,
    Refusal,
    SavedGraph,
    TaskRow,
    Verification,
)
from tenure.ledger.clock import Clock
from tenure.ledger.sqlite.checking import verify_file
from tenure.ledger.sqlite.connection import open_reader, open_writer
from tenure.ledger.sqlite.lane import Lane
from tenure.ledger.sqlite.reader import Reader, ReaderDesk
from tenure.ledger.sqlite.store import Store
from tenure.ledger.sqlite.writer import WriterDesk
from tenure.ledger.wakeups import Wakeups
from tenure.protocol.body import Body
from tenure.protocol.commands import Command, Receipt
from tenure.protocol.graph import Graph
from tenure.protocol.outside import Effect
from tenure.protocol.state import Task, Tree
from tenure.protocol.vocabulary import Phase


class SqliteLedger(Ledger):
    """A ledger in a file. Opening blocks as opening a file does; afterwards nothing runs on the event loop.

    Args:
        path: the file; made when it does not exist, in a folder that does.
        clock: instead of the database's, in milliseconds since the Unix epoch. vfs: name of an APSW VFS.

    Raises:
        Refused: ``invalid``, ``foreign_file``, ``newer_file``, ``corrupt_file``.
        Unavailable: ``ledger_read_only``, ``ledger_busy``, ``disk_full``, ``ledger_unavailable``.
    """

    def __init__(self, path: str, *, clock: Clock | None = None, vfs: str = "") -> None:
        self.url = f"sqlite:///{path}"
        self._path = path
        self._vfs = vfs
        self._clock = clock
        self._wakeups = Wakeups()
        self._writer = Lane("tenure-ledger-writer", self._make_writer)
        try:
            self._reader = Lane("tenure-ledger-reader", self._make_reader)
        except TenureError:
            self._writer.end()
            raise

    def _make_writer(self) -> WriterDesk:
        store = Store(open_writer(self._path, vfs=self._vfs), self._clock)
        self._desk = WriterDesk(store, self._path, self._wakeups.announce)
        return self._desk

    def _make_reader(self) -> ReaderDesk:
        reader = Reader(open_reader(self._path, vfs=self._vfs), self._clock)
        return ReaderDesk(reader, self._path, self._wakeups)

    @property
    def commits(self) -> int:
        """Number of commits of this object that wrote something; each is one durable write."""
        return self._desk.commits

    # --- writing ------------------------------------------------------------------------------------------------

    async def execute(self, command: Command) -> Receipt:
        """See :meth:`Ledger.execute`."""
        return await self._writer.call(lambda store: store.execute(command))

    def execute_blocking(self, command: Command) -> Receipt:
        """See :meth:`Ledger.execute_blocking`."""
        return self._writer.call_blocking(lambda store: store.execute(command))

    def heartbeat(self, beats: Sequence[Beat], instance_id: str = "") -> list[Beaten]:
        """See :meth:`Ledger.heartbeat`."""
        return self._writer.call_blocking(lambda store: store.heartbeat(beats, instance_id))

    def register(self, instance: Instance) -> None:
        """See :meth:`Ledger.register`."""
        self._writer.call_blocking(lambda store: store.register(instance))

    def retire_instance(self, instance_id: str) -> None:
        """See :meth:`Ledger.retire_instance`."""
        self._writer.call_blocking(lambda store: store.retire_instance(instance_id))

    async def erase(self, task_id: str, *, by: str, reason: str = "") -> int:
        """See :meth:`Ledger.erase`. Afterwards the content stands neither in the file's free space nor in its log."""
        return await self._writer.call(lambda store: store.erase(task_id, by, reason))

    async def save_graph(self, graph: Graph) -> str:
        """See :meth:`Ledger.save_graph`."""
        return await self._writer.call(lambda store: store.save_graph(graph))

    # --- reading ------------------------------------------------------------------------------------------------

    def now_blocking(self) -> int:
        """See :meth:`Ledger.now_blocking`."""
        return self._reader.call_blocking(Reader.now)

    async def task(self, task_id: str) -> Task | None:
        """See :meth:`Ledger.task`."""
        return await self._reader.call(lambda reader: reader.task(task_id))

    async def row(self, task_id: str) -> TaskRow | None:
        """See :meth:`Ledger.row`."""
        return await self._reader.call(lambda reader: reader.row(task_id))

    async def tasks(
        self, *, phases: Sequence[Phase] = (), root_id: str = "", after: int = 0, limit: int = 100
    ) -> list[TaskRow]:
        """See :meth:`Ledger.tasks`."""
        return await self._reader.call(lambda reader: reader.tasks(phases, root_id, after, limit))

    async def tree(self, root_id: str) -> Tree | None:
        """See :meth:`Ledger.tree`."""
        return await self._reader.call(lambda reader: reader.tree(root_id))

    async def effects(self, task_id: str, *, open_only: bool = False) -> list[Effect]:
        """See :meth:`Ledger.effects`."""
        return await self._reader.call(lambda reader: reader.effects(task_id, open_only=open_only))

    async def effects_due(self, *, limit: int = 100) -> list[Effect]:
        """See :meth:`Ledger.effects_due`."""
        return await self._reader.call(lambda reader: reader.effects_due(limit))

    async def effect_rows(self, *, open_only: bool = False, after: int = 0, limit: int = 100) -> list[EffectRow]:
        """See :meth:`Ledger.effect_rows`."""
        return await self._reader.call(lambda reader: reader.effect_rows(open_only=open_only, after=after, limit=limit))

    async def residual(self, *, after: int = 0, limit: int = 100) -> list[TaskRow]:
        """See :meth:`Ledger.residual`."""
        return await self._reader.call(lambda reader: reader.residual(after, limit))

    async def effect_counts(self) -> dict[str, int]:
        """See :meth:`Ledger.effect_counts`."""
        return await self._reader.call(Reader.effect_counts)

    async def messages(self, task_id: str, *, after: int = 0, limit: int = 100) -> list[Message]:
        """See :meth:`Ledger.messages`."""
        return await self._reader.call(lambda reader: reader.messages(task_id, after, limit))

    async def body(self, root_id: str, digest: str) -> Body | None:
        """See :meth:`Ledger.body`."""
        return await self._reader.call(lambda reader: reader.body(root_id, digest))

    async def graph(self, digest: str) -> SavedGraph | None:
        """See :meth:`Ledger.graph`."""
        return await self._reader.call(lambda reader: reader.graph(digest))

    async def graphs(self, *, team: str = "", limit: int = 100) -> list[SavedGraph]:
        """See :meth:`Ledger.graphs`."""
        return await self._reader.call(lambda reader: reader.graphs(team, limit))

    async def conversation(self, conversation: str) -> str:
        """See :meth:`Ledger.conversation`."""
        return await self._reader.call(lambda reader: reader.conversation(conversation))

    async def offers(self, agents: Sequence[str], *, limit: int = 100) -> list[OpenOffer]:
        """See :meth:`Ledger.offers`."""
        return await self._reader.call(lambda reader: reader.offers(agents, limit))

    async def overdue(self, *, limit: int = 100) -> list[str]:
        """See :meth:`Ledger.overdue`."""
        return await self._reader.call(lambda reader: reader.overdue(limit))

    def overdue_blocking(self, *, limit: int = 100) -> list[str]:
        """See :meth:`Ledger.overdue_blocking`."""
        return self._reader.call_blocking(lambda reader: reader.overdue(limit))

    async def instances(self, *, open_only: bool = False) -> list[Instance]:
        """See :meth:`Ledger.instances`."""
        return await self._reader.call(lambda reader: reader.instances(open_only=open_only))

    async def held_by(self, instance_id: str) -> list[str]:
        """See :meth:`Ledger.held_by`."""
        return await self._reader.call(lambda reader: reader.held_by(instance_id))

    async def events(self, *, after: int = 0, task_id: str = "", limit: int = 1000) -> list[Recorded]:
        """See :meth:`Ledger.events`."""
        return await self._reader.call(lambda reader: reader.events(after, task_id, limit))

    async def refusals(self, *, task_id: str = "", after: int = 0, limit: int = 100) -> list[Refusal]:
        """See :meth:`Ledger.refusals`."""
        return await self._reader.call(lambda reader: reader.refusals(task_id, after, limit))

    async def wait(self, position: int, timeout: float) -> int:
        """See :meth:`Ledger.wait`."""
        self._wakeups.announce(await self._reader.call(Reader.newest))
        return await self._wakeups.wait(position, timeout, listed=self._reader.nudge)

    async def verify(self, progress: Callable[[int, int], None] | None = None) -> Verification:
        """See :meth:`Ledger.verify`."""
        if self._wakeups.closed:
            raise Unavailable("ledger_closed")
        return await asyncio.to_thread(verify_file, self._path, self._vfs, progress)

    async def close(self) -> None:
        """See :meth:`Ledger.close`."""
        self._wakeups.close()
        await self._reader.stop()
        await self._writer.stop()  # the last to let go of the file empties its log, which a reader cannot
