"""What acceptance tests ask for. Every process that is started here is ended by its id, also when a test fails."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.nginx import nginx
from tests.acceptance.postgres import Postgres, postgres
from tests.acceptance.replica import Replica

Replicas = Callable[..., Replica]


@pytest.fixture(scope="module")
async def pg() -> AsyncIterator[Postgres]:
    """A Postgres of this module's own."""
    async with postgres() as server:
        yield server


@pytest.fixture
def replicas(tmp_path: Path, pg: Postgres) -> Iterator[Replicas]:
    """Makes replicas on ``pg``, all with one outbox and a log each. ``database_url=None``: with an embedded Postgres."""
    made: list[Replica] = []

    def make(name: str = "", **settings: Any) -> Replica:
        url = settings.pop("database_url", pg.url)
        made.append(Replica(name or f"replica{len(made)}", tmp_path, url, **settings))
        return made[-1]

    yield make
    for replica in made:
        replica.kill()


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx2.AsyncClient(trust_env=False, timeout=30, limits=limits) as opened:
        yield opened


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Puts nginx in front of replicas."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda *behind: stack.enter_context(nginx(tmp_path, behind))
