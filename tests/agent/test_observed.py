"""Spans of the loop's work: their names, their parents, and that nothing of the content is on them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Tracer, get_current_span, use_span

from app.agent.model import ModelFailure, ModelResponse, Usage
from app.agent.observed import Observer
from app.agent.tool_run import ApprovalRequired, ToolResult
from app.domain.call_state import Outcome
from app.errors import Code
from app.metrics import Metrics
from app.tracing import incoming

RUN = UUID(int=7)
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Recorded(NonRecordingSpan):
    def __init__(self, name: str, attributes: Any, parent: SpanContext) -> None:
        super().__init__(SpanContext(parent.trace_id, abs(hash(name)) % 2**64, is_remote=False))
        self.name = name
        self.parent = parent
        self.attributes: dict[str, Any] = dict(attributes or {})
        self.failed = False
        self.events: list[str] = []

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.failed = True

    def record_exception(self, *args: Any, **kwargs: Any) -> None:
        self.events.append("exception")


class Recorder(Tracer):
    """An SDK as far as these tests need one."""

    def __init__(self) -> None:
        self.spans: list[Recorded] = []

    def start_span(self, name: str, *args: Any, **kwargs: Any) -> Span:
        raise NotImplementedError

    @contextmanager
    def start_as_current_span(
        self, name: str, *args: Any, attributes: Any = None, **kwargs: Any
    ) -> Iterator[Span]:
        span = Recorded(name, attributes, get_current_span().get_span_context())
        self.spans.append(span)
        with use_span(
            span,
            record_exception=kwargs["record_exception"],
            set_status_on_exception=kwargs["set_status_on_exception"],
        ):
            yield span


async def says(result: Any) -> Any:
    if isinstance(result, BaseException):
        raise result
    return result


async def test_a_run_its_requests_and_its_tools_are_one_trace_of_the_caller():
    recorder = Recorder()
    observe = Observer(Metrics(), recorder)
    with incoming(TRACEPARENT) as trace_id, observe.run(RUN, "demo", "chat"):
        response = ModelResponse([{"type": "text", "text": "secret answer"}], Usage(11, 7))
        assert await observe.model("demo", says(response)) is response
        result = ToolResult(Outcome.OK, "secret output")
        assert await asyncio.create_task(observe.tool("get_weather", "call-1", says(result))) is result
    assert [span.name for span in recorder.spans] == [
        "invoke_agent demo",
        "chat demo",
        "execute_tool get_weather",
    ]
    run, chat, tool = recorder.spans
    assert format(run.parent.trace_id, "032x") == trace_id == TRACEPARENT.split("-")[1]
    assert format(run.parent.span_id, "016x") == TRACEPARENT.split("-")[2]
    assert chat.parent.span_id == tool.parent.span_id == run.get_span_context().span_id
    assert run.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "demo",
        "gen_ai.conversation.id": "chat",
        "agent_server.run.id": str(RUN),
    }
    assert chat.attributes["gen_ai.usage.input_tokens"] == 11
    assert tool.attributes["gen_ai.tool.call.id"] == "call-1"
    assert "secret" not in str([span.attributes for span in recorder.spans])


@pytest.mark.parametrize(
    "error", [ModelFailure(Code.PROVIDER_TIMEOUT), ValueError("a secret"), asyncio.CancelledError()]
)
async def test_a_failure_marks_its_span_by_its_type_alone(error: BaseException):
    recorder = Recorder()
    observe = Observer(Metrics(), recorder)
    with pytest.raises(type(error)):
        await observe.model("demo", says(error))
    (span,) = recorder.spans
    assert span.failed
    assert span.events == []
    assert span.attributes["error.type"] == type(error).__name__
    assert "secret" not in str(span.attributes)


async def test_a_tool_that_asks_is_counted_and_its_span_has_not_failed():
    recorder, metrics = Recorder(), Metrics()
    with pytest.raises(ApprovalRequired):
        await Observer(metrics, recorder).tool("pay", "c", says(ApprovalRequired()))
    assert "error.type" not in recorder.spans[0].attributes
    assert not recorder.spans[0].failed
    assert 'agent_server_tool_seconds_count{outcome="asked",tool="pay"} 1.0' in metrics.render().decode()


async def test_a_failed_tool_has_its_code_on_its_span_and_in_the_count():
    recorder, metrics = Recorder(), Metrics()
    await Observer(metrics, recorder).tool(
        "fail", "c", says(ToolResult(Outcome.ERROR, "x", "tool_failed", "y"))
    )
    assert recorder.spans[0].attributes["error.type"] == "tool_failed"
    assert (
        'agent_server_tool_seconds_count{outcome="tool_failed",tool="fail"} 1.0' in metrics.render().decode()
    )


async def test_without_an_sdk_nothing_is_recorded_and_everything_works():
    observe = Observer()
    with observe.run(RUN, "demo", "chat"):
        assert await observe.model("demo", says(ModelResponse([]))) == ModelResponse([])
    with incoming("nonsense") as trace_id:
        assert trace_id is None
