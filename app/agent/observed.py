"""What the loop tells about its work: a duration and a span for each run, model request and tool, and never their content."""

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from app.agent.model import ModelFailure, ModelResponse
from app.agent.tool_run import Asks, ToolResult
from app.clock import monotonic
from app.log import bound
from app.metrics import Metrics
from app.tracing import SpanKind, Tracer, operation, tracer


@dataclass(frozen=True, slots=True)
class Observer:
    """Handed to every tree. Whatever it wraps raises what it would raise without it."""

    metrics: Metrics = field(default_factory=Metrics)
    tracer: Tracer = field(default_factory=tracer)

    @contextmanager
    def run(self, run_id: UUID, agent: str, session: str) -> Generator[None]:
        """One tree on this replica, from its claim to its suspension, settlement or loss."""
        about = {
            "gen_ai.agent.name": agent,
            "gen_ai.conversation.id": session,
            "agent_server.run.id": str(run_id),
        }
        with operation(self.tracer, "invoke_agent", agent, about):
            yield

    async def model(self, agent: str, asking: Awaitable[ModelResponse]) -> ModelResponse:
        """One model request with its repeats."""
        began, outcome = monotonic(), "failed"
        about = {"gen_ai.agent.name": agent}
        try:
            with operation(self.tracer, "chat", agent, about, kind=SpanKind.CLIENT) as span:
                response = await asking
                outcome = "ok"
                for kind, count in _tokens(response).items():
                    span.set_attribute(f"gen_ai.usage.{kind}_tokens", count)
                    self.metrics.tokens.labels(agent, kind).inc(count)
                return response
        except ModelFailure as failure:
            outcome = str(failure.code)
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self.metrics.step_seconds.labels(agent, outcome).observe(monotonic() - began)

    async def tool(self, tool: str, call_id: str, running: Awaitable[ToolResult]) -> ToolResult:
        """One run of a server tool. One that asks has not failed."""
        began, outcome, asking = monotonic(), "cancelled", None
        about = {"gen_ai.tool.name": tool, "gen_ai.tool.call.id": call_id}
        try:
            with bound(call_id=call_id), operation(self.tracer, "execute_tool", tool, about) as span:
                try:
                    result = await running
                except Asks as asks:
                    outcome, asking = "asked", asks
                else:
                    outcome = result.error_code or str(result.outcome)
                    if result.error_code is not None:
                        span.set_attribute("error.type", result.error_code)
                    return result
            raise asking
        finally:
            self.metrics.tool_seconds.labels(tool, outcome).observe(monotonic() - began)


def _tokens(response: ModelResponse) -> dict[str, int]:
    counted = {"input": response.usage.input_tokens, "output": response.usage.output_tokens}
    return {kind: count for kind, count in counted.items() if count > 0}
