"""SIGTERM and Ctrl-C: what runs is handed over, clients resume elsewhere, and the process ends without a fuss."""

import asyncio
import signal
import time
from pathlib import Path

import httpx2
import pytest

from tests.acceptance import facts
from tests.acceptance.conftest import Replicas
from tests.acceptance.postgres import Postgres
from tests.acceptance.replica import Replica
from tests.acceptance.scripts import call, calls, noting, script, slowly, text
from tests.acceptance.talk import Chat, until

pytestmark = pytest.mark.timeout(60)


async def test_a_drained_replica_hands_its_runs_over_at_no_cost_and_breaks_its_streams(
    replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    leaving, staying = replicas("leaving", lease_seconds=30), replicas("staying", lease_seconds=30)
    await asyncio.gather(leaving.start(), staying.start())
    chat, there = Chat(client, leaving.url), Chat(client, staying.url)
    there.id = chat.id
    turn = script(
        slowly("the first step takes a second or so", 1.5) | calls(noting("n")),
        slowly("the second one is longer than the drain's five seconds would allow", 6),
    )
    async with chat.sending(turn) as live:
        await live.until("text-delta")
        ended = asyncio.ensure_future(leaving.terminate())
        await leaving.ready(False)
        refused = await Chat(client, leaving.url).send("hello")
        assert (refused.status, refused.body and refused.body["code"]) == (503, "framework_draining")
        assert refused.headers["retry-after"]
        cut = await live.rest()
    assert cut.broken
    assert "finish" not in cut.kinds
    assert await ended in (0, -signal.SIGTERM)
    resumed = await there.resume()
    assert resumed.ending == "finish"
    assert resumed.text.startswith("the first step")
    assert resumed.text.endswith("allow")
    assert facts.outbox(staying.outbox, chat.id) == {"n": 1}
    assert await facts.takeovers(pg, chat.id) == 0
    assert facts.faults_in_logs([leaving, staying]) == []


async def test_a_tool_that_runs_is_let_finish_before_its_run_is_handed_over(
    replicas: Replicas, client: httpx2.AsyncClient
):
    """Also when a sub-agent beside it could be handed over at once."""
    leaving, staying = replicas("leaving"), replicas("staying")
    await asyncio.gather(leaving.start(), staying.start())
    chat, there = Chat(client, leaving.url), Chat(client, staying.url)
    there.id = chat.id
    child = script(
        *[slowly("looking", 0.7) | calls(call("search_notes", f"q{n}", query="tea")) for n in range(5)]
    )
    turn = script(
        calls({"tool": "slow", "input": {"ms": 2000}, "id": "slow"}, call("research", "sub", topic=child)),
        text("End."),
    )
    async with chat.sending(turn) as live:
        await live.until("data-subagent")
        await asyncio.sleep(0.5)
        assert await leaving.terminate() in (0, -signal.SIGTERM)
    resumed = await there.resume()
    assert resumed.ending == "finish"
    outcomes = {f["toolCallId"]: f["type"] for f in resumed.frames if f["type"].startswith("tool-output")}
    assert outcomes == {"slow": "tool-output-available", "sub": "tool-output-available"}


async def test_ctrl_c_ends_it_with_zero_and_its_own_postgres_with_it(
    replicas: Replicas, client: httpx2.AsyncClient
):
    alone = replicas("alone", database_url=None)
    await alone.start()
    assert (await Chat(client, alone.url).send("hello")).ending == "finish"
    assert _postgres_of(alone).exists()
    assert await alone.terminate(signal.SIGINT) == 0
    assert not _postgres_of(alone).exists(), "Postgres takes its file away when it stops in order"
    assert facts.faults_in_logs([alone]) == []


async def test_sigterm_stops_the_embedded_postgres_too(replicas: Replicas):
    alone = replicas("alone", database_url=None)
    await alone.start()
    await alone.terminate(signal.SIGTERM)
    assert not _postgres_of(alone).exists()
    assert facts.faults_in_logs([alone]) == []


async def test_a_replica_can_be_stopped_while_the_database_is_away(
    replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    replica = replicas(drain_seconds=1)
    await replica.start()
    async with Chat(client, replica.url).sending(
        script(slowly("a story", 1) | calls(noting("n")), text("x"))
    ) as live:
        await live.until("text-delta")
        await pg.stop()
        try:
            await asyncio.sleep(1.5)  # its commit is being tried again and again
            began = time.monotonic()
            await replica.terminate(within_s=1 + 3 + 3 + 5 + 5)
        finally:
            await pg.start()
    assert time.monotonic() - began < 15
    assert not [line for line in replica.lines() if "Traceback" in str(line.get("raw"))]


async def test_runs_that_wait_for_a_person_cost_a_shutdown_nothing(
    replicas: Replicas, client: httpx2.AsyncClient
):
    leaving, staying = replicas(), replicas()
    await asyncio.gather(leaving.start(), staying.start())
    chat = Chat(client, leaving.url)
    assert (await chat.send(script(calls(call("get_location", "where")), text("End.")))).ending == "finish"
    began = time.monotonic()
    await leaving.terminate()
    assert time.monotonic() - began < 3
    chat.base = staying.url
    assert (await chat.answer()).text == "End."

    async def settled() -> bool:
        return (await chat.snapshot())["status"] == "idle"

    await until(settled, 3, "settled")


def _postgres_of(replica: Replica) -> Path:
    return replica.log_file.parent / "data" / "postgres" / "data" / "postmaster.pid"
