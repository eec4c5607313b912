"""A crowd: many tenures of one delegation tree at once, each asking for delegations and transfers beyond every budget.

Every tenure has a thread that speaks for it, and now and then for another's, as parallel calls of one handler do. What
was accepted is counted from the events by :mod:`tenure.testing.conformance.tally`.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from msgspec import Struct

from tenure.errors import TenureError
from tenure.ledger import Ledger
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.graph import Budgets, Graph, Oscillation, Turns
from tenure.protocol.settings import Limits, Settings
from tenure.protocol.vocabulary import TurnOutcome
from tenure.testing.conformance.driver import body, candidates, edge, payload, team

AGENTS = "abc"
SIZE = 64
"""Tenures in the tree when the crowd begins."""
MOVES = ("delegate", "delegate", "transfer", "turn", "turn", "turn", "advance", "complete")


class Seat(Struct, frozen=True, kw_only=True):
    """A tenure to speak for. ``hop``: how many handoffs the task has behind it."""

    task_id: str
    agent: str
    instance: str
    epoch: int
    hop: int = 0


def tight(draw: Random) -> Graph:
    """A graph whose budgets have room for :data:`SIZE` tenures and for little more."""
    return team(
        *(edge(source, target) for source in AGENTS for target in AGENTS if source != target),
        budgets=Budgets(
            transfers=draw.choice([0, 1, 1, 2, 3]),
            delegations=draw.randint(3, 6),
            turn_delegations=draw.randint(1, 3),
            depth=draw.randint(4, 5),
            tree_delegations=SIZE + draw.choice([0, 8, 32]),
            agents=SIZE + draw.choice([1, 4, 24]),
        ),
        turns=Turns(nudges=draw.randint(0, 2)),
        oscillation=Oscillation(repeats=100),
    )


class Crowd:
    """Speaks for the seats of one tree, from any thread.

    Args:
        ledger: where the tree is. root_id: its root. name: of this crowd, unique among those of a tree.
        seed: what it does.

    Attributes:
        refused: how often each code was the answer.
    """

    def __init__(self, ledger: Ledger, root_id: str, name: str, seed: int) -> None:
        self.refused: Counter[str] = Counter()
        self._ledger = ledger
        self._root_id = root_id
        self._name = name
        self._seed = seed
        self._ids = itertools.count()
        self._lock = threading.Lock()
        self._seats: dict[str, Seat] = {}

    # --- beginning ----------------------------------------------------------------------------------------------

    def gather(self, graph: Graph) -> None:
        """Submit the root under a saved graph, and delegate until :data:`SIZE` tasks have an owner; blocking."""
        submit = self._make(
            cmd.Submit,
            self._root_id,
            candidates=candidates("a"),
            payload=payload(self._root_id),
            settings=graph.settings(Settings()),
            limits=graph.limits(Limits()),
            graph=graph.digest,
        )
        epoch = self._ledger.execute_blocking(submit).epoch
        callers = [self._sit(self._root_id, "a", epoch, submit.payload.digest)]
        for caller in callers:  # grows while it goes on: level by level
            for n in range(3):
                if len(callers) == SIZE:
                    return
                self._advance(caller, n)
                callers.append(self._delegate(caller, "b" if caller.agent == "a" else "a"))

    def join(self, seats: Sequence[Seat]) -> None:
        """Speak for tenures that there are."""
        self._seats.update({seat.task_id: seat for seat in seats})

    # --- what it does -------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Let everybody speak at once, ``steps`` times each; blocking."""
        mine = list(self._seats)
        everybody = threading.Barrier(len(mine))
        with ThreadPoolExecutor(len(mine)) as threads:
            for done in [threads.submit(self._speak, everybody, task_id, steps) for task_id in mine]:
                done.result()

    def _speak(self, everybody: threading.Barrier, mine: str, steps: int) -> None:
        draw = Random(f"{self._seed}/{self._name}/{mine}")
        everybody.wait()
        for n in range(steps):
            with self._lock:
                others = [task_id for task_id in (mine, *self._seats) if task_id in self._seats]
                seat = self._seats[others[0] if draw.random() < 0.5 else draw.choice(others)] if others else None
            if seat is None:
                return
            try:
                self._move(
                    draw, draw.choice(MOVES) if n else "delegate", seat, n
                )  # first all of them, then as they like
            except TenureError as error:
                with self._lock:
                    self.refused[error.code] += 1

    def _move(self, draw: Random, what: str, seat: Seat, n: int) -> None:
        if what == "delegate":
            for _ in range(draw.randint(1, 4)):
                self._delegate(seat, draw.choice(AGENTS))
        elif what == "transfer":
            self._hand_over(seat, self._handoff(seat, draw.choice(AGENTS)))
        elif what == "turn":
            self._turn(draw, seat)
        elif what == "advance":
            self._advance(seat, n)
        elif seat.task_id != self._root_id:
            self._leave(seat, cmd.Retire, decision=dec.CompleteWith(result=body("done")), quiet=True)

    def _turn(self, draw: Random, seat: Seat) -> None:
        """Ask for several things, and do what was ruled."""
        delegations = [
            cmd.AskedDelegation(call_id=f"d{n}", agent=draw.choice(AGENTS)) for n in range(draw.randint(0, 3))
        ]
        handoffs = {f"t{n}": self._handoff(seat, draw.choice(AGENTS)) for n in range(draw.randint(0, 2))}
        receipt = self._own(
            seat,
            cmd.TakeTurn,
            asked=(*(one.call_id for one in delegations), *handoffs, "call"),
            delegations=tuple(delegations),
            transfers=tuple(cmd.AskedTransfer(call_id=name, decision=one) for name, one in handoffs.items()),
        )
        ruling = receipt.ruling
        if ruling is None or ruling.outcome is TurnOutcome.NUDGE:
            return
        if ruling.outcome is TurnOutcome.END:
            self._leave(seat, cmd.Release, routes_retired=True)
        elif ruling.transfer:
            self._hand_over(seat, handoffs[ruling.transfer])
        else:
            rejected = {one.call_id for one in ruling.rejected}
            for one in delegations:
                if one.call_id not in rejected:
                    self._delegate(seat, one.agent)

    def _delegate(self, seat: Seat, agent: str) -> Seat:
        child_id = f"{self._root_id}.{self._name}-{next(self._ids)}"
        part = payload(child_id)
        self._own(seat, cmd.Delegate, child_id=child_id, candidates=candidates(agent), payload=part)
        return self._sit(child_id, agent, 1, part.digest)

    def _handoff(self, seat: Seat, agent: str) -> dec.TransferTo:
        name = f"h{seat.hop + 1}"
        part = payload(seat.task_id, name, seat.hop + 1)
        return dec.TransferTo(handoff_id=name, candidates=candidates(agent), payload=part)

    def _hand_over(self, seat: Seat, decision: dec.TransferTo) -> None:
        receipt = self._leave(seat, cmd.Retire, decision=decision, quiet=True)
        if receipt.status == "done":
            agent, digest = decision.candidates[0].agent, decision.payload.digest
            self._sit(seat.task_id, agent, receipt.epoch, digest, seat.hop + 1)

    def _advance(self, seat: Seat, n: int) -> None:
        self._own(seat, cmd.Advance, document=body({"step": n}))

    # --- speaking -----------------------------------------------------------------------------------------------

    def _make(self, kind: type[Any], task_id: str, **fields: Any) -> Any:
        command_id = f"{self._name}/{next(self._ids)}"
        return kind(command_id=command_id, root_id=self._root_id, task_id=task_id, **fields)

    def _own(self, seat: Seat, kind: type[Any], **fields: Any) -> cmd.Receipt:
        command = self._make(kind, seat.task_id, epoch=seat.epoch, instance=seat.instance, **fields)
        return self._ledger.execute_blocking(command)

    def _sit(self, task_id: str, agent: str, epoch: int, digest: str, hop: int = 0) -> Seat:
        """Take an offer up, under an instance of its own."""
        instance = f"{self._name}/{next(self._ids)}"
        command = self._make(cmd.Acknowledge, task_id, epoch=epoch, agent=agent, instance=instance, digest=digest)
        epoch = self._ledger.execute_blocking(command).epoch
        seat = Seat(task_id=task_id, agent=agent, instance=instance, epoch=epoch, hop=hop)
        with self._lock:
            self._seats[task_id] = seat
        return seat

    def _leave(self, seat: Seat, kind: type[Any], **fields: Any) -> cmd.Receipt:
        """End a tenure. Whoever comes late has left nothing."""
        receipt = self._own(seat, kind, **fields)
        with self._lock:
            if receipt.status == "done" and self._seats.get(seat.task_id) == seat:
                del self._seats[seat.task_id]
        return receipt
