"""An owner that was paused past its lease and wakes up believes that the run is still its own."""

import asyncio
import signal

import httpx2
import pytest

from tests.acceptance import facts
from tests.acceptance.conftest import Replicas
from tests.acceptance.postgres import Postgres
from tests.acceptance.scripts import calls, noting, script, slowly, text
from tests.acceptance.talk import Chat, until

pytestmark = pytest.mark.timeout(60)


async def test_late_words_of_a_paused_owner_reach_nobody_and_the_new_owners_result_stands(
    replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    paused, heir = replicas("paused"), replicas("heir")
    await asyncio.gather(paused.start(), heir.start())
    chat, elsewhere = Chat(client, paused.url), Chat(client, heir.url)
    elsewhere.id = chat.id
    turn = script(
        slowly("one two three four five six seven eight", 1.6, 16) | calls(noting("n")), text("End.")
    )
    async with chat.sending(turn) as live:
        await live.until("text-delta")
        paused.send(signal.SIGSTOP)

        async def finished() -> bool:
            return (await elsewhere.snapshot())["status"] == "idle"

        await until(finished, 2 + 2 + 4, "taken over and finished by the heir")
        stands = await elsewhere.snapshot()
        model_was_told = await facts.history(pg, chat.id)
        paused.send(signal.SIGCONT)
        old = await live.rest()
    assert old.broken, "its stream ends without an ending: its client is in error, and resumes"
    assert "finish" not in old.kinds
    await asyncio.sleep(1.5)  # whatever it would still write
    assert await elsewhere.snapshot() == stands
    assert await facts.history(pg, chat.id) == model_was_told
    assert facts.outbox(heir.outbox, chat.id) == {"n": 1}
    assert heir.said("run.taken_over")
    assert paused.said("run.lease_lost")
    assert (await chat.send("hello")).ending == "finish", "the one that was paused serves on"


async def test_a_tool_that_was_begun_by_a_paused_owner_is_not_run_again_by_its_heir(
    replicas: Replicas, client: httpx2.AsyncClient
):
    """The pause comes between the commit that a tool begins and the commit of its result."""
    paused, heir = replicas("paused"), replicas("heir")
    await asyncio.gather(paused.start(), heir.start())
    chat, elsewhere = Chat(client, paused.url), Chat(client, heir.url)
    elsewhere.id = chat.id
    slow = {"tool": "slow", "input": {"ms": 3000}, "id": "slow"}
    async with chat.sending(script(calls(slow, noting("n")), text("End."))) as live:
        await live.until("tool-output-available")
        paused.send(signal.SIGSTOP)

        async def finished() -> bool:
            return (await elsewhere.snapshot())["status"] == "idle"

        await until(finished, 8, "taken over")
        paused.send(signal.SIGCONT)
        told = await live.rest()
    assert told.text == "End.", (
        "nothing that it had sent was undone, so its stream goes on with what the heir says"
    )
    [_, assistant] = (await elsewhere.snapshot())["messages"]
    states = {part["toolCallId"]: part["state"] for part in assistant["parts"] if "toolCallId" in part}
    assert states == {"slow": "output-error", "n": "output-available"}
    assert facts.outbox(heir.outbox, chat.id) == {"n": 1}
