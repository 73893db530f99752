"""Turns on the Responses API, end to end: a loopback provider judges every request by the rules of the real one.

It refuses a thought without the item that followed it, a call without its output, an item that was changed. So each test drives a
turn some way to its end, and then the next turn, whose request has to be taken.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from tests.fakes import openai_server, responses_server
from tests.fakes.responses_server import (
    Pause,
    ResponsesServer,
    call,
    error_event,
    failed,
    incomplete,
    lost,
    reasoning,
    refusal,
    text,
    turn,
)
from tests.inprocess.chat import Page
from tests.inprocess.fixtures import fresh_agents, logs
from tests.inprocess.server import Logs, Server, serving

__all__ = ["fresh_agents", "logs"]
pytestmark = pytest.mark.anyio

Start = Callable[[], AbstractAsyncContextManager[Server]]


@pytest.fixture
async def provider() -> AsyncIterator[ResponsesServer]:
    async with responses_server.responses_server() as running:
        yield running
        assert running.faults == []
        assert not running.replies, "every prepared reply was asked for"


@pytest.fixture
def start(database_url, tmp_path, logs, provider, monkeypatch) -> Start:
    monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-of-the-server")
    return lambda: serving(database_url, tmp_path, logs, agents=None, scripted=False, model="openai:gpt-5")


@pytest.fixture
async def server(start) -> AsyncIterator[Server]:
    async with start() as running:
        yield running


def kinds(provider: ResponsesServer) -> list[str]:
    """The newest request: what a user said, what the model did, what came of it."""
    return [str(item.get("type") or item["role"]) for item in provider.sent]


async def and_then(page: Page, provider: ResponsesServer) -> None:
    """The next turn, whose request holds everything before it."""
    provider.replies.append(turn(text("And so on.")))
    reply = await page.send("And then?")
    assert (reply.status, page.text) == (200, "And so on."), page.messages
    snapshot = await page.server.snapshot(page.chat_id)
    assert snapshot["messages"] == [{**m, "parts": m["parts"]} for m in page.messages]


async def test_a_thought_goes_back_sealed_before_its_own_item(server, provider):
    provider.replies += [
        turn(
            reasoning("I should", "look"),
            call("call_a", "get_weather", city="Oslo"),
            call("call_b", "get_weather", city="Rome"),
        ),
        turn(reasoning(), text("Mild.")),
    ]
    page = Page(server)
    await page.send("The weather?")
    assert page.text == "Mild."
    assert [p["text"] for p in page.last["parts"] if p["type"] == "reasoning"] == ["I should", "look"]
    assert page.part("call_a")["state"] == "output-available"
    await and_then(page, provider)
    assert kinds(provider) == [
        "user",
        *("reasoning", "function_call", "function_call", "function_call_output", "function_call_output"),
        *("reasoning", "message", "user"),
    ]
    thought = provider.sent[1]
    assert [part["text"] for part in thought["summary"]] == ["I should", "look"]
    assert thought["encrypted_content"].startswith("SEALED-rs_")
    assert provider.requests[0]["include"] == ["reasoning.encrypted_content"]


async def test_a_client_tool_and_an_approval_of_one_response(server, provider):
    provider.replies += [
        turn(
            reasoning("both"),
            call("call_a", "get_location"),
            call("call_b", "send_email", to="ada@example.com", subject="s", body="b"),
        ),
        turn(reasoning("good"), text("Sent from Oslo.")),
    ]
    page = Page(server)
    await page.send("Mail where I am")
    page.output("call_a", {"city": "Oslo"}).decide("call_b", True)
    await page.post()
    assert page.text == "Sent from Oslo."
    outputs = {i["call_id"]: i["output"] for i in provider.sent if i.get("type") == "function_call_output"}
    assert json.loads(outputs["call_a"]) == {"city": "Oslo"}
    assert len(server.sent_mail()) == 1
    await page.reload()
    await and_then(page, provider)


@pytest.mark.parametrize("end", ["denied", "failed", "abandoned", "stopped"])
async def test_a_call_that_came_to_nothing_pairs(server, provider, end):
    mail = {"to": "a@b.c", "subject": "s", "body": "b"}
    provider.replies.append(
        turn(reasoning("hm"), call("call_a", "send_email", **mail), call("call_b", "get_location"))
    )
    page = Page(server)
    await page.send("Mail")
    if end in ("denied", "failed"):
        provider.replies.append(turn(text("I see.")))
        page.decide("call_a", end == "failed").error("call_b", "no signal")
        await page.post()
    elif end == "stopped":
        await server.stop("chat")
    await page.reload()
    provider.replies.append(turn(text("ok")))
    await page.send("And then?")
    assert page.text == "ok"
    assert kinds(provider)[:5] == [
        "user",
        "reasoning",
        "function_call",
        "function_call",
        "function_call_output",
    ]


async def test_a_takeover_in_mid_turn_sends_what_was_committed(start, provider):
    pause = Pause()
    provider.replies += [
        turn(reasoning("look"), call("call_a", "get_weather", city="Oslo")),
        turn(reasoning("half a thought"), text("never"), pause=pause),
        turn(reasoning("again"), text("Mild.")),
    ]
    async with start() as first, start() as second:
        page = Page(first)
        reply = await page.say("The weather?").open()
        await pause.reached.wait()
        await first.crash()
        await reply.rest()
        other = Page(second, messages=page.messages)
        await other.reload()
        assert other.text == "Mild."
        await and_then(other, provider)
        assert len(provider.requests) == 4
    pause.over.set()


async def test_regenerate_cuts_thoughts_and_calls_together(server, provider):
    provider.replies += [
        turn(reasoning("look"), call("call_a", "get_weather", city="Oslo")),
        turn(reasoning("so"), text("Mild.")),
        turn(reasoning("otherwise"), call("call_a", "get_weather", city="Oslo")),
        turn(text("Warm.")),
    ]
    page = Page(server)
    await page.send("The weather?")
    page.messages.pop()
    await page.post(trigger="regenerate-message")
    assert page.text == "Warm."
    assert [i["call_id"] for i in provider.sent if "call_id" in i] == ["call_a_2", "call_a_2"]
    await and_then(page, provider)


HALVES = {
    "a thought": [reasoning("a long thought")],
    "text": [reasoning("hm"), text("a long text")],
    "a server tool's arguments": [reasoning("hm"), call("call_a", "get_weather", city="Oslo")],
    "a client tool's arguments": [text("Wait."), call("call_a", "pick_option", question="q", options=["a"])],
    "an approval's arguments": [reasoning("hm"), call("call_a", "send_email", to="a", subject="s", body="b")],
    "a sub-agent's arguments": [reasoning("hm"), call("call_a", "research", topic="tea")],
}


@pytest.mark.parametrize("cut", ["stop", "drop"])
@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES.keys())
async def test_what_is_cut_in_the_middle_is_not_answerable_and_breaks_no_turn(server, provider, half, cut):
    pause = Pause()
    provider.replies.append(turn(*half, pause=pause) if cut == "stop" else lost(*half))
    page = Page(server)
    reply = await page.say("Go").open()
    if cut == "stop":
        await pause.reached.wait()
        await server.stop("chat")
        pause.over.set()
    await page.take(reply)
    assert reply.types[-1] == ("abort" if cut == "stop" else "error")
    snapshot = await server.snapshot("chat")
    assert (snapshot["status"], snapshot["pending"]) == ("idle", [])
    parts = [p for m in snapshot["messages"] for p in m["parts"] if p["type"].startswith("tool-")]
    assert all((p["state"], p["providerExecuted"]) == ("output-error", True) for p in parts)
    await page.reload()
    await and_then(page, provider)
    assert not {"reasoning", "function_call", "function_call_output"} & set(kinds(provider))
    assert server.sent_mail() == []


@pytest.mark.parametrize(
    ("replies", "code"),
    [
        ([openai_server.refuse(401, "invalid_api_key")], "provider_auth"),
        ([openai_server.refuse(429, "rate_limit_exceeded", retry_after="0")] * 3, "provider_rate_limited"),
        ([openai_server.refuse(429, "rate_limit_exceeded", retry_after="60")], "provider_rate_limited"),
        ([openai_server.refuse(429, "insufficient_quota", retry_after="60")], "provider_rate_limited"),
        ([openai_server.refuse(500, "server_error", retry_after="0")] * 3, "provider_unavailable"),
        ([openai_server.refuse(400, "context_length_exceeded")], "provider_context_too_long"),
        ([openai_server.refuse(400, "invalid_prompt")], "provider_bad_response"),
        ([failed("server_error", text("a"))], "provider_unavailable"),
        ([failed("rate_limit_exceeded", text("a"))], "provider_rate_limited"),
        ([failed("context_length_exceeded", text("a"))], "provider_context_too_long"),
        ([error_event("server_error", text("a"))], "provider_unavailable"),
        ([incomplete("content_filter", text("a"))], "provider_content_filtered"),
        ([turn(refusal("I will not"))], "provider_content_filtered"),
        ([incomplete("max_output_tokens", call("call_a", "slow", '{"ms'))], "provider_bad_response"),
        ([incomplete("max_output_tokens", reasoning("hm"))], "provider_bad_response"),
        ([incomplete("max_output_tokens")], "provider_bad_response"),
        ([lost(text("ab"))], "provider_unavailable"),
        ([turn(text("a"), ending=None)], "provider_bad_response"),
    ],
    ids=[
        "a wrong key",
        "rate limited three times",
        "rate limited for long",
        "no quota",
        "down three times",
        "too long a context",
        "refused",
        "failed in the stream",
        "rate limited in the stream",
        "too long a context, said in the stream",
        "an error event",
        "filtered",
        "a refusal",
        "half a call at the length limit",
        "nothing but a thought at the length limit",
        "nothing at all at the length limit",
        "a dropped socket",
        "no last event",
    ],
)
async def test_a_failure_has_its_code_and_none_of_its_text(server, provider, logs: Logs, replies, code):
    provider.replies += replies
    page = Page(server)
    reply = await page.send("hello")
    assert (reply.status, reply.types[-1]) == (200, "error"), reply.types
    assert json.loads(reply.frames[-1]["errorText"])["code"] == code
    snapshot = await server.snapshot("chat")
    assert (snapshot["run"]["status"], snapshot["live"]) == ("failed", False)
    told = json.dumps([reply.frames, snapshot, logs.lines])
    assert openai_server.SECRET not in told.replace("sk-***", "")
    await page.reload()
    await and_then(page, provider)


async def test_text_at_the_length_limit_is_kept(server, provider):
    provider.replies.append(incomplete("max_output_tokens", reasoning("hm"), text("a long")))
    page = Page(server)
    await page.send("hello")
    assert page.text == "a long"
    await and_then(page, provider)
