"""A coroutine as a job: a task of its own, with everything that was started in its context.

A task that the coroutine starts by itself (``asyncio.create_task``, the inside of a ``shield``) is work started behind
the handle's back. It can be seen, because a task inherits its creator's context: the job is not over before it is.

What cannot be seen, and is not claimed: a function handed to an executor (``asyncio.to_thread``, use a
:class:`~tenure.runtime.jobs.thread.ThreadJob`), threads, timers (``loop.call_later``), tasks made in a context
without the job, tasks made after somebody replaced the loop's task factory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any

from tenure.protocol.settings import Policy
from tenure.protocol.vocabulary import WorkEnd, WorkKind
from tenure.runtime.jobs.base import FAMILY, Job, Outcome
from tenure.runtime.jobs.hosts import this_host


class Family:
    """The unfinished tasks that were started in the context of one job, its own task included."""

    def __init__(self, when_empty: Callable[[], None]) -> None:
        self.tasks: set[asyncio.Future[Any]] = set()
        self._when_empty = when_empty

    def adopt(self, task: asyncio.Future[Any]) -> None:
        """Count a task until it is done."""
        if task not in self.tasks and not task.done():
            self.tasks.add(task)
            task.add_done_callback(self._left)

    def _left(self, task: asyncio.Future[Any]) -> None:
        self.tasks.discard(task)
        if not self.tasks:
            self._when_empty()


class _Factory:
    """A loop's task factory that lets each task's family know of it, around the factory that was there before."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coro: Any, *, context: Context | None = None, **rest: Any
    ) -> Any:
        if context is not None:
            rest["context"] = context
        make = self._inner or (lambda loop, coro, **rest: asyncio.Task(coro, loop=loop, **rest))
        task = make(loop, coro, **rest)
        family = FAMILY.get() if context is None else context.get(FAMILY)
        if family is not None:
            family.adopt(task)
        return task


def watch_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """See to it that tasks of this loop are counted in the job that started them; once per loop is enough."""
    current = loop.get_task_factory()
    if not isinstance(current, _Factory):
        loop.set_task_factory(_Factory(current))


class Exited(Exception):
    """A coroutine called ``sys.exit``: it ends itself, and not the worker that runs others beside it."""


class _Observed(Coroutine[Any, Any, Any]):
    """A coroutine that tells when a cancellation is thrown into it, which ``Task.cancel()`` does not."""

    def __init__(self, inner: Coroutine[Any, Any, Any], thrown: Callable[[], None]) -> None:
        self._inner = inner
        self._thrown = thrown

    def __getattr__(self, name: str) -> Any:
        """Show the state, frame and name of the coroutine: libraries and debuggers look at those."""
        return getattr(self._inner, name)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()

    def send(self, value: Any) -> Any:
        try:
            return self._inner.send(value)
        except SystemExit as error:
            raise Exited(error) from error

    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> Any:
        if isinstance(typ, asyncio.CancelledError) or typ is asyncio.CancelledError:
            self._thrown()
        try:
            # The form with three arguments is deprecated; asyncio itself uses the form with one.
            return self._inner.throw(typ) if val is None and tb is None else self._inner.throw(typ, val, tb)
        except SystemExit as error:
            raise Exited(error) from error

    def close(self) -> None:
        self._inner.close()


async def _called(function: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return await function()


class CoroutineJob(Job):
    """Runs a coroutine as a task of its own.

    Cancellation is delivered to the coroutine's own task, once more when :meth:`insist` is called; when that task is
    over and others that it started are not, those are cancelled instead. ``CANCELLED``, ``RAISED`` and ``RETURNED``
    say how the coroutine's own task really ended, whatever was asked.
    """

    def __init__(
        self,
        work: Coroutine[Any, Any, Any] | Callable[[], Coroutine[Any, Any, Any]],
        *,
        work_id: str,
        name: str,
        policy: Policy,
        kind: WorkKind = WorkKind.COROUTINE,
    ) -> None:
        super().__init__(work_id=work_id, name=name, policy=policy)
        self.kind = kind
        self.locator = this_host()
        self._coroutine = work if isinstance(work, Coroutine) else _called(work)
        self._task: asyncio.Task[Any] | None = None
        self._family = Family(self._empty)

    def discard(self) -> None:
        """Close a coroutine that was never started, so that Python does not warn about it."""
        if self._task is None:
            self._coroutine.close()

    def survivors(self) -> tuple[str, ...]:
        """Name the tasks that are not done."""
        return tuple(sorted(_name(task) for task in self._family.tasks if not task.done()))

    async def _start(self) -> None:
        watch_tasks(self.loop)
        context = copy_context()
        context.run(FAMILY.set, self._family)
        observed = _Observed(self._coroutine, self._thrown)
        self._task = self.loop.create_task(observed, name=self.name, context=context)
        if self._task.done():  # an eager factory runs a coroutine that never waits to its end at once
            self._empty()
        self._family.adopt(self._task)

    def _thrown(self) -> None:
        self.delivered = self.delivered or self._asked

    def _deliver(self) -> None:
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            return
        for child in tuple(self._family.tasks):
            child.cancel()

    def _deliver_again(self) -> None:
        self._deliver()

    def _empty(self) -> None:
        task = self._task
        if task is None or not task.done() or self._family.tasks:
            return
        self._seen(_outcome(task))


def _outcome(task: asyncio.Task[Any]) -> Outcome:
    try:
        return Outcome(WorkEnd.RETURNED, value=task.result())
    except asyncio.CancelledError as error:
        return Outcome(WorkEnd.CANCELLED, error=error)
    except BaseException as error:  # noqa: BLE001 - this is where the exception is observed, whatever it is
        return Outcome(WorkEnd.RAISED, error=error)


def _name(task: asyncio.Future[Any]) -> str:
    with contextlib.suppress(AttributeError):  # a loop's own kind of task need not have names
        if isinstance(task, asyncio.Task):
            return f"task {task.get_name()}"
    return f"task {task!r}"
