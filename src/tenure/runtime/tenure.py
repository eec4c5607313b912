"""The handle that a handler holds: everything started under it belongs to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from tenure.errors import Refused
from tenure.protocol import commands as cmd
from tenure.protocol.body import Body, text_digest
from tenure.protocol.payload import Payload
from tenure.protocol.settings import Policy
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import EffectState
from tenure.runtime.approvals import held
from tenure.runtime.content import canonical, to_plain
from tenure.runtime.decisions import Transfer
from tenure.runtime.delegation import Delegations, Result
from tenure.runtime.effects import Effects
from tenure.runtime.hold import Hold
from tenure.runtime.inbox import Inbox, Message, Route
from tenure.runtime.intents import intent_of, tool_policy
from tenure.runtime.outcomes import Outcome
from tenure.runtime.outcomes import Refused as NotDone
from tenure.runtime.payloads import InFlight
from tenure.runtime.provider import Provider
from tenure.runtime.turns import Answered, Asked, Nudged, Turns, nudge_text
from tenure.runtime.undoing import Compensation, Undoing
from tenure.runtime.works import RemoteWork, Work, Works, policy_of

T = TypeVar("T")
R = TypeVar("R")

_SCOPE: ContextVar[str] = ContextVar("tenure_scope", default="")

TOOL_REFUSALS = 3
"""How often a tenure may ask for a tool that it does not have before it is given back."""


class Tenure(Generic[T]):
    """One agent's period of owning one task.

    Attributes:
        input: what the sender handed over, as the type that the agent accepts.
        payload: the sender's whole part. in_flight: what the books say is open.
        state: the state document as last saved; after a crash the only thing to rely on.
        task_id, agent, epoch: which tenure this is.
        nudge: what the agent has to be told, because the route that it wanted last is not there; empty otherwise.
    """

    def __init__(self, hold: Hold, task: Task, *, given: T, payload: Payload, in_flight: InFlight, state: Any) -> None:
        """Made by the worker at the grant."""
        self.input = given
        self.payload = payload
        self.in_flight = in_flight
        self.state = state
        self.task_id = hold.task_id
        self.agent = hold.agent
        self.epoch = hold.epoch
        self.nudge = nudge_text(task.nudged) if task.nudged else ""
        self.hold = hold
        self.works = Works(hold)
        self.effects = Effects(hold)
        self.inbox = Inbox(hold, task)
        self.delegations = Delegations(hold, payload.salt, task.given)
        self.turns = Turns(self)
        self._refused_tools = 0
        self._one_undoing = asyncio.Lock()

    @property
    def asked(self) -> bool:
        """Whether the ledger asks for a step that it can see, before it gives the task to another. ``save`` is one."""
        return self.hold.asked.is_set()

    @property
    def goal(self) -> str:
        """The goal of the task, the same in every hop."""
        return self.payload.goal

    def spawn(
        self,
        work: Coroutine[Any, Any, R] | Callable[[], Coroutine[Any, Any, R]],
        *,
        policy: str | Policy = "local",
        name: str = "",
    ) -> Work[R]:
        """Run a coroutine as owned work. It ends with the tenure, or is declared residual.

        Work that is started behind the handle's back (``asyncio.create_task``, a thread of your own) is seen only
        where the job can see it; see the documentation of limits.

        Raises:
            Refused: ``retiring``, ``misuse``, ``deadline_below_grace``. Fenced: the tenure is not valid any more.
        """
        return self.works.spawn(work, policy, name)

    def thread(self, function: Callable[..., R], *args: Any, policy: str | Policy = "local", name: str = "") -> Work[R]:
        """Run a function in a thread of its own. A parameter named ``stop`` gets an event that asks it to end."""
        return self.works.thread(function, args, policy, name)

    def process(self, *argv: str, policy: str | Policy = "external", name: str = "", **options: Any) -> Work[Any]:
        """Run a command in its own process group; the whole group is signalled, survivors are reported."""
        return self.works.process(argv, policy, name, **options)

    def remote(
        self, provider: Provider, reference: str, *, policy: str | Policy = "external", name: str = ""
    ) -> RemoteWork:
        """Own what runs at a provider under its name for it, until the provider's ``status(reference)`` shows its end.

        Started by an :meth:`effect`, whose reference it has. At the end of the tenure the provider's
        ``stop(reference)`` is asked for, where it has one; what then was not seen to end is residual work, and closed
        by whoever can ask the provider.

        Raises:
            Refused: ``misuse`` for a provider without ``status``; ``retiring``, ``deadline_below_grace``. Fenced.
        """
        return self.works.remote(provider, reference, policy, name)

    def route(self, name: str = "input") -> Route:
        """Subscribe to live input: ``async with own.route() as route: async for message in route``."""
        return self.inbox.route(name)

    async def receive(self, timeout: float | None = None) -> Message | None:
        """The next message, in order; ``None`` after ``timeout`` seconds without one. Consumed by the next commit."""
        return await self.inbox.receive(timeout)

    async def effect(
        self,
        provider: Provider,
        request: Any,
        *,
        key: str | None = None,
        tool: str = "",
        policy: str | Policy = "",
        compare: tuple[str, ...] | None = None,
        another: str = "",
        timeout: float | None = 30,
        patience: float = 10,
    ) -> Outcome:
        """Do something outside, once. The intent is committed before the provider is called.

        Args:
            provider: the adapter of the outside system.
            request: what is asked for; anything with a JSON form.
            key: the business intent, for example an order id. Mandatory for external and critical effects.
            tool: name of the capability that this uses; the provider's name by default.
            policy: how an unsettled effect is treated at a handoff; by default as the graph says, else ``external``.
            compare: fields of the request that a repeat with the same key must share; all of them by default.
            another: set it to do a second one on purpose under the same key.
            timeout: seconds for one call; its passing proves nothing, and leaves the effect in doubt.
            patience: seconds to look for evidence before :class:`InDoubt` is the answer.

        Raises:
            Refused: misuse, ``intent_conflict`` (same key, other request), ``tool_not_allowed``, ``limit_exceeded``.
            Fenced: the tenure is not valid any more; what the provider answered was kept as evidence.
        """
        named = intent_of(
            provider,
            request,
            key=key,
            tool=tool or provider.name,
            policy=tool_policy(self.hold.graph, tool or provider.name, policy),
            compare=compare,
            another=another,
            salt=self.payload.salt,
            timeout=timeout,
            patience=patience,
        )
        intent = replace(named, scope=_SCOPE.get())
        try:
            return await self.effects.perform(intent)
        except Refused as error:
            if error.code == "approval_required":
                return await held(self, intent)
            if error.code == "not_approved":
                return NotDone(effect_id="", state=EffectState.REFUSED, reason=error.detail)
            self._refused_tools += error.code == "tool_not_allowed"
            if self.out_of_bounds:
                self.hold.out_of_bounds.set()
            raise

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Name the undertaking that the effects inside belong to, so that they can be undone apart from the others."""
        before = _SCOPE.set(name)
        try:
            yield
        finally:
            _SCOPE.reset(before)

    async def cancel_effect(
        self,
        provider: Provider,
        request: Any,
        *,
        key: str,
        tool: str = "",
        another: str = "",
        timeout: float | None = 30,
    ) -> Outcome:
        """Ask the provider to end an effect of this task that it has taken on, and say what it showed.

        Without a ``cancel`` of the provider nothing is asked. Only a provider that *saw* the end makes the answer
        ``Refused`` with the state ``cancelled``; a request that was merely sent leaves it :class:`InDoubt`.

        Raises:
            Refused: ``unknown_effect`` when no effect with this key is open.
        """
        intent = intent_of(
            provider,
            request,
            key=key,
            tool=tool or provider.name,
            policy=policy_of("external"),
            compare=None,
            another=another,
            salt=self.payload.salt,
            timeout=timeout,
            patience=0,
        )
        return await self.effects.cancel(intent)

    async def compensate(self, scope: str | None = None, *, timeout: float | None = 30) -> Compensation:
        """Undo the effects of this task, or of one :meth:`scope` of it, the newest first, each on its own.

        Effects that this tenure is just performing are waited for, and what is in doubt is found out first. Safe to ask
        again, also after a crash: nothing is undone twice. What could not be undone here goes on being tried by the
        worker's reconciler, and a person is asked in the end.

        Args:
            timeout: seconds for one call of a provider, and for what is just being performed.

        Raises:
            Refused: ``retiring``. Fenced: the tenure is not valid any more.
        """
        self.hold.check_open()
        async with self._one_undoing:
            await self.effects.answered(timeout)
            return await Undoing(self.hold, timeout=timeout).run(scope)

    @property
    def out_of_bounds(self) -> bool:
        """Whether it has asked too often for tools that it does not have."""
        return self._refused_tools >= TOOL_REFUSALS

    async def turn(self, asked: Iterable[Asked] | AsyncIterable[Asked]) -> Transfer[Any] | Answered | Nudged:
        """Decide on everything that the agent asked for in one response, before any of it starts.

        Args:
            asked: :class:`Call`, :class:`Delegate` and :class:`Transfer`, in the order of the response, or a stream of
                them: it is read to its end first. What completes first makes no difference.

        Returns:
            Answered: what was asked for has been done, with its facts. Nudged: nothing was started; tell the agent.
            A transfer: the one that won. The calls beside it had their time; return it from the handler.

        Raises:
            Refused: the nudges are used up and nothing is left that goes on with the task; it has been ended.
                ``transfer_decided``, ``retiring``. Fenced: the tenure is not valid any more.
        """
        return await self.turns.take(asked)

    async def delegate(
        self,
        agent: str,
        data: Any = None,
        *,
        goal: str = "",
        summary: str = "",
        constraints: tuple[str, ...] = (),
        key: str = "",
    ) -> Result:
        """Open a child task and wait for its result. The caller keeps its task.

        Args:
            key: names the child; the same key in the same task finds the same child after a crash. By default the
                agent and how many delegations came before, under the same input.

        Raises:
            Refused: ``delegation_limit_exceeded``, ``tree_stopped``, ``route_forbidden``, ``retiring``.
        """
        opened = await self.open(agent, data, goal=goal, summary=summary, constraints=constraints, key=key)
        return await self.join(opened)

    async def open(
        self,
        agent: str,
        data: Any = None,
        *,
        goal: str = "",
        summary: str = "",
        constraints: tuple[str, ...] = (),
        key: str = "",
    ) -> str:
        """Open a child task as :meth:`delegate` does, without waiting for it. Returns its task id.

        For ``Wait("child", child=…)``, or for several children at once; :meth:`join` gives a result.
        """
        return await self.delegations.open(
            agent,
            data,
            goal=goal or self.goal,
            constraints=(*self.payload.constraints, *constraints),
            key=key,
            summary=summary,
        )

    async def join(self, child_id: str) -> Result:
        """Wait for the end of a child task that this task has opened."""
        return await self.delegations.join(child_id)

    async def save(self, state: Any = None) -> None:
        """Commit a turn: the state document, the input received so far, the results collected.

        This is a step that the ledger can see: it also answers the question for progress.
        """
        self.hold.check_open()
        document = None if state is None else self._document(state)
        collected, shown = self.delegations.take_collected(), self.inbox.shown
        if not (collected or document or shown > self.inbox.consumed):
            document = self._document(self.state)
        await self.hold.say(cmd.Advance, consumed=shown, collected=collected, document=document)
        self.inbox.consumed = shown  # a message that was shown meanwhile is not in this commit
        if state is not None:
            self.state = state

    def _document(self, state: Any) -> Body:
        """A state document. The same content has the same digest in the whole tree, so that progress can be seen."""
        content = canonical(to_plain(state))
        return Body(content, text_digest(content.decode(), self.payload.salt))
