"""A Postgres of the test's own, which it may stop, kill, pause and start again at the same address."""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

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


class Relay:
    """Another way to a Postgres, over TCP, that can be cut while Postgres itself stays."""

    def __init__(self, server: Postgres) -> None:
        folder = parse_qs(urlsplit(server.url).query)["host"][0]
        self._socket = Path(folder) / ".s.PGSQL.5432"
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.url = ""

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{port}/postgres"

    def cut(self) -> None:
        """Ends every connection that goes this way and takes no new one."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(str(self._socket))
        self._writers |= {writer, back}
        await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer))
        self._writers -= {writer, back}

    @staticmethod
    async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        target.close()
