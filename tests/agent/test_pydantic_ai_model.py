"""The adapter against a loopback provider: what it sends, what it reads, what it calls a failure."""

import json
from collections.abc import AsyncIterator

import pytest
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from app.agent.model import (
    ModelEvent,
    ModelFailure,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolInputDelta,
    ToolSpec,
    Usage,
)
from app.agent.pydantic_ai_model import PydanticAiModel
from app.domain.history import Entry, assistant_entry, tool_entry, user_entry
from app.errors import Code
from tests.fakes import openai_server as fake
from tests.fakes.openai_server import OpenAIServer, openai_server

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with openai_server() as running:
        yield running


@pytest.fixture
async def model(server, monkeypatch) -> AsyncIterator[PydanticAiModel]:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    made = PydanticAiModel("openai-chat:some-model")
    yield made
    await made.aclose()


def asked(*more: Entry, **fields) -> ModelRequest:
    return ModelRequest("Be brief.", [user_entry([{"type": "text", "text": "hi"}]), *more], **fields)


async def run(model: PydanticAiModel, request: ModelRequest) -> tuple[list[ModelEvent], ModelResponse]:
    *events, response = [event async for event in model.step(request)]
    assert isinstance(response, ModelResponse)
    return [event for event in events if not isinstance(event, ModelResponse)], response


async def failure(model: PydanticAiModel, request: ModelRequest | None = None) -> ModelFailure:
    with pytest.raises(ModelFailure) as caught:
        await run(model, request or asked())
    assert fake.SECRET not in str(caught.value)
    assert fake.SECRET not in repr(caught.value)
    return caught.value


# --- what comes back ----------------------------------------------------------------------------------------


async def test_text_leaves_in_pieces_and_ends_in_the_whole_response(server, model):
    server.replies.append(
        fake.stream(fake.text("He"), fake.text("llo"), fake.delta("stop"), fake.usage(7, 2))
    )
    events, response = await run(model, asked())
    assert events == [TextDelta(0, "He"), TextDelta(0, "llo")]
    assert response.parts == [{"type": "text", "text": "Hello"}]
    assert response.usage == Usage(7, 2)


async def test_calls_split_over_chunks_keep_their_ids_and_order(server, model):
    server.replies.append(
        fake.stream(
            fake.text("Let me see."),
            fake.call_start(0, "call_a", "get_weather"),
            fake.call_more(0, '{"ci'),
            fake.call_more(0, 'ty":"Oslo"}'),
            fake.call_start(1, "call_b", "slow", '{"ms":'),
            fake.call_more(1, "5}"),
            fake.delta("tool_calls"),
            fake.usage(1, 1),
        )
    )
    events, response = await run(model, asked())
    assert response.parts == [
        {"type": "text", "text": "Let me see."},
        {"type": "call", "id": "call_a", "tool": "get_weather", "input": {"city": "Oslo"}},
        {"type": "call", "id": "call_b", "tool": "slow", "input": {"ms": 5}},
    ]
    pieces = [event for event in events if isinstance(event, ToolInputDelta)]
    assert {(piece.part, piece.call_id, piece.tool) for piece in pieces} == {
        (1, "call_a", "get_weather"),
        (2, "call_b", "slow"),
    }
    assert "".join(piece.text for piece in pieces if piece.part == 1) == '{"city":"Oslo"}'


OUTPUT = ToolSpec("final_result", "The output.", {"type": "object", "properties": {}}, output=True)


async def test_an_output_is_a_tool_that_has_to_be_called(server, model):
    server.replies.append(
        fake.stream(fake.call_start(0, "c", "final_result"), fake.delta("tool_calls"), fake.usage(1, 1))
    )
    _, response = await run(model, asked(tools=[OUTPUT]))
    assert response.parts == [{"type": "call", "id": "c", "tool": "final_result", "input": {}}]
    [sent] = server.requests
    assert sent["tool_choice"] == "required"
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["final_result"]


