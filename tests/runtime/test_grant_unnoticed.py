"""A grant that its receiver notices only after it was lost: the handler never began, and the books must come to say so.

Found by the retail example under chaos: a worker was stopped between its acknowledgement and the answer to it.
"""

import asyncio
from typing import Any

from tenure import Complete, Settings, Team, Tenure
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol import events as ev
from tests.runtime.harness import Line, events, until

LEASE = Settings(lease_ms=300)


class Frozen(Line):
    """A line whose answer to the first acknowledgement comes only when the lease of its grant is over."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.froze = asyncio.Event()
        self.thaw = asyncio.Event()

    async def execute(self, command: Any) -> Any:
        answer = await self.far.execute(command)
        if isinstance(command, cmd.Acknowledge) and not self.froze.is_set():
            self.froze.set()
            await self.thaw.wait()
        return answer


def team_on(ledger: Ledger, began: list[int]) -> Team:
    team = Team("desk", ledger=ledger, settings=LEASE)

    @team.agent
    async def desk(own: Tenure[Any]) -> Complete[str]:
        began.append(own.epoch)
        return Complete("done")

    return team


async def test_a_handler_that_never_began_leaves_no_residual_work(ledger: Ledger) -> None:
    line = Frozen(ledger)
    began: list[int] = []
    slow, quick = team_on(line.ledger, began), team_on(ledger, began)
    async with slow.worker(name="slow"):
        task = await slow.submit(goal="answer")
        await asyncio.wait_for(line.froze.wait(), 5)
        async with quick.worker(name="quick"):
            assert (await task.result(timeout=8)).value == "done"
            (residual,) = (await task.facts()).termination.residual
            assert (residual.kind, residual.epoch) == ("handler", 2)
            line.thaw.set()

            async def nothing_left() -> bool:
                return not (await task.state()).works

            await until(nothing_left)
    (end,) = await events(ledger, task.task_id, ev.WorkStopped)
    assert (end.work_id, end.how, end.late) == ("handler:2", "cancelled", True)
    assert len(began) == 1
