"""What every test gets: an error when the package blocks the event loop."""

from collections.abc import Iterator

import pytest
from blockbuster import BlockBusterFunction, blockbuster_ctx

import tenure

# SQLite runs on the ledger's writer thread. On the event loop a statement would hold up every task of the worker.
SQLITE_CALLS = [
    "apsw.Connection.execute",
    "apsw.Connection.executemany",
    "apsw.Cursor.execute",
    "apsw.Cursor.executemany",
]


@pytest.fixture(autouse=True)
def no_blocking_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    """Turn a blocking call that the package makes on an event loop into a ``BlockingError``.

    Calls of the test itself are its own affair, unless they stand below a frame of the package (a handler does). A test
    about handlers that block says so with ``@pytest.mark.may_block``.
    """
    if request.node.get_closest_marker("may_block"):
        yield
        return
    with blockbuster_ctx(tenure) as blockbuster:
        for call in SQLITE_CALLS:
            blockbuster.functions[call] = BlockBusterFunction(None, call, scanned_modules=tenure).activate()
        yield
