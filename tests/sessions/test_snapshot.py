"""What a reload shows, and the mark that closes the gap between the snapshot and the resumed stream."""

from typing import Any

import pytest

from tests.inprocess.agents import gates
from tests.inprocess.chat import Page, call, calls, mail, refusal, script
from tests.inprocess.server import Server


async def running(server: Server, *before: dict[str, Any]) -> Page:
    page = Page(server)
    await page.play({"text": "an earlier turn"}, message_id="u1")
    await page.say(script(*before, calls(call("hold", "h", gate="g")), {"text": "bye"}), "u2").open()
    await gates["g"].reached.wait()
    return page


async def mark(server: Server) -> object:
    (row,) = await server.sql("select cut_run from session")
    return row["cut_run"]


async def test_while_a_run_is_running_it_ends_at_the_user_message(server: Server):
    await running(server, {"text": "said", "calls": [call("fail", "f", kind="public")]})
    snapshot = await server.snapshot("chat")
    assert (snapshot["live"], snapshot["status"]) == (True, "running")
    assert [m["role"] for m in snapshot["messages"]] == ["user", "assistant", "user"]
    assert snapshot["messages"][-1]["id"] == "u2"


async def test_the_part_that_earlier_requests_made_is_left_out_too(server: Server):
    page = Page(server)
    reply = await page.say(
        script(calls(call("get_location", "loc")), calls(call("hold", "h", gate="g")))
    ).open()
    await page.take(reply)
    await page.output("loc", 1).open()
    await gates["g"].reached.wait()
    snapshot = await server.snapshot("chat")
    assert [m["role"] for m in snapshot["messages"]] == ["user"]
    fresh = Page(server, messages=snapshot["messages"])
    resumed = await server.resume("chat")
    gates["g"].open()
    await fresh.take(resumed)
    assert fresh.part("loc")["output"] == 1, "the resumed stream replays the whole message"
    assert fresh.part("h")["output"] == "held at g"


async def test_when_nothing_runs_it_holds_everything_and_equals_what_was_live(server: Server):
    page = Page(server)
    await page.play(
        {
            "reasoning": "hm",
            "text": "said",
            "calls": [call("fail", "f", kind="public"), call("nothing", "n")],
        },
        calls(call("get_location", "loc"), mail("yes"), mail("no")),
        {"text": "bye"},
    )
    await page.output("loc", {"x": 1}).decide("yes", True).decide("no", False, "why").post()
    snapshot = await server.snapshot("chat")
    assert (snapshot["live"], snapshot["status"], snapshot["pending"]) == (False, "idle", [])
    assert snapshot["messages"] == page.messages
    assert page.part("n")["output"] is None


async def test_a_suspended_run_shows_its_pending_calls_and_how_to_answer_them(server: Server):
    page = Page(server)
    await page.play(calls(call("get_location", "loc"), mail("m")))
    snapshot = await server.snapshot("chat")
    assert (snapshot["status"], snapshot["live"]) == ("suspended", False)
    assert snapshot["messages"] == page.messages
    assert {p["toolCallId"]: (p["kind"], p["toolName"], p["input"]) for p in snapshot["pending"]} == {
        "loc": ("client", "get_location", {}),
        "m": ("approval", "send_email", {"to": "ada@example.com", "subject": "s", "body": "b"}),
    }
    assert snapshot["pending"][1]["approvalId"] == page.part("m")["approval"]["id"]


async def test_an_approval_part_has_no_provider_executed_until_it_is_settled(server: Server):
    page = Page(server)
    await page.play(calls(call("get_location", "loc"), mail("m")), {"text": "bye"})
    await page.reload()
    assert "providerExecuted" not in page.part("m")
    await page.copy().decide("m", True).post()
    await page.reload()
    assert page.part("m")["state"] == "approval-responded"
    assert page.part("m")["approval"]["approved"] is True
    assert "providerExecuted" not in page.part("m")
    await page.output("loc", 1).post()
    await page.reload()
    assert (page.part("m")["state"], page.part("m")["providerExecuted"]) == ("output-available", True)
    assert page.part("m")["approval"]["approved"] is True


async def test_an_answer_stored_elsewhere_shows_before_its_drain(server: Server):
    page = Page(server)
    await page.play(
        calls(call("get_location", "loc"), call("pick_option", "p", question="q", options=["a"]), mail("m"))
    )
    await server.answers(
        "chat", {"toolCallId": "loc", "output": {"x": 1}}, {"toolCallId": "p", "errorText": "no"}
    )
    await page.reload()
    assert page.part("loc")["output"] == {"x": 1}
    assert (page.part("p")["state"], page.part("p")["errorText"]) == ("output-error", "no")
    assert page.part("m")["state"] == "approval-requested"


