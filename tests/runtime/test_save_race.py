"""A message that is shown while a turn is being committed is not in that turn's commit, and is not lost by it."""

import asyncio
from typing import Any, cast

import pytest

from tenure import Complete, Settings, Team, Tenure
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd


class Slow:
    """A ledger whose answer to the commit of a turn takes its time."""

    def __init__(self, far: Ledger, shown: asyncio.Event, written: asyncio.Event) -> None:
        self.far, self.shown, self.written = far, shown, written

    def __getattr__(self, name: str) -> Any:
        return getattr(self.far, name)

    async def execute(self, command: cmd.Command) -> cmd.Receipt:
        receipt = await self.far.execute(command)
        if isinstance(command, cmd.Advance):
            self.written.set()
            await self.shown.wait()
        return receipt


async def test_a_failure_after_a_save_consumes_nothing_that_was_shown_during_it(ledger: Ledger) -> None:
    shown, written = asyncio.Event(), asyncio.Event()
    team = Team("t", ledger=cast("Ledger", Slow(ledger, shown, written)), settings=Settings(on_failure="escalate"))

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[None]:
        async def listen() -> None:
            await written.wait()
            message = await own.receive(timeout=5)
            assert message is not None
            shown.set()

        _ = own.spawn(listen())
        await own.save({"step": 1})
        raise RuntimeError("before the message was dealt with")

    async with team.worker():
        task = await team.submit(goal="g", message="do not lose me")
        with pytest.raises(TimeoutError):
            await task.result(0.5)
    state = await task.state()
    assert (state.seen, state.consumed, list(state.unread)) == (1, 0, [1])
