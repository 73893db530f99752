"""What every test of the agent's room is given."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
