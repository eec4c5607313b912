"""One cell: a first worker in a process of its own, the fault, whoever goes on afterwards, and the verdict."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import tempfile
import time
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tenure import Team
from tenure.ledger import Ledger, open_ledger
from tenure.protocol.outside import Effect
from tenure.protocol.vocabulary import Phase
from tenure.runtime.handle import ENDED
from tenure.runtime.worker import Worker
from tenure.testing.crashes.judge import gather, judge
from tenure.testing.crashes.mutants import MUTANTS, Mutant
from tenure.testing.crashes.outside import Outside, Truth
from tenure.testing.crashes.points import IN_FLIGHT_MS, Fault, Line, Point, Striker, StruckLedger
from tenure.testing.crashes.program import ORDER, PERSON, TASK, Desk, team_of
from tenure.testing.crashes.strategies import STRATEGIES

STRUCK_SECONDS = 20.0
SETTLE_SECONDS = 20.0
REST_SECONDS = 25.0
RECONCILE_SECONDS = 2 * IN_FLIGHT_MS / 1000
SWEEP_PAUSE = 0.1
POLL = 0.02

WENT_ON_BY = {Fault.CANCEL: "cancelled", Fault.HAND_OVER: "cancelled", Fault.REVERSE: "released"}
"""What makes the struck call go on."""

OVER = frozenset({*ENDED, Phase.ESCALATED})


class Cell(Struct, frozen=True, kw_only=True):
    """One of the matrix."""

    strategy: str
    point: Point
    fault: Fault

    @property
    def name(self) -> str:
        """As ``--only`` takes it."""
        return f"{self.strategy}/{self.point}/{self.fault}"


class Verdict(Struct, frozen=True, kw_only=True):
    """What became of a cell.

    Attributes:
        record: the states of its effects. told: what the agents were told. acts, requests: the provider's truth.
        timeline: the ledger's events, of a red one.
    """

    cell: Cell
    word: str
    problems: tuple[str, ...] = ()
    record: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    acts: int = 0
    requests: int = 0
    seconds: float = 0.0
    timeline: tuple[str, ...] = ()

    @property
    def red(self) -> bool:
        """Whether a promise was broken, or the cell has shown nothing."""
        return bool(self.problems)


def run_cell(cell: Cell, mutant: str = "") -> Verdict:
    """Run one cell in this process, which has no event loop and no thread yet: the first worker is forked from it."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tenure-cell-") as folder:
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        first = context.Process(target=_first_worker, args=(cell, mutant, Path(folder), theirs, ours))
        first.start()
        theirs.close()
        try:
            verdict = asyncio.run(_Driver(cell, MUTANTS.get(mutant), Path(folder), ours, first).run())
        finally:
            first.kill()
            first.join()
    return replace(verdict, seconds=time.perf_counter() - began)


# --- the first worker -----------------------------------------------------------------------------------------------


def _first_worker(cell: Cell, mutant: str, folder: Path, wire: Connection, other_end: Connection) -> None:
    other_end.close()  # so that the driver's end is the only one, and its death is heard
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_first(cell, MUTANTS.get(mutant), folder, wire))


async def _first(cell: Cell, mutant: Mutant | None, folder: Path, wire: Connection) -> None:
    """Submit the task, work on it until the fault has struck, then take nothing new and end."""
    strategy = STRATEGIES[cell.strategy]
    system = strategy.system(folder)
    ledger = await asyncio.to_thread(open_ledger, _url(folder))
    striker = Striker(cell.point, cell.fault, wire)
    way = StruckLedger(ledger, striker).ledger
    provider = strategy.provider(Line(system, striker))
    if mutant is not None:
        provider, way = mutant.provider(provider), mutant.ledger(way)
    team = team_of(Desk(provider, system, undoes=cell.point.undoing, striker=striker), way, cell.fault)
    async with team.worker(name="first", drain=REST_SECONDS):
        await team.submit({"order": ORDER}, goal="Do it once", task_id=TASK)
        await asyncio.wait_for(striker.struck.wait(), STRUCK_SECONDS)
    await striker.at_rest()
    await ledger.close()


def _url(folder: Path) -> str:
    return f"sqlite:///{folder}/ledger.db"


async def _sweep(worker: Worker, effects: list[Effect]) -> None:
    """One sweep over these effects, due or not, and a pause."""
    if worker.reconciler is not None:
        await worker.reconciler.sweep(effects=effects)
    await asyncio.sleep(SWEEP_PAUSE)


# --- the driver -----------------------------------------------------------------------------------------------------