async def test_the_step_of_a_harmless_answer_is_not_stored(server: Server):
    page = Page(server)
    await page.play(calls(call("get_location", "loc"), mail("m")))
    await page.output("loc", 1).post()
    assert page.last["parts"][-1] == {"type": "step-start"}
    stored = (await server.snapshot("chat"))["messages"][-1]["parts"]
    assert [part["type"] for part in stored] == ["step-start", "tool-get_location", "tool-send_email"]


async def test_it_pages_older_messages(server: Server):
    page = Page(server)
    for number in range(3):
        await page.play({"text": f"t{number}"}, message_id=f"u{number}")
    newest = await server.snapshot("chat", "?limit=2")
    assert newest["messages"] == page.messages[-2:]
    older = await server.snapshot("chat", f"?limit=2&before={newest['messages'][0]['id']}")
    assert older["messages"] == page.messages[2:4]
    reply = await page.take(await server.ask("GET", "/chat/chat?before=nothing"))
    assert refusal(reply) == (400, "validation_error", None)


async def test_an_unknown_chat_is_404_and_its_stream_204(server: Server):
    assert (await server.ask("GET", "/chat/nobody")).status == 404
    assert (await server.resume("nobody")).status == 204


# --- the mark --------------------------------------------------------------------------------------------


async def test_with_nothing_running_and_no_mark_a_resume_is_204(server: Server):
    await Page(server).play({"text": "hi"})
    assert (await server.resume("chat")).status == 204


async def test_a_snapshot_that_left_the_live_message_out_lets_a_late_resume_replay_it(server: Server):
    await running(server)
    snapshot = await server.snapshot("chat")
    gates["g"].open()
    while await server.sql("select 1 from run where state = 'running'"):
        stream = await server.resume("chat")
        await stream.rest()
    fresh = Page(server, messages=snapshot["messages"])
    await fresh.take(await server.resume("chat"))
    assert fresh.text == "bye"
    again = Page(server, messages=snapshot["messages"][:3])
    await again.take(await server.resume("chat"))
    assert again.messages[-1] == fresh.messages[-1], "a GET of the stream never clears the mark"
    await server.snapshot("chat")
    assert (await server.resume("chat")).status == 204, "a whole snapshot does"


async def test_a_reader_that_left_before_the_end_leaves_a_mark(server: Server):
    page = Page(server)
    stream = await page.say(script({"text": "half [at g]"}), "u").open()
    await stream.until("text-delta")
    assert await mark(server) is None
    await stream.exchange.leave()
    assert await mark(server) is not None
    gates["g"].open()
    fresh = Page(server, messages=page.messages[:1])
    await fresh.take(await server.resume("chat"))
    assert fresh.text == "half [at g]", "a closed socket never stops a run"


async def test_a_reader_that_read_to_the_end_leaves_none(server: Server):
    await Page(server).play({"text": "hi"})
    assert await mark(server) is None


async def test_a_takeover_sets_it_and_a_newer_run_clears_it(server: Server):
    page = await running(server)
    await server.crash()
    await server.quiet("chat")
    await server.sql("update session set cut_run = null")
    await page.reload()
    server.running.supervisor._background[1].cancel()
    stream = await page.say(script({"text": "half [at here]"}), "u3").open()
    await gates["here"].reached.wait()
    await server.crash()
    assert await mark(server) is None
    gates["here"].open()
    await page.open()
    assert await mark(server) is not None
    await server.quiet("chat")
    await page.send(script({"text": "next"}), "u4")
    assert await mark(server) is None
    await stream.exchange.leave()


async def test_the_chats_of_an_owner_are_paged_newest_first(server: Server):
    for number in range(5):
        await Page(server, f"c{number}").play({"text": "x"})
    first = await (await server.ask("GET", "/chats?limit=3")).json()
    second = await (await server.ask("GET", f"/chats?limit=3&cursor={first['nextCursor']}")).json()
    assert [c["id"] for c in first["chats"] + second["chats"]] == ["c4", "c3", "c2", "c1", "c0"]
    assert "nextCursor" not in second


@pytest.mark.parametrize("error", ["unavailable", "no_finish", "drop"])
async def test_a_failed_run_shows_the_same_live_reloaded_and_retried(server: Server, error: str):
    page = Page(server)
    reply = await page.play({"text": "half", "error": error}, message_id="u")
    assert reply.types[-1] == "error"
    live = page.messages
    snapshot = await server.snapshot("chat")
    assert snapshot["messages"] == live
    assert snapshot["run"]["status"] == "failed"
    retried = Page(server, messages=live[:1])
    again = await retried.post()
    assert again.frames[-1] == reply.frames[-1], "the error as it was shown"
    assert retried.messages == live
