"""Turns: everything that an agent asks for in one response is collected, decided on once, and only then started."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tenure.errors import CODES, Fenced, Refused
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol.body import text_digest
from tenure.protocol.payload import Fact
from tenure.protocol.settings import Policy
from tenure.protocol.state import Rejected, Task
from tenure.protocol.turns import Ruling
from tenure.protocol.vocabulary import Phase, TurnOutcome, WorkEnd
from tenure.runtime.content import canonical, to_body, to_plain, words_of
from tenure.runtime.decisions import Transfer
from tenure.runtime.ids import new_id
from tenure.runtime.jobs import Outcome
from tenure.runtime.outcomes import Held, InDoubt
from tenure.runtime.outcomes import Refused as NotDone
from tenure.runtime.payloads import transfer_to
from tenure.runtime.works import Work

if TYPE_CHECKING:
    from tenure.runtime.tenure import Tenure

ROUTING = frozenset(
    {"route_forbidden", "unknown_agent", "self_transfer", "transfer_limit_exceeded", "oscillation", "ambiguous_turn"}
)
"""Refusals that are about the route: the agent is told and may ask for something else."""


class Call(Struct, frozen=True):
    """A call of a tool that a turn asks for.

    Attributes:
        name: of the tool. run: makes its coroutine; called only when the turn goes on, and once.
        policy: how the call is retired, should another agent go on meanwhile.
        id: the response's own name for it; made up when empty.
    """

    name: str
    run: Callable[[], Coroutine[Any, Any, Any]]
    policy: str | Policy = "local"
    id: str = ""


class Delegate(Struct, frozen=True):
    """A delegation that a turn asks for; see :meth:`Tenure.delegate`."""

    agent: str
    data: Any = None
    goal: str = ""
    summary: str = ""
    constraints: tuple[str, ...] = ()
    key: str = ""
    id: str = ""


class Answered(Struct, frozen=True):
    """The turn went on, and all that it started has ended.

    Attributes:
        facts: one for each thing that was asked for, in that order: ``id`` is its id, ``data`` what it brought. What
            was not done has the outcome ``refused``, and the reason in ``data``.
    """

    facts: tuple[Fact, ...]


class Nudged(Struct, frozen=True):
    """Nothing of the turn was started: it asked for what is not allowed, or for more than one that goes on.

    Attributes:
        text: for the agent. rejected: id, code and detail of what was wrong.
        left: how often another such turn would be handed back before its fallback.
    """

    text: str
    rejected: tuple[Rejected, ...]
    left: int


Asked = Call | Delegate | Transfer[Any]

_OUTCOMES: dict[type, str] = {NotDone: "refused", Held: "refused", InDoubt: "unknown"}
"""What is known of an effect that a call has answered with: that the call has returned is another fact."""


class Decided(Struct, frozen=True):
    """A transfer that a turn has decided on, under the id of its handoff, and what the calls beside it brought."""

    transfer: Transfer[Any]
    handoff_id: str
    facts: tuple[Fact, ...] = ()


class Turns:
    """The turns of one tenure. ``decided``: the transfer that one of them has decided on."""

    def __init__(self, own: Tenure[Any]) -> None:
        """None taken yet."""
        self._own = own
        self.decided: Decided | None = None

    async def take(self, asked: Iterable[Asked] | AsyncIterable[Asked]) -> Transfer[Any] | Answered | Nudged:
        """See :meth:`Tenure.turn`."""
        self._own.hold.check_open()
        items = _named([one async for one in asked] if isinstance(asked, AsyncIterable) else list(asked))
        for one in items.values():
            if isinstance(one, Call):
                self._own.works.admit(one.policy)  # after the decision it would be too late to say so
        transfers = {name: one for name, one in items.items() if isinstance(one, Transfer)}
        decisions = {name: await self._protocol(one) for name, one in transfers.items()}
        ruling = await self._rule(
            tuple(items),
            tuple(
                cmd.AskedDelegation(call_id=name, agent=one.agent)
                for name, one in items.items()
                if isinstance(one, Delegate)
            ),
            tuple(
                cmd.AskedTransfer(call_id=name, decision=decisions[name], same=self._same(one))
                for name, one in transfers.items()
            ),
        )
        match ruling.outcome:
            case TurnOutcome.NUDGE:
                return Nudged(nudge_text(ruling.rejected), ruling.rejected, ruling.nudges_left)
            case TurnOutcome.END:
                first = ruling.rejected[0]
                raise Refused(first.code, f"{first.detail} The turn has ended the task.".strip())
            case TurnOutcome.TRANSFER:
                return await self._hand_over(items, transfers[ruling.transfer], decisions[ruling.transfer])
            case TurnOutcome.GO:
                return await self._go(items, {one.call_id: one for one in ruling.rejected})

    async def propose(self, decision: dec.TransferTo, why: str) -> Ruling:
        """Ask the ledger about a transfer that it has refused when it was returned: it counts as a turn of its own."""
        asked = cmd.AskedTransfer(call_id="return", decision=decision)
        return await self._rule(("return",), (), (asked,), why)

    async def _rule(
        self,
        asked: tuple[str, ...],
        delegations: tuple[cmd.AskedDelegation, ...],
        transfers: tuple[cmd.AskedTransfer, ...],
        why: str = "The turn asked again for what is not allowed.",
    ) -> Ruling:
        hold = self._own.hold
        task = await self._task()
        path = [step.sender for step in task.trail] + [hold.agent]
        wishes = [[entry.agent for entry in one.decision.candidates] for one in transfers]
        wishes += [[one.agent] for one in delegations]
        detail = to_body({"error": why, "path": path, "asked": wishes})
        receipt = await hold.say(cmd.TakeTurn, asked=asked, delegations=delegations, transfers=transfers, detail=detail)
        ruling = receipt.ruling
        if ruling is None:
            raise Refused("misuse", "The ledger has answered a turn with no ruling; upgrade it.")
        if ruling.outcome is TurnOutcome.END and receipt.phase is not Phase.CANCEL_REQUESTED:
            hold.closing = hold.stated = True  # the ledger has stated the end of this tenure in the same commit
        return ruling

    async def _task(self) -> Task:
        task = await self._own.hold.books.task(self._own.task_id)
        if task is None:
            raise Fenced("stale_epoch", self._own.task_id)
        return task

    async def _protocol(self, transfer: Transfer[Any]) -> dec.TransferTo:
        return await transfer_to(self._own, transfer, new_id("h"))

    def _same(self, transfer: Transfer[Any]) -> str:
        """What makes two transfers to the same receivers identical: what they move. Words about it do not count."""
        return text_digest(canonical([transfer.data, str(transfer.gate)]).decode(), self._own.payload.salt)

    # --- after the decision -------------------------------------------------------------------------------------

    async def _hand_over(
        self, items: dict[str, Asked], winner: Transfer[Any], decision: dec.TransferTo
    ) -> Transfer[Any]:
        """Let the calls beside the transfer finish until their deadline; what they brought goes along as facts."""
        self.decided = Decided(winner, decision.handoff_id)
        waiting = [
            asyncio.ensure_future(self._brought(work.work_id, _name(items[name]), work))
            for name, work in self._start_calls(items).items()
        ]
        if waiting:
            await asyncio.wait(waiting, timeout=self._own.hold.settings.calls_ms / 1000)
        facts = []
        for waiter in waiting:
            if waiter.done():
                facts.append(waiter.result())
            else:
                waiter.cancel()  # the work itself is the tenure's: it is retired, or declared residual
        self.decided = Decided(winner, decision.handoff_id, tuple(facts))
        return winner

    async def _go(self, items: dict[str, Asked], rejected: dict[str, Rejected]) -> Answered:
        """Start everything that is not rejected, and wait for it."""
        works = self._start_calls(items)
        opened: dict[str, str | Refused] = {}
        for name, one in items.items():
            if isinstance(one, Delegate) and name not in rejected:
                opened[name] = await self._open(one)
        found: dict[str, Fact] = {name: _refused(items[name], one) for name, one in rejected.items()}
        for name, work in works.items():
            found[name] = await self._brought(name, _name(items[name]), work)
        for name, child in opened.items():
            found[name] = await self._joined(name, _name(items[name]), child)
        return Answered(tuple(found[name] for name in items if name in found))

    def _start_calls(self, items: dict[str, Asked]) -> dict[str, Work[Any]]:
        return {
            name: self._own.spawn(one.run, policy=one.policy, name=one.name)
            for name, one in items.items()
            if isinstance(one, Call)
        }

    async def _open(self, wanted: Delegate) -> str | Refused:
        try:
            return await self._own.open(
                wanted.agent,
                wanted.data,
                goal=wanted.goal,
                summary=wanted.summary,
                constraints=wanted.constraints,
                key=wanted.key,
            )
        except Refused as error:
            return error  # another tenure of the tree was faster with what was left of a budget

    async def _joined(self, name: str, agent: str, child: str | Refused) -> Fact:
        if isinstance(child, Refused):
            return _refused_fact(name, agent, child.code, child.detail)
        result = await self._own.join(child)
        done = result.outcome == "completed"
        data = result.value if done else {"outcome": result.outcome, "reason": result.reason, "detail": result.value}
        return Fact(id=name, what=agent, outcome="done" if done else "failed", reference=child, by=agent, data=data)

    async def _brought(self, name: str, what: str, work: Work[Any]) -> Fact:
        """What a call has brought when it ends; one that the books did not take was not started, and says so."""
        try:
            return self._fact(name, what, await work.ended())
        except Refused as error:
            return replace(_refused_fact(name, what, error.code, error.detail), by=self._own.agent, origin="work")

    def _fact(self, name: str, what: str, outcome: Outcome) -> Fact:
        """A call that has ended, as whoever goes on will read it."""
        done = outcome.how is WorkEnd.RETURNED
        try:
            data = to_plain(outcome.value) if done else {"error": words_of(outcome.error) if outcome.error else ""}
        except Refused as error:
            data = {"error": str(error)}
        how = _OUTCOMES.get(type(outcome.value), "done") if done else "failed"
        return Fact(id=name, what=what, outcome=how, by=self._own.agent, data=data, origin="work")  # type: ignore[arg-type]  # one of the literals


def nudge_text(rejected: tuple[Rejected, ...]) -> str:
    """What an agent is told about a turn that was handed back."""
    lines = ["Nothing of this turn was done."]
    lines += [f"- {one.call_id}: {CODES[one.code][0]} {one.detail}".rstrip() for one in rejected]
    if any(one.code == "ambiguous_turn" for one in rejected):
        lines.append("Ask again: either for one transfer, or for delegations and no transfer.")
    else:
        lines.append("Ask again for something that is allowed, or give the task back.")
    return "\n".join(lines)


def _named(asked: list[Asked]) -> dict[str, Asked]:
    """Everything by its id; a number where the response gave none."""
    items = {one.id or f"{number}": one for number, one in enumerate(asked, 1)}
    if len(items) < len(asked):
        raise Refused("misuse", "Two things of one turn have the same id.")
    return items


def _name(item: Asked) -> str:
    match item:
        case Call(name=name):
            return name
        case Delegate(agent=agent):
            return agent
        case _:
            return item.to if isinstance(item.to, str) else ", ".join(item.to)


def _refused(item: Asked, rejected: Rejected) -> Fact:
    return _refused_fact(rejected.call_id, _name(item), rejected.code, rejected.detail)


def _refused_fact(name: str, what: str, code: str, detail: str) -> Fact:
    return Fact(id=name, what=what, outcome="refused", data={"code": code, "detail": detail or CODES[code][0]})