class _Driver:
    """Brings the outer half of the fault about, lets others go on, and gathers the evidence."""

    def __init__(self, cell: Cell, mutant: Mutant | None, folder: Path, wire: Connection, first: ForkProcess) -> None:
        self.cell = cell
        self.mutant = mutant
        self.folder = folder
        self.wire = wire
        self.first = first
        self.problems: list[str] = []
        self.system: Outside = STRATEGIES[cell.strategy].system(folder)

    async def run(self) -> Verdict:
        """The whole of it."""
        struck = await asyncio.to_thread(self._heard, "struck", STRUCK_SECONDS)
        ledger = await asyncio.to_thread(open_ledger, _url(self.folder))
        try:
            if struck:
                await self._strike_from_outside(ledger)
                await self._settle(ledger)
                await self._let_go_on()
                await self._ended()
                await self._settle_the_rest(ledger)
            return await self._verdict(ledger, struck=struck)
        finally:
            await ledger.close()

    def _heard(self, word: str, seconds: float) -> bool:
        try:
            return self.wire.poll(seconds) and self.wire.recv() == word
        except EOFError:
            return False

    async def _strike_from_outside(self, ledger: Ledger) -> None:
        handle = self._team(ledger).task(TASK)
        match self.cell.fault:
            case Fault.KILL:
                await asyncio.to_thread(self.first.join, REST_SECONDS)
            case Fault.CANCEL:
                await handle.cancel(by=PERSON, reason="struck")
            case Fault.REVERSE:
                hops = (await handle.state()).hops
                await handle.reverse(hops[-1].handoff_id, by=PERSON, reason="struck")
            case Fault.LOST_ANSWER | Fault.HAND_OVER | Fault.STALL:
                pass

    async def _settle(self, ledger: Ledger) -> None:
        """Let others go on beside the first worker: a second one, whose reconciler looks again and again meanwhile."""
        team = self._team(ledger)
        async with team.worker(name="second", drain=1) as worker:
            over = asyncio.Event()
            looking = asyncio.create_task(self._look_on(ledger, worker, over))
            await self._over(team)
            over.set()
            await looking

    async def _settle_the_rest(self, ledger: Ledger) -> None:
        """When the first worker has ended: the reconciler, then a person who lets the owner have another look."""
        team = self._team(ledger)
        task = await team.task(TASK).state()
        if task.question is None and not await self._open(ledger):
            return
        async with team.worker(name="second", drain=1) as worker:
            await self._reconcile(ledger, worker)
            if task.question is not None:
                await team.task(TASK).answer(task.question.question_id, by=PERSON, action="resume")
                await self._over(team)
                await self._reconcile(ledger, worker)

    async def _over(self, team: Team) -> None:
        """Wait until the task has ended or a person is asked."""
        try:
            await team.task(TASK).reached(OVER, SETTLE_SECONDS)
        except TimeoutError as error:
            self.problems.append(str(error))

    async def _open(self, ledger: Ledger) -> list[Effect]:
        """Effects that somebody should look after: unsettled, or to be undone."""
        return [each for each in await ledger.effects(TASK) if not each.state.settled or each.next_check]

    async def _look_on(self, ledger: Ledger, worker: Worker, over: asyncio.Event) -> None:
        """Sweep as if everything were always due. The look that has begun is brought to its end."""
        while not over.is_set():
            await _sweep(worker, await self._open(ledger))

    async def _reconcile(self, ledger: Ledger, worker: Worker) -> None:
        """Sweep until nothing is open, or nothing can land any more and a person was asked about what is."""
        began = time.monotonic()
        while left := await self._open(ledger):
            await _sweep(worker, left)
            passed = time.monotonic() - began
            if passed > RECONCILE_SECONDS and (all(each.asked for each in left) or passed > SETTLE_SECONDS):
                return

    async def _let_go_on(self) -> None:
        """The struck process goes on: it was frozen, or has not noticed that it owns nothing any more."""
        if self.cell.fault is Fault.STALL and self.first.pid is not None:
            os.kill(self.first.pid, signal.SIGCONT)
        elif self.cell.fault is Fault.REVERSE:
            self.wire.send("go on")

    async def _ended(self) -> None:
        await asyncio.to_thread(self.first.join, REST_SECONDS)
        expected = -signal.SIGKILL if self.cell.fault is Fault.KILL else 0
        if self.first.exitcode != expected:
            self.problems.append(f"the first worker ended with {self.first.exitcode}")
        word = WENT_ON_BY.get(self.cell.fault)
        if word is not None and not await asyncio.to_thread(self._heard, word, 0):
            self.problems.append(f"the struck call was not {word}")

    async def _verdict(self, ledger: Ledger, *, struck: bool) -> Verdict:
        truth = await self._truth()
        seen = await gather(ledger, TASK, truth, struck=struck, driver=tuple(self.problems))
        judged = judge(seen)
        timeline: tuple[str, ...] = ()
        if judged.problems:
            timeline = tuple(str(each.event) for each in await ledger.events(task_id=TASK))
        return Verdict(
            cell=self.cell,
            word=judged.word,
            problems=judged.problems,
            record=tuple(str(effect.state) for effect in seen.effects),
            told=truth.told,
            acts=truth.acts,
            requests=truth.requests,
            timeline=timeline,
        )

    async def _truth(self) -> Truth:
        """The truth once nothing is under way any more."""
        give_up = time.monotonic() + SETTLE_SECONDS
        while True:
            truth = await asyncio.to_thread(self.system.truth)
            if not truth.pending or time.monotonic() >= give_up:
                return truth
            await asyncio.sleep(POLL)

    def _team(self, ledger: Ledger) -> Team:
        provider = STRATEGIES[self.cell.strategy].provider(Line(self.system, None))
        way = ledger
        if self.mutant is not None:
            provider, way = self.mutant.provider(provider), self.mutant.ledger(way)
        return team_of(Desk(provider, self.system, undoes=self.cell.point.undoing), way, self.cell.fault)
