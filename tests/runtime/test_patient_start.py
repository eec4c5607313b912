"""A worker that starts while the ledger cannot take its name: another process is frozen and holds a file's write lock.

Found by the retail example under chaos: a worker was stopped in its commit, and the one that started then gave up.
"""

import asyncio
from typing import Any

import pytest

from tenure import Complete, Team, Tenure
from tenure.errors import Unavailable
from tenure.ledger import Ledger
from tests.runtime.harness import Line


class Refusing(Line):
    """Refuses to register, a few times or for good."""

    def __init__(self, ledger: Ledger, code: str, times: int) -> None:
        super().__init__(ledger)
        self.code = code
        self.left = times

    def register(self, instance: Any) -> None:
        if self.left > 0:
            self.left -= 1
            raise Unavailable(self.code)
        self.far.register(instance)


def team_on(ledger: Ledger) -> Team:
    team = Team("desk", ledger=ledger)

    @team.agent
    async def desk(own: Tenure[Any]) -> Complete[str]:
        return Complete("done")

    return team


async def test_a_worker_waits_for_a_ledger_that_is_busy(ledger: Ledger) -> None:
    line = Refusing(ledger, "ledger_busy", times=2)
    team = team_on(line.ledger)
    async with team.worker():
        assert (await (await team.submit(goal="answer")).result(10)).value == "done"
    assert line.left == 0


async def test_what_waiting_does_not_mend_is_raised_at_once(ledger: Ledger) -> None:
    line = Refusing(ledger, "ledger_read_only", times=100)
    with pytest.raises(Unavailable, match="cannot be written"):
        async with asyncio.timeout(5), team_on(line.ledger).worker():
            pass
    assert line.left == 99


async def test_patience_has_an_end(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.runtime.registering.START_SECONDS", 0)
    line = Refusing(ledger, "ledger_busy", times=100)
    with pytest.raises(Unavailable, match="write lock"):
        async with team_on(line.ledger).worker():
            pass
    assert line.left == 99
