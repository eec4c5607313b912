"""The ledger in memory: for tests, simulations and trying things out. Nothing survives the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from heapq import nsmallest

from msgspec.structs import replace

from tenure.errors import Fenced, Refused, Unavailable
from tenure.ledger import rows
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
    root_of,
)
from tenure.ledger.clock import Clock, system_clock
from tenure.ledger.commit import Held, residual_of
from tenure.ledger.erasing import check_erasable, digests_of
from tenure.ledger.memory_shelf import MemoryShelf, verify_shelf
from tenure.ledger.shelf import again, refusal, run
from tenure.ledger.wakeups import Wakeups
from tenure.protocol.body import Body
from tenure.protocol.commands import Command, Receipt
from tenure.protocol.decide import next_deadline
from tenure.protocol.graph import Graph
from tenure.protocol.outside import Effect
from tenure.protocol.state import Task, Tree
from tenure.protocol.vocabulary import OfferKind, Phase


class MemoryLedger(Ledger):
    """A ledger in memory, behind one lock. ``clock`` gives milliseconds since the Unix epoch."""

    url = "memory://"

    def __init__(self, clock: Clock = system_clock) -> None:
        self._clock = clock
        self._shelf = MemoryShelf()
        self._lock = threading.RLock()
        self._wakeups = Wakeups()

    # --- writing ------------------------------------------------------------------------------------------------

    async def execute(self, command: Command) -> Receipt:
        """See :meth:`Ledger.execute`."""
        return self.execute_blocking(command)

    def execute_blocking(self, command: Command) -> Receipt:
        """See :meth:`Ledger.execute_blocking`."""
        with self._using():
            now = self._clock()
            try:
                receipt = again(lambda: run(self._shelf, command, now))
            except (Refused, Fenced) as error:
                self._shelf.audit.append(refusal(command, error, now, len(self._shelf.audit) + 1))
                raise
            newest = self._shelf.last
        if newest > self._wakeups.newest:
            self._wakeups.announce(newest)
        return receipt

    def heartbeat(self, beats: Sequence[Beat], instance_id: str = "") -> list[Beaten]:
        """See :meth:`Ledger.heartbeat`."""
        with self._using():
            now = self._clock()
            answers = [self._beat(beat, now) for beat in beats]
            instance = self._shelf.instances.get(instance_id)
            if instance is not None and not instance.ended_at:
                self._shelf.instances[instance_id] = replace(instance, seen_at=now)
            return answers

    def _beat(self, beat: Beat, now: int) -> Beaten:
        shelf, root_id = self._shelf, root_of(beat.task_id)
        held = shelf.held(root_id, beat.task_id)
        answer = rows.beat(held, beat, now)
        if answer.error or held is None:
            shelf.audit.append(rows.beat_refusal(beat, answer, root_id, now, len(shelf.audit) + 1))
        else:
            shelf.tasks[beat.task_id] = Held(held.task, answer.lease_until, held.head)
        return answer

    def register(self, instance: Instance) -> None:
        """See :meth:`Ledger.register`."""
        with self._using():
            now = self._clock()
            for other in self._shelf.instances.values():
                same = other.name == instance.name and other.instance_id != instance.instance_id
                if same and not other.ended_at and now <= other.seen_at + other.lease_ms:
                    raise rows.name_taken(other, now)
            self._shelf.instances[instance.instance_id] = replace(instance, seen_at=now, ended_at=0)

    def retire_instance(self, instance_id: str) -> None:
        """See :meth:`Ledger.retire_instance`."""
        with self._using():
            instance = self._shelf.instances.get(instance_id)
            if instance is not None and not instance.ended_at:
                self._shelf.instances[instance_id] = replace(instance, ended_at=self._clock())

    async def erase(self, task_id: str, *, by: str, reason: str = "") -> int:
        """See :meth:`Ledger.erase`."""
        with self._using():
            shelf, root_id = self._shelf, root_of(task_id)
            held = shelf.held(root_id, task_id)
            check_erasable(held.task if held else None, task_id)
            kept = {
                digest
                for other in shelf.tasks.values()
                if other.task.root_id == root_id and not other.task.phase.ended
                for digest in digests_of(shelf.events_of(other.task.task_id))
            }
            count = 0
            for digest in digests_of(shelf.events_of(task_id)) - kept:
                if shelf.bodies.get((root_id, digest)) is not None:
                    shelf.bodies[root_id, digest] = None
                    count += 1
            note = rows.erasure(task_id, root_id, count, by, reason, self._clock(), len(shelf.audit) + 1)
            shelf.audit.append(note)
            return count

    async def save_graph(self, graph: Graph) -> str:
        """See :meth:`Ledger.save_graph`."""
        with self._using():
            saved = SavedGraph(digest=graph.digest, n=len(self._shelf.graphs) + 1, saved_at=self._clock(), graph=graph)
            return self._shelf.graphs.setdefault(graph.digest, saved).digest

    # --- reading ------------------------------------------------------------------------------------------------

    @contextmanager
    def _using(self) -> Iterator[None]:
        """The tables, alone: other threads write too."""
        with self._lock:
            self._open()
            yield

    def _open(self) -> None:
        if self._wakeups.closed:
            raise Unavailable("ledger_closed")

    def now_blocking(self) -> int:
        """See :meth:`Ledger.now_blocking`."""
        return self._clock()

    async def task(self, task_id: str) -> Task | None:
        """See :meth:`Ledger.task`."""
        with self._using():
            held = self._shelf.tasks.get(task_id)
            return held.task if held else None

    async def row(self, task_id: str) -> TaskRow | None:
        """See :meth:`Ledger.row`."""
        with self._using():
            return self._row(task_id) if task_id in self._shelf.tasks else None

    def _row(self, task_id: str) -> TaskRow:
        held = self._shelf.tasks[task_id]
        due_at = next_deadline(held.task, held.lease_until)
        return rows.task_row(held.task, self._shelf.positions[task_id], held.lease_until, due_at, self._clock())

    async def tasks(
        self, *, phases: Sequence[Phase] = (), root_id: str = "", after: int = 0, limit: int = 100
    ) -> list[TaskRow]:
        """See :meth:`Ledger.tasks`."""
        with self._using():
            found = []
            for task_id, position in self._shelf.positions.items():
                task = self._shelf.tasks[task_id].task
                fits = (not phases or task.phase in phases) and root_id in ("", task.root_id)
                if fits and position > after:
                    found.append(self._row(task_id))
            return found[:limit]

    async def tree(self, root_id: str) -> Tree | None:
        """See :meth:`Ledger.tree`."""
        with self._using():
            return self._shelf.tree(root_id)

    async def effects(self, task_id: str, *, open_only: bool = False) -> list[Effect]:
        """See :meth:`Ledger.effects`."""
        with self._using():
            mine = [effect for effect in self._shelf.effects.values() if effect.task_id == task_id]
            return [effect for effect in mine if not (open_only and effect.state.settled)]

    async def effects_due(self, *, limit: int = 100) -> list[Effect]:
        """See :meth:`Ledger.effects_due`."""
        with self._using():
            now = self._clock()
            due = [effect for effect in self._shelf.effects.values() if 0 < effect.next_check <= now]
            return sorted(due, key=lambda effect: effect.next_check)[:limit]

    async def effect_rows(self, *, open_only: bool = False, after: int = 0, limit: int = 100) -> list[EffectRow]:
        """See :meth:`Ledger.effect_rows`."""
        with self._using():
            positions = self._shelf.effect_positions
            found = [
                EffectRow(effect=effect, position=positions[key])
                for key, effect in self._shelf.effects.items()
                if positions[key] > after and (not open_only or effect.next_check)
            ]
            return found[:limit]

    async def residual(self, *, after: int = 0, limit: int = 100) -> list[TaskRow]:
        """See :meth:`Ledger.residual`."""
        with self._using():
            found = [
                task_id
                for task_id, position in self._shelf.positions.items()
                if position > after and residual_of(self._shelf.tasks[task_id].task)
            ]
            return [self._row(task_id) for task_id in found[:limit]]

    async def effect_counts(self) -> dict[str, int]:
        """See :meth:`Ledger.effect_counts`."""
        with self._using():
            counts: dict[str, int] = {}
            for effect in self._shelf.effects.values():
                counts[effect.state] = counts.get(effect.state, 0) + 1
            return {str(state): counts[state] for state in sorted(counts)}

    async def messages(self, task_id: str, *, after: int = 0, limit: int = 100) -> list[Message]:
        """See :meth:`Ledger.messages`."""
        with self._using():
            found = []
            for root_id, _, n, at, sender, question_id, digest in self._shelf.inputs.get(task_id, [])[after:]:
                body = self._shelf.bodies.get((root_id, digest))
                found.append(Message(n=n, at=at, sender=sender, question_id=question_id, digest=digest, body=body))
            return found[:limit]

    async def body(self, root_id: str, digest: str) -> Body | None:
        """See :meth:`Ledger.body`."""
        with self._using():
            if (root_id, digest) not in self._shelf.bodies:
                raise rows.unknown_body(root_id, digest)
            return self._shelf.bodies[root_id, digest]

    async def graph(self, digest: str) -> SavedGraph | None:
        """See :meth:`Ledger.graph`."""
        with self._using():
            return self._shelf.graphs.get(digest)

    async def graphs(self, *, team: str = "", limit: int = 100) -> list[SavedGraph]:
        """See :meth:`Ledger.graphs`."""
        with self._using():
            found = [saved for saved in self._shelf.graphs.values() if team in ("", saved.graph.team)]
            return found[::-1][:limit]

    async def conversation(self, conversation: str) -> str:
        """See :meth:`Ledger.conversation`."""
        with self._using():
            return self._shelf.conversing(conversation)

    async def offers(self, agents: Sequence[str], *, limit: int = 100) -> list[OpenOffer]:
        """See :meth:`Ledger.offers`."""
        with self._using():
            now = self._clock()
            found = []
            for offered in self._shelf.offers.values():
                for root_id, task_id, agent, position, epoch, kind, payload, issued_at, deadline in offered:
                    if agent in agents and now < deadline:
                        offer = OpenOffer(
                            root_id=root_id,
                            task_id=task_id,
                            epoch=epoch,
                            agent=agent,
                            kind=OfferKind(kind),
                            payload=payload,
                            issued_at=issued_at,
                            deadline=deadline,
                        )
                        found.append((position, agent, offer))
            return [offer for _, _, offer in sorted(found, key=lambda entry: entry[:2])[:limit]]

    async def overdue(self, *, limit: int = 100) -> list[str]:
        """See :meth:`Ledger.overdue`."""
        return self.overdue_blocking(limit=limit)

    def overdue_blocking(self, *, limit: int = 100) -> list[str]:
        """See :meth:`Ledger.overdue_blocking`."""
        with self._using():
            now = self._clock()
            dues = (
                (next_deadline(h.task, h.lease_until), h.task.root_id, name) for name, h in self._shelf.tasks.items()
            )
            late = [(due, root_id, name) for due, root_id, name in dues if due is not None and due <= now]
        return [name for _, _, name in nsmallest(limit, late)]

    async def instances(self, *, open_only: bool = False) -> list[Instance]:
        """See :meth:`Ledger.instances`."""
        with self._using():
            holders = {row[0] for row in self._shelf.holdings}
            found = reversed(self._shelf.instances.values())
            return [one for one in found if not open_only or not one.ended_at or one.instance_id in holders]

    async def held_by(self, instance_id: str) -> list[str]:
        """See :meth:`Ledger.held_by`."""
        with self._using():
            return sorted({row[2] for row in self._shelf.holdings if row[0] == instance_id})

    async def events(self, *, after: int = 0, task_id: str = "", limit: int = 1000) -> list[Recorded]:
        """See :meth:`Ledger.events`."""
        with self._using():
            feed = self._shelf.events[after:]
            mine = (row for row in feed if task_id in ("", row[2]))
            return [rows.recorded(row) for row, _ in zip(mine, range(limit), strict=False)]

    async def refusals(self, *, task_id: str = "", after: int = 0, limit: int = 100) -> list[Refusal]:
        """See :meth:`Ledger.refusals`."""
        with self._using():
            mine = [note for note in self._shelf.audit[after:] if task_id in ("", note.task_id)]
            return mine[:limit]

    async def wait(self, position: int, timeout: float) -> int:
        """See :meth:`Ledger.wait`."""
        self._open()
        return await self._wakeups.wait(position, timeout)

    async def verify(self, progress: Callable[[int, int], None] | None = None) -> Verification:
        """See :meth:`Ledger.verify`."""
        with self._using():
            return verify_shelf(self._shelf, progress)

    async def close(self) -> None:
        """See :meth:`Ledger.close`."""
        self._wakeups.close()
