"""Short calls that may block, off the loop: on a thread of their own, never on the loop's executor."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def aside(function: Callable[[], T]) -> T:
    """Run the function on a daemon thread. Cancelling the call leaves it running there, its result unheard.

    The loop's executor would make this wait for whatever else hangs in it.

    Raises:
        Exception: whatever the function raises; ``RuntimeError`` when no thread can be started.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(result)  # type: ignore[arg-type] # T may include None, which mypy cannot know here
        else:
            answer.set_exception(error)

    def run() -> None:
        result: T | None = None
        failure: Exception | None = None
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - handed over to the caller
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="tenure-aside", daemon=True).start()
    return await answer
