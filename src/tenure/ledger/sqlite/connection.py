"""Opening a ledger's file, upgrading it, and turning SQLite's errors into the four families."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw

from tenure.errors import OutcomeUnknown, Refused, TenureError, Unavailable
from tenure.ledger.sqlite.statements import migrations

APPLICATION_ID = 0x54454E55
"""``TENU``: by this number in the file's header a ledger is told from any other database."""
BUSY_MS = 5_000
"""Longest wait for the write lock of another process."""

_WRITER = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA fullfsync = ON;
PRAGMA checkpoint_fullfsync = ON;
PRAGMA journal_size_limit = 67108864;
PRAGMA cache_size = -16000;
"""


def open_writer(path: str, *, vfs: str = "", schema: Sequence[str] = ()) -> apsw.Connection:
    """Open, or make, the file of a ledger for writing, with its schema up to date.

    Args:
        path: the file. vfs: name of an APSW VFS; empty for the system's own.
        schema: the migrations to use instead of the package's.

    Raises:
        Refused: ``invalid``, ``foreign_file``, ``newer_file`` or ``corrupt_file``.
        Unavailable: ``ledger_read_only``, ``ledger_busy``, ``disk_full`` or ``ledger_unavailable``.
    """
    _check_path(path)
    connection: apsw.Connection | None = None
    try:
        connection = apsw.Connection(path, vfs=vfs or None)
        connection.set_busy_timeout(BUSY_MS)
        known = tuple(schema) or migrations()
        if connection.readonly("main"):
            raise Unavailable("ledger_read_only", f"{path} is not writable by this user.")
        version = _version(connection, path, len(known))
        connection.execute(_WRITER)
        _upgrade(connection, version, known)
        connection.pragma("user_version")  # a file that was in another mode has a log from the first read on
        return connection
    except (apsw.Error, TenureError) as error:
        if connection is not None:
            connection.close(force=True)
        raise (translate(error, path) if isinstance(error, apsw.Error) else error) from None


def open_reader(path: str, *, vfs: str = "") -> apsw.Connection:
    """Open a ledger's file for reading only.

    Raises:
        Refused, Unavailable: as :func:`translate` says.
    """
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs or None)
    except apsw.Error as error:
        raise translate(error, path) from None
    connection.set_busy_timeout(BUSY_MS)
    return connection


def _check_path(path: str) -> None:
    if not path or path.startswith(":"):
        raise Refused("invalid", f"{path!r} is not a file; for a ledger in memory use memory://.")
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise Refused("invalid", f"The folder {folder} does not exist. Make it first.")
    if Path(path).is_dir():
        raise Refused("invalid", f"{path} is a folder; name a file in it.")


def _version(connection: apsw.Connection, path: str, known: int) -> int:
    """The schema's version in the file, 0 for an empty one; touches nothing."""
    application = connection.pragma("application_id")
    version = int(connection.pragma("user_version") or 0)
    if application != APPLICATION_ID:
        if application or version or connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
            raise Refused("foreign_file", f"{path} belongs to another program; name another file.")
        return 0
    if version > known:
        raise Refused("newer_file", f"{path} has schema {version}, this code knows up to {known}. Upgrade Tenure.")
    return version


def _upgrade(connection: apsw.Connection, version: int, known: Sequence[str]) -> None:
    """Bring the schema up to date, each step in a transaction of its own; another process may be doing the same.

    A step that fails is undone when the connection is closed.
    """
    while version < len(known):
        connection.execute("BEGIN IMMEDIATE")
        version = int(connection.pragma("user_version") or 0)
        if version < len(known):
            connection.execute(known[version])
            version += 1
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", version)
        connection.execute("COMMIT")


def translate(error: apsw.Error, path: str, *, committing: bool = False) -> TenureError:
    """An error of SQLite as one of the four families.

    ``committing``: it was raised by COMMIT. An I/O error there leaves the fate of the commit open: its last page may
    have reached the disk, and shows after a crash.
    """
    detail = f"{path}: {error}"
    if isinstance(error, apsw.FullError):
        return Unavailable("disk_full", detail)
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Unavailable("ledger_busy", detail)
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError | apsw.AuthError):
        return Unavailable("ledger_read_only", detail)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Refused("corrupt_file", f"{detail}. Restore it from a copy.")
    if committing and isinstance(error, apsw.IOError):
        return OutcomeUnknown("commit_unknown", detail)
    return Unavailable("ledger_unavailable", detail)
