"""Durable commits per step, counted twice: by the ledger, and from outside in the bytes of the write-ahead log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct

from bench.ledger import wal
from bench.ledger.script import CONSTRAINTS, GOAL, RECEIVER, SENDER, ready, task_id
from bench.measure import Limit, Measure, Point, measure, say, spread
from tenure.ledger.sqlite import SqliteLedger
from tenure.protocol import commands as cmd
from tenure.protocol.body import Body
from tenure.protocol.decisions import CompleteWith, TransferTo
from tenure.protocol.payload import Payload
from tenure.protocol.settings import EXTERNAL, LOCAL
from tenure.protocol.state import Candidate
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Purpose, WorkEnd, WorkKind


class Count(Struct):
    """Commits of one step. ``required`` is what the step may cost."""

    step: str
    required: int
    ledger: int = 0
    outside: int = 0

    @property
    def right(self) -> bool:
        """Both counts are as required."""
        return self.ledger == self.outside == self.required


class Counted:
    """A task on a ledger of its own; ``step`` counts what a block of commands commits."""

    def __init__(self, folder: Path, ledger: SqliteLedger) -> None:
        self.counts: list[Count] = []
        self._path = folder / "ledger.db"
        self._ledger = ledger
        self._task = task_id(0, "counted")
        self._n = 0
        self.epoch = 0
        self.instance = ""
        self.effect_version = 0

    @contextmanager
    def step(self, name: str, required: int) -> Iterator[None]:
        """Count the commits of a block."""
        before = self._ledger.commits, wal.commits(self._path)
        yield
        after = self._ledger.commits, wal.commits(self._path)
        self.counts.append(Count(name, required, after[0] - before[0], after[1] - before[1]))

    async def say(self, kind: Any, /, **fields: Any) -> cmd.Receipt:
        """Run one command."""
        self._n += 1
        owner = {"epoch": self.epoch, "instance": self.instance} if issubclass(kind, cmd.OwnerCommand) else {}
        ids = {"command_id": f"c-{self._n:020}", "root_id": self._task, "task_id": self._task}
        receipt = await self._ledger.execute(kind(**ids, **owner, **fields))
        self.epoch = receipt.epoch
        if receipt.effect is not None:
            self.effect_version = receipt.effect.version
        return receipt

    async def own(self, agent: str) -> None:
        """Acknowledge the open offer."""
        state = await self._ledger.task(self._task)
        if state is None or state.offer is None:
            raise RuntimeError("The task is not on offer.")
        self.instance = f"i-{agent}"
        await self.say(
            cmd.Acknowledge, epoch=state.epoch, agent=agent, instance=self.instance, digest=state.offer.payload
        )

    def transfer(self, hop: int, to: str) -> TransferTo:
        """A transfer to an agent."""
        payload = Payload(
            task_id=self._task, handoff_id=f"h-{hop}", hop=hop, goal=GOAL, constraints=CONSTRAINTS, summary="counted"
        )
        return TransferTo(
            handoff_id=f"h-{hop}",
            candidates=(Candidate(agent=to),),
            payload=Body(msgspec.json.encode(payload), f"nonce-{hop}"),
        )


async def _ownership(on: Counted) -> None:
    """Every change of ownership: with nothing left to retire, and with a work that still runs."""
    job = ready(task_id(0, "counted"))
    with on.step("submit", 1):
        await on.say(cmd.Submit, candidates=(Candidate(agent=SENDER),), payload=job.payload)
    with on.step("start: acknowledge and own", 1):
        await on.own(SENDER)
    with on.step("transfer, nothing left to retire", 1):
        await on.say(cmd.Retire, decision=on.transfer(1, RECEIVER), quiet=True)
    with on.step("acknowledge and own", 1):
        await on.own(RECEIVER)
    await on.say(cmd.StartWork, work_id="w-1", kind=WorkKind.COROUTINE, name="draft", policy=LOCAL)
    with on.step("transfer, a work left to retire", 2):
        await on.say(cmd.Retire, decision=on.transfer(2, SENDER))
        ended = (cmd.Ended(work_id="w-1", how=WorkEnd.CANCELLED),)
        await on.say(cmd.Release, routes_retired=True, ended=ended)
    with on.step("acknowledge and own, after that", 1):
        await on.own(SENDER)


async def _effects(on: Counted) -> None:
    """Each attempt and each outcome."""

    async def outcome(attempt: int, state: EffectState, evidence: EvidenceKind) -> None:
        await on.say(
            cmd.RecordOutcome,
            effect_id="e-1",
            attempt=attempt,
            instance=on.instance,
            epoch=on.epoch,
            state=state,
            evidence=evidence,
        )

    with on.step("effect: intent with its first attempt", 1):
        await on.say(
            cmd.Intend,
            effect_id="e-1",
            provider="refunds",
            tool="refunds.apply",
            intent="intent-1",
            request=Body(b'{"order":"A17"}', "nonce-e"),
            compared="compared-1",
            policy=EXTERNAL,
            idempotent_ms=600_000,
        )
    with on.step("effect: outcome, in doubt", 1):
        await outcome(1, EffectState.IN_DOUBT, EvidenceKind.NONE)
    with on.step("effect: a further attempt", 1):
        await on.say(
            cmd.AttemptEffect,
            effect_id="e-1",
            version=on.effect_version,
            purpose=Purpose.APPLY,
            instance=on.instance,
            epoch=on.epoch,
        )
    with on.step("effect: outcome, confirmed", 1):
        await outcome(2, EffectState.CONFIRMED, EvidenceKind.RESPONSE)


async def count() -> list[Count]:
    """Run every step once and count."""
    with TemporaryDirectory(prefix="tenure-bench-") as name:
        folder = Path(name)
        async with SqliteLedger(str(folder / "ledger.db")) as ledger:
            on = Counted(folder, ledger)
            await _ownership(on)
            await _effects(on)
            with on.step("complete, nothing left to retire", 1):
                await on.say(cmd.Retire, decision=CompleteWith(result=Body(b"{}", "nonce-r")), quiet=True)
            return on.counts


def measures(*, quick: bool) -> list[Measure]:
    """The measure ``commits``; the same in every form, because it is exact."""
    del quick
    say("commits: counting")
    counts = asyncio.run(count())
    return [
        measure(
            "commits",
            "durable commits: one per change of ownership when nothing is left to retire, else two; one per effect"
            " attempt, one per outcome",
            "counted",
            "commits",
            [_point(found) for found in counts],
            measured=sum(not found.right for found in counts),
            required=Limit("steps whose count is not the required one", exactly=0),
            notes=(
                "ledger: the ledger's own counter. outside: transactions in the write-ahead log, each synced once.",
                "A handoff changes ownership twice: the sender's ends (transfer), the receiver's begins (acknowledge).",
            ),
        )
    ]


def _point(found: Count) -> Point:
    sides = {"ledger": spread([found.ledger]), "outside": spread([found.outside])}
    return Point(found.step, sides, None, {"required": found.required, "as_required": str(found.right).lower()})
