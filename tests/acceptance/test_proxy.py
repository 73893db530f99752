"""Through the shipped nginx configuration, in front of three replicas."""

import asyncio
import signal
from collections.abc import Callable
from itertools import pairwise

import httpx2
import pytest

from tests.acceptance import facts
from tests.acceptance.conftest import Replicas
from tests.acceptance.postgres import Postgres
from tests.acceptance.scripts import calls, location, script, slowly, text
from tests.acceptance.talk import Chat

pytestmark = pytest.mark.timeout(60)


async def test_each_frame_leaves_at_once(
    replicas: Replicas, proxy: Callable[..., str], client: httpx2.AsyncClient
):
    replica = replicas()
    await replica.start()
    chat = Chat(client, proxy(replica))
    async with chat.sending(script(slowly("one two three four five", 2, 5))) as live:
        reading = await live.rest()
    assert live.reading.headers["content-type"].startswith("text/event-stream")
    deltas = [
        at for frame, at in zip(reading.frames, reading.at, strict=True) if frame["type"] == "text-delta"
    ]
    gaps = [later - earlier for earlier, later in pairwise(deltas)]
    assert len(gaps) == 4
    assert min(gaps) > 0.1, "none waits for the next one"
    assert reading.ending == "finish"


async def test_a_chat_goes_on_whichever_replica_each_request_lands_on(
    replicas: Replicas, proxy: Callable[..., str], client: httpx2.AsyncClient
):
    three = [replicas() for _ in range(3)]
    await asyncio.gather(*(replica.start() for replica in three))
    chat = Chat(client, proxy(*three))
    for n in range(3):
        assert (await chat.send(script(calls(location(f"where{n}")), text("End.")))).ending == "finish"
        assert (await chat.answer()).text == "End."
    said = " ".join(f"word{n}" for n in range(50))
    async with chat.sending(script(slowly(said, 2, 50))) as live:
        await live.until("text-delta")
        resumed = await asyncio.gather(*(chat.resume() for _ in range(6)))
        assert {reading.text for reading in resumed} == {(await live.rest()).text} == {said}
    served = [len(replica.said("request.ended")) for replica in three]
    assert min(served) >= 3, "every replica had its share"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_stream_whose_replica_goes_away_is_a_broken_connection_and_its_resume_is_whole(
    how: signal.Signals,
    replicas: Replicas,
    pg: Postgres,
    proxy: Callable[..., str],
    client: httpx2.AsyncClient,
):
    three = [replicas(drain_seconds=0.5) for _ in range(3)]
    await asyncio.gather(*(replica.start() for replica in three))
    chat = Chat(client, proxy(*three))
    said = " ".join(f"word{n}" for n in range(50))
    async with chat.sending(script(slowly(said, 4, 50))) as live:
        await live.until("text-delta")
        owner = await facts.owner_of(pg, live.reading.headers["x-run-id"], three)
        owner.send(how)
        cut = await live.rest()
    assert cut.broken
    assert "finish" not in cut.kinds
    resumed = await chat.resume()
    assert resumed.status == 200
    assert resumed.text == said
    assert resumed.ending == "finish"
