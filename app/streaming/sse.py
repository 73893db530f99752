"""Bytes of a stream: one ``data:`` line a chunk, keep-alive comments, the closing ``[DONE]``."""

from collections.abc import AsyncGenerator, Callable, Iterable

import orjson

from app.clock import monotonic
from app.domain.frames import Chunk

KEEP_ALIVE_S = 15.0
DONE = b"data: [DONE]\n\n"
_KEEP_ALIVE = b": keep-alive\n\n"
HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    "x-vercel-ai-ui-message-stream": "v1",
}


def encode(chunks: Iterable[Chunk]) -> bytes:
    return b"".join(b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks)


async def events(
    stream: AsyncGenerator[list[Chunk] | None, None], *, clock: Callable[[], float] = monotonic
) -> AsyncGenerator[bytes, None]:
    """The bytes of a stream: a keep-alive after ``KEEP_ALIVE_S`` of silence, ``[DONE]`` after the ending."""
    spoke = clock()
    try:
        async for chunks in stream:
            if chunks:
                spoke = clock()
                yield encode(chunks)
            elif chunks is None and clock() - spoke >= KEEP_ALIVE_S:
                spoke = clock()
                yield _KEEP_ALIVE
        yield DONE
    finally:
        await stream.aclose()


async def whole(chunks: Iterable[Chunk]) -> AsyncGenerator[bytes, None]:
    yield encode(chunks) + DONE
