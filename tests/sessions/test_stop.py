"""A stop: who settles the run, what becomes of its calls and its text, and what an answer is told afterwards."""

import pytest

from app.domain.call_state import CLOSED, CloseCode
from tests.inprocess.agents import asked, gates, told
from tests.inprocess.chat import Page, call, calls, mail, refusal, script
from tests.inprocess.server import Server

STOPPED_TEXT = CLOSED[CloseCode.RUN_STOPPED][1]
STOPPED = (409, "state_not_resumable", "run_stopped")


async def run_id(server: Server) -> str:
    return (await server.snapshot("chat"))["run"]["id"]


async def waiting(server: Server) -> Page:
    page = Page(server)
    await page.play(calls(call("get_location", "loc"), mail("m")), {"text": "bye"})
    return page


async def test_a_suspended_run_is_settled_by_the_stop_itself(server: Server):
    page = await waiting(server)
    stopped = await server.stop("chat")
    assert stopped == {"runId": await run_id(server), "status": "stopped"}
    snapshot = await page.reload()
    assert snapshot["status"] == "idle"
    assert snapshot["pending"] == []
    for call_id in ("loc", "m"):
        part = page.part(call_id)
        assert (part["state"], part["errorText"], part["providerExecuted"]) == (
            "output-error",
            STOPPED_TEXT,
            True,
        )
        assert "approval" not in part, "with one it fails a client's validation"


async def test_an_answer_after_the_stop_is_run_stopped_and_runs_no_tool(server: Server):
    page = await waiting(server)
    late = page.copy().output("loc", 1).decide("m", True)
    await server.stop("chat")
    assert refusal(await late.post()) == STOPPED
    assert not server.sent_mail()


async def test_an_answer_given_before_the_stop_keeps_its_value_in_the_message(server: Server):
    page = await waiting(server)
    await page.copy().output("loc", {"x": 1}).post()
    await server.stop("chat")
    await page.reload()
    assert page.part("loc")["output"] == {"x": 1}
    assert page.part("m")["errorText"] == STOPPED_TEXT


async def test_a_running_run_keeps_the_text_so_far_and_its_stream_ends_in_abort(server: Server):
    page = Page(server)
    reply = await page.say(script({"text": "half [at here]"})).open()
    await gates["here"].reached.wait()
    assert (await server.stop("chat"))["status"] == "stopped"
    await page.take(reply)
    assert reply.types[-2:] == ["finish-step", "abort"]
    assert reply.done, "[DONE] ends a stopped stream too"
    assert page.text == "half [at here]"
    live = page.messages
    await page.reload()
    assert page.messages == live


async def test_a_tool_that_runs_is_cancelled_and_told_as_an_error(server: Server):
    page = Page(server)
    reply = await page.say(script(calls(call("hold", "h", gate="g")), {"text": "never"})).open()
    await gates["g"].reached.wait()
    assert (await server.stop("chat"))["status"] == "stopped"
    await page.take(reply)
    assert page.part("h")["state"] == "output-error"
    assert page.part("h")["providerExecuted"] is True
    live = page.messages
    await page.reload()
    assert page.messages == live
    assert len(asked) == 1, "the model is not asked again"


async def test_an_approved_tool_that_runs_is_cancelled_and_its_part_has_no_approval(server: Server):
    page = Page(server)
    await page.play(calls(call("guarded_hold", "h", gate="g")), {"text": "never"})
    reply = await page.decide("h", True).open()
    await gates["g"].reached.wait()
    await server.stop("chat")
    await page.take(reply)
    await page.reload()
    assert page.part("h")["state"] == "output-error"
    assert "approval" not in page.part("h")
    assert len(server.sent_mail()) == 1


async def test_a_stop_with_no_live_run_answers_idle_and_has_no_later_effect(server: Server):
    page = Page(server)
    await page.play({"text": "over"})
    assert await server.stop("chat") == {"status": "idle"}
    await page.play({"text": "again"})
    assert page.text == "again"


async def test_a_late_click_cannot_stop_the_next_run(server: Server):
    page = Page(server)
    await page.play({"text": "over"})
    first = await run_id(server)
    await page.play(calls(call("get_location", "loc")))
    assert await server.stop("chat", first) == {"status": "suspended"}
    assert (await server.snapshot("chat"))["status"] == "suspended"
    assert (await server.stop("chat", await run_id(server)))["status"] == "stopped"


async def test_a_stop_of_an_unknown_chat_is_404(server: Server):
    reply = await Page(server).take(await server.ask("POST", "/chat/nobody/stop"))
    assert refusal(reply) == (404, "state_session_not_found", None)


async def test_a_second_stop_says_the_same(server: Server):
    await waiting(server)
    await server.stop("chat")
    assert await server.stop("chat") == {"status": "idle"}


async def test_a_message_right_after_the_stop_was_answered_is_not_refused(server: Server):
    page = Page(server)
    await page.say(script(calls(call("hold", "h", gate="g")))).open()
    await gates["g"].reached.wait()
    await server.stop("chat")
    reply = await page.send(script({"text": "next"}), "next")
    assert reply.status == 200
    assert page.text == "next"


async def test_the_model_of_the_next_turn_is_told_that_it_was_stopped(server: Server):
    page = await waiting(server)
    await server.stop("chat")
    await page.send(script({"text": "next"}), "next")
    assert told() == [("loc", "stopped"), ("m", "stopped")]


async def test_a_run_that_nobody_holds_is_settled_by_the_stop(server: Server):
    page = Page(server)
    await page.say(script(calls(call("hold", "h", gate="g")))).open()
    await gates["g"].reached.wait()
    server.running.supervisor._background[1].cancel()
    await server.crash()
    assert (await server.stop("chat"))["status"] == "stopped"
    await page.reload()
    assert page.part("h")["state"] == "output-error"


@pytest.mark.parametrize("body", ['{"runId": 1}', '{"runId": "run"}', "[]", "{"])
async def test_a_run_id_that_is_none_is_refused(server: Server, body: str):
    reply = await server.ask("POST", "/chat/chat/stop", raw=body.encode())
    assert refusal(await Page(server).take(reply)) == (400, "validation_error", None)
