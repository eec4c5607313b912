"""Reading: a connection and a thread of its own, which also notices what other processes have committed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import apsw
from msgspec.structs import replace

from tenure.ledger import rows
from tenure.ledger.api import EffectRow, Instance, Message, OpenOffer, Recorded, Refusal, SavedGraph, TaskRow, root_of
from tenure.ledger.clock import Clock
from tenure.ledger.sqlite.connection import translate
from tenure.ledger.sqlite.lane import Desk, Job
from tenure.ledger.sqlite.statements import statements
from tenure.ledger.sqlite.store import decode_effect, decode_note, decode_task, decode_tree, instance_of
from tenure.ledger.wakeups import Wakeups
from tenure.protocol.body import Body
from tenure.protocol.graph import read_graph
from tenure.protocol.outside import Effect
from tenure.protocol.state import Task, Tree
from tenure.protocol.vocabulary import OfferKind, Phase

LOOK = 0.05
"""Seconds between two looks for commits of other processes, while somebody waits for the feed."""


class Reader:
    """The queries. Each is one statement, or several whose results do not depend on each other."""

    def __init__(self, connection: apsw.Connection, clock: Clock | None = None) -> None:
        self.connection = connection
        self._clock = clock
        self._sql = statements("read")

    def _all(self, name: str, *values: Any) -> list[Any]:
        return self.connection.execute(self._sql[name], values).fetchall()

    def _one(self, name: str, *values: Any) -> Any:
        return self.connection.execute(self._sql[name], values).fetchone()

    def now(self) -> int:
        """The database's clock."""
        return self._clock() if self._clock else int(self._one("now")[0])

    def newest(self) -> int:
        """The feed's newest position."""
        return int(self._one("newest")[0])

    def row(self, task_id: str) -> TaskRow | None:
        """A task with what only the ledger knows of it."""
        found = self._all("task", root_of(task_id), task_id)
        return self._rows(found)[0] if found else None

    def task(self, task_id: str) -> Task | None:
        """A task's state."""
        row = self._one("task", root_of(task_id), task_id)
        return None if row is None else decode_task(row[0])

    def tasks(self, phases: Sequence[Phase], root_id: str, after: int, limit: int) -> list[TaskRow]:
        """Tasks in order of their submission."""
        if root_id:
            found = self._rows(self._all("tasks_of_root", root_id, after))
            return [row for row in found if not phases or row.task.phase in phases][:limit]
        if not phases:
            return self._rows(self._all("tasks", after, limit))
        found = self._rows(
            row for phase in set(phases) for row in self._all("tasks_in_phase", str(phase), after, limit)
        )
        return sorted(found, key=lambda row: row.position)[:limit]

    def _rows(self, found: Iterable[Any]) -> list[TaskRow]:
        now = self.now()
        return [rows.task_row(decode_task(state), position, lease, due, now) for state, position, lease, due in found]

    def tree(self, root_id: str) -> Tree | None:
        """Counters of a tree."""
        row = self._one("tree", root_id)
        return None if row is None else decode_tree(row[0])

    def effects(self, task_id: str, *, open_only: bool) -> list[Effect]:
        """Effects of a task."""
        name = "open_effects" if open_only else "effects"
        return [decode_effect(row[0]) for row in self._all(name, root_of(task_id), task_id)]

    def effects_due(self, limit: int) -> list[Effect]:
        """Effects after which somebody should look by now."""
        return [decode_effect(row[0]) for row in self._all("effects_due", self.now(), limit)]

    def effect_rows(self, *, open_only: bool, after: int, limit: int) -> list[EffectRow]:
        """Effects of all tasks."""
        found = self._all("effect_rows_open" if open_only else "effect_rows", after, limit)
        return [EffectRow(effect=decode_effect(state), position=position) for state, position in found]

    def residual(self, after: int, limit: int) -> list[TaskRow]:
        """Tasks with residual work."""
        return self._rows(self._all("tasks_with_residual", after, limit))

    def effect_counts(self) -> dict[str, int]:
        """Effects by state."""
        return dict(self._all("effect_counts"))

    def messages(self, task_id: str, after: int, limit: int) -> list[Message]:
        """Live input of a task."""
        found = self._all("messages", root_of(task_id), task_id, after, limit)
        return [
            Message(n=n, at=at, sender=sender, question_id=question, digest=digest, body=_body(nonce, content))
            for n, at, sender, question, digest, nonce, content in found
        ]

    def body(self, root_id: str, digest: str) -> Body | None:
        """A body."""
        row = self._one("body", root_id, digest)
        if row is None:
            raise rows.unknown_body(root_id, digest)
        return _body(*row)

    def graph(self, digest: str) -> SavedGraph | None:
        """A version of a routing graph."""
        row = self._one("graph", digest)
        return None if row is None else _saved(row)

    def graphs(self, team: str, limit: int) -> list[SavedGraph]:
        """Versions of routing graphs."""
        found = self._all("graphs_of_team", team, limit) if team else self._all("graphs", limit)
        return [_saved(row) for row in found]

    def conversation(self, conversation: str) -> str:
        """Id of a conversation's newest task."""
        row = self._one("conversation", conversation)
        return row[0] if row else ""

    def offers(self, agents: Sequence[str], limit: int) -> list[OpenOffer]:
        """Offers that these agents may pick up."""
        now = self.now()
        found = [row for agent in set(agents) for row in self._all("offers", agent, now, limit)]
        found.sort(key=lambda row: (row[0], row[4]))
        return [
            OpenOffer(
                root_id=root_id,
                task_id=task_id,
                epoch=epoch,
                agent=agent,
                kind=OfferKind(kind),
                payload=payload,
                issued_at=issued_at,
                deadline=deadline,
            )
            for _, root_id, task_id, epoch, agent, kind, payload, issued_at, deadline in found[:limit]
        ]

    def overdue(self, limit: int) -> list[str]:
        """Ids of tasks with a deadline that has passed."""
        return [row[0] for row in self._all("overdue", self.now(), limit)]

    def instances(self, *, open_only: bool) -> list[Instance]:
        """Every instance, or those that a recovery has to look at."""
        return [instance_of(row) for row in self._all("open_instances" if open_only else "instances")]

    def held_by(self, instance_id: str) -> list[str]:
        """Ids of tasks that mention an instance."""
        return [row[0] for row in self._all("held_by", instance_id)]

    def events(self, after: int, task_id: str, limit: int) -> list[Recorded]:
        """The feed."""
        if task_id:
            found = self._all("events_of_task", root_of(task_id), task_id, after, limit)
        else:
            found = self._all("events", after, limit)
        return [rows.recorded(row) for row in found]

    def refusals(self, task_id: str, after: int, limit: int) -> list[Refusal]:
        """The audit."""
        if task_id:
            found = self._all("refusals_of_task", root_of(task_id), task_id, after, limit)
        else:
            found = self._all("refusals", after, limit)
        return [replace(decode_note(note), position=position) for position, note in found]


