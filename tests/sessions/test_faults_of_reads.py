"""The database fails under a read, or while a lapsed run is taken over."""

import pytest

from tests.inprocess.agents import gates
from tests.inprocess.chat import Page, call, calls, refusal, script
from tests.inprocess.faults import NOTHING_STORED, Failure, failing
from tests.inprocess.server import Server

RECONCILE_LINE = "handleChatStream.reconcileSession: reconcile failed (permanent)"


@pytest.mark.parametrize("failure", NOTHING_STORED)
async def test_a_snapshot_that_cannot_be_read_is_503_and_then_right(faulty: Server, failure: Failure):
    page = Page(faulty)
    await page.play({"text": "hello"})
    with failing({1: failure}):
        reply = await page.take(await faulty.ask("GET", "/chat/chat"))
    assert reply.status == 503
    assert [line["event"] for line in faulty.logs.failures] == ["request.ended"]
    assert (await faulty.snapshot("chat"))["messages"] == page.messages


async def test_a_snapshot_of_a_row_that_cannot_be_read_is_500(server: Server):
    page = Page(server)
    await page.play(calls(call("get_location", "loc")))
    await server.sql(
        "alter table run drop constraint run_state_check, drop constraint run_settled_at_is_of_settled_states_check"
    )
    await server.sql("update run set state = 'of a later release'")
    for path in ("/chat/chat", "/chat/chat/stream"):
        reply = await page.take(await server.ask("GET", path))
        assert refusal(reply) == (500, "framework_internal_error", None)
    reply = await page.send(script({"text": "x"}), "later")
    assert refusal(reply) == (500, "framework_internal_error", None)


@pytest.mark.parametrize(("position", "expected"), [(1, 503), (2, 500)])
async def test_a_resume_that_cannot_be_opened_is_an_error_and_then_right(
    faulty: Server, position: int, expected: int
):
    page = Page(faulty)
    await page.say(script(calls(call("hold", "h", gate="g")))).open()
    await gates["g"].reached.wait()
    with failing({position: Failure.KILLED}):
        reply = await page.take(await faulty.resume("chat"))
    assert refusal(reply)[:2] == (
        expected,
        "framework_internal_error" if expected == 503 else "transport_stream_drop",
    )
    gates["g"].open()
    await page.take(await faulty.resume("chat"))
    assert page.part("h")["output"] == "held at g"


async def lapsed(server: Server) -> Page:
    page = Page(server)
    await page.say(script(calls(call("hold", "h", gate="g")), {"text": "bye"})).open()
    await gates["g"].reached.wait()
    server.running.supervisor._background[1].cancel()  # nobody else takes it over
    await server.crash()
    server.logs.clear()
    return page


@pytest.mark.parametrize("failure", [*NOTHING_STORED, Failure.PERMANENT])
async def test_a_failed_reconcile_is_500_and_logged_as_one(faulty: Server, failure: Failure):
    page = await lapsed(faulty)
    with failing({2: failure}):
        reply = await page.post()
    assert refusal(reply) == (500, "framework_internal_error", None), "never 503"
    assert [(line["event"], line["level"]) for line in faulty.logs.failures] == [(RECONCILE_LINE, "error")]
    assert faulty.logs.failures[0]["causes"]
    gates["g"].open()
    page.messages = page.messages[:1]
    reply = await page.post()
    assert reply.status == 200
    assert page.part("h")["errorText"].startswith("Interrupted"), "a started tool is not run again"
    assert page.text == "bye"


async def test_a_stop_whose_reply_is_lost_may_be_sent_again(faulty: Server):
    page = Page(faulty)
    await page.play(calls(call("get_location", "loc")))
    with failing({1: Failure.REPLY_LOST}):
        reply = await page.take(await faulty.ask("POST", "/chat/chat/stop"))
    assert reply.status == 503
    assert await faulty.stop("chat") == {"status": "idle"}
    assert (await faulty.snapshot("chat"))["run"]["status"] == "stopped"