async def test_an_output_is_a_text_where_the_provider_wants_it_so(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    library = OpenAIChatModel(
        "some-model",
        provider=OpenAIProvider(base_url=server.url),
        profile={"default_structured_output_mode": "native", "supports_json_schema_output": True},
    )
    server.replies.append(fake.stream(fake.text("{}"), fake.delta("stop"), fake.usage(1, 1)))
    native = PydanticAiModel(library)
    _, response = await run(native, asked(tools=[OUTPUT]))
    assert response.parts == [{"type": "text", "text": "{}"}]
    [sent] = server.requests
    assert sent["response_format"]["json_schema"]["name"] == "final_result"
    assert "tools" not in sent
    await native.aclose()


async def test_a_call_without_arguments_has_an_empty_input(server, model):
    server.replies.append(
        fake.stream(fake.call_start(0, "c", "get_location"), fake.delta("tool_calls"), fake.usage(1, 1))
    )
    _, response = await run(model, asked())
    assert response.parts == [{"type": "call", "id": "c", "tool": "get_location", "input": {}}]


@pytest.mark.parametrize("written", ["{oops", "[" * 1000 + "]" * 1000, "[" * 100_000])
async def test_arguments_that_cannot_be_read_stay_text(server, model, written):
    server.replies.append(fake.stream(fake.call_start(0, "c", "slow", written), fake.delta("tool_calls")))
    _, response = await run(model, asked())
    assert response.parts[0]["input"] == written


async def test_reasoning_is_told_apart_from_text(server, model):
    server.replies.append(
        fake.stream(fake.delta(reasoning_content="hm"), fake.text("yes"), fake.delta("stop"))
    )
    events, response = await run(model, asked())
    assert events == [ReasoningDelta(0, "hm"), TextDelta(1, "yes")]
    assert [part["type"] for part in response.parts] == ["reasoning", "text"]


async def test_an_answer_cut_by_its_length_is_kept_when_it_is_text(server, model):
    server.replies.append(fake.stream(fake.text("long"), fake.delta("length")))
    _, response = await run(model, asked())
    assert response.parts == [{"type": "text", "text": "long"}]


# --- what is sent -------------------------------------------------------------------------------------------


async def test_the_provider_is_sent_instructions_tools_and_paired_results(server, model):
    server.replies.append(fake.answer())
    calls = [{"type": "call", "id": f"call_{n}", "tool": "t", "input": {"n": n}} for n in range(7)]
    outcomes = [
        ("ok", {"x": 1}),
        ("error", "no such city"),
        ("denied", "too expensive"),
        ("abandoned", "-"),
        ("timeout", "-"),
        ("stopped", "-"),
        ("unknown", "-"),
    ]
    results = [
        {"id": f"call_{n}", "tool": "t", "outcome": outcome, "value": value}
        for n, (outcome, value) in enumerate(outcomes)
    ]
    spec = ToolSpec("t", "Does.", {"type": "object", "properties": {"n": {"type": "integer"}}})
    await run(model, asked(assistant_entry(calls), tool_entry(results), tools=[spec]))

    roles = [message["role"] for message in server.sent]
    assert roles == ["system", "user", "assistant", *["tool"] * 7]
    assert server.sent[0]["content"] == "Be brief."
    assert [call["id"] for call in server.sent[2]["tool_calls"]] == [f"call_{n}" for n in range(7)]
    assert json.loads(server.sent[2]["tool_calls"][3]["function"]["arguments"]) == {"n": 3}
    told = {message["tool_call_id"]: message["content"] for message in server.sent[3:]}
    assert list(told) == [f"call_{n}" for n in range(7)]
    assert json.loads(told["call_0"]) == {"x": 1}
    assert "no such city" in told["call_1"]
    assert "denied" in told["call_2"]
    assert "too expensive" in told["call_2"]
    assert "went on" in told["call_3"]
    assert "in time" in told["call_4"]
    assert "stopped" in told["call_5"]
    assert "not known" in told["call_6"]
    assert server.requests[0]["tools"][0]["function"]["name"] == "t"
    assert server.requests[0]["stream"] is True


async def test_a_result_of_null_is_not_an_empty_text(server, model):
    server.replies.append(fake.answer())
    call = {"type": "call", "id": "c", "tool": "t", "input": {}}
    result = {"id": "c", "tool": "t", "outcome": "ok", "value": None}
    await run(model, asked(assistant_entry([call]), tool_entry([result])))
    assert server.sent[-1]["content"] == "null"


async def test_unparsed_input_is_sent_back_as_an_object(server, model):
    server.replies.append(fake.answer())
    call = {"type": "call", "id": "c", "tool": "t", "input": "{oops"}
    result = {"id": "c", "tool": "t", "outcome": "error", "value": "bad"}
    await run(model, asked(assistant_entry([call]), tool_entry([result])))
    assert json.loads(server.sent[2]["tool_calls"][0]["function"]["arguments"]) == {"INVALID_JSON": "{oops"}


async def test_ids_of_another_provider_are_made_portable_on_both_sides(server, model):
    server.replies.append(fake.answer())
    call = {"type": "call", "id": "functions.t:0", "tool": "t", "input": {}}
    result = {"id": "functions.t:0", "tool": "t", "outcome": "ok", "value": 1}
    await run(model, asked(assistant_entry([call]), tool_entry([result])))
    sent = server.sent[2]["tool_calls"][0]["id"]
    assert sent == server.sent[3]["tool_call_id"]
    assert sent.startswith("call_")


async def test_what_the_provider_wants_back_of_a_part_goes_back_to_it_alone(server, model):
    server.replies += [
        fake.stream(fake.delta(reasoning_content="hm"), fake.text("yes"), fake.delta("stop")),
        fake.answer(),
        fake.answer(),
    ]
    _, response = await run(model, asked())
    again = user_entry([{"type": "text", "text": "and?"}])
    assert response.provider is not None
    assert response.provider["name"] == "openai/OpenAIChatModel/some-model"
    json.dumps(response.provider)
    await run(model, asked(assistant_entry(response.parts, response.provider), again))
    assert server.sent[2]["reasoning_content"] == "hm"
    other = {**response.provider, "name": "openai/OpenAIResponsesModel/some-model"}
    await run(model, asked(assistant_entry(response.parts, other), again))
    assert "hm" not in json.dumps(server.sent)
    assert server.sent[2]["content"] == "yes"


PNG = "data:image/png;base64,iVBORw0KGgo="


@pytest.mark.parametrize(
    ("url", "media_type", "found"),
    [
        (PNG, "image/png", PNG),
        ("https://example.com/cat.png", "image/png", "https://example.com/cat.png"),
        ("data:text/plain;base64,aGk=", "text/csv", "(text/csv):]\\nhi"),
        # Never fetched from here, never opened, never a reason to fail for ever: told instead.
        ("https://example.com/a.pdf", "application/pdf", "cannot be opened here: https://example.com/a.pdf"),
        ("data:image/png;base64,!", "image/png", "cannot be opened here]"),
        ("data:application/zip;base64,aGk=", "application/zip", "cannot be opened here]"),
        ("file:///etc/passwd", "text/plain", "cannot be opened here]"),
        ("http://[", "image/png", "cannot be opened here]"),
    ],
)
async def test_a_file_is_given_passed_on_or_told_of(server, model, url, media_type, found):
    server.replies.append(fake.answer())
    part = {"type": "file", "url": url, "mediaType": media_type, "filename": "f"}
    await run(model, asked(user_entry([{"type": "text", "text": "see"}, part])))
    assert found in json.dumps(server.sent[-1], ensure_ascii=False)


async def test_one_client_serves_every_step(server, model):
    server.replies += [fake.answer(), fake.answer(), fake.answer()]
    for _ in range(3):
        await run(model, asked())
    assert len(server.requests) == 3
    assert server.connections == 1


# --- what is a failure --------------------------------------------------------------------------------------

HALF_CALL = (fake.text("x"), fake.call_start(0, "c", "slow", '{"ms'))


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (fake.refuse(429, "rate_limit_exceeded"), Code.PROVIDER_RATE_LIMITED),
        (fake.refuse(429, "insufficient_quota", error_type="insufficient_quota"), Code.PROVIDER_RATE_LIMITED),
        (fake.refuse(401, "invalid_api_key"), Code.PROVIDER_AUTH),
        (fake.refuse(403, "forbidden"), Code.PROVIDER_AUTH),
        (fake.refuse(400, "context_length_exceeded"), Code.PROVIDER_CONTEXT_TOO_LONG),
        (fake.refuse(400, "content_filter"), Code.PROVIDER_CONTENT_FILTERED),
        (fake.refuse(400, "invalid_value"), Code.PROVIDER_BAD_RESPONSE),
        (fake.refuse(404, "model_not_found"), Code.PROVIDER_BAD_RESPONSE),
        (fake.refuse(500, "server_error"), Code.PROVIDER_UNAVAILABLE),
        (fake.refuse(503, "overloaded"), Code.PROVIDER_UNAVAILABLE),
        (fake.stream(fake.error_chunk()), Code.PROVIDER_UNAVAILABLE),
        (fake.stream(fake.text("x"), fake.error_chunk()), Code.PROVIDER_UNAVAILABLE),
        (fake.drop(), Code.PROVIDER_UNAVAILABLE),
        (fake.drop(fake.text("x")), Code.PROVIDER_UNAVAILABLE),
        (fake.drop(*HALF_CALL), Code.PROVIDER_UNAVAILABLE),
        (fake.stream(fake.text("x"), fake.delta("content_filter")), Code.PROVIDER_CONTENT_FILTERED),
        (fake.stream(fake.delta(refusal="I will not"), fake.delta("stop")), Code.PROVIDER_CONTENT_FILTERED),
        # Cut off, though it ends cleanly.
        (fake.stream(fake.text("x")), Code.PROVIDER_BAD_RESPONSE),
        (fake.stream(), Code.PROVIDER_BAD_RESPONSE),
        (fake.stream(*HALF_CALL), Code.PROVIDER_BAD_RESPONSE),
        (fake.stream(*HALF_CALL, fake.delta("length")), Code.PROVIDER_BAD_RESPONSE),
        (
            fake.stream(fake.call_start(0, "c", "slow"), fake.delta("length")),
            Code.PROVIDER_BAD_RESPONSE,
        ),
        (fake.raw(b"{not json " + fake.SECRET.encode()), Code.PROVIDER_BAD_RESPONSE),
    ],
)
async def test_a_failure_of_the_provider_has_its_code_and_is_not_repeated(server, model, reply, code):
    server.replies.append(reply)
    failed = await failure(model)
    assert failed.code is code
    assert len(server.requests) == 1, "only the step loop repeats"


