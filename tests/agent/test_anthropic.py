"""The adapter against a provider of the other shape: every request it sends is judged by the provider's rules."""

from collections.abc import AsyncIterator

import pytest

from app.agent.model import ModelFailure, ModelRequest, ModelResponse, ReasoningDelta, TextDelta, ToolSpec
from app.agent.pydantic_ai_model import PydanticAiModel
from app.domain.history import Entry, assistant_entry, tool_entry, user_entry
from app.errors import Code
from tests.fakes import anthropic_server as fake
from tests.fakes.anthropic_server import AnthropicServer, anthropic_server, broken, ended, error, lost
from tests.fakes.openai_server import SECRET

pytestmark = pytest.mark.anyio

SPEC = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})
PNG = "data:image/png;base64,iVBORw0KGgo="


@pytest.fixture
async def server() -> AsyncIterator[AnthropicServer]:
    async with anthropic_server() as running:
        yield running
        assert running.faults == []


@pytest.fixture
async def model(server, monkeypatch) -> AsyncIterator[PydanticAiModel]:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    made = PydanticAiModel("anthropic:some-model")
    yield made
    await made.aclose()


def user(*parts: dict) -> Entry:
    return user_entry(parts or [{"type": "text", "text": "hi"}])


def results_of(response: ModelResponse, outcome: str = "ok", value: object = 1) -> Entry:
    calls = [part for part in response.parts if part["type"] == "call"]
    return tool_entry([{"id": c["id"], "tool": c["tool"], "outcome": outcome, "value": value} for c in calls])


async def ask(model: PydanticAiModel, *history: Entry) -> tuple[list, ModelResponse]:
    *events, response = [event async for event in model.step(ModelRequest("Be brief.", history, [SPEC]))]
    assert isinstance(response, ModelResponse)
    return events, response


def kept(response: ModelResponse) -> Entry:
    return assistant_entry(response.parts, response.provider)


async def test_a_thought_goes_back_with_its_signature_and_in_its_place(server, model):
    server.replies += [
        [
            fake.thinking("hm", "SIG-1"),
            fake.redacted("OPAQUE"),
            fake.text("Wait."),
            fake.tool_use("toolu_1", "look", a=1),
        ],
        [fake.text("done")],
    ]
    events, first = await ask(model, user())
    assert [type(event) for event in events[:3]] == [ReasoningDelta, TextDelta, TextDelta]
    _, last = await ask(model, user(), kept(first), results_of(first))
    assert last.parts == [{"type": "text", "text": "done"}]
    sent = server.requests[1]["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["thinking", "redacted_thinking", "text", "tool_use"]
    assert sent[0] == {"type": "thinking", "thinking": "hm", "signature": "SIG-1"}


async def test_thoughts_of_another_model_stay_at_home(server, model):
    server.replies.append([fake.text("ok")])
    made = {
        "name": "openai/OpenAIResponsesModel/x",
        "version": "1",
        "body": [{"signature": "FOREIGN", "id": "rs_1"}, {}],
    }
    parts = [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "yes"}]
    await ask(model, user(), assistant_entry(parts, made), user())
    assert server.requests[0]["messages"][1]["content"] == [{"type": "text", "text": "yes"}]


@pytest.mark.parametrize("outcome", ["ok", "error", "denied", "abandoned", "timeout", "stopped", "unknown"])
async def test_every_outcome_pairs(server, model, outcome):
    server.replies += [
        [fake.tool_use("toolu_1", "look"), fake.tool_use("toolu_2", "look")],
        [fake.text("ok")],
    ]
    _, first = await ask(model, user())
    await ask(model, user(), kept(first), results_of(first, outcome, None if outcome == "ok" else "why"))
    content = server.requests[1]["messages"][2]["content"]
    assert [block["tool_use_id"] for block in content] == ["toolu_1", "toolu_2"]


async def test_ids_of_another_provider_are_made_portable(server, model):
    server.replies.append([fake.text("ok")])
    call = {"type": "call", "id": "functions.look:0", "tool": "look", "input": "{half"}
    result = {"id": "functions.look:0", "tool": "look", "outcome": "ok", "value": 1}
    await ask(model, user(), assistant_entry([call]), tool_entry([result]))
    assert len(server.requests) == 1


