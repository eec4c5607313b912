"""The commands that the actors of a scope send, made from what they know."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.body import Body
from tenure.protocol.payload import Fact, Payload
from tenure.protocol.state import Candidate, Pending, Task
from tenure.protocol.vocabulary import Reason, WaitOn
from tenure.testing.explore.scope import Scope

ROOT = "t"
GOAL = "goal"
NOTE = Body(b'"note"')


@cache
def payload(task_id: str, handoff_id: str, hop: int, constraints: tuple[str, ...], news: tuple[str, ...] = ()) -> Body:
    """A sender's part; it states the news of works that ended."""
    done = tuple(Fact(id=name, what="work", outcome="done") for name in news)
    part = Payload(task_id=task_id, handoff_id=handoff_id, hop=hop, goal=GOAL, constraints=constraints, done=done)
    return Body(msgspec.json.encode(part))


def entries(scope: Scope, agents: tuple[str, ...]) -> tuple[Candidate, ...]:
    """Candidates with what their edges grant."""
    return tuple(Candidate(agent=agent, authority=scope.edge_authority.get(agent)) for agent in agents)


def submit(scope: Scope) -> cmd.Submit:
    """The root task, offered to the first agent."""
    first = next(iter(scope.agents))
    return cmd.Submit(
        command_id="x",
        root_id=ROOT,
        task_id=ROOT,
        candidates=entries(scope, (first,)),
        payload=payload(ROOT, "", 0, ("c",)),
        authority=scope.authority,
        settings=scope.settings,
        limits=scope.limits,
    )


def transfer(scope: Scope, task: Task, agents: tuple[str, ...], constraints: tuple[str, ...]) -> dec.TransferTo:
    """A transfer to these agents, in this order or as a broadcast."""
    hop = task.hop_count + 1
    handoff_id = f"h{hop}"
    return dec.TransferTo(
        handoff_id=handoff_id,
        candidates=entries(scope, agents),
        payload=payload(task.task_id, handoff_id, hop, constraints, tuple(ending.work_id for ending in task.endings)),
        gate=scope.gate,
        broadcast=scope.broadcast,
    )


def give_back(task: Task, constraints: tuple[str, ...]) -> dec.GiveBackTo:
    """A return with a payload of its own."""
    part = payload(task.task_id, "back", task.hop_count, constraints)
    return dec.GiveBackTo(reason=Reason.GAVE_BACK, payload=part)


def wait(on: str) -> dec.WaitFor:
    """A wait of each kind."""
    question = dec.EscalateTo(question_id="q", body=NOTE) if on == "answer" else None
    return dec.WaitFor(on=WaitOn(on), within_ms=10, question=question)


def retire(
    task_id: str,
    speaker: tuple[str, int],
    decision: dec.Decision,
    *,
    quiet: bool = True,
    consumed: int = 0,
    collected: tuple[str, ...] = (),
) -> cmd.Retire:
    """A decision under an instance and an epoch that the speaker believes in."""
    instance, epoch = speaker
    return cmd.Retire(
        command_id="x",
        root_id=ROOT,
        task_id=task_id,
        epoch=epoch,
        instance=instance,
        decision=decision,
        quiet=quiet,
        consumed=consumed,
        collected=collected,
    )


COMPLETE = dec.CompleteWith(result=NOTE)
ESCALATE = dec.EscalateTo(question_id="q", body=NOTE)
FAIL = dec.FailWith(reason=Reason.RAISED, detail=NOTE)
STOP = dec.StopAsAsked()


def turn(scope: Scope, task: Task, who: dict[str, Any], asked: tuple[str, ...]) -> cmd.TakeTurn:
    """A turn that asks for things by their ids: ``tB`` for a transfer to B, ``dB`` for a delegation, others are calls.

    ``tB'`` asks for the same as ``tB``.
    """
    hop, known = task.hop_count + 1, task.constraints and ("c",)
    transfers = []
    for place, name in enumerate(asked):
        if not name.startswith("t"):
            continue
        handoff_id, agent = f"h{hop}" if place == 0 else f"h{hop}.{place}", name[1:].rstrip("'")
        decision = dec.TransferTo(
            handoff_id=handoff_id,
            candidates=entries(scope, (agent,)),
            payload=payload(task.task_id, handoff_id, hop, known),
        )
        transfers.append(cmd.AskedTransfer(call_id=name, decision=decision, same=agent))
    delegations = tuple(cmd.AskedDelegation(call_id=name, agent=name[1:]) for name in asked if name.startswith("d"))
    return cmd.TakeTurn(**who, asked=asked, transfers=tuple(transfers), delegations=delegations, detail=NOTE)


def carry_out(task: Task, pending: Pending) -> dec.TransferTo:
    """The transfer that a turn has decided."""
    hop = task.hop_count + 1
    return dec.TransferTo(
        handoff_id=pending.handoff_id,
        candidates=pending.candidates,
        payload=payload(task.task_id, pending.handoff_id, hop, ("c",)),
    )
