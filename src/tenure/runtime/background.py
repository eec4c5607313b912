"""Tasks of the runtime itself, started from a handler's code without becoming the handler's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from tenure.errors import TenureError
from tenure.runtime.jobs import outside

T = TypeVar("T")

_RUNNING: set[asyncio.Task[Any]] = set()
_LOG = logging.getLogger("tenure.runtime")


def background(work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
    """Run a coroutine as the runtime's task. Its errors are seen, also when nobody awaits it."""
    task = asyncio.get_running_loop().create_task(work, name=name, context=outside())
    _RUNNING.add(task)  # the loop itself keeps no strong reference
    task.add_done_callback(_look)
    return task


def _look(task: asyncio.Task[Any]) -> None:
    """See an error that nobody awaits. What the ledger refuses is expected there; anything else is a fault of ours."""
    _RUNNING.discard(task)
    error = None if task.cancelled() else task.exception()
    if error is not None:
        level = logging.DEBUG if isinstance(error, TenureError) else logging.ERROR
        _LOG.log(level, "%s: %s", task.get_name(), error, exc_info=error if level == logging.ERROR else None)
