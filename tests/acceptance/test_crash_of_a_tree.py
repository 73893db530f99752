"""The owner of a tree of three levels is killed: its calls are answered elsewhere, and each child goes on from its last commit."""

import asyncio
import signal
from itertools import permutations, product
from typing import Any

import httpx2
import pytest

from tests.acceptance import facts
from tests.acceptance.conftest import Replicas
from tests.acceptance.postgres import Postgres
from tests.acceptance.replica import Replica
from tests.acceptance.scripts import (
    LOCATION,
    call,
    calls,
    email,
    location,
    noting,
    publishing,
    question,
    research,
    script,
    text,
    told,
)
from tests.acceptance.talk import Chat, until

pytestmark = pytest.mark.timeout(120)

LEASE_S = 1.5


def _pair(replicas: Replicas) -> tuple[Replica, Replica]:
    return replicas("one", lease_seconds=LEASE_S), replicas("other", lease_seconds=LEASE_S)


async def _answer(chat: Chat, call_id: str) -> None:
    """What its kind wants: a yes, an output. It is stored, whatever comes of it."""
    [asked] = [asked for asked in (await chat.snapshot())["pending"] if asked["toolCallId"] == call_id]
    yes = {"approvalId": asked.get("approvalId"), "approved": True}
    answer = yes if asked["kind"] == "approval" else {"output": LOCATION}
    assert (await chat.elsewhere(call_id, answer))["outcome"] == "stored"


async def _idle(chat: Chat) -> None:
    async def idle() -> bool:
        return (await chat.snapshot())["status"] == "idle"

    await until(idle, LEASE_S + 10, f"the end of {chat.id}")


async def _assert_whole(
    pg: Postgres, chat: Chat, replica: Replica, *, results: dict[str, Any], effects: set[str]
) -> None:
    """Every agent was told each result once, nothing took effect twice, and the chat takes another message."""
    shown = (await chat.snapshot())["messages"][-1]["parts"]
    assert told(shown[-1]["text"]) == results
    ids = [part["toolCallId"] for part in shown if "toolCallId" in part]
    assert len(ids) == len(set(ids)), "each call is shown once"
    assert facts.outbox(replica.outbox, chat.id) == dict.fromkeys(effects, 1)
    assert (await chat.send(script(text("And on.")))).text == "And on."
    assert await facts.faults_in_histories(pg) == []


WAITING = script(
    calls(noting("n0")),
    calls(
        email("mail"),
        research(
            "r",
            calls(noting("n1")),
            calls(publishing("p1"), research("d", calls(noting("n2")), calls(question("q2")), tool="deeper")),
        ),
    ),
)


