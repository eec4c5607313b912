"""Commands of one tree, with what a test does not care about filled in."""

from __future__ import annotations

import itertools
from typing import Any, TypeVar

import msgspec

from tenure.ledger import Ledger, root_of
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.approvals import AskedApproval
from tenure.protocol.body import Body
from tenure.protocol.graph import AgentKind, AgentNode, Edge, EdgeKind, Graph
from tenure.protocol.payload import Payload
from tenure.protocol.settings import LOCAL, Policy
from tenure.protocol.state import Candidate, Task
from tenure.protocol.vocabulary import EffectState, EvidenceKind, WorkKind

C = TypeVar("C", bound=cmd.CommandBase)

GOAL = "refund order A17"


def body(value: Any, nonce: str = "nonce") -> Body:
    """A body with JSON content."""
    return Body(msgspec.json.encode(value), nonce)


def payload(task_id: str, handoff_id: str = "", hop: int = 0, data: Any = None) -> Body:
    """A sender's part."""
    part = Payload(task_id=task_id, handoff_id=handoff_id, hop=hop, goal=GOAL, constraints=("in euros",), data=data)
    return Body(msgspec.json.encode(part), f"{task_id}/{hop}")


def candidates(*agents: str) -> tuple[Candidate, ...]:
    """Candidates without a narrower authority."""
    return tuple(Candidate(agent=agent) for agent in agents)


def edge(source: str, target: str) -> Edge:
    """A transfer of a graph."""
    return Edge(source=source, target=target, kind=EdgeKind.TRANSFER, because=f"{target} decides on refunds")


def team(*edges: Edge, **fields: Any) -> Graph:
    """A graph of three agents, who may delegate to each other and to a partner, with these transfers."""
    agents = {name: AgentNode() for name in "abc"} | {"partner": AgentNode(kind=AgentKind.PARTNER)}
    delegations = tuple(Edge(source=name, target="*") for name in "abc")
    return Graph(**{"team": "shop", "entry": "a", "agents": agents, "edges": (*edges, *delegations), **fields})