async def test_files_go_in_the_form_that_is_taken(server, model):
    server.replies.append([fake.text("ok")])
    files = [
        (PNG, "image/png"),
        ("https://example.com/cat.png", "image/png"),
        ("https://example.com/a.pdf", "application/pdf"),
        ("data:application/pdf;base64,JVBERi0xLjQ=", "application/pdf"),
        ("data:text/csv;base64,aGk=", "text/csv"),
        ("data:application/zip;base64,aGk=", "application/zip"),
        ("http://10.0.0.1/internal", "text/html"),
        ("http://example.com/cat.png", "image/png"),
    ]
    await ask(
        model,
        user(*[{"type": "file", "url": url, "mediaType": kind, "filename": "f"} for url, kind in files]),
    )
    blocks = server.requests[0]["messages"][0]["content"]
    kinds = [block["type"] for block in blocks]
    assert kinds == ["image", "image", "document", "document", *["text"] * 4]
    assert blocks[0]["source"] == {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    assert blocks[1]["source"] == {"type": "url", "url": "https://example.com/cat.png"}


async def test_a_tool_that_the_provider_ran_is_kept_out_and_breaks_no_turn(server, model):
    server.replies += [
        [*fake.searched("srvtoolu_1", "tea"), fake.text("Tea is"), fake.tool_use("toolu_1", "look")],
        [fake.text("ok")],
    ]
    events, first = await ask(model, user())
    assert [part["type"] for part in first.parts] == ["text", "call"]
    assert {getattr(event, "tool", "look") for event in events} == {"look"}
    await ask(model, user(), kept(first), results_of(first))


HALF_CALL = {**fake.tool_use("toolu_1", "look"), "input": '{"a'}


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (error(401, "authentication_error"), Code.PROVIDER_AUTH),
        (error(403, "permission_error"), Code.PROVIDER_AUTH),
        (error(429, "rate_limit_error"), Code.PROVIDER_RATE_LIMITED),
        (
            error(400, "invalid_request_error", message="credit balance is too low"),
            Code.PROVIDER_RATE_LIMITED,
        ),
        (error(400, "invalid_request_error", message="prompt is too long"), Code.PROVIDER_CONTEXT_TOO_LONG),
        (error(400, "invalid_request_error", message="?"), Code.PROVIDER_BAD_RESPONSE),
        (error(404, "not_found_error"), Code.PROVIDER_BAD_RESPONSE),
        (error(500, "api_error"), Code.PROVIDER_UNAVAILABLE),
        (error(529, "overloaded_error"), Code.PROVIDER_UNAVAILABLE),
        (broken("overloaded_error"), Code.PROVIDER_UNAVAILABLE),
        (broken("overloaded_error", fake.text("a")), Code.PROVIDER_UNAVAILABLE),
        (broken("rate_limit_error", fake.text("a")), Code.PROVIDER_RATE_LIMITED),
        (broken("api_error", fake.text("a")), Code.PROVIDER_UNAVAILABLE),
        (broken("an_error_of_tomorrow", fake.text("a")), Code.PROVIDER_UNAVAILABLE),
        (lost(fake.text("a")), Code.PROVIDER_UNAVAILABLE),
        (ended("refusal", fake.text("a")), Code.PROVIDER_CONTENT_FILTERED),
        (ended("refusal"), Code.PROVIDER_CONTENT_FILTERED),
        (ended("max_tokens", HALF_CALL), Code.PROVIDER_BAD_RESPONSE),
        (ended("max_tokens", fake.thinking("hm", "SIG")), Code.PROVIDER_BAD_RESPONSE),
        (ended("model_context_window_exceeded"), Code.PROVIDER_BAD_RESPONSE),
    ],
)
async def test_a_failure_of_the_provider_has_its_code_and_is_not_repeated(server, model, reply, code):
    server.replies.append(reply)
    with pytest.raises(ModelFailure) as caught:
        await ask(model, user())
    assert caught.value.code is code
    assert SECRET not in repr(caught.value)
    assert len(server.requests) == 1, "only the step loop repeats"


async def test_a_rate_limit_says_how_long_to_wait(server, model):
    server.replies.append(error(429, "rate_limit_error", retry_after="7"))
    with pytest.raises(ModelFailure) as caught:
        await ask(model, user())
    assert caught.value.retry_after_s == 7


async def test_text_at_the_length_limit_is_kept(server, model):
    server.replies.append(ended("max_tokens", fake.text("a long")))
    _, response = await ask(model, user())
    assert response.parts == [{"type": "text", "text": "a long"}]
