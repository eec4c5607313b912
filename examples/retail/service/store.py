"""The service's own SQLite database: the data, what each namespace changed, and a record per idempotency key.

A write and the record of its key are one transaction, committed with ``synchronous=FULL`` before the answer leaves:
killed at any instant, the service finds either both or neither.

Everything here blocks and is called from one thread at a time.
"""

from __future__ import annotations

import fcntl
import hashlib
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import apsw
import msgspec

from examples.retail.rules import Applied, Books, Record, apply, digest

SCHEMA = Path(__file__).with_name("schema.sql")
APPLICATION_ID = 0x52544C31  # "RTL1" in the file's header: tells a database of this service from any other
KINDS = ("products", "users", "orders")


class StoreError(Exception):
    """The database cannot be used as asked; the text says why and what to do."""


class NotFound(Exception):
    """Nothing of that name is on the books."""


class Answer(msgspec.Struct, frozen=True):
    """What became of one write: `result` is the record that it is about, `reason` why it was refused."""

    outcome: Literal["applied", "refused"]
    reference: str
    reason: str | None = None
    result: Record | None = None


class Known(msgspec.Struct, frozen=True):
    """What is known of one key. `absent`: nothing was applied or refused under it; if sealed, nothing ever will be."""

    key: str
    state: Literal["applied", "refused", "absent", "in_flight"]
    sealed: bool = False
    reference: str | None = None
    operation: str | None = None
    reason: str | None = None
    result: Record | None = None


class Conflict(msgspec.Struct, frozen=True):
    """The key stands for another operation or other arguments."""

    operation: str


class Sealed(msgspec.Struct, frozen=True):
    """The key was sealed before anything was done under it."""


class Written(msgspec.Struct, frozen=True):
    """The answer to a write; `repeated` when it is the one recorded earlier."""

    answer: Answer
    repeated: bool


class Overlay(Mapping[str, Record]):
    """The records of one kind as one namespace sees them: its own where it has changed them, else the data's."""

    def __init__(self, connection: apsw.Connection, ns: str, kind: str, base: Mapping[str, Record]) -> None:
        self._connection, self._ns, self._kind, self._base = connection, ns, kind, base

    def __getitem__(self, name: str) -> Record:
        base = self._base[name]
        rows = self._connection.execute(
            "SELECT body FROM overlay WHERE ns = ? AND kind = ? AND id = ?", (self._ns, self._kind, name)
        )
        found = rows.fetchone()
        return _decode(found[0]) if found else base

    def __contains__(self, name: object) -> bool:
        return name in self._base

    def __iter__(self) -> Iterator[str]:
        return iter(self._base)  # no rule makes a new record: a namespace has exactly the ids of the data

    def __len__(self) -> int:
        return len(self._base)


