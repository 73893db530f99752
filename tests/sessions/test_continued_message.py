"""Which message is continued: the one that ``messageId`` names when it is an assistant's, else the trailing one."""

import json
from typing import Any

import pytest

from tests.inprocess.chat import Page, call, calls, continues, is_harmless, mail, script
from tests.inprocess.server import Server


async def waiting(server: Server) -> Page:
    page = Page(server)
    await page.play({"text": "an earlier turn"}, message_id="u1")
    await page.play(calls(call("get_location", "loc"), mail("m")), {"text": "bye"}, message_id="u2")
    return page


async def test_the_answers_of_the_named_and_of_the_trailing_message_are_taken(server: Server):
    page = await waiting(server)
    named = page.copy().output("loc", 1).last
    trailing = json.loads(json.dumps(page.decide("m", True).last)) | {"id": "a-copy"}
    reply = await page.post(messages=[*page.messages[:-1], named, trailing], messageId=named["id"])
    assert continues(reply, named["id"])
    assert len(server.sent_mail()) == 1


async def test_an_answer_in_a_message_that_is_not_the_run_s_is_stored_and_answered_with_a_step(
    server: Server,
):
    page = await waiting(server)
    page.output("loc", 1).decide("m", True).last["id"] = "made-by-the-client"
    reply = await page.post()
    assert is_harmless(reply)
    assert reply.frames[0]["messageId"] == "made-by-the-client", "the id as it was posted"
    assert (await server.quiet("chat"))["run"]["status"] == "completed"
    assert len(server.sent_mail()) == 1


async def test_without_an_answer_the_step_names_the_trailing_message(server: Server):
    page = await waiting(server)
    reply = await page.copy().post()
    assert is_harmless(reply)
    assert reply.frames[0]["messageId"] == page.last["id"]


@pytest.mark.parametrize("message_id", ["u2", "nobody", None])
async def test_a_message_id_that_names_no_assistant_message_changes_nothing(server: Server, message_id: Any):
    page = await waiting(server)
    reply = await page.output("loc", 1).decide("m", True).post(messageId=message_id)
    assert continues(reply, page.last["id"])


async def test_an_answer_in_an_older_message_that_nobody_names_is_not_taken(server: Server):
    page = await waiting(server)
    page.output("loc", 1).decide("m", True)
    page.messages.append({"id": "x", "role": "assistant", "parts": [{"type": "text", "text": "later"}]})
    assert is_harmless(await page.post())
    assert {p["toolCallId"] for p in (await server.snapshot("chat"))["pending"]} == {"loc", "m"}


async def test_two_answers_for_one_call_the_first_counts(server: Server):
    page = Page(server)
    await page.play(calls(call("get_location", "loc")), {"text": "bye"})
    first = page.output("loc", "first").part("loc")
    page.last["parts"].append({**first, "output": "second"})
    await page.post()
    await page.reload()
    assert page.part("loc")["output"] == "first"


async def test_answers_of_calls_that_the_server_ran_are_history(server: Server):
    page = Page(server)
    await page.play(calls(call("get_weather", "w", city="Oslo")), {"text": "bye"})
    page.part("w").pop("providerExecuted")
    reply = await page.post()
    assert is_harmless(reply), "nothing in it is an answer"


async def test_the_answer_of_a_whole_message_counts_and_not_only_of_its_last_step(server: Server):
    page = await waiting(server)
    await page.output("loc", 1).post()
    assert page.last["parts"][-1] == {"type": "step-start"}, "the harmless step is on the client"
    assert continues(await page.decide("m", True).post(), page.last["id"])


async def test_a_user_message_of_any_length_of_script_is_its_own_turn(server: Server):
    page = Page(server)
    await page.send(script({"text": "x" * 10_000, "chunks": 100}))
    assert len(page.text) == 10_000
