"""Turns of real workers that are killed: what was decided is done, once, by somebody else; a nudge is not forgotten."""

import pytest

from tenure import Settings
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import OfferKind, Phase, Reason, TurnOutcome
from tenure.runtime.handle import TaskHandle
from tests.runtime.harness import events, in_phase, until
from tests.runtime.processes import Workers, workers
from tests.runtime.program import team_in

__all__ = ["workers"]


async def submit(workers: Workers, to: str) -> TaskHandle:
    """With a long lease: that a worker is dead has to be seen, nothing just lapses."""
    settings = Settings(lease_ms=60_000, nudges=2, fallback="person:lead")
    return await team_in(workers.folder, workers.ledger).submit({}, goal="g", to=to, settings=settings)


WHEN: dict[str, tuple[set[str], int]] = {
    "after:TakeTurn": (set(), 0),
    "while the note runs": ({"note:unknown"}, 1),
    "before:Retire": ({"note:unknown", "note:done"}, 1),  # its end was on its way to the ledger, or there
    "after:Retire": ({"note:done"}, 1),
}
"""When the worker is killed: what may be said of the note then, and how often it began."""


@pytest.mark.parametrize("when", WHEN)
async def test_a_worker_that_is_killed_after_the_decision_has_handed_over(workers: Workers, when: str) -> None:
    sayable, notes = WHEN[when]
    if when == "while the note runs":
        first = await workers.start(name="w1")
        handle = await submit(workers, "turner")

        async def noting() -> bool:
            return bool(workers.folder.lines("note"))

        await until(noting)
        await workers.kill(first)
    else:
        workers.touch("go-note")
        first = await workers.start("--crash", when, name="w1")
        handle = await submit(workers, "turner")
        await first.wait()
    assert first.returncode == -9
    decided = (await events(workers.ledger, handle.task_id, ev.TurnDecided))[0]
    assert decided.outcome == TurnOutcome.TRANSFER
    await workers.start(name="w2")
    await workers.began("b")
    await handle.send("and now?")
    assert (await handle.result(15)).value == ["b", "and now?"]
    began = [words[1] for words in workers.folder.lines("began")]
    assert began == ["turner", "b"], "the sender does not start again"
    assert len(workers.folder.lines("note")) == notes, "nothing runs twice"
    ((_, *known),) = workers.folder.lines("told")
    assert set(known) - {"turner:unknown"} <= sayable, "no more than is known"
    (moved,) = await events(workers.ledger, handle.task_id, ev.HandoffInitiated)
    assert moved.handoff_id == decided.pending.handoff_id, "what was frozen at the decision"
    assert len(await events(workers.ledger, handle.task_id, ev.TurnDecided)) == 1
    kinds = [one.kind for one in await events(workers.ledger, handle.task_id, ev.OfferIssued)]
    assert kinds == [OfferKind.START, OfferKind.TRANSFER]


@pytest.mark.parametrize("when", ["before:TakeTurn", "after:TakeTurn"])
async def test_a_nudge_is_known_to_who_starts_again_after_a_kill(workers: Workers, when: str) -> None:
    """Killed before the decision, nothing was said; killed after it, it was, and counts."""
    first = await workers.start("--crash", when, name="w1")
    handle = await submit(workers, "stray")
    await first.wait()
    assert first.returncode == -9
    said = when == "after:TakeTurn"
    task = await handle.state()
    assert (task.nudges, len(task.nudged)) == (int(said), int(said))
    await workers.start(name="w2")
    ended = await in_phase(handle, Phase.ESCALATED)
    assert ended.question is not None
    assert (ended.question.reason, ended.question.who) == (Reason.ROUTE_FORBIDDEN, ("person:lead",))
    heard = [words[-1] for words in workers.folder.lines("began")]
    assert heard == (["plain"] + ["nudged"] * 2 if said else ["plain"] * 2 + ["nudged"] * 2)
    assert len(await events(workers.ledger, handle.task_id, ev.TurnNudged)) == 2
    assert await events(workers.ledger, handle.task_id, ev.HandoffInitiated) == []
