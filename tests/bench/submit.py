"""From a request to the first byte of its answer, against the least a POST with one query can take on the same machine.

The first frame leaves when the answer is stored and the run is claimed: the durable part of the request is in the figure.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import httpx2

from tests.acceptance.replica import ROOT, free_port
from tests.acceptance.talk import Chat, answered
from tests.bench._stage import Stage, at, stage, table

COUNT = 150


async def _first_bytes(count: int, ask: Callable[[int], Awaitable[object]]) -> list[float]:
    taken: list[float] = []
    for n in range(count):
        began = time.monotonic()
        await ask(n)
        taken.append(time.monotonic() - began)
    return taken[count // 10 :]


async def _bare(on: Stage) -> list[float]:
    port = free_port()
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "uvicorn",
            "tests.bench._bare:app",
            "--port",
            str(port),
            "--log-level",
            "error",
        ],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": on.pg.url},
        stdin=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            try:
                await on.client.post(f"http://127.0.0.1:{port}/", content=b"{}")
                break
            except httpx2.TransportError:
                await asyncio.sleep(0.05)

        async def ask(_: int) -> None:
            await on.client.post(f"http://127.0.0.1:{port}/", content=b"{}")

        return await _first_bytes(COUNT, ask)
    finally:
        server.terminate()
        server.wait()


async def main() -> None:
    async with stage(1, agents="tests.bench._agents:AGENTS") as on:
        chats = [Chat(on.client, on.replicas[0].url) for _ in range(COUNT)]

        async def send(n: int) -> None:
            async with chats[n].sending("where am I?") as live:
                await live.next()
            await asyncio.sleep(0)

        sent = await _first_bytes(COUNT, send)
        asked = []
        for chat in chats:
            while (shown := await chat.snapshot())["status"] != "suspended":
                await asyncio.sleep(0.01)
            asked.append(chat.body(answered(shown["messages"][-1])))

        async def answer(n: int) -> None:
            async with chats[n].opened("POST", "/chat", asked[n]) as live:
                await live.next()

        answers = await _first_bytes(COUNT, answer)

        async def read(n: int) -> None:
            await chats[n].snapshot()

        reads = await _first_bytes(COUNT, read)
        bare = await _bare(on)
    print("To the first byte, one request at a time (a new connection each)")
    table(
        ["request", "p50 ms", "p99 ms", "of the bare one"],
        [
            [name, f"{at(v, 50) * 1000:.1f}", f"{at(v, 99) * 1000:.1f}", f"{at(v, 50) / at(bare, 50):.1f}"]
            for name, v in (
                ("bare: a transaction with select 1", bare),
                ("a new chat's first message", sent),
                ("the answer of a client tool", answers),
                ("a snapshot", reads),
            )
        ],
    )


if __name__ == "__main__":
    asyncio.run(main())
