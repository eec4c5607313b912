"""One tree of tasks under the protocol alone: no ledger, no clock but a number.

``World`` loads the books of each command as a ledger does, decides, keeps what comes out, and after *every* command
checks what must always hold: events survive their encoding, folding them gives the stored task and effects, the epoch
and revision only rise, tenures do not overlap, and an unfinished task has a deadline.

``Owner`` speaks for one tenure. ``with world.refuses(code):`` also checks that nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tenure.errors import Fenced, TenureError
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol import events as ev
from tenure.protocol.body import Body
from tenure.protocol.decide import Verdict, decide, decide_heartbeat, next_deadline
from tenure.protocol.events import decode_event, encode_event, event_tag
from tenure.protocol.evolve import evolve, evolve_effect, evolve_tree, fold
from tenure.protocol.graph import Graph
from tenure.protocol.outside import Effect
from tenure.protocol.payload import Payload
from tenure.protocol.settings import LOCAL, Limits, Policy, Settings
from tenure.protocol.state import Books, Candidate, Task, Tree
from tenure.protocol.turns import Ruling
from tenure.protocol.vocabulary import (
    EffectState,
    EvidenceKind,
    Gate,
    Phase,
    Purpose,
    Reason,
    WaitOn,
    WorkEnd,
    WorkKind,
)

ROOT = "t"
GOAL = "refund order A17"
CONSTRAINTS = ("never above 50 EUR",)


def body(content: object) -> Body:
    return Body(msgspec.json.encode(content), "nonce")


def asked(*names: str | Candidate) -> tuple[Candidate, ...]:
    return tuple(name if isinstance(name, Candidate) else Candidate(agent=name) for name in names)


class World:
    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.now = 1_000
        self.tree: Tree | None = None
        self.tasks: dict[str, Task] = {}
        self.effects: dict[str, Effect] = {}
        self.leases: dict[str, int] = {}
        self.history: dict[str, list[ev.Event]] = {}
        self.newest_tags: tuple[str, ...] = ()
        self.grants: list[tuple[str, int]] = []
        self.graphs: dict[str, Graph] = {}
        self.watch: Callable[[cmd.Command], None] = lambda _: None
        self._n = 0

    # -- what a ledger does -------------------------------------------------------------------------------------------

    def run(self, command: cmd.Command) -> cmd.Receipt:
        """Decide one command a millisecond later, keep the outcome, and check what must always hold."""
        self.now += 1
        self.watch(command)
        verdict = decide(self.books(command), command, self.now)
        self._keep(verdict)
        return verdict.receipt

    def books(self, command: cmd.Command) -> Books:
        task = self.tasks.get(command.task_id)
        parent = self.tasks.get(task.parent) if task else None
        dead = isinstance(command, cmd.ReportDeath)
        named = self.effects.get(getattr(command, "effect_id", ""))
        intents = {getattr(command, "intent", ""), named.intent if named else ""}
        return Books(
            tree=self.tree,
            task=task,
            parent=parent,
            child=self.tasks.get(getattr(command, "child_id", "")),
            effects=tuple(
                effect
                for effect in self.effects.values()
                if effect is named
                or effect.intent in intents
                or (dead and effect.task_id == command.task_id and not effect.state.settled)
            ),
            graph=self._graph(command, task),
            conversing=self._conversing(getattr(command, "conversation", "")),
            lease_until=self.leases.get(command.task_id, 0),
            parent_lease_until=self.leases.get(parent.task_id, 0) if parent else 0,
        )

    def _graph(self, command: cmd.Command, task: Task | None) -> Graph | None:
        named = getattr(command, "graph", "") or (task.graph if task else "")
        return self.graphs.get(named)

    def save(self, graph: Graph) -> str:
        """Keep a version of a graph, as a ledger does; gives its digest."""
        self.graphs[graph.digest] = graph
        return graph.digest

    def _conversing(self, conversation: str) -> Task | None:
        return next((t for t in self.tasks.values() if conversation and t.conversation == conversation), None)

    def _keep(self, verdict: Verdict) -> None:
        self.newest_tags = tuple(event_tag(change.event) for change in verdict.changes)
        replayed = dict(self.effects)
        for change in verdict.changes:
            assert decode_event(encode_event(change.event)) == change.event
            before = self.history.setdefault(change.task_id, [])
            before.append(change.event)
            effect_id = getattr(change.event, "effect_id", "")
            if effect_id:
                effect = evolve_effect(replayed.get(effect_id), change.event, change.after)
                assert effect is not None
                replayed[effect_id] = effect
            if isinstance(change.event, ev.TenureGranted):
                self.grants.append((change.event.agent, change.after.epoch))
        for name, task in verdict.tasks.items():
            self._check_step(self.tasks.get(name), task)
            self.tasks[name] = task
        assert verdict.effects.items() <= replayed.items()
        self.effects = replayed
        self.tree = verdict.tree
        self._check_open_effects()

    def _check_step(self, before: Task | None, after: Task) -> None:
        name = after.task_id
        assert fold(self.history[name]) == after
        assert after.revision == len(self.history[name])
        assert after.answerable
        if before is not None:
            assert after.epoch >= before.epoch
            assert after.revision > before.revision
            assert set(before.constraints) <= set(after.constraints)
            assert (before.task_id, before.goal) == (after.task_id, after.goal)
            if before.tenure and after.tenure and before.tenure.epoch != after.tenure.epoch:
                assert after.tenure.epoch >= before.tenure.epoch + 2, "one ended before the other began"
        if after.tenure and (before is None or before.tenure is None or before.tenure.epoch != after.tenure.epoch):
            self.leases[name] = self.now + after.settings.lease_ms
        if after.tenure is None:
            self.leases[name] = 0
        due = next_deadline(after, self.leases[name])
        assert (due is None) == after.phase.ended

    def _check_open_effects(self) -> None:
        """A task's notes are exactly its effects without settling evidence."""
        for name, task in self.tasks.items():
            opened = {e.effect_id: e.state for e in self.effects.values() if e.task_id == name and not e.state.settled}
            assert {note.effect_id: note.state for note in task.effects} == opened
        tree = None
        for event in (event for events in self.history.values() for event in events):
            tree = evolve_tree(tree, event)
        assert tree == self.tree

    @contextmanager
    def refuses(self, code: str) -> Iterator[list[TenureError]]:
        """The block's command is refused with this code and changes nothing; gives the error afterwards."""
        before = self.snapshot()
        caught: list[TenureError] = []
        try:
            yield caught
        except TenureError as error:
            caught.append(error)
        assert caught, f"accepted, but should be refused as {code}"
        assert caught[0].code == code, str(caught[0])
        assert self.snapshot() == before

    @contextmanager
    def fences(self) -> Iterator[list[TenureError]]:
        with self.refuses("stale_epoch") as caught:
            yield caught
        assert isinstance(caught[0], Fenced)

    def snapshot(self) -> tuple[bytes, ...]:
        return tuple(msgspec.json.encode(part) for part in (self.tree, self.tasks, self.effects, self.history))

    def say(self, command: Any, /, task_id: str = ROOT, **fields: Any) -> cmd.Receipt:
        """Run a command of a kind; its id and root are filled in."""
        self._n += 1
        names = {"command_id": f"c{self._n}", "root_id": ROOT, "task_id": task_id}
        return self.run(command(**{**names, **fields}))

    def apply(self, event: ev.Event, task_id: str = ROOT) -> Task:
        """The task after an event that no command has led to; nothing is kept."""
        return evolve(self.tasks.get(task_id), event)

    # -- what anybody may say -----------------------------------------------------------------------------------------

    @property
    def task(self) -> Task:
        return self.tasks[ROOT]

    def payload(self, handoff_id: str = "", hop: int = 0, task_id: str = ROOT, **parts: Any) -> Body:
        fields: dict[str, Any] = {"goal": GOAL, "constraints": CONSTRAINTS, **parts}
        return body(Payload(task_id=task_id, handoff_id=handoff_id, hop=hop, **fields))

    def submit(self, *agents: str | Candidate, **fields: Any) -> World:
        defaults: dict[str, Any] = {"payload": self.payload(), "settings": self.settings, "limits": Limits()}
        self.say(cmd.Submit, candidates=asked(*agents), **{**defaults, **fields})
        return self

    def owned_by(self, agent: str, **fields: Any) -> Owner:
        """A new task whose first offer this agent has taken."""
        return self.submit(agent, **fields).ack(agent)

    def claim(self, agent: str, instance: str = "", task_id: str = ROOT, epoch: int = 0) -> cmd.Receipt:
        epoch = epoch or self.tasks[task_id].epoch
        return self.say(cmd.Claim, task_id, epoch=epoch, agent=agent, instance=instance or f"{agent}1")

    def ack(self, agent: str, instance: str = "", task_id: str = ROOT, **fields: Any) -> Owner:
        """Acknowledge the open offer; the answer speaks for the tenure, if it was granted."""
        task = self.tasks[task_id]
        instance = instance or f"{agent}1"
        defaults = {"epoch": task.epoch, "digest": task.offer.payload if task.offer else ""}
        receipt = self.say(cmd.Acknowledge, task_id, agent=agent, instance=instance, **{**defaults, **fields})
        return Owner(self, task_id, agent, instance, receipt)

    def decline(self, agent: str, reason: Reason = Reason.DECLINED, task_id: str = ROOT, **fields: Any) -> cmd.Receipt:
        defaults = {"epoch": self.tasks[task_id].epoch, "instance": f"{agent}1"}
        return self.say(cmd.Decline, task_id, agent=agent, reason=reason, **{**defaults, **fields})

    def due(self, task_id: str = ROOT) -> int:
        due = next_deadline(self.tasks[task_id], self.leases.get(task_id, 0))
        assert due is not None
        return due

    def expire(self, task_id: str = ROOT, *, after: int = 0) -> cmd.Receipt:
        """Let the time of the next deadline come, and apply it."""
        self.now = max(self.now, (after or self.due(task_id)) - 1)
        return self.say(cmd.Expire, task_id)

    def beat(self, owner: Owner) -> None:
        self.now += 1
        self.leases[owner.task_id] = decide_heartbeat(
            self.tasks.get(owner.task_id), owner.epoch, owner.instance, self.now
        )

    def dies(self, instance: str, task_id: str = ROOT) -> cmd.Receipt:
        return self.say(cmd.ReportDeath, task_id, instance=instance, by="watchdog")

    def send(self, text: str = "hello", task_id: str = ROOT) -> cmd.Receipt:
        return self.say(cmd.Send, task_id, message=body(text), sender="customer-07")

    def answer(self, question_id: str, by: str = "person:operator", **fields: Any) -> cmd.Receipt:
        return self.say(cmd.Answer, fields.pop("task_id", ROOT), question_id=question_id, by=by, **fields)

    def cancel(self, task_id: str = ROOT) -> cmd.Receipt:
        return self.say(cmd.RequestCancel, task_id, by="customer-07", reason="changed my mind")

    def adopt(self, graph: Graph, task_id: str = ROOT) -> cmd.Receipt:
        return self.say(cmd.AdoptGraph, task_id, graph=self.save(graph), by="person:operator")

    def adopt_nothing(self) -> cmd.Receipt:
        return self.say(cmd.AdoptGraph, graph="", by="person:operator")

    def reverse(self, handoff_id: str) -> cmd.Receipt:
        return self.say(cmd.Reverse, handoff_id=handoff_id, by="person:operator")

    def end_work(self, work_id: str, instance: str = "a1", how: WorkEnd = WorkEnd.RETURNED) -> cmd.Receipt:
        return self.say(cmd.EndWork, work_id=work_id, instance=instance, how=how)

    def cancel_work(self, work_id: str, *, delivered: bool = False) -> cmd.Receipt:
        return self.say(cmd.CancelWork, work_id=work_id, delivered=delivered)

    def reconcile(self, effect_id: str, purpose: Purpose = Purpose.LOOKUP, **fields: Any) -> cmd.Receipt:
        """A provider call by somebody who owns nothing."""
        effect = self.effects[effect_id]
        defaults = {"version": effect.version, "instance": "reconciler"}
        return self.say(cmd.AttemptEffect, effect.task_id, effect_id=effect_id, purpose=purpose, **defaults | fields)

    def outcome(
        self,
        effect_id: str,
        state: EffectState,
        evidence: EvidenceKind = EvidenceKind.RESPONSE,
        **fields: Any,
    ) -> cmd.Receipt:
        """Evidence of the newest attempt, by whoever made it."""
        effect = self.effects[effect_id]
        attempt = effect.attempt
        defaults = {"attempt": attempt.n, "instance": attempt.instance, "epoch": attempt.epoch}
        fields = {"effect_id": effect_id, "state": state, "evidence": evidence, **defaults, **fields}
        return self.say(cmd.RecordOutcome, effect.task_id, **fields)

    def attest(self, effect_id: str, version: int = 0, **fields: Any) -> cmd.Receipt:
        effect = self.effects[effect_id]
        defaults = {"version": version or effect.version, "by": "person:operator", "body": body("seen on the account")}
        return self.say(cmd.Attest, effect.task_id, effect_id=effect_id, **defaults | fields)

    def ask_about(self, effect_id: str, **fields: Any) -> cmd.Receipt:
        effect = self.effects[effect_id]
        defaults = {"version": effect.version, "instance": "reconciler"}
        return self.say(cmd.AskAboutEffect, effect.task_id, effect_id=effect_id, **defaults | fields)

    # -- what is asked of it ------------------------------------------------------------------------------------------

    def said(self) -> tuple[str, ...]:
        """The events of the newest accepted command."""
        return self.newest_tags

    def phase(self) -> Phase:
        return self.task.phase

    def hops(self) -> list[tuple[str, str]]:
        return [(hop.receiver, str(hop.state)) for hop in self.task.hops]

    def count(self, tag: str, task_id: str = ROOT) -> int:
        return [event_tag(event) for event in self.history[task_id]].count(tag)

    def newest(self, kind: type[Any], task_id: str = ROOT) -> Any:
        return next(event for event in reversed(self.history[task_id]) if isinstance(event, kind))


