"""Readers that are slow, many, or gone: the run never notices, and nothing of them stays behind."""

import asyncio
import contextlib
import socket

import httpx2
import orjson
import pytest

from tests.acceptance.conftest import Replicas
from tests.acceptance.postgres import Postgres
from tests.acceptance.replica import Replica
from tests.acceptance.scripts import calls, script, slowly, text
from tests.acceptance.talk import Chat, Reading, until

pytestmark = pytest.mark.timeout(120)
MIB = 2**20


async def _connect(replica: Replica, path: str, body: dict[str, object] | None = None) -> socket.socket:
    """A request over a socket of our own that takes in as little as the system allows. Nothing is read yet."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    plain.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(plain, ("127.0.0.1", replica.port))
    content = orjson.dumps(body) if body is not None else b""
    head = f"{'POST' if body is not None else 'GET'} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    await loop.sock_sendall(
        plain, head.encode() + f"content-length: {len(content)}\r\n\r\n".encode() + content
    )
    return plain


async def test_a_reader_of_one_byte_a_second_holds_up_neither_the_run_nor_the_memory(
    replicas: Replicas, client: httpx2.AsyncClient
):
    replica = replicas()
    await replica.start()
    chat = Chat(client, replica.url)
    said = "0123456789" * 100_000
    big = script(
        {"text": said, "chunks": 2000, "delay_ms": 1} | calls({"tool": "slow", "input": {"ms": 1}}),
        text("End."),
    )
    slow = await _connect(replica, "/chat", chat.body(chat.message(big)))
    with contextlib.closing(slow):
        loop = asyncio.get_running_loop()
        read = asyncio.ensure_future(_one_byte_a_second(loop, slow))

        async def begun() -> bool:
            return (await client.get(f"{replica.url}/chat/{chat.id}")).status_code == 200

        await until(begun, 5, "begun")
        before = replica.memory()
        quick = [asyncio.ensure_future(chat.resume()) for _ in range(3)]
        readings = await asyncio.gather(*quick)
        assert {reading.text for reading in readings} == {said + "End."}
        assert {reading.ending for reading in readings} == {"finish"}
        assert not read.done(), "the slow one is still at its first bytes"
        assert replica.memory() - before < 60 * MIB
        read.cancel()
    assert (await chat.send("hello")).ending == "finish"


async def _one_byte_a_second(loop: asyncio.AbstractEventLoop, slow: socket.socket) -> None:
    while await loop.sock_recv(slow, 1):
        await asyncio.sleep(1)


async def test_five_hundred_streams_that_are_opened_and_closed_leave_nothing_behind(
    replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    owner, other = replicas(), replicas()
    await asyncio.gather(owner.start(), other.start())
    chat = Chat(client, owner.url)
    async with chat.sending(script(slowly("a long story " * 100, 100, 1000))) as live:
        await live.until("text-delta")
        await _open_and_close(other, chat, 50)  # what is loaded and filled once
        await _open_and_close(owner, chat, 50)
        await asyncio.sleep(1)
        files, memory = (owner.open_files(), other.open_files()), owner.memory() + other.memory()
        connections = await _connections(pg)
        for replica in (owner, other):
            await _open_and_close(replica, chat, 250)

        async def closed() -> bool:
            return all(
                [
                    owner.open_files() <= files[0] + 2,
                    other.open_files() <= files[1] + 2,
                    await _open_streams(client, owner) == 1,
                    await _open_streams(client, other) == 0,
                ]
            )

        await until(closed, 15, "every socket and every stream is closed again")
        assert owner.memory() + other.memory() - memory < 30 * MIB
        assert await _connections(pg) <= connections + 2
        await chat.stop()
        assert (await live.rest()).ending == "abort"


async def _open_and_close(replica: Replica, chat: Chat, count: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(count // 25):
        opened = [await _connect(replica, f"/chat/{chat.id}/stream") for _ in range(25)]
        for each in opened:
            assert await loop.sock_recv(each, 15) == b"HTTP/1.1 200 OK"
            each.close()


async def _open_streams(client: httpx2.AsyncClient, replica: Replica) -> float:
    told = (await client.get(f"{replica.url}/metrics")).text.splitlines()
    return float(next(line for line in told if line.startswith("agent_server_open_streams")).split()[-1])


async def _connections(pg: Postgres) -> int:
    return await pg.value("select count(*) from pg_stat_activity where datname is not null")


async def test_five_hundred_streams_are_open_at_once_on_a_pool_of_five(
    replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    """No connection to the database is held while a stream is open."""
    owner, other = replicas(), replicas(pool_size=5)
    await asyncio.gather(owner.start(), other.start())
    chat = Chat(client, owner.url)
    async with chat.sending(script(slowly("a long story " * 100, 100, 1000))) as live:
        await live.until("text-delta")
        begun: list[str] = []

        async def read() -> Reading:
            async with Chat(client, other.url, chat.id).resuming() as one:
                begun.append((await one.until("start"))["messageId"])
                return await one.rest()

        reading = asyncio.gather(*(read() for _ in range(500)))

        async def all_open() -> bool:
            return len(begun) == 500

        await until(all_open, 20, "five hundred streams are open")
        assert await _connections(pg) <= 2 * (5 + 2) + 2
        await chat.stop()
        readings = await reading
        told = await live.rest()
    assert {(r.status, r.ending, r.text) for r in readings} == {(200, "abort", told.text)}
