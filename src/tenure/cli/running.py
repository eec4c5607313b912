"""One run: a worker in this process, the submissions, and the wait until every task rests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from tenure.cli.lines import Line
from tenure.cli.problems import FOUND, INTERRUPTED
from tenure.cli.progress import Progress, progress
from tenure.cli.stopping import Stop
from tenure.cli.summary import Summary, summarize
from tenure.cli.talk import emit, emit_json, say
from tenure.cli.watching import Watch
from tenure.errors import Refused, TenureError
from tenure.ledger import Ledger
from tenure.runtime.ids import new_id
from tenure.runtime.team import Team

WINDOW = 4
"""Tasks that are submitted and not at rest, for each tenure at once: enough to keep the worker busy, and few enough
that none waits for its pick-up past its deadline."""


class Runner:
    """What ``tenure run`` does, once its file was read."""

    def __init__(
        self, team: Team, lines: list[Line], *, name: str, concurrency: int, drain: float, as_json: bool
    ) -> None:
        self._team = team
        self._lines = lines
        self._name = name or new_id(f"{team.name}-run")
        self._concurrency = concurrency
        self._drain = drain
        self._as_json = as_json
        self._tasks: list[str] = []
        self._refused = 0
        self._error: TenureError | None = None
        self._broken = asyncio.Event()

    async def run(self, stop: Stop) -> int:
        """Work, drain, count, tell."""
        ledger = self._team.keep_ledger_open()
        try:
            with progress("tasks at rest") as bar:
                await self._work(ledger, stop, bar)
            if self._error is not None:
                raise self._error
            summary = Summary(ledger=ledger.url, interrupted=stop.requested.is_set(), refused=self._refused)
            summary.unsent = len(self._lines) - len(self._tasks) - self._refused
            await summarize(ledger, self._tasks, summary)
        finally:
            await ledger.close()
        if self._as_json:
            emit_json(summary)
        else:
            emit(summary.text())
        return _exit_code(summary)

    async def _work(self, ledger: Ledger, stop: Stop, bar: Progress) -> None:
        """Ends when all tasks rest, at the first signal, or when the ledger takes no more."""

        def changed() -> None:
            counts = Counter(watch.resting.values())
            words = ", ".join(f"{number} {phase}" for phase, number in sorted(counts.items()))
            bar.show(len(watch.resting), len(self._lines), words)

        watch = Watch(ledger, changed)
        async with self._team.worker(name=self._name, concurrency=self._concurrency, drain=self._drain):
            everything = asyncio.ensure_future(self._submit_all(watch))
            until = [
                everything,
                asyncio.ensure_future(stop.requested.wait()),
                asyncio.ensure_future(self._broken.wait()),
            ]
            follow = asyncio.ensure_future(watch.follow())
            try:
                await asyncio.wait([*until, follow], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in (*until, follow):
                    each.cancel()
                ended = await asyncio.gather(*until, follow, return_exceptions=True)
            for error in ended:
                if isinstance(error, Exception):
                    raise error

    async def _submit_all(self, watch: Watch) -> None:
        gate = asyncio.Semaphore(self._concurrency * WINDOW)

        async def one(line: Line) -> None:
            async with gate:
                await self._submit(line, watch)

        works: list[Coroutine[Any, Any, None]] = [one(line) for line in self._lines]
        await asyncio.gather(*works)

    async def _submit(self, line: Line, watch: Watch) -> None:
        """Submit one line and wait until its task rests; after an unfinished task of the same conversation."""
        while True:
            try:
                handle = await self._team.submit(**line.arguments)
            except Refused as error:
                if error.code != "conversation_open" or not (await watch.rest(error.facts["task_id"])).ended:
                    self._refused += 1
                    say(f"line {line.number} refused: {error}")
                    return
                continue
            except TenureError as error:
                self._error = error
                self._broken.set()
                return
            self._tasks.append(handle.task_id)
            await watch.rest(handle.task_id)
            return


def _exit_code(summary: Summary) -> int:
    if summary.interrupted:
        return INTERRUPTED
    if summary.refused:
        return Refused.exit_code
    return FOUND if summary.failed else 0