async def test_a_rate_limit_says_how_long_to_wait(server, model):
    server.replies.append(fake.refuse(429, "rate_limit_exceeded", retry_after="7"))
    assert (await failure(model)).retry_after_s == 7


async def test_what_was_said_before_a_drop_was_said(server, model):
    server.replies.append(fake.drop(fake.text("half")))
    steps = model.step(asked())
    assert await anext(steps) == TextDelta(0, "half")
    with pytest.raises(ModelFailure):
        await anext(steps)


async def test_a_silent_provider_is_a_timeout(server, model):
    server.replies.append(fake.silence())
    failed = await failure(model, asked(settings={"timeout": 0.05}))
    assert failed.code is Code.PROVIDER_TIMEOUT


async def test_a_provider_that_is_not_there_is_unavailable(monkeypatch):
    async with openai_server() as gone:
        monkeypatch.setenv("OPENAI_BASE_URL", gone.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    model = PydanticAiModel("openai-chat:m")
    assert (await failure(model)).code is Code.PROVIDER_UNAVAILABLE
    await model.aclose()


async def test_a_step_that_is_left_closes_the_stream(server, model):
    server.replies.append(fake.drop(fake.text("a"), fake.text("b")))
    steps = model.step(asked())
    assert await anext(steps) == TextDelta(0, "a")
    await steps.aclose()


# --- setting up ---------------------------------------------------------------------------------------------


async def test_a_model_instance_may_be_given(server):
    server.replies.append(fake.refuse(500, "server_error"))
    own = OpenAIChatModel("m", provider=OpenAIProvider(base_url=server.url, api_key="k"))
    model = PydanticAiModel(own)
    assert (await failure(model)).code is Code.PROVIDER_UNAVAILABLE
    assert len(server.requests) == 1
    await model.aclose()


async def test_the_librarys_test_models_work_without_a_finish_reason():
    async def speak(_, __):
        yield "hi"

    _, response = await run(PydanticAiModel(FunctionModel(stream_function=speak)), asked())
    assert response.parts == [{"type": "text", "text": "hi"}]


@pytest.mark.parametrize("name", ["nonsense", "openai-chat:m", "unknown-provider:m"])
def test_a_model_that_cannot_be_set_up_is_one_line(monkeypatch, name):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ValueError) as caught:
        PydanticAiModel(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["openai:gpt-5", "openai-chat:gpt-5", "anthropic:some-model"])
