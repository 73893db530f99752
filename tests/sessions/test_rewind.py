"""Edit and regenerate: what came after the message is cut, out of every view and out of the model's."""

import json

import pytest

from tests.inprocess.agents import asked
from tests.inprocess.chat import Page, call, calls, mail, refusal, script
from tests.inprocess.server import Server


async def two_turns(server: Server) -> Page:
    page = Page(server)
    await page.play({"text": "one"}, message_id="u1")
    await page.play(calls(mail("m")), {"text": "two"}, message_id="u2")
    return page


async def regenerate(page: Page, message_id: str) -> None:
    upto = next(i for i, m in enumerate(page.messages) if m["id"] == message_id)
    page.messages = page.messages[: upto + 1]
    await page.post(trigger="regenerate-message")


async def edit(page: Page, message_id: str, text: str) -> None:
    upto = next(i for i, m in enumerate(page.messages) if m["id"] == message_id)
    page.messages = page.messages[:upto]
    await page.send(text, message_id, messageId=message_id)


async def test_regenerate_answers_again_and_the_old_answer_is_in_no_model_input(server: Server):
    page = Page(server)
    await page.play({"text": "the old answer"}, message_id="u1")
    await regenerate(page, "u1")
    assert "the old answer" not in json.dumps([e for e in asked[-1].history if e["role"] == "assistant"])
    snapshot = await server.snapshot("chat")
    assert [m["role"] for m in snapshot["messages"]] == ["user", "assistant"]
    assert snapshot["messages"] == page.messages


async def test_an_edit_replaces_the_message_and_cuts_what_followed(server: Server):
    page = await two_turns(server)
    await edit(page, "u1", script({"text": "edited"}))
    snapshot = await server.snapshot("chat")
    assert snapshot["messages"] == page.messages
    assert [m["id"] for m in snapshot["messages"] if m["role"] == "user"] == ["u1"]
    assert snapshot["status"] == "idle"
    users = [e for e in asked[-1].history if e["role"] == "user"]
    assert len(users) == 1, "the second turn is gone from the model's view"


@pytest.mark.parametrize("how", ["edit", "regenerate"])
async def test_a_late_answer_of_a_cut_message_is_stale_run(server: Server, how: str):
    page = await two_turns(server)
    late = page.copy().decide("m", True)
    if how == "edit":
        await edit(page, "u1", script({"text": "edited"}))
    else:
        await regenerate(page, "u2")
    assert refusal(await late.post()) == (409, "state_not_resumable", "stale_run")
    assert not server.sent_mail()


async def test_a_cut_message_s_id_is_free_again(server: Server):
    page = await two_turns(server)
    await edit(page, "u1", script({"text": "edited"}))
    reply = await page.send(script({"text": "two again"}), "u2")
    assert reply.status == 200
    assert [m["id"] for m in (await server.snapshot("chat"))["messages"] if m["role"] == "user"] == [
        "u1",
        "u2",
    ]


async def test_a_message_id_alone_is_no_edit(server: Server):
    page = await two_turns(server)
    page.messages = page.messages[:1]
    runs = len(await server.sql("select 1 from run"))
    await page.post(messageId="u1")
    assert page.text == "one", "the stored answer, replayed"
    assert len(await server.sql("select 1 from run")) == runs


async def test_an_edit_of_an_unknown_message_is_a_new_message(server: Server):
    page = await two_turns(server)
    reply = await page.send(script({"text": "three"}), "u3", messageId="u3")
    assert reply.status == 200
    assert len((await server.snapshot("chat"))["messages"]) == 6


async def test_regenerate_without_a_known_message_begins_a_turn(server: Server):
    page = Page(server)
    reply = await page.send(script({"text": "one"}), "u1", trigger="regenerate-message")
    assert reply.status == 200
    assert page.text == "one"


async def test_regenerate_closes_the_waiting_run_and_asks_again(server: Server):
    page = Page(server)
    await page.play(calls(call("get_location", "loc")), {"text": "bye"}, message_id="u1")
    await regenerate(page, "u1")
    snapshot = await server.snapshot("chat")
    assert [p["toolCallId"] for p in snapshot["pending"]] == ["loc_2"], (
        "an id the session has seen is not used again"
    )
    await page.output("loc_2", 1).post()
    assert page.text == "bye"
