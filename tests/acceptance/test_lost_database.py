"""Postgres goes away and comes back while runs are live: typed answers meanwhile, and nobody restarts anything."""

import asyncio
import os
import signal

import httpx2
import pytest

from tests.acceptance import facts
from tests.acceptance.conftest import Replicas
from tests.acceptance.postgres import Postgres, Relay
from tests.acceptance.scripts import calls, noting, script, slowly, text
from tests.acceptance.talk import Chat, until

pytestmark = pytest.mark.timeout(60)
SAID = " ".join(f"word{n}" for n in range(60))


def _turn(seconds: float) -> str:
    return script(slowly(SAID, seconds, 60) | calls(noting("n")), text("End."))


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_a_run_pauses_while_postgres_is_away_and_goes_on_when_it_is_back(
    how: str, replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    owner, other = replicas("owner", lease_seconds=20), replicas("other", lease_seconds=20)
    await asyncio.gather(owner.start(), other.start())
    chat = Chat(client, owner.url)
    waits = Chat(client, other.url)
    assert (await waits.send(script(calls({"tool": "get_location", "input": {}}), text("Waited.")))).whole
    async with chat.sending(_turn(2)) as live, Chat(client, other.url, chat.id).resuming() as elsewhere:
        await live.until("text-delta")
        await (pg.stop() if how == "stopped" else pg.kill())
        await asyncio.gather(owner.ready(False), other.ready(False))
        for typed in (
            await Chat(client, owner.url).send("hello"),
            await Chat(client, other.url).resume(),
            await Chat(client, other.url)._read(
                "POST", f"/chat/{waits.id}/answers", {"answers": [{"toolCallId": "call_0_0", "output": {}}]}
            ),
            await Chat(client, other.url)._read("GET", f"/chat/{chat.id}"),
            await Chat(client, owner.url)._read("POST", f"/chat/{chat.id}/stop", {}),
        ):
            assert (typed.status, typed.body and typed.body["code"]) == (503, "framework_internal_error")
        await asyncio.sleep(2.5)  # the model is done meanwhile; its commit has to wait
        await pg.start()
        await asyncio.gather(owner.ready(), other.ready())
        told, followed = await asyncio.gather(live.rest(), elsewhere.rest())
    assert told.ending == followed.ending == "finish"
    assert told.text == followed.text == SAID + "End."
    assert facts.outbox(owner.outbox, chat.id) == {"n": 1}
    assert await facts.takeovers(pg, chat.id) == 0, "it paused, and was not taken over"
    assert (await waits.answer()).text == "Waited."
    assert facts.faults_in_logs([owner, other]) == []


async def test_a_postgres_that_hangs_is_answered_for_and_not_waited_for_for_ever(
    replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    replica = replicas(lease_seconds=30)
    await replica.start()
    chat = Chat(client, replica.url)
    async with chat.sending(_turn(1)) as live:
        await live.until("text-delta")
        backends = await _backends(pg)
        for pid in backends:
            os.kill(pid, signal.SIGSTOP)
        try:
            await replica.ready(False, within_s=15)
        finally:
            for pid in backends:
                os.kill(pid, signal.SIGCONT)
        await replica.ready(within_s=15)
        told = await live.rest()
    assert told.ending == "finish"
    assert facts.outbox(replica.outbox, chat.id) == {"n": 1}


async def _backends(pg: Postgres) -> list[int]:
    rows = await pg.fetch(
        "select pid from pg_stat_activity where pid <> pg_backend_pid() and datname is not null"
    )
    return [pg.pid, *(row["pid"] for row in rows)]


async def test_runs_of_a_database_that_was_away_longer_than_their_lease_are_finished_all_the_same(
    replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    some = [replicas(lease_seconds=1) for _ in range(2)]
    await asyncio.gather(*(replica.start() for replica in some))
    chats = [Chat(client, some[n % 2].url) for n in range(6)]
    opened = [chat.sending(_turn(1.5)) for chat in chats]
    for each in opened:
        await (await each.__aenter__()).until("text-delta")
    await pg.restart(away_s=3)
    for each in opened:
        await each.__aexit__(None, None, None)
    for chat in chats:

        async def settled(chat: Chat = chat) -> bool:
            return (await chat.snapshot())["status"] == "idle"

        await until(settled, 12, "settled")
        shown = (await chat.snapshot())["messages"][-1]
        assert shown["parts"][-1]["text"] == "End."
        assert facts.outbox(some[0].outbox, chat.id)["n"] <= 1
    assert facts.took_effect_twice(some[0].outbox) == []


async def test_without_listen_everything_is_slower_and_nothing_is_wrong(
    replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    direct = Relay(pg)
    await direct.open()
    owner, other = (replicas(name, listen_url=direct.url) for name in ("owner", "other"))
    await asyncio.gather(owner.start(), other.start())
    direct.cut()
    chat, there = Chat(client, owner.url), Chat(client, other.url)
    there.id = chat.id
    async with chat.sending(_turn(3)) as live:
        await live.until("text-delta")
        followed = await there.resume()
        assert followed.text == (await live.rest()).text == SAID + "End."
        assert followed.ending == "finish"
    async with chat.sending(script(slowly(SAID, 60, 60))) as live:
        await live.until("text-delta")
        await there.stop()
        assert (await live.rest()).ending == "abort", "its owner learns of it with its next heartbeat"


async def test_the_doorbell_is_heard_again_after_its_connection_was_lost(
    replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    owner, other = replicas("owner"), replicas("other")
    await asyncio.gather(owner.start(), other.start())

    async def listening() -> bool:
        return await pg.value("select count(*) from pg_stat_activity where query ilike 'listen %'") == 2

    await until(listening, 5, "both listen")
    await pg.fetch("select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen %'")
    await until(listening, 5, "both listen again")
    chat = Chat(client, owner.url)
    async with (
        chat.sending(script(slowly(SAID, 2, 60))) as live,
        Chat(client, other.url, chat.id).resuming() as there,
    ):
        followed, told = await asyncio.gather(there.rest(), live.rest())
    assert followed.text == told.text == SAID
    late = [there_at - at for there_at, at in zip(followed.at[-20:], told.at[-20:], strict=True)]
    assert sorted(late)[10] < 0.5, "by the doorbell, and not by the poll of every second"
