"""Real systems for the providers' tests."""

import itertools
import os
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from tests.postgres import database, server

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL server, without a database: one per process that runs tests."""
    with server() as url:
        yield url


@pytest.fixture
async def postgres(postgres_server: str) -> AsyncIterator[str]:
    """The address of a database that only this test has."""
    name = f"tenure_{os.getpid()}_{next(NUMBERS)}"
    own = await asyncpg.connect(database(postgres_server, "postgres"))
    try:
        await own.execute(f"CREATE DATABASE {name}")
        yield database(postgres_server, name)
        await own.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await own.close()
