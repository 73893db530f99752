"""What five hundred open streams of quiet runs cost: memory, processor time, commits, connections."""

import asyncio
import time

from tests.acceptance.talk import Chat
from tests.bench._stage import Stage, commits, stage, table

STREAMS, SECONDS = 500, 10.0


async def _cost(on: Stage) -> tuple[float, float]:
    """Percent of a processor, and commits a second, while nothing happens."""
    await asyncio.sleep(11)  # a connection of Postgres tells its counts only after ten idle seconds
    cpu, before, began = on.replicas[1].cpu_s(), await commits(on.pg), time.monotonic()
    await asyncio.sleep(SECONDS)
    seconds = time.monotonic() - began
    return (on.replicas[1].cpu_s() - cpu) / seconds * 100, (await commits(on.pg) - before) / seconds


async def main() -> None:
    async with stage(2, lease_seconds=30) as on:
        chats = [Chat(on.client, on.replicas[0].url) for _ in range(10)]
        quiet = 'script:[{"text":"wait","first_ms":0,"calls":[{"tool":"slow","input":{"ms":120000}}]}]'
        running = [asyncio.ensure_future(chat.send(quiet)) for chat in chats]
        alone, memory = await _cost(on), on.replicas[1].memory()
        files = on.replicas[1].open_files()

        async def follow(chat: Chat) -> None:
            async with Chat(on.client, on.replicas[1].url, chat.id).resuming() as live:
                await live.rest()

        following = [asyncio.ensure_future(follow(chats[n % 10])) for n in range(STREAMS)]
        while on.replicas[1].open_files() < files + STREAMS:
            await asyncio.sleep(0.1)
        many, grown = await _cost(on), on.replicas[1].memory() - memory
        connections = await on.pg.value("select count(*) from pg_stat_activity where datname is not null")
        for task in (*running, *following):
            task.cancel()
        await asyncio.gather(*running, *following, return_exceptions=True)
    print(f"{STREAMS} open streams of 10 quiet runs that another replica owns")
    table(
        ["", "CPU %", "commits/s", "KiB a stream", "connections to Postgres of both"],
        [
            ["none open", f"{alone[0]:.1f}", f"{alone[1]:.0f}", "", ""],
            [
                f"{STREAMS} open",
                f"{many[0]:.1f}",
                f"{many[1]:.0f}",
                f"{grown / STREAMS / 1024:.0f}",
                connections,
            ],
        ],
    )


if __name__ == "__main__":
    asyncio.run(main())
