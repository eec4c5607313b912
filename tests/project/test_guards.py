"""The guards of the test suite themselves: what blocks the loop is caught, and pages run as they read."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType

import apsw
import pytest
from blockbuster import BlockingError

import tenure

PACKAGE = Path(tenure.__file__).parent


def as_the_package(source: str) -> CodeType:
    """Compile a function ``call`` as if it stood in a module of the package."""
    return compile(f"def call(connection):\n    return {source}", str(PACKAGE / "imagined.py"), "exec")


def function_of_the_package(source: str) -> Callable[[apsw.Connection], object]:
    namespace: dict[str, object] = {"time": time}
    exec(as_the_package(source), namespace)
    call = namespace["call"]
    assert callable(call)
    return call


BLOCKING = ["connection.execute('SELECT 1')", "connection.cursor().execute('SELECT 1')", "time.sleep(0)"]


@pytest.mark.parametrize("source", BLOCKING)
async def test_a_blocking_call_of_the_package_on_the_loop_is_an_error(source: str) -> None:
    with pytest.raises(BlockingError):
        function_of_the_package(source)(apsw.Connection(":memory:"))


@pytest.mark.parametrize("source", BLOCKING)
async def test_the_same_call_on_a_thread_is_none(source: str) -> None:
    await asyncio.to_thread(function_of_the_package(source), apsw.Connection(":memory:"))


@pytest.mark.may_block
@pytest.mark.parametrize("source", BLOCKING)
async def test_a_test_about_blocking_may_block(source: str) -> None:
    function_of_the_package(source)(apsw.Connection(":memory:"))


def test_the_guard_is_gone_between_tests() -> None:
    thread = threading.Thread(target=apsw.Connection(":memory:").execute, args=("SELECT 1",))
    thread.start()
    thread.join()
