"""A deadline begins when the run suspends; past it the sweeper answers the call. Here it is moved into the past by SQL."""

import asyncio

from app.domain.call_state import CLOSED, CloseCode
from tests.inprocess.agents import asked, gates, told
from tests.inprocess.chat import Page, call, calls, is_harmless, refusal, script
from tests.inprocess.server import Server

TIMED_OUT = CLOSED[CloseCode.TIMEOUT][1]


async def pass_deadlines(server: Server) -> int:
    await server.sql(
        "update call set deadline_at = now() - interval '1 second' where deadline_at is not null"
    )
    return await server.running.sweeper.deadlines()


async def test_it_begins_when_the_run_suspends(server: Server):
    page = Page(server)
    reply = await page.say(script(calls(call("timed_location", "loc"), call("hold", "h", gate="g")))).open()
    await gates["g"].reached.wait()
    assert [r["deadline_at"] for r in await server.sql("select deadline_at from call")] == [None, None]
    gates["g"].open()
    await page.take(reply)
    pending = (await server.snapshot("chat"))["pending"]
    assert [p["toolCallId"] for p in pending if "expiresAt" in p] == ["loc"]


async def test_past_it_the_run_goes_on_with_a_timeout(server: Server):
    page = Page(server)
    await page.play(calls(call("timed_location", "loc")), {"text": "bye"})
    assert await pass_deadlines(server) == 1
    await server.quiet("chat")
    await page.reload()
    part = page.part("loc")
    assert (part["state"], part["errorText"], part["providerExecuted"]) == ("output-error", TIMED_OUT, True)
    assert page.text == "bye"
    assert told() == [("loc", "timeout")]


async def test_an_approval_past_it_never_runs_its_tool(server: Server):
    page = Page(server)
    await page.play(calls(call("timed_email", "m", to="x")), {"text": "bye"})
    late = page.copy().decide("m", True)
    await pass_deadlines(server)
    await server.quiet("chat")
    assert is_harmless(await late.post())
    assert not server.sent_mail()
    await page.reload()
    assert page.part("m")["state"] == "output-error"
    assert "approval" not in page.part("m")


async def test_a_real_answer_after_it_is_already_completed_and_told_that_another_one_was_stored(
    server: Server,
):
    page = Page(server)
    await page.play(calls(call("timed_location", "loc")), {"text": "bye"})
    await pass_deadlines(server)
    await server.quiet("chat")
    reply = await page.output("loc", {"x": 1}).post()
    assert is_harmless(reply)
    elsewhere = [f["data"] for f in reply.frames if f["type"] == "data-tool-output-elsewhere"]
    assert elsewhere == [{"toolCallId": "loc"}]


async def test_it_does_not_complete_a_batch_that_still_waits_for_somebody(server: Server):
    page = Page(server)
    await page.play(calls(call("timed_location", "loc"), call("get_location", "other")), {"text": "bye"})
    await pass_deadlines(server)
    snapshot = await server.snapshot("chat")
    assert snapshot["status"] == "suspended"
    assert [p["toolCallId"] for p in snapshot["pending"]] == ["other"]
    await page.output("other", 1).post()
    assert (await server.quiet("chat"))["run"]["status"] == "completed"


async def test_two_replicas_that_sweep_at_once_answer_it_once(serve):
    async with serve() as one, serve() as two:
        page = Page(one)
        await page.play(calls(call("timed_location", "loc")), {"text": "bye"})
        await one.sql("update call set deadline_at = now() - interval '1 second'")
        swept = await asyncio.gather(*(s.running.sweeper.deadlines() for s in (one, two, one, two)))
        assert sum(swept) <= 1, "one of them, or a sweep of their own before"
        await one.quiet("chat")
        assert len(asked) == 2


async def test_a_stop_that_came_first_wins(server: Server):
    page = Page(server)
    await page.play(calls(call("timed_location", "loc")), {"text": "bye"})
    late = page.copy().output("loc", 1)
    await server.stop("chat")
    assert await pass_deadlines(server) == 0
    assert refusal(await late.post()) == (409, "state_not_resumable", "run_stopped")
