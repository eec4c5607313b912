"""A team: the agents, who may hand what to whom, and where the truth is kept."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints, overload

from msgspec import Struct

from tenure.errors import NextAction, OutcomeUnknown, Refused, Unavailable
from tenure.ledger import Ledger, open_ledger
from tenure.protocol import commands as cmd
from tenure.protocol.graph import Graph
from tenure.protocol.settings import Limits, Settings
from tenure.protocol.state import Candidate
from tenure.runtime.clock import uptime_ms
from tenure.runtime.content import to_body
from tenure.runtime.decisions import Decision
from tenure.runtime.handle import TaskHandle
from tenure.runtime.hold import execute_patiently
from tenure.runtime.ids import jitter, new_id
from tenure.runtime.offered import Offered
from tenure.runtime.payloads import encode_payload, first_payload
from tenure.runtime.provider import Provider, named
from tenure.runtime.tenure import Tenure
from tenure.runtime.worker import Worker
from tenure.runtime.written import check_graph, given_graph, graph_of_agents

Handler = Callable[[Tenure[Any]], Awaitable[Decision]]
H = TypeVar("H", bound=Handler)
OnOffer = Callable[[Offered], Awaitable[str | None]]
Lifespan = Callable[[], AbstractAsyncContextManager[None]]

SUBMIT_SECONDS = 30
PAUSE = 0.1


class Agent(Struct, frozen=True, kw_only=True):
    """A named participant.

    Attributes:
        accepts: the type of its input. tools: the capabilities it may use for effects; ``None`` means all of the
        task's. may_transfer: receiver → why this is a transfer and not a delegation. may_delegate: agents it may
        delegate to; ``None`` means any other. skills: what it can do, one phrase each. These and ``entry`` stand in the
        routing graph instead, if the team was given one.
        on_offer: asked before an offer is acknowledged; a reason declines it.
    """

    name: str
    handler: Handler
    accepts: Any = None
    entry: bool = False
    tools: tuple[str, ...] | None = None
    may_transfer: Mapping[str, str]
    may_delegate: tuple[str, ...] | None = None
    skills: tuple[str, ...] = ()
    on_offer: OnOffer | None = None


class Team:
    """What a user writes: handlers, edges, a ledger.

    Args:
        name: of the team. ledger: a URL, or an open ledger.
        graph: its routing graph, or the file that has it (``.toml``, ``.yaml``, ``.json``); it is read here. Without
        one, the edges are those that stand at the handlers.
        settings: deadlines and fallbacks of its tasks. limits: budgets of its delegation trees. What the graph says
        goes before both.
        providers: the outside systems that its effects use, for whoever settles or undoes them later.

    Raises:
        Refused: ``invalid_graph`` for a file that is none; ``invalid_team`` for the graph of another team.
    """

    def __init__(
        self,
        name: str,
        *,
        ledger: str | Ledger = "memory://",
        graph: Graph | str | Path | None = None,
        settings: Settings | None = None,
        limits: Limits | None = None,
        providers: Iterable[Provider] = (),
    ) -> None:
        """No ledger is opened before it is needed."""
        self.name = name
        self.settings = settings or Settings()
        self.limits = limits or Limits()
        self.agents: dict[str, Agent] = {}
        self.providers = named(providers)
        self._given = given_graph(graph)
        if self._given is not None:
            if self._given.team != name:
                raise Refused("invalid_team", f"The graph is that of team {self._given.team!r}, not of {name!r}.")
            self.settings = self._given.settings(self.settings)
            self.limits = self._given.limits(self.limits)
        self._made: Graph | None = None
        self._versions: dict[str, Graph] = {}
        self._saved_in: Ledger | None = None
        self._source = ledger
        self._ledger: Ledger | None = None
        self._lifespan: Lifespan | None = None
        self._workers = 0
        self.settings.check()

    # --- writing it ---------------------------------------------------------------------------------------------

    @overload
    def agent(self, handler: H, /) -> H: ...

    @overload
    def agent(
        self,
        /,
        *,
        name: str = ...,
        entry: bool = ...,
        accepts: Any = ...,
        tools: Iterable[str] | None = ...,
        may_transfer: Mapping[str, str] | None = ...,
        may_delegate: Iterable[str] | None = ...,
        skills: Iterable[str] = ...,
        on_offer: OnOffer | None = ...,
    ) -> Callable[[H], H]: ...

    def agent(
        self,
        handler: H | None = None,
        /,
        *,
        name: str = "",
        entry: bool = False,
        accepts: Any = None,
        tools: Iterable[str] | None = None,
        may_transfer: Mapping[str, str] | None = None,
        may_delegate: Iterable[str] | None = None,
        skills: Iterable[str] = (),
        on_offer: OnOffer | None = None,
    ) -> H | Callable[[H], H]:
        """Make a handler an agent of the team, by the handler's name unless ``name`` is given.

        Raises:
            Refused: ``invalid_team`` for a handler that is not a coroutine function, a name that is taken, an edge
                without its ``because``, or a place in the routing that the team's graph says differently.
        """

        def add(function: H) -> H:
            agent = Agent(
                name=name or function.__name__,
                handler=function,
                accepts=accepts if accepts is not None else _accepted(function),
                entry=entry,
                tools=None if tools is None else tuple(tools),
                may_transfer=dict(may_transfer or {}),
                may_delegate=None if may_delegate is None else tuple(may_delegate),
                skills=tuple(skills),
                on_offer=on_offer,
            )
            self._add(agent)
            return function

        return add if handler is None else add(handler)

    def lifespan(self, manager: Lifespan) -> Lifespan:
        """Register an async context manager that surrounds every worker: start and stop what the team needs."""
        self._lifespan = manager
        return manager

    @property
    def graph(self) -> Graph:
        """The routing graph: the one that was given, or the one that stands at the handlers so far."""
        if self._given is not None:
            return self._given
        if self._made is None:
            entry = next((agent.name for agent in self.agents.values() if agent.entry), next(iter(self.agents), ""))
            self._made = graph_of_agents(self.name, entry, self.agents)
        return self._made

    def check(self) -> None:
        """Refuse a team that cannot run.

        Raises:
            Refused: ``invalid_team`` for a graph without agents, more than one entry, or a handler that is not in the
                graph; ``unknown_agent``, ``self_transfer``, ``route_forbidden`` or ``invalid_graph`` for a graph with
                errors.
        """
        if not self.graph.agents:
            raise Refused("invalid_team", f"Team {self.name!r} has no agents; decorate a handler with @team.agent.")
        entries = [agent.name for agent in self.agents.values() if agent.entry]
        if len(entries) > 1:
            raise Refused("invalid_team", f"More than one entry: {', '.join(entries)}.")
        strangers = [name for name in self.agents if name not in self.graph.agents]
        if strangers:
            raise Refused("invalid_team", f"Not in the routing graph of {self.name!r}: {', '.join(strangers)}.")
        check_graph(self.graph)

    @property
    def entry(self) -> str:
        """The agent that gets new tasks: the graph's entry; else the one marked as such, or the first."""
        self.check()
        return self.graph.entry

    def candidate(self, agent: str) -> Candidate:
        """An agent as a candidate of an offer. What it may use is in the graph, which the ledger enforces.

        Raises:
            Refused: ``unknown_agent``.
        """
        if agent not in self.graph.agents:
            raise Refused("unknown_agent", f"{agent!r}; the team has {', '.join(self.graph.agents) or 'none'}.")
        return Candidate(agent=agent)

    # --- using it -----------------------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        """The team's ledger, opened when it is first needed."""
        if self._ledger is None:
            self._ledger = open_ledger(self._source) if isinstance(self._source, str) else self._source
        return self._ledger

    @property
    def ledger_url(self) -> str:
        """Where the truth is kept, without opening it."""
        return self._source if isinstance(self._source, str) else self._source.url

    def use_ledger(self, ledger: str | Ledger) -> None:
        """Keep the truth elsewhere; before anything was opened.

        Raises:
            Refused: ``misuse`` once a ledger is open.
        """
        if self._ledger is not None:
            raise Refused("misuse", "The team's ledger is open already.")
        self._source = ledger

    def keep_ledger_open(self) -> Ledger:
        """Open the ledger, and leave it open when a worker ends; the caller closes it."""
        self._source = self.ledger
        return self._source

    async def close(self) -> None:
        """Close a ledger that the team has opened; one that was handed in stays open."""
        if self._ledger is not None and isinstance(self._source, str):
            ledger, self._ledger = self._ledger, None
            await ledger.close()

    async def save_graph(self) -> str:
        """Save the graph in the ledger, if it is not there yet, and return its digest: the version of new tasks.

        A task keeps the version under which it was submitted until :meth:`TaskHandle.adopt` moves it.
        """
        graph, ledger = self.graph, self.ledger
        if self._saved_in is not ledger or graph.digest not in self._versions:
            await ledger.save_graph(graph)
            self._saved_in = ledger
            self._versions[graph.digest] = graph
        return graph.digest

    async def version(self, digest: str) -> Graph | None:
        """A version of a graph that a task of the ledger names; ``None`` for an empty digest."""
        if digest and digest not in self._versions:
            saved = await self.ledger.graph(digest)
            if saved is not None:
                self._versions[digest] = saved.graph
        return self._versions.get(digest)

    async def submit(
        self,
        data: Any = None,
        *,
        goal: str,
        conversation: str = "",
        to: str = "",
        constraints: Iterable[str] = (),
        message: Any = None,
        summary: str = "",
        task_id: str = "",
        settings: Settings | None = None,
    ) -> TaskHandle:
        """Make a task and offer it to the entry agent (or ``to``). Durable when it returns.

        Args:
            task_id: your own id; submitting it again finds the task that exists. A fresh one by default.

        Raises:
            Refused: ``conversation_open``, ``payload_too_large``, ``raw_transcript``, ``unknown_agent``, …
            Unavailable: nothing was written.
        """
        graph = await self._patiently_saved()
        own_id = bool(task_id)
        task_id = task_id or new_id("t")
        payload = first_payload(task_id, goal, data, constraints, summary)
        command = cmd.Submit(
            command_id=new_id("c"),
            root_id=task_id,
            task_id=task_id,
            candidates=(self.candidate(to or self.entry),),
            payload=encode_payload(payload),
            settings=settings or self.settings,
            limits=self.limits,
            graph=graph,
            conversation=conversation,
            message=None if message is None else to_body(message),
        )
        try:
            await execute_patiently(self.ledger, command, seconds=SUBMIT_SECONDS)
        except Refused as error:
            if error.code != "task_exists" or not own_id:
                raise
        return TaskHandle(self.ledger, task_id)

    async def _patiently_saved(self) -> str:
        give_up = uptime_ms() + SUBMIT_SECONDS * 1000
        while True:
            try:
                return await self.save_graph()
            except (Unavailable, OutcomeUnknown) as error:
                if error.next_action is NextAction.STOP or uptime_ms() >= give_up:
                    raise
            await asyncio.sleep(jitter(PAUSE))

    async def send(self, conversation: str, message: Any, *, goal: str = "", sender: str = "") -> TaskHandle:
        """Give a conversation its next message: to the owner that the ledger names, through restarts.

        After its task has ended, the message opens a new one with the agent that owned the last.
        """
        while True:
            task_id = await self.ledger.conversation(conversation)
            last = await self.ledger.task(task_id) if task_id else None
            try:
                if last is None or last.phase.ended:
                    return await self._reopen(conversation, message, goal, last.owner if last is not None else "")
                handle = TaskHandle(self.ledger, task_id)
                await handle.send(message, sender=sender)
                return handle
            except Refused as error:
                if error.code not in ("task_ended", "conversation_open"):
                    raise

    async def _reopen(self, conversation: str, message: Any, goal: str, owner: str) -> TaskHandle:
        """A new task for a conversation: with its last owner, or with the entry and the reason for that."""
        known = owner if owner in self.graph.agents else ""
        summary = f"{owner} owned the conversation and is not in this team." if owner and not known else ""
        return await self.submit(
            None,
            goal=goal or f"Answer {conversation}",
            conversation=conversation,
            to=known,
            message=message,
            summary=summary,
        )

    def task(self, task_id: str) -> TaskHandle:
        """A handle of a task by its id."""
        return TaskHandle(self.ledger, task_id)

    @asynccontextmanager
    async def worker(
        self,
        *,
        name: str = "",
        agents: Iterable[str] = (),
        concurrency: int = 16,
        drain: float = 30,
        reconcile: bool = True,
    ) -> AsyncIterator[Worker]:
        """Run a worker of this team for as long as the block lasts; then drain it, ``drain`` seconds at most.

        Args:
            reconcile: whether it looks after the ledger's open effects too, with the team's ``providers``.
        """
        self.check()
        if not self.agents:
            raise Refused("invalid_team", f"No agent of team {self.name!r} has a handler here.")
        chosen = tuple(agents) or tuple(self.agents)
        for agent in chosen:
            self.candidate(agent)
        self._workers += 1
        try:
            async with self.surroundings():
                worker = Worker(
                    self,
                    name=name or f"{self.name}-worker",
                    agents=chosen,
                    concurrency=concurrency,
                    reconcile=reconcile,
                )
                await worker.start()
                try:
                    yield worker
                finally:
                    await worker.stop(drain=drain)
        finally:
            self._workers -= 1
            if not self._workers:
                await self.close()

    @asynccontextmanager
    async def surroundings(self) -> AsyncIterator[None]:
        """What the team's lifespan starts and stops, for whoever uses its providers without a worker."""
        if self._lifespan is None:
            yield
            return
        async with self._lifespan():
            yield

    def _add(self, agent: Agent) -> None:
        if not inspect.iscoroutinefunction(agent.handler):
            raise Refused("invalid_team", f"The handler of {agent.name} is not a coroutine function.")
        if agent.name in self.agents:
            raise Refused("invalid_team", f"Two agents are called {agent.name}.")
        routed = agent.entry or agent.may_transfer or agent.may_delegate is not None or agent.tools is not None
        if self._given is not None and (routed or agent.skills):
            detail = f"The edges, tools and skills of {agent.name} stand in the team's routing graph, and only there."
            raise Refused("invalid_team", detail)
        for target, because in agent.may_transfer.items():
            if not because.strip():
                detail = f"The transfer {agent.name} → {target} needs a because; else delegate."
                raise Refused("invalid_team", detail)
        self.agents[agent.name] = agent
        self._made = None


def _accepted(handler: Handler) -> Any:
    """The type in ``own: Tenure[T]``; anything when the annotation cannot be read."""
    try:
        hints = get_type_hints(handler)
    except (NameError, TypeError):
        return None
    for hint in hints.values():
        if getattr(hint, "__origin__", None) is Tenure:
            return get_args(hint)[0]
    return None