class Driver:
    """Speaks for whoever owns a task of the tree ``root_id``."""

    def __init__(self, ledger: Ledger, root_id: str = "t") -> None:
        self.ledger = ledger
        self.root_id = root_id
        self._ids = itertools.count(1)

    def make(self, kind: type[C], task_id: str = "", /, **fields: Any) -> C:
        """A command with ids of its own."""
        fields.setdefault("command_id", f"command-{next(self._ids)}")
        return kind(root_id=self.root_id, task_id=task_id or self.root_id, **fields)

    async def do(self, kind: type[Any], task_id: str = "", /, **fields: Any) -> cmd.Receipt:
        """Make and execute a command."""
        return await self.ledger.execute(self.make(kind, task_id, **fields))

    async def task(self, task_id: str = "") -> Task:
        """The task, which must exist."""
        task = await self.ledger.task(task_id or self.root_id)
        assert task is not None
        return task

    async def own(self, kind: type[Any], task_id: str = "", /, **fields: Any) -> cmd.Receipt:
        """Execute a command of the task's owner."""
        tenure = (await self.task(task_id)).tenure
        assert tenure is not None
        return await self.do(kind, task_id, **{"epoch": tenure.epoch, "instance": tenure.instance, **fields})

    async def submit(self, *agents: str, **fields: Any) -> cmd.Receipt:
        """Submit the root task."""
        fields.setdefault("payload", payload(self.root_id))
        return await self.do(cmd.Submit, candidates=candidates(*(agents or ("a",))), **fields)

    async def acknowledge(self, agent: str = "a", instance: str = "w1", task_id: str = "") -> cmd.Receipt:
        """Pick the open offer up and own the task."""
        task = await self.task(task_id)
        assert task.offer is not None
        digest = task.offer.payload
        return await self.do(cmd.Acknowledge, task_id, epoch=task.epoch, agent=agent, instance=instance, digest=digest)

    async def owned(self, agent: str = "a", instance: str = "w1", **fields: Any) -> Task:
        """Submit the root task and own it."""
        await self.submit(agent, **fields)
        await self.acknowledge(agent, instance)
        return await self.task()

    async def handoff(self, *agents: str, task_id: str = "", data: Any = None) -> dec.TransferTo:
        """The decision to hand the task over."""
        task = await self.task(task_id)
        handoff_id, hop = f"h{task.hop_count + 1}", task.hop_count + 1
        part = payload(task.task_id, handoff_id, hop, data)
        return dec.TransferTo(handoff_id=handoff_id, candidates=candidates(*agents), payload=part)

    async def transfer(self, *agents: str, task_id: str = "", **fields: Any) -> cmd.Receipt:
        """Hand the task over, with nothing left to retire."""
        decision = await self.handoff(*agents, task_id=task_id)
        return await self.own(cmd.Retire, task_id, decision=decision, **{"quiet": True, **fields})

    async def turn(self, *asked: str, task_id: str = "", **fields: Any) -> cmd.Receipt:
        """Ask for several things in one turn: ``+agent`` delegates, ``>agent`` transfers, anything else is a call."""
        delegations = tuple(cmd.AskedDelegation(call_id=one, agent=one[1:]) for one in asked if one[0] == "+")
        transfers = [
            cmd.AskedTransfer(call_id=one, decision=await self.handoff(one[1:], task_id=task_id))
            for one in asked
            if one[0] == ">"
        ]
        turn = {"asked": asked, "delegations": delegations, "transfers": tuple(transfers)}
        return await self.own(cmd.TakeTurn, task_id, **{**turn, **fields})

    async def adopt(self, graph: str, task_id: str = "", **fields: Any) -> cmd.Receipt:
        """Let a task go on under another version of the graph."""
        return await self.do(cmd.AdoptGraph, task_id, **{"graph": graph, "by": "person:operator", **fields})

    async def word(self, choice: str, *, intent: str, arguments: str, tool: str = "refund") -> cmd.Receipt:
        """Ask a person about one effect, and get the answer; whoever owned the task owns it again."""
        task = await self.task()
        assert task.tenure is not None
        question = f"q{task.revision}"
        asked = AskedApproval(tool=tool, intent=intent, arguments=arguments)
        decision = dec.EscalateTo(question_id=question, body=body("May I?"), who=("person:operator",), approval=asked)
        await self.own(cmd.Retire, decision=decision, quiet=True)
        await self.do(cmd.Answer, question_id=question, by="person:operator", choice=choice)
        return await self.acknowledge(task.owner, task.tenure.instance)

    async def complete(self, task_id: str = "", result: Any = "refunded", **fields: Any) -> cmd.Receipt:
        """End the task with success."""
        decision = dec.CompleteWith(result=body(result))
        return await self.own(cmd.Retire, task_id, decision=decision, **{"quiet": True, **fields})

    async def delegate(self, child_id: str, agent: str = "c", task_id: str = "", **fields: Any) -> cmd.Receipt:
        """Open a child task."""
        assert root_of(child_id) == self.root_id
        child = {"child_id": child_id, "candidates": candidates(agent), "payload": payload(child_id)}
        return await self.own(cmd.Delegate, task_id, **{**child, **fields})

    async def work(self, work_id: str, task_id: str = "", policy: Policy = LOCAL) -> cmd.Receipt:
        """Put a work on the books."""
        return await self.own(
            cmd.StartWork, task_id, work_id=work_id, kind=WorkKind.COROUTINE, name=work_id, policy=policy
        )

    async def intend(self, effect_id: str, task_id: str = "", **fields: Any) -> cmd.Receipt:
        """Record an effect and its first attempt."""
        fields = {
            "provider": "shop",
            "tool": "refund",
            "intent": f"intent of {effect_id}",
            "compared": "cents=4200",
            "request": body({"order": "A17"}, effect_id),
            "policy": LOCAL,
            **fields,
        }
        return await self.own(cmd.Intend, task_id, effect_id=effect_id, **fields)

    async def outcome(self, effect_id: str, state: EffectState, task_id: str = "", **fields: Any) -> cmd.Receipt:
        """Record what the newest attempt showed."""
        effects = {effect.effect_id: effect for effect in await self.ledger.effects(task_id or self.root_id)}
        attempt = effects[effect_id].attempt
        fields = {
            "attempt": attempt.n,
            "instance": attempt.instance,
            "epoch": attempt.epoch,
            "evidence": EvidenceKind.RESPONSE,
            **fields,
        }
        return await self.do(cmd.RecordOutcome, task_id, effect_id=effect_id, state=state, **fields)
