"""The least that a POST can do: read the body, ask the database for 1, answer. Run by uvicorn, like the service."""

import os
from typing import Any

import asyncpg

_pool: asyncpg.Pool | None = None


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    global _pool  # noqa: PLW0603, there is nothing else to hold it
    if scope["type"] == "lifespan":
        await receive()
        _pool = await asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=1, max_size=5)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await _pool.close()
        await send({"type": "lifespan.shutdown.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    assert _pool is not None
    async with _pool.acquire() as connection, connection.transaction():
        await connection.fetchval("select 1")
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"data: 1\n\n"})
