"""A real Postgres for every test that asks for one: migrated once, cloned for each test.

`TEST_DATABASE_URL` names a Postgres whose user may create databases; without it the embedded one is started
in a temporary folder. Each pytest process (each xdist worker) has a template of its own.
"""

import asyncio
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy.engine import make_url

from app.store import migrate
from app.store.embedded import start_embedded

# what is lost when the machine stops does not matter here
FAST = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "max_connections": "200"}


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A Postgres in which databases may be created."""
    if url := os.environ.get("TEST_DATABASE_URL"):
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="agent-server-tests-") as folder:
        postgres = asyncio.run(start_embedded(Path(folder), FAST))
        yield postgres.url
        asyncio.run(postgres.stop())


@pytest.fixture(scope="session")
def template_database(postgres_url: str) -> Iterator[str]:
    """The name of a database at the newest schema. Nobody may be connected to it while it is cloned."""
    name = f"template_{uuid.uuid4().hex}"
    _execute(postgres_url, f"create database {name}")
    asyncio.run(migrate.upgrade(_named(postgres_url, name)))
    yield name
    _execute(postgres_url, f"drop database {name} with (force)")


@pytest.fixture
def database_url(postgres_url: str, template_database: str) -> Iterator[str]:
    """A migrated, empty database of this test's own (`postgresql://…`)."""
    name = f"test_{uuid.uuid4().hex}"
    # copying files beats writing them through the log five times, where fsync is off
    _execute(postgres_url, f"create database {name} template {template_database} strategy file_copy")
    yield _named(postgres_url, name)
    _execute(postgres_url, f"drop database {name} with (force)")


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """A database with nothing in it, for tests of the migrations themselves."""
    name = f"test_{uuid.uuid4().hex}"
    _execute(postgres_url, f"create database {name}")
    yield _named(postgres_url, name)
    _execute(postgres_url, f"drop database {name} with (force)")


def _named(url: str, database: str) -> str:
    return make_url(url).set(drivername="postgresql", database=database).render_as_string(hide_password=False)


def _execute(url: str, statement: str) -> None:
    async def execute() -> Any:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(execute())
