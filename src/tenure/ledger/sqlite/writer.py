"""The one writer of a ledger object: a batch of jobs is one transaction, and nobody is answered before its COMMIT."""

from __future__ import annotations

from collections.abc import Callable

import apsw

from tenure.errors import Fenced, Refused, Unavailable
from tenure.ledger.sqlite.connection import translate
from tenure.ledger.sqlite.lane import Desk, Job
from tenure.ledger.sqlite.store import Store


class WriterDesk(Desk[Store]):
    """Serves commands and everything else that writes.

    Attributes:
        commits: number of commits that wrote something.
    """

    def __init__(self, store: Store, path: str, announce: Callable[[int], None]) -> None:
        self.commits = 0
        self._store = store
        self._path = path
        self._announce = announce

    def serve(self, jobs: list[Job[Store]]) -> None:
        """Do a batch in one transaction."""
        store = self._store
        try:
            store.begin()
            for job in jobs:
                self._do(job)
        except Exception as error:  # noqa: BLE001 - every caller gets it
            store.rollback()
            _fail(jobs, self._translated(error))
            return
        self._commit(jobs)

    def _do(self, job: Job[Store]) -> None:
        """One job. It fails alone as long as the transaction itself is whole."""
        try:
            job.value = job.work(self._store)
        except (Refused, Fenced, Unavailable) as error:
            job.error = error
        except apsw.Error as error:
            # A full disk or an I/O error ends the transaction, and with it what others have written in it.
            if isinstance(error, apsw.FullError | apsw.IOError) or not self._store.connection.in_transaction:
                raise
            job.error = translate(error, self._path)

    def _commit(self, jobs: list[Job[Store]]) -> None:
        store = self._store
        try:
            store.commit()
        except apsw.Error as error:
            store.rollback()
            problem = translate(error, self._path, committing=True)
            # What was refused beside others may have been refused because of them, and they are gone.
            if store.changed:
                _fail(jobs, problem)
            return
        if store.dirty:
            self.commits += 1
            if store.changed:
                self._announce(store.last)
        if store.erasing:
            store.scrub()

    def _translated(self, error: Exception) -> Exception:
        return translate(error, self._path) if isinstance(error, apsw.Error) else error

    def close(self) -> None:
        """Let go of the file."""
        self._store.connection.close()


def _fail(jobs: list[Job[Store]], error: Exception) -> None:
    for job in jobs:
        job.value = None
        job.error = error
