"""A turn on a real model's adapter, end to end: a loopback provider that speaks the chat completions stream, well and badly."""

import json
from collections.abc import AsyncIterator

import pytest
from pydantic_ai import Agent as LibraryAgent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider

from app.agent.context import RequestContext
from app.agent.model import ModelRequest
from app.agent.own import Own
from app.agent.pydantic_ai_agent import served
from app.agent.pydantic_ai_trace import traced
from app.domain.history import user_entry
from app.tracing import incoming
from tests.fakes import openai_server as fake
from tests.fakes.openai_server import OpenAIServer, openai_server
from tests.inprocess.chat import Page
from tests.inprocess.fixtures import fresh_agents, logs
from tests.inprocess.server import Logs, Server, serving

__all__ = ["fresh_agents", "logs"]
pytestmark = pytest.mark.anyio


@pytest.fixture
async def provider() -> AsyncIterator[OpenAIServer]:
    async with openai_server() as running:
        yield running


@pytest.fixture
async def server(database_url, tmp_path, logs, provider, monkeypatch) -> AsyncIterator[Server]:
    monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-of-the-server")
    chosen = {"agents": None, "scripted": False, "model": "openai-chat:some-model"}
    async with serving(database_url, tmp_path, logs, **chosen) as running:
        yield running


async def test_tool_calls_split_over_chunks_run_and_their_results_go_back(server, provider):
    provider.replies += [
        fake.stream(
            fake.text("Let me look."),
            fake.call_start(0, "call_a", "get_weather", '{"ci'),
            fake.call_more(0, 'ty":"Lis'),
            fake.call_more(0, 'bon"}'),
            fake.delta("tool_calls"),
            fake.usage(20, 8),
        ),
        fake.answer("Mild."),
    ]
    page = Page(server)
    reply = await page.send("The weather in Lisbon?")
    assert reply.status == 200
    assert page.part("call_a")["input"] == {"city": "Lisbon"}
    assert page.part("call_a")["state"] == "output-available"
    assert page.text == "Let me look.Mild."
    answered = provider.sent[-1]
    assert (answered["role"], answered["tool_call_id"]) == ("tool", "call_a")
    snapshot = await server.snapshot("chat")
    assert snapshot["messages"][1]["parts"] == page.last["parts"]
    assert snapshot["run"]["usage"]["inputTokens"] == 23


@pytest.mark.parametrize(
    ("replies", "code"),
    [
        ([fake.refuse(401, "invalid_api_key")], "provider_auth"),
        ([fake.refuse(403, "forbidden")], "provider_auth"),
        ([fake.refuse(429, "rate_limit_exceeded", retry_after="0")] * 3, "provider_rate_limited"),
        ([fake.refuse(429, "rate_limit_exceeded", retry_after="600")], "provider_rate_limited"),
        ([fake.refuse(500, "server_error", retry_after="0")] * 3, "provider_unavailable"),
        ([fake.refuse(400, "context_length_exceeded")], "provider_context_too_long"),
        ([fake.stream(fake.text("a"), fake.error_chunk())], "provider_unavailable"),
        ([fake.drop(fake.text("a"))], "provider_unavailable"),
        ([fake.stream(fake.text("a"))], "provider_bad_response"),
        ([fake.stream(fake.text("a"), fake.delta("content_filter"))], "provider_content_filtered"),
    ],
    ids=[
        "a wrong key",
        "a key without rights",
        "rate limited three times",
        "rate limited for long",
        "down three times",
        "too long a context",
        "an error inside the stream",
        "a dropped socket",
        "no finish reason",
        "filtered",
    ],
)
async def test_a_provider_failure_has_its_code_and_none_of_its_text(
    server, provider, logs: Logs, replies, code
):
    provider.replies += replies
    page = Page(server)
    reply = await page.send("hello")
    assert reply.status == 200
    assert reply.types[-1] == "error"
    shown = json.loads(reply.frames[-1]["errorText"])
    assert shown["code"] == code
    assert set(shown) == {"error", "code"}
    assert not provider.replies, "every prepared reply was asked for"
    snapshot = await server.snapshot("chat")
    assert (snapshot["run"]["status"], snapshot["live"]) == ("failed", False)
    told = json.dumps([reply.frames, snapshot, logs.lines])
    assert fake.SECRET not in told.replace("sk-***", "")
    assert logs.of("run.failed", code=code)


async def test_a_transient_failure_before_the_first_word_is_not_seen(server, provider):
    provider.replies += [fake.refuse(503, "overloaded", retry_after="0"), fake.answer("Here.")]
    page = Page(server)
    await page.send("hello")
    assert page.text == "Here."


TRACE = "0af7651916cd43dd8448eb211c80319c"


async def test_the_callers_trace_goes_on_at_the_provider_and_its_baggage_does_not(server, provider):
    provider.replies += [fake.answer("Here."), fake.answer("Again.")]
    server.headers = {
        "traceparent": f"00-{TRACE}-b7ad6b7169203331-01",
        "tracestate": "vendor=7",
        "baggage": "secret=1",
    }
    await Page(server, "traced").send("hello")
    server.headers = {}
    await Page(server, "plain").send("hello")
    traced, plain = provider.headers
    assert traced["traceparent"].split("-")[1] == TRACE
    assert traced["tracestate"] == "vendor=7"
    assert not {"traceparent", "tracestate", "baggage"} & set(plain)
    assert "baggage" not in traced


async def test_a_plain_agents_own_headers_stay_beside_the_trace(provider):
    mine = {"x-mine": "1"}
    agent = LibraryAgent(
        OpenAIChatModel("m", provider=OpenAIProvider(base_url=provider.url, api_key="k")),
        model_settings={"extra_headers": mine, "temperature": 0.5},
    )
    model = served(Own(agent), "own", None)
    provider.replies += [fake.answer("Here."), fake.answer("Again.")]
    request = ModelRequest("", [user_entry([{"type": "text", "text": "hi"}])])
    for traceparent in (f"00-{TRACE}-b7ad6b7169203331-01", ""):
        with incoming(traceparent):
            here = await model.for_step(RequestContext("ada", "chat", "run", {}))
            async for _ in here.model.step(request):
                pass
    traced, plain = provider.headers
    assert (traced["x-mine"], plain["x-mine"]) == ("1", "1")
    assert traced["traceparent"].split("-")[1] == TRACE
    assert "traceparent" not in plain
    assert provider.requests[0]["temperature"] == 0.5


async def test_a_model_that_takes_no_headers_is_sent_none():
    class Bare(TestModel):
        unsupported_settings = frozenset({"extra_headers"})

    with incoming(f"00-{TRACE}-b7ad6b7169203331-01"):
        assert traced({"temperature": 0}, Bare()) == {"temperature": 0}
        assert set(traced({}, TestModel())["extra_headers"]) == {"traceparent"}
    assert traced({"temperature": 0}, TestModel()) == {"temperature": 0}
