"""A whole run by worker processes on one ledger file, with or without chaos, and its report.

The controller submits tickets, watches the ledger and judges the end; it works on no ticket itself. Under chaos it
submits as the acts go on, so that there is work in flight from the first act to the last.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from examples.retail import judge
from examples.retail.chaos import Chaos, Done, Plan
from examples.retail.client import RetailClient
from examples.retail.fleet import Fleet
from examples.retail.service.launch import launch
from examples.retail.team import task_for, team
from tenure.ledger import Ledger

LEASE = 1.5
"""Seconds: short, so that a stopped worker loses it soon; five heartbeats fit in on a busy machine."""

TIMEOUT = 1.0
"""Seconds that a worker waits for the service: less than its delays, so that delayed calls are in doubt."""

QUIET_WITHIN = 30.0
"""Seconds, after the last ticket, for observed deaths and late ends to reach the books, and for late calls to land."""

DRAIN = 40.0
LOOK_EVERY = 0.5


def faults(seed: int) -> dict[str, Any]:
    """What the service does badly under chaos. `late` and `slow` outlast the workers' patience."""
    return {
        "seed": seed,
        "lose": {"p": 0.25},
        "late": {"p": 0.15, "seconds": 2.5},
        "slow": {"p": 0.1, "seconds": 1.5},
        "down": {"p": 0.003, "seconds": 0.5},
    }


@dataclass(frozen=True)
class Setup:
    """One run.

    Attributes:
        data: the service's data file. work: what is to be done on it.
        chaos: the plan; ``None`` for a run without faults. workers: processes at a time.
        timeout: seconds until the run is given up. dump: folder for the changed records.
        tell: gets a line of progress now and then.
    """

    data: Path
    work: judge.Work
    chaos: Plan | None = None
    workers: int = 2
    timeout: float = 300.0
    dump: Path | None = None
    tell: Callable[[str], None] = lambda _: None

    @property
    def lease(self) -> float:
        """Seconds of a lease in this run."""
        return self.chaos.lease if self.chaos else team.settings.lease_ms / 1000


class Trial:
    """A run in progress."""

    def __init__(self, setup: Setup, folder: Path, url: str, ledger: Ledger) -> None:
        """Everything is there but the workers."""
        self.setup = setup
        environment = {"RETAIL_URL": url}
        if setup.chaos:
            environment |= {"RETAIL_LEASE": f"{setup.lease:g}", "RETAIL_TIMEOUT": f"{TIMEOUT:g}"}
        self.fleet = Fleet(ledger.url, environment, folder)
        self.done = Done()
        self._ledger = ledger
        self._tickets = [(ns, ticket) for ns, tickets in setup.work.tickets.items() for ticket in tickets]
        self._allowed = len(self._tickets)
        self._more = asyncio.Event()
        self._since = time.monotonic()

    async def work(self) -> str:
        """Run until every ticket is at rest and the books are quiet; returns why it was given up, or nothing.

        Raises:
            FleetError: a worker did what no worker should.
        """
        for _ in range(self.setup.workers):
            self.fleet.start()
        helpers = [asyncio.create_task(self._submit_all())]
        if self.setup.chaos:
            self._act(self.done)
            chaos = Chaos(self.fleet, self.setup.chaos, self._act)
            self.done = chaos.done
            helpers.append(asyncio.create_task(chaos.run()))
        try:
            return await self._watch(helpers)
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)

    def _act(self, done: Done) -> None:
        """Let more tickets in: the last ones only after the planned number of kills and of stops."""
        plan = self.setup.chaos
        if plan is None:
            return
        share = min(1.0, (min(done.killed, done.stopped) + 1) / (plan.acts + 1))
        self._allowed = int(len(self._tickets) * share)
        self._more.set()

    async def _submit_all(self) -> None:
        settings = msgspec.structs.replace(team.settings, lease_ms=int(self.setup.lease * 1000))
        for number, (ns, ticket) in enumerate(self._tickets):
            while number >= self._allowed:
                self._more.clear()
                await self._more.wait()
            await team.submit(**task_for(ticket, ns), settings=settings)

    async def _watch(self, helpers: list[asyncio.Task[None]]) -> str:
        """Look at the ledger until all is at rest; then wait a while for the books to become quiet."""
        give_up = self._since + self.setup.timeout
        resting_since = 0.0
        while True:
            for helper in helpers:
                if helper.done() and not helper.cancelled():
                    helper.result()  # raises what it has raised
            rows = [row async for row in judge.all_tasks(self._ledger)]
            resting = sum(judge.at_rest(row) for row in rows)
            works = sum(len(row.task.works) for row in rows)
            now = time.monotonic()
            self._tell(len(rows), resting, works)
            if resting == len(self._tickets):
                helpers[-1].cancel()
                resting_since = resting_since or now
                if not works or now - resting_since > QUIET_WITHIN:
                    return ""
            if now > give_up:
                return f"given up after {self.setup.timeout:g} s"
            if self.setup.chaos is None:
                self.fleet.check()
            await asyncio.sleep(LOOK_EVERY)

    def _tell(self, submitted: int, resting: int, works: int) -> None:
        chaos = f", killed {self.done.killed}, stopped {self.done.stopped}" if self.setup.chaos else ""
        self.setup.tell(
            f"{time.monotonic() - self._since:5.1f} s: {resting} of {len(self._tickets)} tickets at rest, "
            f"{submitted - resting} in hand, {works} works open{chaos}"
        )


