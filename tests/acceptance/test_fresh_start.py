"""One process with its own Postgres, as a newcomer runs it; and fifty chats at once on a pool of five."""

import asyncio
import sys

import httpx2
import pytest

from tests.acceptance import facts
from tests.acceptance.conftest import Replicas
from tests.acceptance.postgres import Postgres
from tests.acceptance.scripts import calls, email, location, noting, script, slowly, text
from tests.acceptance.talk import Chat

pytestmark = pytest.mark.timeout(120)


async def test_a_server_that_is_killed_in_mid_stream_starts_again_with_everything_there(
    replicas: Replicas, client: httpx2.AsyncClient
):
    alone = replicas("alone", database_url=None, lease_seconds=2)
    cold = await alone.start()
    chat = Chat(client, alone.url)
    message = chat.message(
        script(slowly("an answer that is never finished here", 30) | calls(noting("n")), text("x"))
    )
    async with chat.opened("POST", "/chat", chat.body(message)) as live:
        await live.until("text-delta")
        alone.kill()
        assert (await live.rest()).broken
    warm = await alone.start()
    assert [m["id"] for m in (await chat.snapshot())["messages"]][:1] == [message["id"]]
    stopped = await chat.stop()
    assert stopped["status"] in ("stopped", "running")
    assert (await chat.send("hello")).ending == "finish"
    assert await alone.terminate() in (0, -15)
    sys.stdout.write(f"cold start (with initdb) to ready {cold:.1f} s, after a kill {warm:.1f} s\n")
    assert cold < 20


async def test_fifty_chats_at_once_on_a_pool_of_five_lose_no_answer_and_run_no_tool_twice(
    replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    replica = replicas(pool_size=5, lease_seconds=10)
    await replica.start()
    chats = [Chat(client, replica.url) for _ in range(50)]
    turn = script(calls(location("where"), email("mail"), noting("n"), said="Asking."), text("End."))
    asked = await asyncio.gather(*(chat.send(turn) for chat in chats))
    assert {reading.ending for reading in asked} == {"finish"}
    # each answer twice, as two tabs would send it
    told = await asyncio.gather(*(chat.answer() for chat in chats for _ in range(2)))
    assert {reading.status for reading in told} == {200}
    assert sum(reading.text == "End." for reading in told) >= 50
    for chat in chats:
        shown = await chat.snapshot()
        assert shown["status"] == "idle"
        assert shown["messages"][-1]["parts"][-1]["text"] == "End."
        assert facts.outbox(replica.outbox, chat.id) == {"mail": 1, "n": 1}
    assert await facts.faults_in_histories(pg) == []
    assert await facts.live_runs(pg) == 0
    assert facts.faults_in_logs([replica]) == []
