"""``POST /chat/{id}/answers``: answers from an approver or a webhook; the server itself goes on."""

from typing import Any

import pytest

from tests.inprocess.agents import gates
from tests.inprocess.chat import Page, call, calls, is_harmless, mail, refusal
from tests.inprocess.server import Server


async def waiting(server: Server) -> Page:
    page = Page(server)
    await page.play(calls(call("get_location", "loc"), mail("m")), {"text": "bye"})
    return page


def approval(page: Page, approved: Any = True) -> dict[str, Any]:
    return {"toolCallId": "m", "approvalId": page.part("m")["approval"]["id"], "approved": approved}


async def test_an_unknown_session_is_404(server: Server):
    reply = await Page(server).take(await server.answers("nobody", {"toolCallId": "loc", "output": 1}))
    assert refusal(reply) == (404, "state_session_not_found", None)


async def test_outcomes_are_named_and_the_last_one_lets_the_server_go_on(server: Server):
    page = await waiting(server)
    first = await (await server.answers("chat", {"toolCallId": "loc", "output": 1})).json()
    waits = {"toolCallId": "loc", "outcome": "stored", "continuation": "awaiting_batch"}
    assert first == {"outcomes": [waits]}
    second = await (await server.answers("chat", approval(page), {"toolCallId": "loc", "output": 2})).json()
    assert [(o["toolCallId"], o["outcome"]) for o in second["outcomes"]] == [
        ("m", "stored"),
        ("loc", "already_completed"),
    ]
    assert second["outcomes"][0]["continuation"] == "caller_resumes"
    assert (await server.quiet("chat"))["run"]["status"] == "completed"
    await page.reload()
    assert page.text == "bye"
    assert page.part("loc")["output"] == 1, "the first answer stays"
    assert len(server.sent_mail()) == 1


async def test_rejections_are_outcomes_when_something_was_accepted(server: Server):
    await waiting(server)
    ghost = {"toolCallId": "ghost", "output": 1}
    reply = await (await server.answers("chat", {"toolCallId": "loc", "output": 1}, ghost)).json()
    assert [o["outcome"] for o in reply["outcomes"]] == ["stored", "unknown_tool_call"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"toolCallId": "ghost", "output": 1}, (409, "state_not_resumable", "unknown_tool_call")),
        ({"toolCallId": "m", "approvalId": "x", "approved": True}, (400, "validation_error", None)),
        ({"toolCallId": "m", "output": 1}, (400, "validation_error", None)),
        ({"toolCallId": "loc", "errorText": 1}, (400, "validation_error", None)),
        ({"toolCallId": "loc"}, (400, "validation_error", None)),
        ({"output": 1}, (400, "validation_error", None)),
        ("loc", (400, "validation_error", None)),
    ],
)
async def test_refusals_are_those_of_the_chat(server: Server, answer: Any, expected: tuple[Any, ...]):
    await waiting(server)
    assert refusal(await Page(server).take(await server.answers("chat", answer))) == expected
    assert (await server.snapshot("chat"))["status"] == "suspended"


async def test_a_misdirected_approval_beside_a_stored_answer_is_answer_not_stored(server: Server):
    await waiting(server)
    bad = {"toolCallId": "m", "approvalId": "x", "approved": True}
    reply = await Page(server).take(await server.answers("chat", {"toolCallId": "loc", "output": 1}, bad))
    assert refusal(reply) == (409, "state_not_resumable", "answer_not_stored")
    assert reply.error["toolCallIds"] == ["m"]


async def test_another_tab_sees_the_continuation_on_a_reload(server: Server):
    page = Page(server)
    await page.play(calls(call("guarded_hold", "m", gate="g")), {"text": "bye"})
    other = page.copy()
    await server.answers("chat", approval(page))
    await gates["g"].reached.wait()
    stream = await server.resume("chat")
    gates["g"].open()
    fresh = Page(server, messages=[other.messages[0]])
    await fresh.take(stream)
    assert fresh.text == "bye"
    await other.reload()
    assert other.messages == (await server.snapshot("chat"))["messages"]


async def test_a_reason_reaches_the_message_and_the_model(server: Server):
    page = Page(server)
    await page.play(calls(mail("m")), message_id="u")
    await server.answers("chat", {**approval(page, False), "reason": "not today"})
    await server.quiet("chat")
    await page.reload()
    assert page.part("m")["approval"] == {
        "id": page.part("m")["approval"]["id"],
        "approved": False,
        "reason": "not today",
    }
    assert '"outcome":"denied","value":"not today"' in page.text


async def test_this_tab_s_same_answer_is_then_a_harmless_step(server: Server):
    page = Page(server)
    await page.play(calls(call("get_location", "loc")), {"text": "bye"})
    await server.answers("chat", {"toolCallId": "loc", "output": 1})
    await server.quiet("chat")
    reply = await page.output("loc", 1).post()
    assert is_harmless(reply)
