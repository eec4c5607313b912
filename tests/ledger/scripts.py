"""Scripts of commands by a seed: mostly what the task allows, sometimes late, repeated, or out of place.

Drawn by a generator of random numbers, because Hypothesis, choice by choice, prefers the first ones and hardly gets
a task to its second owner. It still varies seed and length, and shortens a script that fails.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.approvals import AskedApproval
from tenure.protocol.graph import Budgets, Oscillation, Tool, Turns
from tenure.protocol.settings import CRITICAL, LOCAL, Settings
from tenure.protocol.state import Candidate, Task
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Gate, Purpose, Reason, WaitOn, WorkEnd, WorkKind
from tenure.testing.conformance.driver import body, candidates, edge, payload, team

TASKS = ("t", "t", "t", "t.1", "t.2", "u")
_TRANSFERS = (edge("a", "b"), edge("b", "a"), edge("a", "c"), edge("c", "a"))
GRAPHS = (
    team(*_TRANSFERS, oscillation=Oscillation(repeats=0), turns=Turns(nudges=1)),
    team(*_TRANSFERS[1:], tools={"refund": Tool(approval=True)}, budgets=Budgets(transfers=3, delegations=1)),
)
"""Versions that are to be saved before a script runs; the second one has an edge less."""


def some(draw: Random, *choices: Any) -> Any:
    return draw.choice(choices)


def seldom(draw: Random, n: int) -> bool:
    """True one time in ``n``."""
    return draw.randint(1, n) == 1


def next_command(draw: Random, n: int, tasks: dict[str, Task]) -> cmd.Command:
    """One command, made for the state that its task is in."""
    task_id = some(draw, *TASKS)
    task = tasks.get(task_id)
    base = {"command_id": f"c{n}", "root_id": task_id.partition(".")[0], "task_id": task_id}
    if task is None:
        return _without_a_task(draw, base, tasks)
    if task.tenure is not None and draw.randint(0, 9):
        return _owners(draw, base, task)
    if task.phase.ended and not seldom(draw, 3):
        return next_command(draw, n, tasks) if len(tasks) < len(set(TASKS)) else cmd.Expire(**base)
    if task.offer is not None and draw.randint(0, 4):
        return _receivers(draw, base, task)
    return _anybodys(draw, base, task)


def _without_a_task(draw: Random, base: dict[str, Any], tasks: dict[str, Task]) -> cmd.Command:
    root = tasks.get(base["root_id"])
    if "." in base["task_id"] and root is not None:
        if root.tenure is None:
            return _receivers(draw, {**base, "task_id": root.task_id}, root) if root.offer else cmd.Expire(**base)
        parent = {**base, "task_id": root.task_id, "epoch": root.epoch, "instance": root.tenure.instance}
        child = base["task_id"]
        return cmd.Delegate(**parent, child_id=child, candidates=candidates("a", "b"), payload=payload(child))
    settings = Settings(
        pickup_ms=15_000, ack_ms=5_000, attempts=2, takeovers=2, on_lost=some(draw, "same", "return", "person")
    )
    return cmd.Submit(
        **base,
        candidates=candidates(*some(draw, ("a",), ("a", "b"))),
        payload=payload(base["task_id"]),
        settings=settings,
        conversation=some(draw, "", "", "", "chat-1"),
        graph=some(draw, "", *(graph.digest for graph in GRAPHS)),
        broadcast=seldom(draw, 2),
    )


def _owners(draw: Random, base: dict[str, Any], task: Task) -> cmd.Command:
    assert task.tenure is not None
    late = draw.randint(0, 7) == 0
    base = {**base, "epoch": task.tenure.epoch - late, "instance": task.tenure.instance}
    work = some(draw, "x", "y")
    if task.tenure.retiring is not None:
        ended = some(draw, (), tuple(cmd.Ended(work_id=w.work_id, how=WorkEnd.CANCELLED) for w in task.works))
        return cmd.Release(**base, routes_retired=not seldom(draw, 3), ended=ended)
    kinds = ("advance", "see", "work", "route", "turn", "turn", "intend", "intend", "retire", "retire", "retire")
    kind = some(draw, *kinds)
    if kind == "turn":
        return _turn(draw, base, task)
    if kind == "advance":
        collected = tuple(child.child_id for child in task.children if child.outcome)
        return cmd.Advance(**base, consumed=task.seen, collected=collected, document=body({"turn": task.revision}))
    if kind == "see":
        return cmd.See(**base, upto=task.received)
    if kind == "work":
        return cmd.StartWork(
            **base, work_id=work, kind=some(draw, WorkKind.THREAD, WorkKind.PROCESS), name=work, policy=LOCAL
        )
    if kind == "route":
        return cmd.OpenRoute(**base, route_id="r") if seldom(draw, 2) else cmd.CloseRoute(**base, route_id="r")
    if kind == "intend":
        return cmd.Intend(
            **base,
            effect_id=f"e{draw.randint(0, 5)}",
            provider="shop",
            tool="refund",
            intent=some(draw, "i1", "i2"),
            request=body({"n": task.revision}),
            compared=some(draw, "same", "same", "other"),
            policy=some(draw, LOCAL, CRITICAL),
            idempotent_ms=some(draw, 0, 60_000),
            in_flight_ms=1_000,
            arguments=some(draw, "cents 100", "cents 200"),
        )
    return cmd.Retire(**base, decision=_decision(draw, task), quiet=not seldom(draw, 3))


def _turn(draw: Random, base: dict[str, Any], task: Task) -> cmd.TakeTurn:
    agents = tuple("abc".replace(task.owner, "")) if not seldom(draw, 5) else ("a", "partner", "mallory")
    delegations = [cmd.AskedDelegation(call_id=f"d{n}", agent=some(draw, *agents)) for n in range(draw.randint(0, 2))]
    transfers = [
        cmd.AskedTransfer(call_id=f"t{n}", decision=_transfer(draw, task, candidates(some(draw, *agents))))
        for n in range(draw.randint(0, 2))
    ]
    asked = [*(one.call_id for one in delegations), *(one.call_id for one in transfers), "call"]
    draw.shuffle(asked)
    return cmd.TakeTurn(
        **base,
        asked=tuple(asked[: len(asked) - seldom(draw, 9)]),
        delegations=tuple(delegations),
        transfers=tuple(transfers),
        detail=some(draw, None, body("gone in circles")),
    )


def _transfer(draw: Random, task: Task, receivers: tuple[Candidate, ...]) -> dec.TransferTo:
    name, hop = f"h{task.hop_count + 1}", task.hop_count + 1
    gate = some(draw, Gate.ROUTING_RETIRED, Gate.STOPPED, Gate.SETTLED)
    return dec.TransferTo(handoff_id=name, candidates=receivers, payload=payload(task.task_id, name, hop), gate=gate)


def _decision(draw: Random, task: Task) -> dec.Decision:
    pending = task.tenure.pending if task.tenure else None
    if pending is not None and not seldom(draw, 4):
        return _transfer(draw, task, pending.candidates)
    kind = some(draw, "transfer", "transfer", "complete", "return", "escalate", "wait", "fail", "stop")
    if kind == "transfer":
        return _transfer(draw, task, candidates(*some(draw, ("a",), ("b",), ("b", "c"))))
    if kind == "complete":
        return dec.CompleteWith(result=body({"done": task.revision}))
    if kind == "return":
        return dec.GiveBackTo(reason=Reason.CAPABILITY)
    if kind == "escalate":
        asked = AskedApproval(tool="refund", intent="i1", arguments="cents 100")
        return dec.EscalateTo(
            question_id="q", body=body("May I?"), due_ms=4_000, approval=some(draw, None, asked, asked)
        )
    if kind == "wait":
        return dec.WaitFor(on=some(draw, WaitOn.INPUT, WaitOn.CHILD, WaitOn.TIME), within_ms=5_000)
    if kind == "fail":
        return dec.FailWith(reason=Reason.RAISED, detail=body("no such order"))
    return dec.StopAsAsked()


def _receivers(draw: Random, base: dict[str, Any], task: Task) -> cmd.Command:
    assert task.offer is not None
    instance = some(draw, "w1", "w2")
    base = {**base, "epoch": task.epoch - (draw.randint(0, 9) == 0), "instance": instance}
    base["agent"] = some(draw, *(entry.agent for entry in task.offer.open_to), "a")
    kind = some(draw, "acknowledge", "acknowledge", "acknowledge", "claim", "decline")
    if kind == "acknowledge":
        return cmd.Acknowledge(**base, digest="wrong" if seldom(draw, 9) else task.offer.payload)
    if kind == "claim":
        return cmd.Claim(**base)
    return cmd.Decline(**base, reason=some(draw, Reason.DECLINED, Reason.START_FAILED), detail=body("busy"))


def _anybodys(draw: Random, base: dict[str, Any], task: Task) -> cmd.Command:
    kinds = ["expire", "send", "send"]
    kinds += ["outcome", "outcome", "attempt", "death"] if task.effects or seldom(draw, 5) else []
    kinds += ["end", "death"] if task.works or seldom(draw, 9) else []
    kinds += ["answer"] * 3 if task.question or seldom(draw, 9) else []
    kinds += ["cancel"] if seldom(draw, 5) else []
    kinds += ["adopt"] if seldom(draw, 2) else []
    kind = draw.choice(kinds)
    if kind == "expire":
        return cmd.Expire(**base)
    if kind == "adopt":
        return cmd.AdoptGraph(**base, graph=some(draw, "none", *(one.digest for one in GRAPHS)), by="person:operator")
    if kind == "death":
        return cmd.ReportDeath(**base, instance=some(draw, "w1", "w2"), by="watchdog")
    if kind == "send":
        return cmd.Send(**base, message=body({"hello": task.received}))
    if kind == "cancel":
        return cmd.RequestCancel(**base, by="customer-07")
    if kind == "end":
        work = task.works[0] if task.works else None
        ended = (work.work_id, work.instance) if work else ("x", "w1")
        return cmd.EndWork(**base, work_id=ended[0], instance=ended[1], how=WorkEnd.RETURNED)
    if kind == "answer":
        question = task.question.question_id if task.question else "q"
        action = some(draw, "resume", "reassign", "abort")
        choice = some(draw, "approve", "approve", "refuse", "")
        return cmd.Answer(
            **base, question_id=question, by="person:operator", action=action, choice=choice, agent=some(draw, "b", "x")
        )
    note = task.effects[0] if task.effects else None
    effect: dict[str, Any] = {
        "effect_id": note.effect_id if note else "e1",
        "instance": note.instance if note else "w1",
    }
    if kind == "attempt":
        purpose = some(draw, Purpose.LOOKUP, Purpose.APPLY, Purpose.SEAL)
        return cmd.AttemptEffect(**base, **effect, version=draw.randint(1, 4), purpose=purpose, epoch=task.epoch)
    state, evidence = some(
        draw,
        (EffectState.CONFIRMED, EvidenceKind.RESPONSE),
        (EffectState.ACCEPTED, EvidenceKind.RESPONSE),
        (EffectState.IN_DOUBT, EvidenceKind.NONE),
        (EffectState.ABSENT, EvidenceKind.NOT_SENT),
    )
    return cmd.RecordOutcome(
        **base, **effect, attempt=draw.randint(1, 2), epoch=task.epoch, state=state, evidence=evidence
    )
