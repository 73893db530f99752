"""Any request may land on any replica: stops, deadlines, resumes, answers."""

import asyncio
import time

import httpx2
import pytest

from tests.acceptance.conftest import Replicas
from tests.acceptance.scripts import call, calls, email, location, script, slowly, text
from tests.acceptance.talk import Chat, until

pytestmark = pytest.mark.timeout(60)


def _same(chat: Chat, base: str) -> Chat:
    return Chat(chat.client, base, chat.id)


async def test_a_run_is_stopped_from_a_replica_that_does_not_own_it(
    replicas: Replicas, client: httpx2.AsyncClient
):
    owner, other = replicas(), replicas()
    await asyncio.gather(owner.start(), other.start())
    chat = Chat(client, owner.url)
    async with chat.sending(script(slowly("a long story " * 20, 60, 200))) as live:
        await live.until("text-delta")
        began = time.monotonic()
        stopped = await _same(chat, other.url).stop()
        told = await live.rest()
    assert stopped["status"] in ("stopped", "running")
    assert told.ending == "abort"
    assert time.monotonic() - began < 2, "well before its next heartbeat would have told it"
    shown = await _same(chat, other.url).snapshot()
    assert shown["status"] == "idle"
    assert told.text in shown["messages"][1]["parts"][1]["text"], "what was said is kept"
    assert (await _same(chat, other.url).send("hello")).ending == "finish"


async def test_a_deadline_is_kept_by_whoever_is_there(replicas: Replicas, client: httpx2.AsyncClient):
    asked, other = replicas(), replicas()
    await asyncio.gather(asked.start(), other.start())
    chat = Chat(client, asked.url)
    assert (await chat.send(script(calls(call("timed_location", "where"))))).ending == "finish"
    asked.kill()
    later = _same(chat, other.url)

    async def over() -> bool:
        return (await later.snapshot())["status"] == "idle"

    await until(over, 1 + 3, "the call's deadline of a second")
    parts = (await later.snapshot())["messages"][-1]["parts"]
    assert [p["state"] for p in parts if p["type"] == "tool-timed_location"] == ["output-error"]
    assert any('"outcome":"timeout"' in p.get("text", "") for p in parts), "the model was told"


async def test_a_stream_is_resumed_on_another_replica_in_the_middle_of_a_step(
    replicas: Replicas, client: httpx2.AsyncClient
):
    owner, other = replicas(), replicas()
    await asyncio.gather(owner.start(), other.start())
    chat = Chat(client, owner.url)
    said = " ".join(f"word{n}" for n in range(60))
    async with chat.sending(
        script(slowly(said, 3, 60) | calls({"tool": "slow", "input": {"ms": 100}}), text("End."))
    ) as live:
        for _ in range(10):
            await live.until("text-delta")
        resumed = await _same(chat, other.url).resume()
        rest = await live.rest()
    assert rest.text == resumed.text == said + "End."
    assert resumed.kinds[:2] == ["start", "start-step"]
    assert rest.ending == resumed.ending == "finish"
    assert (await _same(chat, other.url).resume()).status == 204


async def test_twenty_readers_on_three_replicas_see_one_run_alike(
    replicas: Replicas, client: httpx2.AsyncClient
):
    owner, *others = replicas(), replicas(), replicas()
    await asyncio.gather(owner.start(), *(other.start() for other in others))
    chat = Chat(client, owner.url)
    said = " ".join(f"word{n}" for n in range(100))
    async with chat.sending(script(slowly(said, 3, 100))) as live:
        await live.until("text-delta")
        places = [owner, *others]
        readings = await asyncio.gather(*(_same(chat, places[n % 3].url).resume() for n in range(20)))
        first = await live.rest()
    assert {reading.text for reading in readings} == {first.text} == {said}
    assert {reading.ending for reading in readings} == {"finish"}


async def test_a_run_goes_from_replica_to_replica_with_each_answer(
    replicas: Replicas, client: httpx2.AsyncClient
):
    one, two, three = replicas(), replicas(), replicas()
    await asyncio.gather(one.start(), two.start(), three.start())
    chat = Chat(client, one.url)
    turn = script(calls(location("where")), calls(email("mail")), text("End."))
    assert (await chat.send(turn)).ending == "finish"
    assert (await _same(chat, two.url).answer()).ending == "finish"
    last = await _same(chat, three.url).answer()
    assert last.ending == "finish"
    assert last.text == "End."
