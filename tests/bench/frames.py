"""Frames from the model to a reader: latency on the owner's replica and on another, processor time, commits."""

import asyncio
import time

from tests.acceptance.talk import Chat
from tests.bench._stage import Stage, at, commits, stage, table

SECONDS = 6.0


async def _read(on: Stage, chat: Chat, replica: int, late: list[float]) -> int:
    """Follows a run on a replica. Returns how many frames came."""
    frames, opened = 0, time.monotonic()
    async with Chat(on.client, on.replicas[replica].url, chat.id).resuming() as live:
        while (frame := await live.next()) is not None:
            frames += 1
            if frame["type"] == "text-delta":
                now = time.monotonic()
                # what was said before the reader came is replayed, and no latency of a stream
                late += [now - said for word in frame["delta"].split() if (said := float(word)) > opened]
    return frames


async def _measure(on: Stage, runs: int, per_second: float, readers: int) -> list[str]:
    chats = [Chat(on.client, on.replicas[0].url) for _ in range(runs)]
    here: list[float] = []
    there: list[float] = []
    began, cpu, before = time.monotonic(), [r.cpu_s() for r in on.replicas], await commits(on.pg)

    async def one(chat: Chat) -> int:
        frames = int(per_second * SECONDS)
        async with chat.sending(f"{frames} {per_second}") as live:
            await live.until("text-delta")
            read = [_read(on, chat, 0, here)] + [_read(on, chat, 1, there) for _ in range(readers)]
            await asyncio.gather(*read)
            return len((await live.rest()).frames)

    said = sum(await asyncio.gather(*(one(chat) for chat in chats)))
    seconds = time.monotonic() - began
    used = [r.cpu_s() - b for r, b in zip(on.replicas, cpu, strict=True)]
    made = await commits(on.pg) - before
    delivered = said * 2
    return [
        f"{runs} x {per_second:.0f}/s",
        f"{said / seconds:.0f}",
        f"{at(here, 50) * 1000:.1f} / {at(here, 99) * 1000:.1f}",
        f"{at(there, 50) * 1000:.1f} / {at(there, 99) * 1000:.1f}",
        f"{used[0] / delivered * 1e6:.0f} + {used[1] / (said * readers) * 1e6:.0f}",
        f"{made / seconds:.0f}",
    ]


async def main() -> None:
    async with stage(2, agents="tests.bench._agents:AGENTS", scripted=None) as on:
        await _measure(on, 2, 20, 1)
        rows = [await _measure(on, runs, pace, 1) for runs, pace in ((1, 50), (10, 50), (40, 25), (20, 100))]
    print(
        "Each run has a reader and a second one on its owner's replica, and one on another; this script reads all of them"
    )
    table(
        [
            "runs",
            "frames/s",
            "owner's p50 / p99 ms",
            "another's p50 / p99 ms",
            "CPU us a frame read, owner + other",
            "commits/s",
        ],
        rows,
    )


if __name__ == "__main__":
    asyncio.run(main())