async def test_every_provider_can_be_sent_a_whole_history(server, monkeypatch, name):
    for key in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{key}_BASE_URL", server.url)
        monkeypatch.setenv(f"{key}_API_KEY", "sk-test")
    server.replies.append(fake.refuse(500, "server_error"))
    parts = [
        {"type": "file", "url": PNG, "mediaType": "image/png"},
        {"type": "file", "url": "https://example.com/a.pdf", "mediaType": "application/pdf"},
        {"type": "file", "url": "data:application/pdf;base64,JVBERi0xLjQ=", "mediaType": "application/pdf"},
        {"type": "file", "url": "data:text/csv,a", "mediaType": "text/csv"},
        {"type": "file", "url": "data:application/zip,a", "mediaType": "application/zip"},
    ]
    call = {"type": "call", "id": "c:1", "tool": "t", "input": "{oops"}
    result = {"id": "c:1", "tool": "t", "outcome": "denied", "value": None}
    made = assistant_entry([{"type": "reasoning", "text": "hm"}, {"type": "text", "text": ""}, call])
    model = PydanticAiModel(name)
    failed = await failure(model, asked(user_entry(parts), made, tool_entry([result]), assistant_entry([])))
    assert failed.code is Code.PROVIDER_UNAVAILABLE, failed.__cause__
    assert len(server.requests) == 1
    await model.aclose()
