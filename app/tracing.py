"""OpenTelemetry by its API alone: without an SDK in the process every call here is a no-op.

Spans have the names of the GenAI conventions (``invoke_agent <agent>``, ``chat <agent>``, ``execute_tool <tool>``) and never content:
no prompt, no answer, no arguments, no exception texts. To export them, start the service under ``opentelemetry-instrument``.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["Span", "SpanKind", "Tracer", "incoming", "operation", "outgoing", "tracer"]

_PROPAGATOR = TraceContextTextMapPropagator()


def tracer() -> Tracer:
    """The tracer of whatever SDK is in the process, or one that does nothing."""
    return trace.get_tracer("agent-server")


@contextmanager
def incoming(traceparent: str, tracestate: str = "") -> Generator[str | None]:
    """Makes the caller's W3C context the current one; what is started inside inherits it, tasks too.

    Yields its trace id (32 hex digits), or ``None`` when the header is missing or malformed."""
    context = _PROPAGATOR.extract(
        {"traceparent": traceparent, "tracestate": tracestate} if traceparent else {}
    )
    found = trace.get_current_span(context).get_span_context()
    if not found.is_valid:
        yield None
        return
    token = attach(context)
    try:
        yield format(found.trace_id, "032x")
    finally:
        detach(token)


def outgoing() -> dict[str, str]:
    """The headers ``traceparent`` and ``tracestate`` of the current span, or of the caller's when no SDK makes spans here; none when
    there is no trace. Never baggage: what a caller said in confidence is not told on."""
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers)
    return headers


@contextmanager
def operation(
    of: Tracer,
    name: str,
    subject: str,
    attributes: Mapping[str, str | int],
    *,
    kind: SpanKind = SpanKind.INTERNAL,
) -> Generator[Span]:
    """A span ``<name> <subject>``. An exception that leaves it marks it as failed, by its type alone."""
    with of.start_as_current_span(
        f"{name} {subject}",
        kind=kind,
        attributes={"gen_ai.operation.name": name, **attributes},
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise
