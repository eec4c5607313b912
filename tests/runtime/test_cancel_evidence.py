"""A cancellation that was refused, or failed, says nothing about the effect that it was to end."""

from typing import Any

import pytest

from tenure import Accepted, Complete, Declined, Failed, InDoubt, Provider, Team, Tenure
from tenure.ledger import Ledger
from tenure.protocol.vocabulary import EffectState


class Late(Provider):
    """It acts, its answer is lost or names a job, and a cancellation is turned down."""

    name = "late"

    def __init__(self, applied: Any, cancelled: Any) -> None:
        self.applied = applied
        self.cancelled = cancelled

    async def apply(self, request: Any, *, key: str) -> Any:
        if self.applied is None:
            raise TimeoutError("no answer")
        return self.applied

    async def cancel(self, request: Any, *, key: str) -> Any:
        return self.cancelled


@pytest.mark.parametrize("cancelled", [Declined("too late to cancel"), Failed("the cancellation failed")])
@pytest.mark.parametrize(
    ("applied", "state"), [(None, EffectState.IN_DOUBT), (Accepted("job-1"), EffectState.ACCEPTED)]
)
async def test_a_cancellation_that_did_not_work_settles_nothing(
    ledger: Ledger, applied: Any, state: EffectState, cancelled: Any
) -> None:
    team, seen = Team("t", ledger=ledger), []
    provider = Late(applied, cancelled)

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[None]:
        await own.effect(provider, {}, key="k", patience=0)
        seen.append(await own.cancel_effect(provider, {}, key="k"))
        return Complete()

    async with team.worker():
        task = await team.submit(goal="g")
        await task.result(10)
    assert isinstance(seen[0], InDoubt)
    assert "no evidence" in seen[0].reason
    assert [effect.state for effect in await ledger.effects(task.task_id)] == [state]
