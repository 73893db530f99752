"""Stores on a database of the test's own, and a bare connection to look and to block with."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.store.engine import connect, dumps, loads, open_pool
from app.store.transaction import Store
from tests.inprocess.fixtures import logs

__all__ = ["bare", "logs", "pool", "store"]


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    opened = await open_pool(database_url, pool_size=4)
    yield opened
    opened.terminate()


@pytest.fixture
def store(pool: asyncpg.Pool) -> Store:
    return Store(pool)


@pytest.fixture
async def bare(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection that belongs to nobody, to look behind the store and to stand in its way."""
    connection = await connect(database_url)
    await connection.set_type_codec("json", schema="pg_catalog", encoder=dumps, decoder=loads)
    yield connection
    await connection.close()