async def test_a_tree_that_waits_on_three_levels_is_answered_by_whoever_is_left_in_every_order(
    replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    """One chat for each order; whoever took an answer is killed before the next one is given."""
    here, there = _pair(replicas)
    await asyncio.gather(here.start(), there.start())
    orders = list(permutations(("mail", "p1", "q2")))
    chats = [Chat(client, here.url) for _ in orders]
    for began in await asyncio.gather(*(chat.send(WAITING) for chat in chats)):
        assert began.ending == "finish"
    for nth in range(3):
        here.kill()
        for chat in chats:
            chat.base = there.url
        await asyncio.gather(*(_answer(chat, order[nth]) for chat, order in zip(chats, orders, strict=True)))
        if nth < 2:
            await here.start()
            here, there = there, here
    for chat in chats:
        await _idle(chat)
        await _assert_whole(
            pg,
            chat,
            there,
            results={
                "n0": "ok",
                "mail": "ok",
                "r": {"n1": "ok", "p1": "ok", "d": {"n2": "ok", "q2": "ok"}},
            },
            effects={"mail", "p1", "n0", "n1", "n2"},
        )


EXECUTING = script(
    calls(
        location("loc"),
        research(
            "r",
            calls(noting("n1")),
            calls(
                publishing("p1"),
                research(
                    "d",
                    calls(noting("n2")),
                    calls(call("slow", "slow", ms=60_000)),
                    calls(noting("n3")),
                    tool="deeper",
                ),
            ),
        ),
    ),
)
MOMENTS = ("before the kill", "before the takeover", "after it")


async def test_a_tool_of_the_third_level_dies_with_the_owner_while_the_levels_above_it_wait(
    replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    """One chat for each pair of moments at which the calls of the root and of its child are answered."""
    owner, heir = _pair(replicas)
    await asyncio.gather(owner.start(), heir.start())
    plans = [dict(zip(("loc", "p1"), moments, strict=True)) for moments in product(MOMENTS, repeat=2)]
    chats = [Chat(client, owner.url) for _ in plans]

    async def answer(moment: str) -> None:
        for chat, plan in zip(chats, plans, strict=True):
            for call_id in plan:
                if plan[call_id] == moment:
                    await _answer(chat, call_id)

    async def begin(chat: Chat) -> None:
        async with chat.sending(EXECUTING) as live:
            while (await live.until("data-subagent"))["data"]["status"] != "progress":
                pass

    await asyncio.gather(*(begin(chat) for chat in chats))
    await answer("before the kill")
    owner.kill()
    for chat in chats:
        chat.base = heir.url
    await answer("before the takeover")

    async def all_rest() -> bool:
        return not any([(await chat.snapshot())["live"] for chat in chats])

    await until(all_rest, LEASE_S + 10, "taken over, and on to their next rest")
    await answer("after it")
    for chat in chats:
        await _idle(chat)
        await _assert_whole(
            pg,
            chat,
            heir,
            results={
                "loc": "ok",
                "r": {"n1": "ok", "p1": "ok", "d": {"n2": "ok", "slow": "unknown", "n3": "ok"}},
            },
            effects={"p1", "n1", "n2", "n3"},
        )


ASKING_AGAIN = script(
    calls(
        research(
            "r",
            calls(question("q1")),
            calls(question("q2"), call("slow", "slow", ms=60_000)),
        ),
    ),
)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_child_that_asks_again_is_answered_after_its_owner_is_killed_or_drained(
    number: signal.Signals, replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    owner, heir = _pair(replicas)
    await asyncio.gather(owner.start(drain_seconds=1), heir.start())
    chat = Chat(client, owner.url)
    assert (await chat.send(ASKING_AGAIN)).ending == "finish"
    await _answer(chat, "q1")
    async with chat.resuming() as live:
        while (await live.until("data-subagent"))["data"]["status"] != "progress":
            pass
    await owner.terminate(number)
    chat.base = heir.url

    async def waits() -> bool:
        return (await chat.snapshot())["status"] == "suspended"

    await until(waits, LEASE_S + 10, "taken over, and on to its next rest")
    await _answer(chat, "q2")
    await _idle(chat)
    results = {"r": {"q1": "ok", "q2": "ok", "slow": "unknown"}}
    await _assert_whole(pg, chat, heir, results=results, effects=set())


FAILING = script(
    calls(
        location("loc"),
        research(
            "r",
            calls(noting("n1")),
            calls(
                question("q1"),
                research("d", calls(noting("n2")), text("Half", error="context"), tool="deeper"),
            ),
        ),
    ),
)


@pytest.mark.parametrize("point", ["before-child", "after-child", "before-result:3", "after-result:3"])
async def test_a_child_that_fails_is_a_failed_result_of_its_parents_call_also_when_the_owner_dies_over_it(
    point: str, replicas: Replicas, pg: Postgres, client: httpx2.AsyncClient
):
    owner, heir = _pair(replicas)
    await asyncio.gather(owner.start(crash_at=point), heir.start())
    chat = Chat(client, owner.url)
    assert (await chat.send(FAILING)).broken
    assert await owner.ended() == -9
    chat.base = heir.url

    async def waits() -> bool:
        return (await chat.snapshot())["status"] == "suspended"

    await until(waits, LEASE_S + 10, "taken over, and on to its next rest")
    await _answer(chat, "q1")
    await _answer(chat, "loc")
    await _idle(chat)
    await _assert_whole(
        pg,
        chat,
        heir,
        results={"loc": "ok", "r": {"n1": "ok", "q1": "ok", "d": "error"}},
        effects={"n1", "n2"},
    )
