"""What the runtime's tests share: ledgers of both kinds, a line to them that can be cut, unruly outside systems.

Nothing here sleeps for longer than it must: :func:`until` polls with a deadline, leases are short where one has to end.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from tenure import Accepted, Cancelled, Confirmed, Declined, Inconclusive, NotFound, NotSent, Provider, Sealed, Settings
from tenure.errors import Unavailable
from tenure.ledger import Ledger, open_ledger
from tenure.protocol.events import Event
from tenure.protocol.settings import Policy
from tenure.protocol.state import Task
from tenure.runtime.handle import TaskHandle
from tenure.runtime.jobs import table

T = TypeVar("T")
E = TypeVar("E", bound=Event)

BRIEF = Policy(name="brief", grace_ms=100)
"""Booked work with a short grace."""

SHORT_LEASE = Settings(lease_ms=600)
"""For tests in which a lease has to end. Its holder stops itself after 450 ms."""


@pytest.fixture(params=["memory", "sqlite"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ledger]:
    """A ledger of each kind. After the test its chain must verify and its events must give its state."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/ledger.db"
    opened = await asyncio.to_thread(open_ledger, url)
    yield opened
    found = await opened.verify()
    await opened.close()
    assert (found.chain, found.replay, found.problems) == ("verified", "equal", ())


async def until(condition: Callable[[], Awaitable[T]], within: float = 15) -> T:
    """Ask again and again until the answer is true; give it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not (answer := await condition()):
        assert loop.time() < deadline, "it did not come about in time"
        await asyncio.sleep(0.01)
    return answer


async def events(ledger: Ledger, task_id: str, *kinds: type[Any]) -> list[Any]:
    """The events of a task, of these kinds only when any are named."""
    found = [recorded.event for recorded in await ledger.events(task_id=task_id, limit=10_000)]
    return [event for event in found if not kinds or isinstance(event, kinds)]


async def names(ledger: Ledger, task_id: str) -> list[str]:
    """The names of a task's events, in order."""
    return [type(event).__name__ for event in await events(ledger, task_id)]


async def in_phase(handle: TaskHandle, *phases: str, within: float = 15) -> Task:
    """Wait for a phase."""

    async def there() -> Task | None:
        task = await handle.state()
        return task if task.phase in phases else None

    found = await until(there, within)
    assert found is not None
    return found


async def owned_by(handle: TaskHandle, agent: str, within: float = 15) -> Task:
    """Wait for an agent's tenure."""

    async def there() -> Task | None:
        task = await handle.state()
        return task if task.tenure is not None and task.tenure.agent == agent else None

    found = await until(there, within)
    assert found is not None
    return found


async def alive(pid: int) -> bool:
    """Whether a process of this host lives; a zombie does not."""
    row = await asyncio.to_thread(table.row, pid)
    return row is not None


class Line:
    """One worker's line to the ledger, which can be cut: nothing gets through then, in either direction."""

    def __init__(self, ledger: Ledger) -> None:
        self.far = ledger
        self.is_cut = False
        self.passed: list[str] = []

    @property
    def ledger(self) -> Ledger:
        return cast("Ledger", self)

    def cut(self) -> None:
        self.is_cut = True

    def mend(self) -> None:
        self.is_cut = False

    def _pass(self, name: str) -> None:
        if self.is_cut:
            raise Unavailable("ledger_unavailable", f"The line is cut at {name}.")
        self.passed.append(name)

    def __getattr__(self, name: str) -> Any:
        target = getattr(self.far, name)
        if inspect.iscoroutinefunction(target):

            async def ask(*args: Any, **kwargs: Any) -> Any:
                self._pass(name)
                return await target(*args, **kwargs)

            return ask
        if callable(target):

            def call(*args: Any, **kwargs: Any) -> Any:
                self._pass(name)
                return target(*args, **kwargs)

            return call
        return target


class Desk(Provider):
    """An outside system. ``script`` says what each call of ``apply`` does, the last word again and again.

    ``ok`` acts and answers; ``lost`` acts and loses the answer; ``down`` does nothing and fails; ``refuse``;
    ``unsent``; ``hang`` never answers and has not acted; ``acted`` acts and never answers; ``job`` takes a job on.
    """

    name = "desk"

    def __init__(self, *script: str) -> None:
        self.script = list(script) or ["ok"]
        self.calls: list[str] = []
        self.acts: list[str] = []
        self.by_key: dict[str, str] = {}
        self.looks = 0

    async def apply(self, request: Any, *, key: str) -> Any:
        word = self.script[min(len(self.calls), len(self.script) - 1)]
        self.calls.append(key)
        if word == "unsent":
            raise NotSent("connection refused")
        if word == "down":
            raise ConnectionError("503")
        if word == "refuse":
            return Declined("above the limit")
        if word == "hang":
            await asyncio.Event().wait()
        reference = self._act(key)
        if word == "lost":
            raise TimeoutError("no answer")
        if word == "acted":
            await asyncio.Event().wait()
        return Accepted(reference) if word == "job" else Confirmed({"request": request}, reference)

    def _act(self, key: str) -> str:
        if self.idempotent_for and key in self.by_key:
            return self.by_key[key]
        self.by_key[key] = f"ref-{len(self.acts) + 1}"
        self.acts.append(key)
        return self.by_key[key]


class Window(Desk):
    """One that can be asked what became of a key."""

    async def lookup(self, request: Any, *, key: str) -> Any:
        self.looks += 1
        return Confirmed({"request": request}, self.by_key[key]) if key in self.by_key else NotFound()


class Vault(Window):
    """One that can seal a key."""

    def __init__(self, *script: str) -> None:
        super().__init__(*script)
        self.sealed: set[str] = set()

    async def seal(self, request: Any, *, key: str) -> Any:
        if key in self.by_key:
            return Confirmed({"request": request}, self.by_key[key])
        self.sealed.add(key)
        return Sealed()


class Jobs(Provider):
    """Remote jobs with an id, that can be asked for and cancelled. ``ends`` says how a cancellation goes."""

    name = "jobs"

    def __init__(self, ends: str = "ends") -> None:
        self.ends = ends
        self.started: list[str] = []
        self.state: dict[str, str] = {}
        self.asked: list[str] = []

    async def apply(self, request: Any, *, key: str) -> Any:
        job = f"job-{len(self.started) + 1}"
        self.started.append(key)
        self.state[job] = "running"
        return Accepted(job)

    async def lookup(self, request: Any, *, key: str, reference: str) -> Any:
        state = self.state[reference]
        if state == "running":
            return Accepted(reference)
        return Confirmed("finished", reference) if state == "done" else Cancelled(reference)

    async def cancel(self, request: Any, *, key: str, reference: str) -> Any:
        self.asked.append(reference)
        if self.ends == "dropped":
            raise ConnectionError("the message was dropped")
        if self.ends == "runs on":
            return Inconclusive("acknowledged, still running")
        self.state[reference] = "cancelled"
        return Cancelled(reference)
