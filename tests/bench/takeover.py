"""How long a run rests when its owner dies, and when it leaves in order; how long a replica takes to be ready."""

import asyncio
import signal
import time

from tests.acceptance.talk import Chat
from tests.bench._stage import Stage, at, stage, table

TIMES = 3


async def _until_heard(on: Stage, chat: Chat, cut: float) -> float:
    """Seconds from the cut to the first frame that is said after it, read on the other replica."""
    elsewhere = Chat(on.client, on.replicas[1].url, chat.id)
    while True:
        async with elsewhere.resuming() as live:
            while (frame := await live.next()) is not None:
                if frame["type"] == "text-delta" and float(frame["delta"].split()[-1]) > cut:
                    return time.monotonic() - cut
        await asyncio.sleep(0.05)


async def _measure(lease_s: float) -> list[list[str]]:
    async with stage(
        2, agents="tests.bench._agents:AGENTS", scripted=None, lease_seconds=lease_s, drain_seconds=0.2
    ) as on:
        taken: dict[str, list[float]] = {"SIGKILL": [], "SIGTERM": []}
        starts: list[float] = []
        for how, seconds in taken.items():
            for _ in range(TIMES):
                chat = Chat(on.client, on.replicas[0].url)
                async with chat.sending("1000 20") as live:
                    await live.until("text-delta")
                    cut = time.monotonic()
                    leaving = asyncio.ensure_future(on.replicas[0].terminate(signal.Signals[how]))
                    seconds.append(await _until_heard(on, chat, cut))
                    await leaving
                chat.base = on.replicas[1].url
                await chat.stop()
                starts.append(await on.replicas[0].start())
        rows = [
            [f"{how}, lease {lease_s:g} s", f"{at(seconds, 50):.2f}", f"{max(seconds):.2f}"]
            for how, seconds in taken.items()
        ]
        return [*rows, ["start to ready", f"{at(starts, 50):.2f}", f"{max(starts):.2f}"]]


async def main() -> None:
    print("From the owner's end to the first new frame on another replica")
    table(["", "p50 s", "max s"], await _measure(2))


if __name__ == "__main__":
    asyncio.run(main())
