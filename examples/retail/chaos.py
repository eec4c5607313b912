"""A seeded controller that kills workers, and stops them past their lease, at random moments.

The seed gives the order of the acts, the pauses and who is hit. It does not give the same run twice: what the
workers are at when they are hit is up to the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from examples.retail.fleet import Fleet, Member

WORKS_FOR = 0.3  # s: a worker that was seen to work for less is left alone; to kill it would prove little
CALMER = 4  # times as long as planned is each pause after the planned acts, so that a slow machine comes to an end


@dataclass(frozen=True)
class Plan:
    """What the controller does.

    Attributes:
        seed: of every choice. lease: of the workers, in seconds.
        acts: kills and stops each that are planned. It goes on with both after that, but more slowly.
        pause: bounds of the seconds between two acts.
        stopped_for: bounds of a stop, in leases; above 1, for a worker that was stopped for less has not lost anything.
        stopped_at_once: how many workers may be stopped at the same time.
    """

    seed: int
    lease: float
    acts: int = 24
    pause: tuple[float, float] = (0.3, 1.1)
    stopped_for: tuple[float, float] = (1.3, 2.5)
    stopped_at_once: int = 2


@dataclass
class Done:
    """What was seen to happen.

    Attributes:
        killed: workers dead by SIGKILL. stopped: stops that lasted longer than a lease, ended by SIGCONT.
    """

    killed: int = 0
    stopped: int = 0
    resumed: list[str] = field(default_factory=list)


class Chaos:
    """Runs a plan on a fleet; replaces each worker that it kills at once."""

    def __init__(self, fleet: Fleet, plan: Plan, on_act: Callable[[Done], None]) -> None:
        """`on_act` is called after each act, with what was done so far."""
        self.done = Done()
        self._fleet = fleet
        self._plan = plan
        self._on_act = on_act
        self._random = random.Random(plan.seed)
        self._stops: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Act until cancelled. Kills and stops come in pairs of random order, so that neither falls behind.

        Raises:
            FleetError: a worker did what no worker should.
        """
        try:
            while True:
                pair = [self._kill, self._stop]
                self._random.shuffle(pair)
                for act in pair:
                    await asyncio.sleep(self._pause())
                    await act()
                    self._fleet.check()
        finally:
            await self._calm_down()

    def _pause(self) -> float:
        seconds = self._random.uniform(*self._plan.pause)
        planned = min(self.done.killed, self.done.stopped) < self._plan.acts
        return seconds if planned else seconds * CALMER

    async def _kill(self) -> None:
        member = await self._victim()
        await asyncio.to_thread(self._fleet.kill, member)
        self.done.killed += 1
        self._fleet.start()
        self._on_act(self.done)

    async def _stop(self) -> None:
        while len(self._stops) >= self._plan.stopped_at_once:
            await asyncio.wait(self._stops, return_when=asyncio.FIRST_COMPLETED)
        member = await self._victim()
        seconds = self._plan.lease * self._random.uniform(*self._plan.stopped_for)
        await asyncio.to_thread(self._fleet.stop, member)
        task = asyncio.create_task(self._resume(member, seconds))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)

    async def _resume(self, member: Member, seconds: float) -> None:
        since = time.monotonic()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._fleet.resume(member)
        if time.monotonic() - since > self._plan.lease:
            self.done.stopped += 1
            self.done.resumed.append(member.name)
            self._on_act(self.done)

    async def _victim(self) -> Member:
        """One of the workers that were seen to work and still run."""
        while True:
            running = [member for member in self._fleet.alive if not member.stopped]
            ready = [member for member in running if member.working_for() > WORKS_FOR]
            if ready:
                return self._random.choice(ready)
            await asyncio.sleep(0.05)

    async def _calm_down(self) -> None:
        """Resume whoever is stopped."""
        for task in self._stops:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._stops, return_exceptions=True)