async def run(setup: Setup) -> dict[str, Any]:
    """Run and judge; the report's ``problems`` are empty when everything is as it must be.

    The folder with the ledger, the service's database and the workers' logs is kept when there are problems.
    """
    folder = Path(tempfile.mkdtemp(prefix="retail-"))
    try:
        report = await _run(setup, folder)
    except asyncio.CancelledError:
        shutil.rmtree(folder)
        raise
    except BaseException:
        setup.tell(f"kept: {folder}")
        raise
    if report["problems"]:
        return report | {"kept": str(folder)}
    shutil.rmtree(folder)
    return report


async def _run(setup: Setup, folder: Path) -> dict[str, Any]:
    since = time.monotonic()
    async with _surroundings(setup, folder) as (trial, client, ledger):
        given_up = await trial.work()
        await client.set_faults({})
        codes = await asyncio.to_thread(trial.fleet.drain, DRAIN)
        await _all_landed(client)
        service = await judge.measure_service(client, setup.work, setup.dump)
        claimed = await judge.measure_ledger(ledger, setup.work)
    problems = judge.problems(setup.work, service, claimed)
    problems += [given_up] if given_up else []
    problems += [f"{name} ended with exit code {code}" for name, code in codes.items() if code]
    return _report(setup, trial.done, service, claimed, problems, seconds=time.monotonic() - since)


@contextlib.asynccontextmanager
async def _surroundings(setup: Setup, folder: Path) -> AsyncIterator[tuple[Trial, RetailClient, Ledger]]:
    """The service, a client of it, the ledger, and a trial whose processes are ended in any case."""
    wanted = faults(setup.chaos.seed) if setup.chaos else None
    running = await asyncio.to_thread(launch, setup.data, folder / "service.db", faults=wanted)
    team.use_ledger(f"sqlite:///{folder / 'ledger.db'}")
    try:
        async with RetailClient(running.url) as client:
            trial = Trial(setup, folder, running.url, team.ledger)
            try:
                yield trial, client, team.ledger
            finally:
                trial.fleet.end()
    finally:
        running.stop()
        await team.close()


async def _all_landed(client: RetailClient) -> None:
    """Wait for calls whose workers are long gone, and which the service acts on all the same."""
    async with asyncio.timeout(QUIET_WITHIN):
        while (await client.status())["in_flight"]:  # noqa: ASYNC110 - in another process, which sets no event here
            await asyncio.sleep(0.1)


def _report(
    setup: Setup,
    done: Done,
    service: judge.AtService,
    claimed: judge.InLedger,
    problems: list[str],
    *,
    seconds: float,
) -> dict[str, Any]:
    verified = claimed.verified
    return {
        "tickets": len(setup.work.all_tickets),
        "completed": claimed.phases.get("completed", 0),
        "escalated": len(claimed.escalated),
        "unfinished": len(claimed.unfinished),
        "writes_attempted": service.writes_attempted,
        "writes_applied": service.writes_applied,
        "writes_refused": service.writes_refused,
        "duplicates": service.duplicates,
        "state_equal": service.state_equal,
        "differences": service.differences,
        "handoffs": claimed.story.handoffs,
        "effects": claimed.effects,
        "residual": claimed.residual,
        "seed": setup.chaos.seed if setup.chaos else None,
        "killed": done.killed,
        "stopped": done.stopped,
        "answers_lost": service.answers_lost,
        "delayed": service.delayed,
        "takeovers": claimed.story.takeovers,
        "returned": claimed.story.returned,
        "in_doubt": claimed.story.in_doubt,
        "fenced": claimed.fenced,
        "seconds": round(seconds, 1),
        "verify": {
            "chain": verified.chain,
            "replay": verified.replay,
            "file": verified.file,
            "events": verified.events,
            "problems": list(verified.problems),
        },
        "problems": problems,
    }
