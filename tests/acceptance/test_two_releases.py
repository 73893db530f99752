"""Two releases on one database: this one and the one before it, as a rolling deploy has them, and a rollback the other way.

The later one migrates the database under the other; old code must run on the new schema.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance import facts
from tests.acceptance.conftest import Replicas
from tests.acceptance.postgres import Postgres, postgres
from tests.acceptance.releases import NoReleaseError, previous
from tests.acceptance.replica import ROOT, Replica
from tests.acceptance.scripts import call, calls, email, location, noting, script, slowly, text
from tests.acceptance.talk import Chat, Live, answered

pytestmark = pytest.mark.timeout(90)

TURN = script(
    slowly("First I take a note of it.", 1) | calls(noting("first"), call("slow", "slow", ms=1500)),
    calls(location("where"), email("mail"), said="Now I have to ask."),
    slowly("Then I take another note of it.", 1.5) | calls(noting("last")),
    slowly("All done.", 0.3, 3),
)
ONCE = {"first": 1, "mail": 1, "last": 1}


@pytest.fixture
async def pg() -> AsyncIterator[Postgres]:
    """A Postgres of each test's own: who comes first migrates it."""
    async with postgres() as server:
        yield server


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the release before this one lies."""
    try:
        name, release = previous(tmp_path_factory.mktemp("releases"))
    except NoReleaseError as reason:
        pytest.skip(str(reason))
    sys.stdout.write(f"PREVIOUS_RELEASE={name}\n")
    return release


@pytest.fixture(params=["deploy", "rollback"])
async def deployed(
    request: pytest.FixtureRequest, before: Path, replicas: Replicas
) -> tuple[Replica, Replica]:
    """Who leaves and who stays, both at work."""
    first, second = (before, ROOT) if request.param == "deploy" else (ROOT, before)
    leaving = replicas("leaving", release=first, lease_seconds=30)
    staying = replicas("staying", release=second, lease_seconds=30)
    await leaving.start()
    await staying.start()
    return leaving, staying


async def _undisturbed(pg: Postgres, client: httpx2.AsyncClient, replica: Replica) -> dict[str, Any]:
    chat = Chat(client, replica.url)
    assert (await chat.send(TURN)).ending == "finish"
    assert (await chat.answer()).text.endswith("All done.")
    return await _record(pg, chat)


async def _record(pg: Postgres, chat: Chat) -> dict[str, Any]:
    """What a reload shows, what the next model request is sent."""
    shown = facts.without_minted_ids(await chat.snapshot())
    return {"snapshot": shown, "history": await facts.history(pg, chat.id)}


async def _brought_to_its_end(chat: Chat) -> None:
    """As somebody would who reloads the page."""
    shown = await chat.snapshot()
    if shown["live"]:
        assert (await chat.resume()).ending == "finish"
        shown = await chat.snapshot()
    if shown["status"] == "suspended":
        assert [call["toolCallId"] for call in shown["pending"]] == ["where", "mail"]
        assert (await chat.answer()).ending == "finish"


async def _answers(chat: Chat) -> dict[str, Any]:
    """The request in which a stock client gives them all."""
    return chat.body(answered((await chat.snapshot())["messages"][-1]))


async def _asked(chat: Chat) -> Chat:
    assert (await chat.send(TURN)).ending == "finish"
    return chat


async def test_what_a_release_leaves_in_mid_turn_the_other_brings_to_the_same_end(
    deployed: tuple[Replica, Replica], pg: Postgres, client: httpx2.AsyncClient
):
    leaving, staying = deployed
    whole, waiting, telling, running, continued = (Chat(client, leaving.url) for _ in range(5))
    undisturbed, *_ = await asyncio.gather(
        _undisturbed(pg, client, staying), *map(_asked, (whole, waiting, continued))
    )
    assert (await whole.answer()).ending == "finish"

    async with AsyncExitStack() as stack:
        begun: list[Live] = []
        for opened, moment in [
            (running.sending(TURN), "tool-input-available"),
            (continued.opened("POST", "/chat", await _answers(continued)), "text-delta"),
            (telling.sending(TURN), "text-delta"),
        ]:
            begun.append(await stack.enter_async_context(opened))
            await begun[-1].until(moment)
        ended = asyncio.ensure_future(leaving.terminate())
        cut = [await live.rest() for live in begun]
        assert await ended in (0, -signal.SIGTERM)
    assert [reading.broken for reading in cut] == [True, True, True], "each was in the middle of its turn"

    for chat in (whole, waiting, telling, running, continued):
        chat.base = staying.url
    assert (await whole.snapshot())["status"] == "idle"
    await asyncio.gather(*map(_brought_to_its_end, (waiting, telling, running, continued)))
    for chat in (whole, waiting, telling, running, continued):
        assert await _record(pg, chat) == undisturbed
        assert facts.outbox(staying.outbox, chat.id) == ONCE
        assert await facts.takeovers(pg, chat.id) == 0
        assert (await chat.send(script(text("And on.")))).text == "And on.", "the next turn"
    assert facts.took_effect_twice(staying.outbox) == []
    assert await facts.faults_in_histories(pg) == []
    assert facts.faults_in_logs(deployed) == []


@pytest.mark.parametrize("deployed", ["deploy"], indirect=True)
async def test_while_both_serve_each_answer_may_reach_the_other_release(
    deployed: tuple[Replica, Replica], pg: Postgres, client: httpx2.AsyncClient
):
    leaving, staying = deployed
    undisturbed = await _undisturbed(pg, client, staying)

    async def there_and_back(one: Replica, other: Replica) -> None:
        chat = await _asked(Chat(client, one.url))
        chat.base = other.url
        async with chat.opened("POST", "/chat", await _answers(chat)) as live:
            await live.until("text-delta")
            followed = await Chat(client, one.url, chat.id).resume()
            told = await live.rest()
        assert (told.ending, followed.ending) == ("finish", "finish")
        assert followed.text.endswith(told.text), "a stream of the one release, followed on the other"
        assert await _record(pg, chat) == undisturbed
        chat.base = one.url
        assert await _record(pg, chat) == undisturbed, "both show the same"
        assert facts.outbox(staying.outbox, chat.id) == ONCE

    await asyncio.gather(there_and_back(leaving, staying), there_and_back(staying, leaving))
    assert facts.faults_in_logs(deployed) == []


async def test_this_release_starts_and_serves_on_the_schema_of_a_later_one(
    replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    """A later migration adds: a table, a column with a default to each table that is there, its own revision."""
    serving, starting = replicas("serving", lease_seconds=30), replicas("starting", lease_seconds=30)
    await serving.start()
    undisturbed, waiting = await asyncio.gather(
        _undisturbed(pg, client, serving), _asked(Chat(client, serving.url))
    )
    tables = await pg.fetch("select tablename from pg_tables where schemaname = 'public'")
    for name in {row["tablename"] for row in tables} - {"alembic_version"}:
        await pg.fetch(f"alter table {name} add column later text not null default 'added'")
    await pg.fetch("create table later (id int primary key, session_id bigint)")
    await pg.fetch("update alembic_version set version_num = 'later'")

    await starting.start()
    for replica, chat in ((serving, waiting), (starting, await _asked(Chat(client, serving.url)))):
        chat.base = replica.url
        await _brought_to_its_end(chat)
        assert await _record(pg, chat) == undisturbed
        assert facts.outbox(replica.outbox, chat.id) == ONCE
    assert await pg.value("select version_num from alembic_version") == "later"
    assert facts.faults_in_logs([serving, starting]) == []
