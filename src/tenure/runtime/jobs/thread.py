"""A function on a thread as a job. It cannot be cancelled: it can be asked, if the function takes the question."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from typing import Any

from tenure.protocol.settings import Policy
from tenure.protocol.vocabulary import WorkEnd, WorkKind
from tenure.runtime.jobs.base import FAMILY, Job, Outcome
from tenure.runtime.jobs.hosts import this_host


class ThreadJob(Job):
    """Runs a function on a daemon thread of its own.

    Not on the loop's executor: threads that never end would use that up and hold its shutdown. A daemon thread holds
    neither the loop's nor the interpreter's end, which then proves that it is over.

    A function with a parameter named ``stop`` is given a :class:`threading.Event` there, set by
    :meth:`request_cancel`; only then does the request count as delivered. Threads that the function starts by itself
    are not seen.
    """

    kind = WorkKind.THREAD

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        work_id: str,
        name: str,
        policy: Policy,
    ) -> None:
        super().__init__(work_id=work_id, name=name, policy=policy)
        self.locator = this_host()
        self._function = function
        self._args = tuple(args)
        self._kwargs = dict(kwargs or {})
        self._stop = threading.Event()
        self._asks = takes_stop(function, self._args, self._kwargs)
        if self._asks:
            self._kwargs["stop"] = self._stop
        self._thread: threading.Thread | None = None

    def survivors(self) -> tuple[str, ...]:
        """Name the thread until its function was seen to end."""
        if self.outcome is not None or self._thread is None:
            return ()
        return (f"thread {self._thread.name}",)

    async def _start(self) -> None:
        context = copy_context()
        context.run(FAMILY.set, None)  # tasks that it starts on the loop are not those of the coroutine around it
        thread = threading.Thread(target=context.run, args=(self._run,), name=self.name, daemon=True)
        thread.start()
        self._thread = thread

    def _run(self) -> None:
        try:
            outcome = Outcome(WorkEnd.RETURNED, value=self._function(*self._args, **self._kwargs))
        except BaseException as error:  # noqa: BLE001 - this is where the exception is observed, whatever it is
            outcome = Outcome(WorkEnd.RAISED, error=error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left who could see it
            self.loop.call_soon_threadsafe(self._seen, outcome)

    def _deliver(self) -> None:
        self._stop.set()
        self.delivered = self._asks


def takes_stop(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the function has a parameter named ``stop`` that these arguments leave open."""
    try:
        signature = inspect.signature(function)
        given = signature.bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):  # written in C without a signature, or called wrongly: the call itself will tell
        return False
    parameter = signature.parameters.get("stop")
    if parameter is None or "stop" in given:
        return False
    return parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}
