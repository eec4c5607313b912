"""A granted tenure, from its handler's first line until it is retired, by its own decision or because it was lost."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from tenure.errors import Fenced, Refused, TenureError
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.settings import LOCAL
from tenure.protocol.vocabulary import TurnOutcome, WaitOn, WorkKind
from tenure.runtime.background import background
from tenure.runtime.decisions import Decision
from tenure.runtime.hold import Hold
from tenure.runtime.ids import jitter
from tenure.runtime.jobs import CoroutineJob
from tenure.runtime.retiring import STRAY, failure, release, retire_by_decision, retire_lost, to_protocol
from tenure.runtime.tenure import Tenure
from tenure.runtime.turns import ROUTING
from tenure.runtime.works import report_end

if TYPE_CHECKING:
    from tenure.runtime.team import Team

_LOG = logging.getLogger("tenure.worker")

POLL = 1.0


class Running:
    """One tenure at one worker."""

    def __init__(self, team: Team, own: Tenure[Any]) -> None:
        """The handler has not started yet."""
        self._team = team
        self._own = own
        self._hold = own.hold
        self._decided: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._job = CoroutineJob(
            self._handle, work_id=f"stray:{own.epoch}", name=own.agent, policy=LOCAL, kind=WorkKind.HANDLER
        )

    async def run(self) -> None:
        """Run the handler as owned work, and end its tenure by what it decides or by what happens to it.

        However this ends: everything that was started under the tenure was asked to end.
        """
        self._decided.add_done_callback(_heard)
        try:
            await self._job.start()
            await self._until_decided()
            await self._end()
        except Fenced as error:
            await self._lost(error)
        except TenureError as error:
            await self._lost(Fenced("lease_lost", f"The decision did not reach the ledger: {error}"))
        except asyncio.CancelledError:
            self._let_go()
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, what runs under the tenure must be asked to end
            _LOG.exception("%s on %s", self._own.agent, self._own.task_id)
            await self._lost(Fenced("lease_lost", f"The runtime failed: {type(error).__name__}: {error}"))

    async def _handle(self) -> None:
        """The handler's coroutine. Its answer is known when it returns, its end when it is seen with all it started."""
        try:
            decision = await self._team.agents[self._own.agent].handler(self._own)
        except asyncio.CancelledError:
            self._decided.cancel()
            raise
        except BaseException as error:
            if not self._decided.done():
                self._decided.set_exception(error)
            # A handler that exits ends itself, not the worker with everybody else's tenures.
            if not isinstance(error, Exception | SystemExit):
                raise
        else:
            if not self._decided.done():
                self._decided.set_result(decision)

    async def _until_decided(self) -> None:
        """Wait for the decision. When the handler is asked to stop, what it decides in the meantime still counts."""
        hold = self._hold
        await first_of(self._decided, hold, hold.cancel_requested, hold.out_of_bounds)
        if not self._decided.done() and hold.error is None:
            self._job.request_cancel()
            self._own.works.request_end()
            await first_of(self._decided, hold)
        if hold.error is not None:
            raise hold.error

    async def _end(self) -> None:
        """State the decision. One that the ledger refuses is a failure of the handler, and is stated as such.

        A route that is not there is first put right: the handler starts again and is told.
        """
        if self._hold.stated:
            receipt = await self._release()
        else:
            decision = await self._decision()
            try:
                receipt = await retire_by_decision(self._own, decision, self._job)
            except Refused as error:
                self._hold.check()
                _LOG.warning("The decision of %s on %s was refused: %s", self._own.agent, self._own.task_id, error)
                if isinstance(decision, dec.TransferTo) and error.code in ROUTING:
                    receipt = await self._reroute(decision, str(error))
                else:
                    receipt = await self._fail(error)
        if receipt.status == "gate":
            await self._wait_for_gate()

    async def _release(self) -> cmd.Receipt:
        """A turn has ended the task, and the ledger knows: what runs is retired, whatever the handler made of it."""
        if await self._job.wait(STRAY) is None:
            self._job.request_cancel()
            await self._own.works.adopt(self._job)
        return await release(self._own)

    async def _reroute(self, decision: dec.TransferTo, why: str) -> cmd.Receipt:
        """Have a refused transfer judged as a turn: a nudge lets the handler start again, until there is none left."""
        ruling = await self._own.turns.propose(decision, why)
        match ruling.outcome:
            case TurnOutcome.NUDGE:
                again: dec.Decision = dec.WaitFor(on=WaitOn.TIME, within_ms=1)
            case TurnOutcome.END if self._hold.stated:
                return await self._release()
            case TurnOutcome.END:
                again = dec.StopAsAsked()
            case _:
                again = decision  # it is allowed by now
        undone = ruling.outcome is TurnOutcome.NUDGE
        return await retire_by_decision(self._own, again, self._job, undone=undone)

    async def _fail(self, error: Refused) -> cmd.Receipt:
        """State a failure; a return whose own payload is refused goes without one."""
        decision = await failure(self._own, error)
        try:
            return await retire_by_decision(self._own, decision, self._job)
        except Refused:
            if not isinstance(decision, dec.GiveBackTo):
                raise
        return await retire_by_decision(self._own, dec.GiveBackTo(reason=decision.reason), self._job)

    async def _decision(self) -> dec.Decision:
        """What the handler decided, as the ledger takes it."""
        stopped = self._decided.cancelled()
        error = None if stopped else self._decided.exception()
        if isinstance(error, Fenced):
            raise error
        if self._own.turns.decided is not None and not (stopped and self._hold.cancel_requested.is_set()):
            return await to_protocol(self._own, None if stopped or error is not None else self._decided.result())
        if stopped:
            return await self._cut_short()
        if error is not None:
            _LOG.error("%s raised on %s", self._own.agent, self._own.task_id, exc_info=error)
            return await failure(self._own, error)
        try:
            return await to_protocol(self._own, self._decided.result())
        except Refused as refusal:
            _LOG.warning("The decision of %s on %s was refused: %s", self._own.agent, self._own.task_id, refusal)
            return await failure(self._own, refusal)
        except (TypeError, ValueError, OverflowError, AttributeError) as wrong:
            # Python lets a decision be made of anything; one that is not of its types is the handler's failure.
            return await failure(self._own, wrong)

    async def _cut_short(self) -> dec.Decision:
        """The decision of a handler that ended without one, because it was asked to or by itself."""
        if self._hold.out_of_bounds.is_set() and self._own.turns.decided is None:
            return await failure(self._own, RuntimeError("it kept asking for tools that it does not have"))
        if self._hold.cancel_requested.is_set():
            return dec.StopAsAsked()
        return await failure(self._own, RuntimeError("the handler cancelled itself"))

    async def _wait_for_gate(self) -> None:
        """Keep the lease while the end of the task waits for what is open; the ledger ends the wait in any case."""
        await moved_on(self._hold.ledger, self._hold.task_id, self._hold.epoch)

    async def _lost(self, error: Fenced) -> None:
        """Retire what the lost tenure runs. What is not seen to end now is reported when it is, however late."""
        self._hold.lose(error)
        self._hold.stated = self._hold.stated or error.facts.get("kept", False)
        await retire_lost(self._own, self._job)
        _ = background(self._afterwards(), name=f"afterwards:{self._own.task_id}")

    async def _afterwards(self) -> None:
        """Report the handler's end, and what it decided too late: kept as evidence, moving nothing.

        Only after the ledger has ended the tenure: before, nothing of this would be on its books.
        """
        outcome = await self._job.wait()
        await moved_on(self._hold.ledger, self._hold.task_id, self._hold.epoch)
        if outcome is not None:
            await report_end(self._hold, f"handler:{self._hold.epoch}", outcome.how)
        if not self._hold.stated and _is_decision(self._decided):
            decision = await to_protocol(self._own, self._decided.result())
            await self._hold.report(cmd.Retire, epoch=self._hold.epoch, instance=self._hold.instance, decision=decision)

    def _let_go(self) -> None:
        """The worker stops at once: nothing can be waited for any more, and nothing is claimed."""
        self._hold.lose(Fenced("lease_lost", "The worker has stopped.", task_id=self._hold.task_id))
        self._job.request_cancel()
        self._own.works.request_end()


