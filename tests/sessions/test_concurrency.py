"""Many clients at once, each on a connection of its own: one recorded decision, one claim, one execution, and the batch goes on."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.inprocess.agents import gates
from tests.inprocess.asgi import Reply
from tests.inprocess.chat import Page, call, calls, mail, script
from tests.inprocess.server import Server


@pytest.fixture
async def two(serve: Any) -> AsyncIterator[tuple[Server, Server]]:
    """Two replicas on one database."""
    async with serve(pool_size=10) as one, serve(pool_size=10) as other:
        yield one, other


async def waiting(server: Server, *made: dict[str, Any]) -> Page:
    page = Page(server)
    await page.play(calls(*made), {"text": "bye"})
    return page


async def all_at_once(*pages: Page, **keys: Any) -> list[Reply]:
    """Posts what each page shows, at the same time; every answer is read to its end."""
    return list(await asyncio.gather(*(page.post(**keys) for page in pages)))


async def settled_right(server: Server, *, mails: int) -> dict[str, Any]:
    """The invariants of every race."""
    snapshot = await server.quiet("chat")
    roles = [m["role"] for m in snapshot["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2)
    live = await server.sql(
        "select 1 from run where parent_run is null and state in ('running', 'suspended')"
    )
    assert len(live) <= 1
    executed = Counter(line["callId"] for line in server.sent_mail())
    assert sum(executed.values()) == mails
    assert all(count == 1 for count in executed.values())
    open_results = await server.sql(
        "select call_id from call join run on run.id = call.root_run "
        "where run.settled_at is not null and call.outcome is null"
    )
    assert not open_results, "every call of a settled run has its result"
    return snapshot


async def epochs(server: Server) -> list[int]:
    return [row["epoch"] for row in await server.sql("select epoch from run where parent_run is null")]


async def test_the_same_answer_from_twenty_clients_is_stored_once_and_claims_once(two: tuple[Server, Server]):
    page = await waiting(two[0], mail("m"))
    tabs = [page.copy(two[n % 2]).decide("m", True) for n in range(20)]
    replies = await all_at_once(*tabs)
    assert {reply.status for reply in replies} == {200}
    continuations = Counter(
        line.get("continuation")
        for line in two[0].logs.of("request.ended", route="/chat")
        if "continuation" in line
    )
    assert continuations["caller_resumes"] == 1
    assert await epochs(two[0]) == [2]
    snapshot = await settled_right(two[0], mails=1)
    assert snapshot["run"]["status"] == "completed"


async def test_approve_and_deny_at_once_leave_one_decision(two: tuple[Server, Server]):
    page = await waiting(two[0], mail("m"))
    approve, deny = page.copy().decide("m", True), page.copy(two[1]).decide("m", False)
    replies = await all_at_once(approve, deny)
    assert [reply.status for reply in replies] == [200, 200]
    (row,) = await two[0].sql("select answer->>'approved' as approved, outcome from call")
    approved = row["approved"] == "true"
    assert row["outcome"] == ("ok" if approved else "denied")
    await settled_right(two[0], mails=approved)


async def test_the_last_two_answers_of_a_batch_at_once_complete_it_once(two: tuple[Server, Server]):
    page = await waiting(two[0], mail("a"), mail("b"))
    replies = await all_at_once(page.copy().decide("a", True), page.copy(two[1]).decide("b", True))
    assert [reply.status for reply in replies] == [200, 200]
    snapshot = await settled_right(two[0], mails=2)
    assert snapshot["run"]["status"] == "completed"
    assert await epochs(two[0]) == [2]


async def test_an_answer_and_the_end_of_the_last_server_tool_at_once(two: tuple[Server, Server]):
    page = Page(two[0])
    stream = await page.say(
        script(calls(call("get_location", "loc"), call("hold", "h", gate="g")), {"text": "bye"})
    ).open()
    await stream.until("tool-input-available", toolCallId="loc")
    await gates["g"].reached.wait()
    page.show(stream.frames)
    tab = page.copy(two[1]).output("loc", 1)
    posting = asyncio.create_task(tab.post())
    gates["g"].open()
    assert (await posting).status == 200
    await stream.rest()
    snapshot = await settled_right(two[0], mails=0)
    assert snapshot["run"]["status"] == "completed", "each must not think that the other will go on"


@pytest.mark.parametrize("round_", range(3))
async def test_an_answer_and_an_abandonment_at_once(two: tuple[Server, Server], round_: int):
    page = await waiting(two[0], mail("m"))
    answer, leave = page.copy().decide("m", True), page.copy(two[1]).say(script({"text": "next"}), "next")
    answered, left = await all_at_once(answer, leave)
    mails = len(two[0].sent_mail())
    assert left.status in (200, 409), left.error
    if answered.status == 409:
        assert answered.error["cause"] == "stale_run"
    else:
        assert answered.status == 200
    await settled_right(two[0], mails=mails)
    assert mails <= 1


@pytest.mark.parametrize("round_", range(3))
async def test_an_answer_and_a_stop_at_once(two: tuple[Server, Server], round_: int):
    page = await waiting(two[0], mail("m"))
    answered, stopped = await asyncio.gather(page.copy().decide("m", True).post(), two[1].stop("chat"))
    snapshot = await settled_right(two[0], mails=len(two[0].sent_mail()))
    if answered.status == 409:
        assert answered.error["cause"] == "run_stopped"
        assert not two[0].sent_mail(), "an approval that lost to the stop runs nothing"
    assert snapshot["run"]["status"] in ("stopped", "completed")
    assert stopped["status"] in ("stopped", "running", "idle", "completed")


async def test_an_answer_and_its_deadline_at_once(two: tuple[Server, Server]):
    page = await waiting(two[0], call("timed_location", "loc"))
    await two[0].sql("update call set deadline_at = now() - interval '1 second'")
    sweeps = [server.running.sweeper.deadlines() for server in two]
    reply, _ = await asyncio.gather(page.copy().output("loc", 1).post(), asyncio.gather(*sweeps))
    assert reply.status == 200
    (row,) = await two[0].sql("select outcome from call")
    assert row["outcome"] in ("ok", "timeout")
    assert (await settled_right(two[0], mails=0))["run"]["status"] == "completed"
    assert await epochs(two[0]) == [2]


async def test_an_answer_and_a_regeneration_at_once(two: tuple[Server, Server]):
    page = await waiting(two[0], mail("m"))
    again = page.copy(two[1])
    again.messages.pop()
    answered, regenerated = await asyncio.gather(
        page.copy().decide("m", True).post(), again.post(trigger="regenerate-message")
    )
    assert regenerated.status == 200
    assert answered.status in (200, 409)
    await settled_right(two[0], mails=len(two[0].sent_mail()))
    assert len(two[0].sent_mail()) <= 1


async def test_two_different_first_messages_at_once_make_one_session_and_one_turn_at_a_time(
    two: tuple[Server, Server],
):
    text = script(calls(call("hold", "h", gate="g")), {"text": "bye"})
    pages = [Page(server).say(text, f"first-{n}") for n, server in enumerate(two)]
    replies = await asyncio.gather(*(page.open() for page in pages))
    gates["g"].open()
    for page, reply in zip(pages, replies, strict=True):
        await page.take(reply)
    assert sorted(reply.status for reply in replies) == [200, 409]
    refused = next(reply for reply in replies if reply.status == 409)
    assert refused.error["code"] == "state_run_active"
    snapshot = await settled_right(two[0], mails=0)
    assert len(snapshot["messages"]) == 2


@pytest.mark.parametrize("count", [2, 10])
async def test_the_same_first_message_at_once_makes_one_turn(two: tuple[Server, Server], count: int):
    text = script(calls(call("hold", "h", gate="g")), {"text": "bye"})
    pages = [Page(two[n % 2]).say(text, "first") for n in range(count)]
    replies = await asyncio.gather(*(page.open() for page in pages))
    gates["g"].open()
    await asyncio.gather(*(page.take(reply) for page, reply in zip(pages, replies, strict=True)))
    assert {reply.status for reply in replies} == {200}
    assert {page.text for page in pages} == {"bye"}
    assert len(await two[0].sql("select 1 from run")) == 1
    assert len((await settled_right(two[0], mails=0))["messages"]) == 2


async def test_a_message_sent_the_instant_the_reply_ends_is_not_refused(two: tuple[Server, Server]):
    page = Page(two[0])
    for number in range(20):
        reply = await page.say(script({"text": f"t{number}"}), f"u{number}").open()
        await reply.until("finish")
        page.show(reply.frames)
        page.server = two[number % 2]
        assert reply.status == 200


async def test_a_fast_client_answers_in_the_instant_that_its_call_is_shown(two: tuple[Server, Server]):
    page = Page(two[0])
    stream = await page.say(script(calls(mail("m")), {"text": "bye"})).open()
    await stream.until("tool-approval-request")
    page.show(stream.frames)
    reply = await page.copy(two[1]).decide("m", True).post()
    assert reply.status == 200, reply.error
    await stream.rest()
    assert (await settled_right(two[0], mails=1))["run"]["status"] == "completed"