def _saved(row: Any) -> SavedGraph:
    digest, n, saved_at, content = row
    return SavedGraph(digest=digest, n=n, saved_at=saved_at, graph=read_graph(content))


def _body(nonce: str | None, content: bytes | None) -> Body | None:
    return None if content is None else Body(content, nonce or "")


class ReaderDesk(Desk[Reader]):
    """Serves queries; while somebody waits for the feed, looks every :data:`LOOK` seconds for foreign commits."""

    def __init__(self, reader: Reader, path: str, wakeups: Wakeups) -> None:
        self._reader = reader
        self._path = path
        self._wakeups = wakeups
        self._version = -1
        self._looked = 0.0

    @property
    def pause(self) -> float | None:
        """See :class:`Desk`."""
        return LOOK if self._wakeups.awaited else None

    def serve(self, jobs: list[Job[Reader]]) -> None:
        """See :class:`Desk`."""
        for job in jobs:
            try:
                job.value = job.work(self._reader)
            except apsw.Error as error:
                job.error = translate(error, self._path)
            except Exception as error:  # noqa: BLE001 - it is raised where the query was asked for
                job.error = error
        if self._wakeups.awaited and time.monotonic() - self._looked >= LOOK:
            self.idle()

    def idle(self) -> None:
        """Look whether another connection has committed; the number of commits is in shared memory, so it is cheap."""
        self._looked = time.monotonic()
        version = self._reader.connection.pragma("data_version")
        if version != self._version:
            self._version = version
            self._wakeups.announce(self._reader.newest())

    def close(self) -> None:
        """See :class:`Desk`."""
        self._reader.connection.close(force=True)