async def first_of(decided: asyncio.Future[Decision], hold: Hold, *events: asyncio.Event) -> None:
    """Wait for the decision, the loss of the tenure, or one of these events.

    The lease is watched here too: by the holder's own clock, whatever keeps the ledger from answering.
    """
    waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(event.wait()) for event in (hold.lost, *events)]
    try:
        while True:
            done, _ = await asyncio.wait(
                {decided, *waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=max(hold.left, 0.01)
            )
            if done:
                return
            if hold.overdue:
                hold.lose(Fenced("lease_lost", "No heartbeat was answered in time.", task_id=hold.task_id))
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def moved_on(ledger: Ledger, task_id: str, epoch: int) -> None:
    """Wait until the ledger has ended a tenure, patiently: a ledger that is away for a while comes back."""
    while True:
        try:
            position = await ledger.wait(0, 0)
            task = await ledger.task(task_id)
            if task is None or task.tenure is None or task.tenure.epoch != epoch:
                return
            await ledger.wait(position, POLL)
        except TenureError as error:
            if error.next_action == "stop":
                raise
            await asyncio.sleep(jitter(POLL))


def _is_decision(decided: asyncio.Future[Decision]) -> bool:
    return decided.done() and not decided.cancelled() and decided.exception() is None


def _heard(decided: asyncio.Future[Decision]) -> None:
    """Look at a failure that comes after the loss, so that it is not reported as forgotten."""
    if not decided.cancelled():
        decided.exception()