class Store:
    """One database file, held by one process at a time."""

    def __init__(self, database: Path, data: Path) -> None:
        """Open `database`, made and filled from `data` at first.

        Raises:
            StoreError: another process holds it, it is no database of this service, or it was filled from other data.
        """
        with ExitStack() as undo:
            undo.enter_context(_hold(database))
            try:
                self._connection = apsw.Connection(str(database))
                undo.callback(self._connection.close)
                _prepare(self._connection, database)
                self._load(data)
            except apsw.Error as error:
                raise StoreError(f"{database} cannot be used as the service's database: {error}") from error
            self._base = {kind: self._read_base(kind) for kind in KINDS}
            self._index()
            self._open = undo.pop_all()

    def close(self) -> None:
        """Close the database; the file is then free for another process."""
        self._open.close()

    # Namespaces and reads

    def open_namespace(self, ns: str) -> bool:
        """Make the namespace unless it exists; says whether it was made."""
        self._connection.execute("INSERT OR IGNORE INTO namespace VALUES (?, ?)", (ns, _now()))
        return self._connection.changes() == 1

    def books(self, ns: str) -> Books:
        """Return the books as `ns` sees them; raises NotFound for a namespace that was never opened."""
        if not self._connection.execute("SELECT 1 FROM namespace WHERE ns = ?", (ns,)).fetchone():
            raise NotFound(f"there is no namespace {ns!r}: open it with PUT /ns/{ns}")
        users, orders = (Overlay(self._connection, ns, kind, self._base[kind]) for kind in ("users", "orders"))
        return Books(self._base["products"], users, orders)

    def user_ids(self, email: str) -> list[str]:
        """Return the ids of the users with that address of mail, which no write changes."""
        return self._by_email[email.casefold()]

    def namesakes(self, first_name: str, last_name: str) -> list[str]:
        """Return the ids of the users of that name, which no write changes."""
        return self._by_name[first_name.casefold(), last_name.casefold()]

    def changes(self, ns: str) -> dict[str, dict[str, Record]]:
        """Return the orders and users of `ns` that differ from the data."""
        self.books(ns)
        found: dict[str, dict[str, Record]] = {"orders": {}, "users": {}}
        rows = self._connection.execute("SELECT kind, id, body FROM overlay WHERE ns = ? ORDER BY kind, id", (ns,))
        for kind, name, body in rows:
            record = _decode(body)
            if record != self._base[kind][name]:
                found[kind][name] = record
        return found

    def log(self, ns: str | None = None) -> list[dict[str, Any]]:
        """Return every application, oldest first: of one namespace or of all."""
        if ns is not None:
            self.books(ns)
        names = ("number", "ns", "key", "operation", "digest", "at")
        rows = self._connection.execute(
            f"SELECT {', '.join(names)} FROM application WHERE ?1 IS NULL OR ns = ?1 ORDER BY number", (ns,)
        )
        return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]

    # Writes

    def write(
        self, ns: str, key: str, operation: str, arguments: Mapping[str, Any], *, refusal: str | None = None
    ) -> Written | Conflict | Sealed:
        """Judge and apply one write under its key, or give the answer that the key has already.

        `refusal` refuses a new key whatever the rules say; it does not touch one that has its answer.
        """
        body = digest(operation, arguments)
        with self._transaction():
            books = self.books(ns)
            row = self._connection.execute(
                "SELECT digest, operation, answer FROM write WHERE ns = ? AND key = ?", (ns, key)
            ).fetchone()
            if row is None:
                return Written(self._apply(books, ns, key, operation, arguments, refusal), repeated=False)
            if row[2] is None:
                self._count("sealed_calls")
                return Sealed()
            if row[0] != body:
                self._count("conflicts")
                return Conflict(row[1])
            self._count("repeats")
            return Written(msgspec.json.decode(row[2], type=Answer), repeated=True)

    def _apply(
        self, books: Books, ns: str, key: str, operation: str, arguments: Mapping[str, Any], refusal: str | None
    ) -> Answer:
        outcome = None if refusal else apply(books, operation, arguments)
        # The reference is made of the row's number, so the row goes first, and its answer after.
        body, at = digest(operation, arguments), _now()
        state = "applied" if isinstance(outcome, Applied) else "refused"
        self._connection.execute(
            "INSERT INTO write (ns, key, operation, digest, outcome, at) VALUES (?, ?, ?, ?, ?, ?)",
            (ns, key, operation, body, state, at),
        )
        number = self._connection.last_insert_rowid()
        reference = f"RW-{number:06}"
        if isinstance(outcome, Applied):
            answer = Answer("applied", reference, result=outcome.result)
            self._overlay(ns, outcome)
            self._connection.execute(
                "INSERT INTO application (ns, key, operation, digest, at) VALUES (?, ?, ?, ?, ?)",
                (ns, key, operation, body, at),
            )
        else:
            answer = Answer("refused", reference, reason=outcome.reason if outcome else refusal)
            if refusal:
                self._count("fault.refuse")
        self._connection.execute("UPDATE write SET answer = ? WHERE number = ?", (_encode(answer), number))
        return answer

    def _overlay(self, ns: str, outcome: Applied) -> None:
        for kind, records in (("orders", outcome.orders), ("users", outcome.users)):
            self._connection.executemany(
                "INSERT INTO overlay VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body",
                [(ns, kind, name, _encode(record)) for name, record in records.items()],
            )

    def lookup(self, ns: str, key: str) -> Known:
        """Return what is on record under `key`."""
        self.books(ns)
        row = self._connection.execute(
            "SELECT operation, answer, sealed FROM write WHERE ns = ? AND key = ?", (ns, key)
        ).fetchone()
        if row is None:
            return Known(key, "absent")
        operation, recorded, sealed = row
        if recorded is None:
            return Known(key, "absent", sealed=True)
        answer = msgspec.json.decode(recorded, type=Answer)
        return Known(
            key, answer.outcome, bool(sealed), answer.reference, operation, reason=answer.reason, result=answer.result
        )

    def seal(self, ns: str, key: str) -> Known:
        """Make sure that nothing new can be done under `key`, and return what was done before."""
        with self._transaction():
            self.books(ns)
            self._connection.execute(
                "INSERT INTO write (ns, key, sealed, at) VALUES (?, ?, 1, ?)"
                " ON CONFLICT (ns, key) DO UPDATE SET sealed = 1",
                (ns, key, _now()),
            )
            return self.lookup(ns, key)

    # Counting

    def count(self, name: str) -> None:
        """Count one event, durably."""
        with self._transaction():
            self._count(name)

    def totals(self) -> dict[str, Any]:
        """Return what the tables hold and what has been counted since the database was made."""
        one = self._connection.execute(
            "SELECT (SELECT count(*) FROM namespace), (SELECT count(*) FROM application),"
            " count(*) FILTER (WHERE outcome = 'applied'), count(*) FILTER (WHERE outcome = 'refused'),"
            " count(*) FILTER (WHERE sealed) FROM write"
        ).fetchone()
        assert one is not None, "an aggregate always gives a row"
        names = ("namespaces", "applications", "applied", "refused", "sealed")
        counted = self._connection.execute("SELECT name, count FROM counter ORDER BY name").fetchall()
        return dict(zip(names, one, strict=True)) | {"counted": {str(name): count for name, count in counted}}

    def _count(self, name: str) -> None:
        self._connection.execute(
            "INSERT INTO counter VALUES (?, 1) ON CONFLICT DO UPDATE SET count = count + 1", (name,)
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    # Loading

    def _load(self, data: Path) -> None:
        content = data.read_bytes()
        mark = hashlib.sha256(content).hexdigest()
        with self._transaction():
            row = self._connection.execute("SELECT value FROM meta WHERE name = 'data'").fetchone()
            if row is None:
                parsed = msgspec.json.decode(content, type=dict[str, dict[str, Record]])
                rows = [(kind, name, _encode(record)) for kind in KINDS for name, record in parsed[kind].items()]
                self._connection.executemany("INSERT INTO base VALUES (?, ?, ?)", rows)
                self._connection.execute("INSERT INTO meta VALUES ('data', ?)", (mark,))
            elif row[0] != mark:
                raise StoreError(
                    "the database was filled from other data; name the data it was made of or another file"
                )

    def _read_base(self, kind: str) -> dict[str, Record]:
        rows = self._connection.execute("SELECT id, body FROM base WHERE kind = ? ORDER BY id", (kind,))
        return {name: _decode(body) for name, body in rows}

    def _index(self) -> None:
        self._by_email: defaultdict[str, list[str]] = defaultdict(list)
        self._by_name: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for name, user in self._base["users"].items():
            self._by_email[user["email"].casefold()].append(name)
            names = user["name"]
            self._by_name[names["first_name"].casefold(), names["last_name"].casefold()].append(name)


@contextmanager
def _hold(database: Path) -> Iterator[None]:
    """Keep every other process off the file: which keys are in flight is known to one process only."""
    with database.with_name(database.name + ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(f"{database} is held by another process; stop it or name another --database") from error
        yield


def _prepare(connection: apsw.Connection, database: Path) -> None:
    if connection.pragma("application_id") != APPLICATION_ID:
        if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
            raise StoreError(f"{database} belongs to another program; name another --database")
        connection.pragma("application_id", APPLICATION_ID)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(SCHEMA.read_text(encoding="utf-8"))


def _now() -> int:
    return time.time_ns() // 1_000_000


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _decode(body: Any) -> Record:
    return msgspec.json.decode(body, type=Record)
