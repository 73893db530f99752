"""The fixtures of the suites that drive the real application in process."""

import io
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import structlog

from app.log import configure
from tests.inprocess import agents
from tests.inprocess.faults import FaultyStore
from tests.inprocess.server import Logs, Server, serving

Serve = Callable[..., AbstractAsyncContextManager[Server]]


@pytest.fixture
def logs() -> Iterator[Logs]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    configure("json", stream)
    yield Logs(stream)
    structlog.reset_defaults()
    root.handlers[:], root.level = before[0], before[1]


@pytest.fixture
def serve(database_url: str, tmp_path: Path, logs: Logs) -> Serve:
    """Starts a replica with settings of the test's own: ``async with serve(on_busy="interrupt") as server``."""

    def start(**settings: Any) -> AbstractAsyncContextManager[Server]:
        return serving(database_url, tmp_path, logs, **settings)

    return start


@pytest.fixture
async def server(serve: Serve) -> AsyncIterator[Server]:
    """A replica with the settings of most tests."""
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(serve())


@pytest.fixture
async def faulty(serve: Serve) -> AsyncIterator[Server]:
    """A replica whose transactions can be made to fail (``tests.inprocess.faults``)."""
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(serve(around=FaultyStore))


@pytest.fixture(autouse=True)
def fresh_agents() -> Iterator[None]:
    agents.forget()
    yield
    for gate in agents.gates.values():
        gate.open()
