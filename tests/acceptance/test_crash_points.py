"""The owner is killed at every commit point, and between them: the turn goes on elsewhere, and nothing happens twice."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance import facts
from tests.acceptance.postgres import Postgres
from tests.acceptance.replica import Replica
from tests.acceptance.scripts import call, calls, email, location, noting, script, text
from tests.acceptance.talk import Chat, until

pytestmark = pytest.mark.timeout(60)

LEASE_S = 1.5
TURN = script(
    calls(noting("first"), said="Noting."),
    calls(
        location("where"),
        email("mail"),
        call("research", "sub", topic=script(calls(call("search_notes", "q", query="tea")), text("Tea."))),
        said="Asking.",
    ),
    text("All done."),
)

# The point → the call that had begun there and had no result yet: nobody knows whether it took effect. A tool that is safe to run
# again (search_notes) and a sub-agent just go on.
POINTS: dict[str, str | None] = {
    "after-claim": None,
    "before-response": None,
    "after-response": None,
    "after-begin": "first",
    "before-result": "first",
    "after-result": None,
    "after-begin:2": None,  # search_notes, of the sub-agent
    "before-result:2": None,
    "before-response:4": None,  # the sub-agent's last words
    "before-result:3": None,  # which are its call's result
    "before-suspension": None,
    "after-suspension": None,
    "after-claim:2": None,  # by the answers
    "before-drain": None,
    "after-drain": "mail",
    "before-result:4": "mail",
    "after-result:4": None,
    "before-completion": None,
    "after-completion": None,
}


@pytest.fixture(scope="module")
async def survivor(pg: Postgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Replica]:
    """The other replica: it never goes away."""
    replica = Replica("survivor", tmp_path_factory.mktemp("survivor"), pg.url, lease_seconds=LEASE_S)
    await replica.start()
    yield replica
    replica.kill()


@pytest.fixture(scope="module")
async def undisturbed(pg: Postgres, survivor: Replica) -> dict[str, Any]:
    """The same turn with nobody killed: its snapshot and what the model was told."""
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
        chat = Chat(client, survivor.url)
        first = await chat.send(TURN)
        assert first.ending == "finish", first
        second = await chat.answer()
        assert second.text == "All done.", second
        return await _record(pg, chat)


async def _record(pg: Postgres, chat: Chat) -> dict[str, Any]:
    return {
        "snapshot": facts.without_minted_ids(await chat.snapshot()),
        "history": await facts.history(pg, chat.id),
    }


@pytest.mark.parametrize("point", POINTS)
async def test_a_turn_whose_owner_dies_there_is_finished_by_another_replica(
    point: str,
    pg: Postgres,
    survivor: Replica,
    undisturbed: dict[str, Any],
    client: httpx2.AsyncClient,
    tmp_path: Path,
):
    owner = Replica("owner", tmp_path, pg.url, outbox=survivor.outbox, lease_seconds=LEASE_S, crash_at=point)
    try:
        await owner.start()
        chat = Chat(client, owner.url)
        reading = await chat.send(TURN)
        if reading.whole:
            reading = await chat.answer()
        died = time.monotonic()
        assert await owner.ended() == -9
        assert reading.broken, "its client is told nothing that is not so"
    finally:
        owner.kill()
    chat.base = survivor.url

    async def taken_over() -> bool:
        return not (await chat.snapshot())["live"]

    await until(taken_over, LEASE_S + 2 - (time.monotonic() - died), "taken over, and on to its next rest")
    if (await chat.snapshot())["status"] == "suspended":
        assert (await chat.answer()).text == "All done."
    _assert_equal(await _record(pg, chat), undisturbed, unknown=POINTS[point])
    effects = facts.outbox(survivor.outbox, chat.id)
    certain = {"first", "mail"} - {POINTS[point]}
    assert all(effects[call_id] == 1 for call_id in certain)
    assert max(effects.values()) == 1, "nothing took effect twice"


# A turn whose tools ask while they run: the first that does has its call's kind changed by the commit ``ask``.
ASKING = script(
    calls(call("careful_note", "first", text="n"), said="Asking."),
    text("All done."),
)
ASKING_POINTS: dict[str, str | None] = {
    "after-begin": "first",
    "before-ask": "first",
    "after-ask": None,
    "before-suspension": None,
    "before-drain": None,
    "after-drain": "first",
    "before-result": "first",
    "after-result": None,
}


@pytest.mark.parametrize("point", ASKING_POINTS)
async def test_a_tool_that_asks_is_run_again_by_the_yes_alone(
    point: str, pg: Postgres, survivor: Replica, client: httpx2.AsyncClient, tmp_path: Path
):
    unknown = ASKING_POINTS[point]
    owner = Replica("owner", tmp_path, pg.url, outbox=survivor.outbox, lease_seconds=LEASE_S, crash_at=point)
    try:
        await owner.start()
        chat = Chat(client, owner.url)
        reading = await chat.send(ASKING)
        if reading.whole:
            reading = await chat.answer()
        assert await owner.ended() == -9
        assert reading.broken, "its client is told nothing that is not so"
    finally:
        owner.kill()
    chat.base = survivor.url

    async def taken_over() -> bool:
        return not (await chat.snapshot())["live"]

    await until(taken_over, LEASE_S + 2, "taken over, and on to its next rest")
    if (await chat.snapshot())["status"] == "suspended":
        assert (await chat.answer()).text == "All done."
    shown = await chat.snapshot()
    assert shown["status"] == "idle"
    [part] = [p for p in shown["messages"][-1]["parts"] if p.get("toolCallId") == "first"]
    told = [r["outcome"] for e in await facts.history(pg, chat.id) for r in e["body"].get("results", [])]
    assert (part["state"], told) == (
        ("output-error", ["unknown"]) if unknown else ("output-available", ["ok"])
    )
    ran = facts.outbox(survivor.outbox, chat.id)["first"]
    assert ran <= 1 if point == "before-result" else ran == (0 if unknown else 1)


@pytest.mark.parametrize("point", ["before-settlement", "after-settlement"])
async def test_a_run_that_fails_is_settled_once_also_when_its_owner_dies_over_it(
    point: str, pg: Postgres, survivor: Replica, client: httpx2.AsyncClient, tmp_path: Path
):
    owner = Replica("owner", tmp_path, pg.url, outbox=survivor.outbox, lease_seconds=LEASE_S, crash_at=point)
    try:
        await owner.start()
        chat = Chat(client, owner.url)
        failing = script(calls(noting("first")), text("Then it", error="context"))
        assert (await chat.send(failing)).broken
        assert await owner.ended() == -9
    finally:
        owner.kill()
    chat.base = survivor.url

    async def settled() -> bool:
        return (await chat.snapshot())["status"] == "idle"

    await until(settled, LEASE_S + 2, "settled by another replica")
    shown = await chat.snapshot()
    assert shown["run"]["status"] == "failed"
    assert [p["text"] for p in shown["messages"][-1]["parts"] if p["type"] == "text"] == ["Then it"]
    assert facts.outbox(survivor.outbox, chat.id) == {"first": 1}
    assert (await chat.send("hello")).ending == "finish"


def _assert_equal(record: dict[str, Any], undisturbed: dict[str, Any], *, unknown: str | None) -> None:
    """Equal, but for the result of the call whose outcome nobody knows."""
    assert _without(record["snapshot"], unknown) == _without(undisturbed["snapshot"], unknown)
    assert _without(record["history"], unknown) == _without(undisturbed["history"], unknown)
    results = {r["id"]: r["outcome"] for e in record["history"] for r in e["body"].get("results", [])}
    assert results == dict.fromkeys(results, "ok") | ({unknown: "unknown"} if unknown else {})
    parts = {
        p["toolCallId"]: p for m in record["snapshot"]["messages"] for p in m["parts"] if "toolCallId" in p
    }
    assert all((part["state"] == "output-error") == (call_id == unknown) for call_id, part in parts.items())


def _without(value: Any, call_id: str | None) -> Any:
    """``value`` without the result of one call, wherever it is shown or told."""
    if isinstance(value, list):
        return [_without(item, call_id) for item in value]
    if not isinstance(value, dict):
        return value
    if call_id is not None and call_id in (value.get("toolCallId"), value.get("id")):
        ours = ("state", "output", "errorText", "outcome", "value", "approval", "providerExecuted")
        value = {key: item for key, item in value.items() if key not in ours}
    return {key: _without(item, call_id) for key, item in value.items()}
