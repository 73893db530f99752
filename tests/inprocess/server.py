"""The application with its lifespan in the test's event loop, on one database."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg

from app.main import Running, create_app
from app.settings import Settings
from tests.inprocess.asgi import Reply, request

JSON = {"content-type": "application/json"}


class Logs:
    """The log lines of a test, parsed."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]

    def of(self, event: str, **keys: Any) -> list[dict[str, Any]]:
        return [
            line
            for line in self.lines
            if line["event"] == event and all(line.get(key) == value for key, value in keys.items())
        ]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The lines at warn and error level, the runtime's own retries left out."""
        return [line for line in self.lines if line["level"] in ("warning", "error")]

    def clear(self) -> None:
        self._stream.seek(0)
        self._stream.truncate()


class Server:
    """One replica. ``sql`` goes past it, straight to its database."""

    def __init__(self, app: Any, database: asyncpg.Connection, outbox: Path, logs: Logs) -> None:
        self.app = app
        self.database = database
        self.outbox = outbox
        self.logs = logs
        self.headers: dict[str, str] = {}

    @property
    def running(self) -> Running:
        return self.app.state.running

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | Sequence[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """``body`` is sent as JSON, ``raw`` as it is."""
        sent = raw if raw is not None else (json.dumps(body).encode() if body is not None else b"")
        merged = {**self.headers, **(JSON if sent else {}), **(headers or {})}
        return await request(self.app, method, path, body=sent, headers=merged)

    async def snapshot(self, chat_id: str, query: str = "") -> dict[str, Any]:
        reply = await self.ask("GET", f"/chat/{quote(chat_id, safe='')}{query}")
        assert reply.status == 200, await reply.body()
        return await reply.json()

    async def resume(self, chat_id: str) -> Reply:
        return await self.ask("GET", f"/chat/{quote(chat_id, safe='')}/stream")

    async def answers(self, chat_id: str, *answers: dict[str, Any]) -> Reply:
        return await self.ask("POST", f"/chat/{quote(chat_id, safe='')}/answers", {"answers": list(answers)})

    async def stop(self, chat_id: str, run_id: str | None = None) -> dict[str, Any]:
        body = {"runId": run_id} if run_id is not None else None
        reply = await self.ask("POST", f"/chat/{quote(chat_id, safe='')}/stop", body)
        assert reply.status == 200, await reply.body()
        return await reply.json()

    async def quiet(self, chat_id: str) -> dict[str, Any]:
        """The snapshot once nothing of the chat executes: its stream is followed to its end."""
        while (await self.snapshot(chat_id))["status"] == "running":
            reply = await self.resume(chat_id)
            if reply.status == 200:
                await reply.rest()
        return await self.snapshot(chat_id)

    async def sql(self, query: str, *args: Any) -> list[asyncpg.Record]:
        return await self.database.fetch(query, *args)

    def sent_mail(self) -> list[dict[str, Any]]:
        """The lines of the outbox."""
        if not self.outbox.exists():
            return []
        return [json.loads(line) for line in self.outbox.read_text().splitlines()]

    async def crash(self) -> None:
        """Every run this replica drives is dropped where it is, its lease not given back, and lapses."""
        owned = list(self.running.supervisor._owned.values())
        for each in owned:
            each.lost = True
            each.task.cancel()
        await asyncio.gather(*(each.task for each in owned), return_exceptions=True)
        await self.sql(
            "update run set lease_until = now() - interval '1 second' where lease_until is not null"
        )


@asynccontextmanager
async def serving(
    database_url: str,
    folder: Path,
    logs: Logs,
    *,
    around: Callable[[Any], Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Server]:
    """A started replica. ``around``: what is put around its store; ``settings`` over the defaults of a test."""
    chosen: dict[str, Any] = {
        "DATABASE_URL": database_url,
        "data_dir": folder,
        "agents": "tests.inprocess.agents:AGENTS",
        "frame_tick_ms": 5,
        "pool_size": 8,
        **settings,
    }
    app = create_app(Settings(**chosen), **({"around_store": around} if around is not None else {}))
    database = await asyncpg.connect(database_url)
    try:
        async with app.router.lifespan_context(app):
            yield Server(app, database, folder / "outbox.jsonl", logs)
    finally:
        await database.close()
