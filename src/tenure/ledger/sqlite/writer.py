"""The one writer of a ledger object: a batch of jobs is one transaction, and nobody is answered before its COMMIT."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import apsw

from tenure.errors import Fenced, Refused
from tenure.ledger.shelf import again
from tenure.ledger.sqlite.connection import translate
from tenure.ledger.sqlite.lane import Desk, Job
from tenure.ledger.sqlite.place import Place
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
        self._place = Place(path)
        self._announce = announce

    def serve(self, jobs: list[Job[Store]]) -> None:
        """Do a batch in one transaction; if one of them breaks it, each in a transaction of its own.

        A savepoint per job would say at once which one it was, at twice the cost of everything that a job writes.
        Nothing is written, and no lease prolonged, in a file that others no longer get by its path.
        """
        problem = self._place.problem()
        if problem is not None:
            for job in jobs:
                job.error = problem
            return
        try:
            self._transaction(jobs)
        except Exception:  # noqa: BLE001 - whatever it was, alone each job meets or does not meet it again
            for job in jobs:
                self._alone(job)

    def _alone(self, job: Job[Store]) -> None:
        try:
            again(lambda: self._transaction([job]))
        except apsw.Error as error:
            job.error = translate(error, self._path)
        except Exception as error:  # noqa: BLE001 - it is raised where the job was asked for
            job.error = error

    def _transaction(self, jobs: list[Job[Store]]) -> None:
        """One transaction. Raises, with everything undone, what is not the answer of a job."""
        store = self._store
        try:
            store.begin()
            for job in jobs:
                job.value = job.error = None
                try:
                    job.value = job.work(store)
                except (Refused, Fenced) as error:
                    job.error = error
            store.flush()
        except BaseException:
            store.rollback()
            raise
        if store.dirty:
            self._commit(jobs)
        else:
            store.rollback()

    def _commit(self, jobs: list[Job[Store]]) -> None:
        store = self._store
        try:
            store.commit()
        except apsw.Error as error:
            store.rollback()
            problem = translate(error, self._path, committing=True)
            for job in jobs:
                # What was refused beside others may have been refused because of them, and they are gone.
                job.error = problem if store.changed else job.error
            return
        self.commits += 1
        if store.changed:
            self._announce(store.last)
        if store.erasing:
            store.scrub()

    def close(self) -> None:
        """Let go of the file. What was answered is in it already, so nothing can be lost here."""
        with contextlib.suppress(apsw.Error):
            self._store.connection.close()