class Owner:
    """Speaks for one tenure, also after it has lost the task."""

    def __init__(self, world: World, task_id: str, agent: str, instance: str, receipt: cmd.Receipt) -> None:
        self.world = world
        self.task_id = task_id
        self.agent = agent
        self.instance = instance
        self.receipt = receipt
        self.epoch = receipt.epoch

    def say(self, command: Any, /, **fields: Any) -> cmd.Receipt:
        return self.world.say(command, self.task_id, **{"epoch": self.epoch, "instance": self.instance, **fields})

    def advance(self, consumed: int = 0, *collected: str, document: object = None) -> cmd.Receipt:
        written = None if document is None else body(document)
        return self.say(cmd.Advance, consumed=consumed, collected=collected, document=written)

    def see(self, upto: int) -> cmd.Receipt:
        return self.say(cmd.See, upto=upto)

    def work(self, work_id: str, policy: Policy = LOCAL, kind: WorkKind = WorkKind.COROUTINE) -> cmd.Receipt:
        return self.say(cmd.StartWork, work_id=work_id, kind=kind, name=work_id, policy=policy)

    def route(self, route_id: str) -> cmd.Receipt:
        return self.say(cmd.OpenRoute, route_id=route_id)

    def close(self, route_id: str) -> cmd.Receipt:
        return self.say(cmd.CloseRoute, route_id=route_id)

    def intend(self, effect_id: str, key: str = "A17", policy: Policy = LOCAL, **fields: Any) -> cmd.Receipt:
        defaults = {
            "provider": "bank",
            "tool": "refund",
            "intent": key,
            "request": body({"order": key}),
            "compared": "4200 cents",
        }
        return self.say(cmd.Intend, effect_id=effect_id, policy=policy, **{**defaults, **fields})

    def apply(self, effect_id: str, purpose: Purpose = Purpose.APPLY, version: int = 0, **facts: Any) -> cmd.Receipt:
        seen = version or self.world.effects[effect_id].version
        return self.say(cmd.AttemptEffect, effect_id=effect_id, purpose=purpose, version=seen, **facts)

    def undo(self, effect_id: str, **facts: Any) -> cmd.Receipt:
        return self.apply(effect_id, Purpose.COMPENSATE, **facts)

    def delegate(self, child_id: str, *agents: str | Candidate, **fields: Any) -> cmd.Receipt:
        payload = fields.pop("payload", None) or self.world.payload(task_id=child_id)
        return self.say(cmd.Delegate, child_id=child_id, candidates=asked(*agents), payload=payload, **fields)

    def decide(self, decision: dec.Decision, *, quiet: bool = True, **fields: Any) -> cmd.Receipt:
        return self.say(cmd.Retire, decision=decision, quiet=quiet, **fields)

    def release(self, *ended: str, **fields: Any) -> cmd.Receipt:
        seen = tuple(cmd.Ended(work_id=name, how=WorkEnd.CANCELLED) for name in ended)
        return self.say(cmd.Release, ended=seen, **{"routes_retired": True, **fields})

    def transfer(
        self,
        *agents: str | Candidate,
        h: str = "h1",
        gate: Gate = Gate.ROUTING_RETIRED,
        payload: Body | None = None,
        **fields: Any,
    ) -> cmd.Receipt:
        hop = self.world.tasks[self.task_id].hop_count + 1
        frozen = payload or self.world.payload(h, hop, self.task_id)
        broadcast = fields.pop("broadcast", False)
        decision = dec.TransferTo(
            handoff_id=h, candidates=asked(*agents), payload=frozen, gate=gate, broadcast=broadcast
        )
        return self.decide(decision, **fields)

    def turn(self, *asked: str | dec.TransferTo, **fields: Any) -> Ruling:
        """Ask for several things: ``d:AGENT`` is a delegation, ``t:AGENT`` a transfer, anything else a call."""
        names: list[str] = []
        hops = self.world.tasks[self.task_id].hop_count
        transfers: list[cmd.AskedTransfer] = []
        delegations: list[cmd.AskedDelegation] = []
        for number, one in enumerate(asked, 1):
            name = str(number)
            names.append(name)
            if isinstance(one, dec.TransferTo):
                transfers.append(cmd.AskedTransfer(call_id=name, decision=one, same=name))
            elif one.startswith("t:"):
                agent = one[2:]
                transfers.append(
                    cmd.AskedTransfer(call_id=name, decision=self.to(agent, h=f"h{hops + number}"), same=agent)
                )
            elif one.startswith("d:"):
                delegations.append(cmd.AskedDelegation(call_id=name, agent=one[2:]))
        defaults = {"transfers": tuple(transfers), "delegations": tuple(delegations), "detail": body("the path")}
        receipt = self.say(cmd.TakeTurn, **{"asked": tuple(names), **defaults, **fields})
        assert receipt.ruling is not None
        return receipt.ruling

    def to(self, *agents: str, h: str = "h1", payload: Body | None = None, **parts: Any) -> dec.TransferTo:
        """A transfer, not stated yet."""
        hop = self.world.tasks[self.task_id].hop_count + 1
        frozen = payload or self.world.payload(h, hop, self.task_id, **parts)
        return dec.TransferTo(handoff_id=h, candidates=asked(*agents), payload=frozen)

    def complete(self, result: object = "done", **fields: Any) -> cmd.Receipt:
        return self.decide(dec.CompleteWith(result=body(result)), **fields)

    def give_back(self, reason: Reason = Reason.GAVE_BACK, payload: Body | None = None, **fields: Any) -> cmd.Receipt:
        return self.decide(dec.GiveBackTo(reason=reason, payload=payload), **fields)

    def fail(self, reason: Reason = Reason.RAISED, **fields: Any) -> cmd.Receipt:
        return self.decide(dec.FailWith(reason=reason, detail=body("it broke")), **fields)

    def stop(self, **fields: Any) -> cmd.Receipt:
        return self.decide(dec.StopAsAsked(), **fields)

    def escalate(self, question_id: str = "q1", **parts: Any) -> cmd.Receipt:
        return self.decide(dec.EscalateTo(question_id=question_id, body=body("may I?"), **parts))

    def wait(self, on: WaitOn, within_ms: int = 60_000, child_id: str = "", question_id: str = "") -> cmd.Receipt:
        question = dec.EscalateTo(question_id=question_id, body=body("may I?")) if question_id else None
        return self.decide(dec.WaitFor(on=on, within_ms=within_ms, child_id=child_id, question=question))
