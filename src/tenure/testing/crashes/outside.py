"""The world outside: one system in a SQLite file of its own, which outlives every process that asks it for something.

A request is *posted* first and *lands* later, as on a network: once posted nothing calls it back, and the death of
its sender changes nothing. Nobody sees the world between two accesses, so each access first lets happen what was due
by then. All times are milliseconds of :func:`~tenure.runtime.clock.uptime_ms`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct

from tenure.runtime.clock import uptime_ms

FOREVER = 10**12

SCHEMA = """
CREATE TABLE IF NOT EXISTS wire (n INTEGER PRIMARY KEY, method TEXT, key TEXT, what TEXT, reference TEXT,
                                 lands_at INTEGER, kind TEXT, answer TEXT);
CREATE TABLE IF NOT EXISTS acts (n INTEGER PRIMARY KEY, key TEXT, kind TEXT, what TEXT, undoes INTEGER, at INTEGER);
CREATE TABLE IF NOT EXISTS seals (key TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS jobs (n INTEGER PRIMARY KEY, key TEXT, what TEXT, ends_at INTEGER, state TEXT);
CREATE TABLE IF NOT EXISTS told (n INTEGER PRIMARY KEY, agent TEXT, outcome TEXT, process INTEGER);
"""


class Rules(Struct, frozen=True, kw_only=True):
    """What a system promises.

    Attributes:
        window_ms: how long a repeated key is answered from the record; afterwards, or when 0, it acts again.
        tombstones: whether a sealed key is refused. job_ms: how long a job runs before it acts; 0: it acts at once.
    """

    window_ms: int = 0
    tombstones: bool = False
    job_ms: int = 0


class Message(Struct, frozen=True):
    """A request as it goes over the wire. ``what`` is asked for; ``key`` is the call's, ``reference`` the system's."""

    method: str
    key: str
    what: str
    reference: str = ""


class Reply(Struct, frozen=True):
    """``done``, ``accepted``, ``refused``, ``cancelled``, ``sealed`` or ``nothing``, and the system's name for it."""

    kind: str
    reference: str = ""


class Truth(Struct, frozen=True, kw_only=True):
    """What really happened.

    Attributes:
        acts, undone: how often it acted, and undid it. requests: how often it was asked to act, with what effect ever.
        told: what the agents were told, in order. pending: how much is under way and may still happen.
    """

    acts: int
    undone: int
    requests: int = 0
    told: tuple[str, ...] = ()
    pending: int = 0


class Outside:
    """One system. Every method is one transaction, from any process; blocking."""

    def __init__(self, path: Path, rules: Rules) -> None:
        """The file is made at the first access."""
        self._path = path
        self.rules = rules

    def post(self, message: Message, *, lands_at: int | None) -> int:
        """Put a request on the wire; it lands at that time, or never. Returns its number."""
        with self._world() as world:
            row = (message.method, message.key, message.what, message.reference, lands_at)
            posted = world.execute(
                "INSERT INTO wire (method, key, what, reference, lands_at) VALUES (?, ?, ?, ?, ?)", row
            )
            number = posted.lastrowid or 0
            self._pass_time(world)
            return number

    def answer(self, number: int) -> Reply | None:
        """The answer to a posted request, once it has landed."""
        with self._world() as world:
            kind, reference = world.execute("SELECT kind, answer FROM wire WHERE n = ?", (number,)).fetchone()
            return None if kind is None else Reply(kind, reference)

    def tell(self, agent: str, outcome: str, process: int) -> None:
        """Note what an agent was told of its effect."""
        with self._world() as world:
            world.execute("INSERT INTO told (agent, outcome, process) VALUES (?, ?, ?)", (agent, outcome, process))

    def truth(self) -> Truth:
        """What has happened by now."""
        with self._world() as world:

            def count(table_where: str) -> int:
                (number,) = world.execute(f"SELECT COUNT(*) FROM {table_where}").fetchone()  # noqa: S608 - ours
                return int(number)

            flying = count("wire WHERE kind IS NULL AND lands_at IS NOT NULL")
            return Truth(
                acts=count("acts WHERE kind = 'act'"),
                undone=count("acts WHERE kind = 'undo'"),
                requests=count("wire WHERE method = 'apply' AND lands_at IS NOT NULL"),
                told=tuple(outcome for (outcome,) in world.execute("SELECT outcome FROM told ORDER BY n")),
                pending=flying + count("jobs WHERE state = 'running'"),
            )

    @contextmanager
    def _world(self) -> Iterator[sqlite3.Connection]:
        """One durable transaction, after everything that was due before it."""
        with closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as world:
            world.execute("BEGIN IMMEDIATE")
            if not world.execute("SELECT 1 FROM sqlite_master").fetchone():
                for statement in SCHEMA.split(";"):
                    world.execute(statement)
            self._pass_time(world)
            yield world
            world.execute("COMMIT")

    # --- what the system does -----------------------------------------------------------------------------------

    def _pass_time(self, world: sqlite3.Connection) -> None:
        """Let requests land and jobs end, in the order of their times."""
        now = uptime_ms()
        due = world.execute(
            "SELECT n, method, key, what, reference, lands_at FROM wire"
            " WHERE kind IS NULL AND lands_at <= ? ORDER BY lands_at, n",
            (now,),
        ).fetchall()
        for number, method, key, what, reference, lands_at in due:
            self._end_jobs(world, lands_at)
            reply = self._land(world, Message(method, key, what, reference), lands_at)
            world.execute("UPDATE wire SET kind = ?, answer = ? WHERE n = ?", (reply.kind, reply.reference, number))
        self._end_jobs(world, now)

    def _end_jobs(self, world: sqlite3.Connection, now: int) -> None:
        over = world.execute(
            "SELECT n, key, what FROM jobs WHERE state = 'running' AND ends_at <= ?", (now,)
        ).fetchall()
        for number, key, what in over:
            world.execute("UPDATE jobs SET state = 'done' WHERE n = ?", (number,))
            self._act(world, "act", key, what, 0, now)

    def _land(self, world: sqlite3.Connection, message: Message, now: int) -> Reply:
        match message.method:
            case "apply":
                return self._apply(world, message, now)
            case "lookup":
                return self._lookup(world, message)
            case "seal":
                return self._seal(world, message)
            case "cancel":
                return self._cancel(world, message)
            case "compensate":
                return self._compensate(world, message, now)
            case _:
                return self._done(world, "undo", message.key)

    def _apply(self, world: sqlite3.Connection, message: Message, now: int) -> Reply:
        if world.execute("SELECT 1 FROM seals WHERE key = ?", (message.key,)).fetchone():
            return Reply("refused")
        if self.rules.job_ms:
            row = (message.key, message.what, now + self.rules.job_ms)
            begun = world.execute("INSERT INTO jobs (key, what, ends_at, state) VALUES (?, ?, ?, 'running')", row)
            return Reply("accepted", f"job-{begun.lastrowid}")
        known = self._known(world, "act", message.key, now)
        return known or self._act(world, "act", message.key, message.what, 0, now)

    def _known(self, world: sqlite3.Connection, kind: str, key: str, now: int) -> Reply | None:
        """The answer from the record, if the system still has it."""
        if not self.rules.window_ms:
            return None
        since = now - self.rules.window_ms
        row = world.execute("SELECT n FROM acts WHERE kind = ? AND key = ? AND at > ?", (kind, key, since)).fetchone()
        return Reply("done", f"{kind}-{row[0]}") if row else None

    def _act(self, world: sqlite3.Connection, kind: str, key: str, what: str, undoes: int, now: int) -> Reply:
        acted = world.execute(
            "INSERT INTO acts (key, kind, what, undoes, at) VALUES (?, ?, ?, ?, ?)", (key, kind, what, undoes, now)
        )
        return Reply("done", f"{kind}-{acted.lastrowid}")

    def _lookup(self, world: sqlite3.Connection, message: Message) -> Reply:
        job = self._job(world, message)
        if job is not None:
            return job
        if world.execute("SELECT 1 FROM seals WHERE key = ?", (message.key,)).fetchone():
            return Reply("sealed")
        return self._done(world, "act", message.key)

    def _job(self, world: sqlite3.Connection, message: Message) -> Reply | None:
        row = world.execute(
            "SELECT n, state FROM jobs WHERE 'job-' || n = ? OR key = ? ORDER BY n", (message.reference, message.key)
        ).fetchone()
        if row is None:
            return None
        kind = {"running": "accepted", "done": "done", "cancelled": "cancelled"}[row[1]]
        return Reply(kind, f"job-{row[0]}")

    def _done(self, world: sqlite3.Connection, kind: str, key: str) -> Reply:
        row = world.execute("SELECT n FROM acts WHERE kind = ? AND key = ?", (kind, key)).fetchone()
        return Reply("nothing") if row is None else Reply("done", f"{kind}-{row[0]}")

    def _seal(self, world: sqlite3.Connection, message: Message) -> Reply:
        done = self._done(world, "act", message.key)
        if done.kind == "done":
            return done
        if self.rules.tombstones:
            world.execute("INSERT OR IGNORE INTO seals (key) VALUES (?)", (message.key,))
        return Reply("sealed")

    def _cancel(self, world: sqlite3.Connection, message: Message) -> Reply:
        job = self._job(world, message)
        if job is None or job.kind != "accepted":
            return job or Reply("nothing")
        world.execute("UPDATE jobs SET state = 'cancelled' WHERE 'job-' || n = ?", (job.reference,))
        return Reply("cancelled", job.reference)

    def _compensate(self, world: sqlite3.Connection, message: Message, now: int) -> Reply:
        """Undo an act by its name. Like a refund: asked for twice, it is made twice, but for the same key in time."""
        known = self._known(world, "undo", message.key, now)
        if known is not None:
            return known
        row = world.execute(
            "SELECT n FROM acts WHERE kind = 'act' AND 'act-' || n = ?", (message.reference,)
        ).fetchone()
        if row is None:
            return Reply("nothing")
        return self._act(world, "undo", message.key, message.what, row[0], now)
