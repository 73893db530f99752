"""A Postgres of the test's own, which it may stop, kill, pause and start again at the same address."""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from app.store.embedded import EmbeddedPostgres, start_embedded

# The power is never cut here. What is committed must be there after a kill -9 all the same, which needs no fsync.
OPTIONS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}


class Postgres:
    """``url`` stays the same over every restart."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: EmbeddedPostgres | None = None
        self.url = ""

    async def start(self) -> None:
        self._server = await start_embedded(self._folder, OPTIONS)
        self.url = self._server.url

    async def stop(self) -> None:
        """Stops it as an operator would: every connection is closed."""
        if self._server is not None:
            await self._server.stop()
            self._server = None

    async def kill(self) -> None:
        """Takes every process of it away at once."""
        os.kill(self.pid, signal.SIGKILL)
        await self.stop()

    async def restart(self, *, away_s: float = 0.0) -> None:
        await self.stop()
        await asyncio.sleep(away_s)
        await self.start()

    @property
    def pid(self) -> int:
        lines = (self._folder / "postgres" / "data" / "postmaster.pid").read_text().splitlines()
        return int(lines[0])

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetch(query, *arguments)
        finally:
            await connection.close()

    async def value(self, query: str, *arguments: Any) -> Any:
        rows = await self.fetch(query, *arguments)
        return rows[0][0] if rows else None


@asynccontextmanager
async def postgres() -> AsyncIterator[Postgres]:
    with tempfile.TemporaryDirectory(prefix="acceptance-pg-", ignore_cleanup_errors=True) as folder:
        server = Postgres(Path(folder))
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
