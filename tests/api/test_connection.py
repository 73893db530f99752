"""The head of a request over a real socket: bounded in bytes and in time, before anybody is known."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn

from app.api.connection import Connection

END = b"\r\n\r\n"


class Small(Connection):
    max_bytes = 4096


class Quick(Connection):
    seconds = 0.3


async def app(
    scope: dict[str, object],
    receive: Callable[[], Awaitable[dict[str, object]]],
    send: Callable[[dict[str, object]], Awaitable[None]],
) -> None:
    """Answers with how many bytes of body it read."""
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))  # type: ignore[arg-type]
        more = bool(message.get("more_body"))
    said = str(size).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]}
    )
    await send({"type": "http.response.body", "body": said})


@asynccontextmanager
async def serving(protocol: type[Connection]) -> AsyncIterator[int]:
    config = uvicorn.Config(
        app, port=0, http=protocol, lifespan="off", log_config=None, timeout_keep_alive=75
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        await server.shutdown()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(END)
    size = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: "))
    return head + await reader.readexactly(int(size.split()[1]))


@pytest.mark.parametrize(
    ("begun", "endless"),
    [(b"GET /", b"a"), (b"GET / HTTP/1.1\r\nx: ", b"a"), (b"GET / HTTP/1.1\r\n", b"x: a\r\n")],
    ids=["address", "header", "headers"],
)
async def test_a_head_without_end_is_refused_while_it_arrives(begun: bytes, endless: bytes):
    async with serving(Small) as port, connected(port) as (reader, writer):
        writer.write((begun + endless * Small.max_bytes)[: Small.max_bytes])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.read()
        writer.write(b"x")
        told = await answer(reader)
        assert told.startswith(b"HTTP/1.1 431 ")
        assert told.endswith(b'"code":"validation_payload_too_large"}')
        assert await reader.read() == b"", "and closed"


async def test_a_body_is_not_part_of_the_head_and_neither_is_the_request_before():
    request = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 300000" + END + b"b" * 300_000
    async with serving(Small) as port, connected(port) as (reader, writer):
        for _ in range(3):
            writer.write(request + request[:40])  # the next one has begun in the same read
            assert (await answer(reader)).endswith(b"\r\n\r\n300000")
            writer.write(request[40:])
            assert (await answer(reader)).endswith(b"\r\n\r\n300000")


@pytest.mark.parametrize("said", [b"", b"GET / HTT", b"GET / HTTP/1.1\r\nhost: x\r\n"])
async def test_whoever_does_not_finish_a_head_in_time_is_cut(said: bytes):
    async with serving(Quick) as port, connected(port) as (reader, writer):
        writer.write(said)
        assert await reader.read() == b""


async def test_on_a_kept_connection_the_time_begins_with_the_request():
    async with serving(Quick) as port, connected(port) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: x" + END)
        assert (await answer(reader)).endswith(b"\r\n\r\n0")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(Quick.seconds * 3):
                await reader.read()
        writer.write(b"GET / HTTP/1.1\r\nhost: x" + END)
        assert (await answer(reader)).endswith(b"\r\n\r\n0")
        writer.write(b"GET /")
        assert await reader.read() == b""


async def test_a_request_that_takes_its_time_after_the_head_is_not_cut():
    async with serving(Quick) as port, connected(port) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2" + END + b"a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(Quick.seconds * 3):
                await reader.read()
        writer.write(b"b")
        assert (await answer(reader)).endswith(b"\r\n\r\n2")
