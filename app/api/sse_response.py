"""The response that carries a stream: plain ASGI, so that it knows whether the last frame was written.

A peer that is gone ends it quietly. A stream that cannot go on truthfully raises ``StreamDestroyed`` after the response has started,
and the server closes the connection without a clean end.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from typing import Any

from starlette.responses import Response

from app.streaming.sse import HEADERS

Message = MutableMapping[str, Any]


class SseResponse(Response):
    """A 200 of ``body``. ``on_cut`` is called when the stream ended before its last frame was written."""

    def __init__(
        self,
        body: AsyncGenerator[bytes, None],
        *,
        headers: dict[str, str],
        on_cut: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._body = body
        self._headers = [
            (k.encode("latin-1"), v.encode("latin-1")) for k, v in {**HEADERS, **headers}.items()
        ]
        self._on_cut = on_cut
        self.status_code = 200
        self.background = None

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        writing = asyncio.ensure_future(self._write(send))
        listening = asyncio.ensure_future(_gone(receive))
        finished = False
        try:
            await asyncio.wait({writing, listening}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()
                finished = True
        except OSError:
            pass  # the peer is gone
        finally:
            for task in (writing, listening):
                task.cancel()
            await asyncio.gather(writing, listening, return_exceptions=True)
            if not finished and self._on_cut is not None:
                await asyncio.shield(self._on_cut())

    async def _write(self, send: Callable[[Message], Awaitable[None]]) -> None:
        async with aclosing(self._body) as body:  # also when it is left while it waits for a slow peer
            async for data in body:
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Callable[[], Awaitable[Message]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
