"""Tasks of the runtime itself, started from a handler's code without becoming the handler's own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tenure.runtime.jobs import outside

T = TypeVar("T")


def background(work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
    """Run a coroutine as the runtime's task. The caller keeps a reference and looks at how it ends."""
    return asyncio.get_running_loop().create_task(work, name=name, context=outside())
