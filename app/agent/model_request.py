"""One model request: its events become frames as they come, its response becomes calls.

``Speech`` shows a root's response while it is streamed. ``ask`` sends the request, and sends it again (twice at most, with jitter)
while a transient failure comes before the first event; after that a failure is final, because the user has seen a part of it.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextlib import aclosing

from app.agent.model import (
    Model,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    ModelResponse,
    ProviderTool,
    ReasoningDelta,
    TextDelta,
)
from app.agent.registry import AgentStep, Limits
from app.agent.scribe import Draft, Scribe
from app.domain import frames
from app.domain.frames import Chunk
from app.errors import Code
from app.store.runs import Run
from app.store.transaction import in_transaction

RETRIES = 2
MAX_RETRY_AFTER_S = 10.0
IDLE_TIMEOUT_S = 180.0
MAX_DEPTH = 10  # of sub-agents under sub-agents: each has limits of its own, so that nothing else ends a circle of them
MAX_CALL_ID = 200
_AGAIN = frozenset({Code.PROVIDER_RATE_LIMITED, Code.PROVIDER_UNAVAILABLE, Code.PROVIDER_TIMEOUT})
CUT = "Not finished: the answer was cut off."


class CallIds:
    """The session's call ids: a provider's id is kept when the session has not seen it, else it gets the smallest free suffix."""

    def __init__(self, known: set[str]) -> None:
        self._known = known

    def assign(self, provider_id: str) -> str:
        base = "".join(c for c in provider_id if c.isprintable())[:MAX_CALL_ID] or "call"
        stored, n = base, 2
        while stored in self._known:
            stored, n = f"{base}_{n}", n + 1
        self._known.add(stored)
        return stored


class Speech:
    """What a response shows of itself while it is streamed. A child's (``scribe`` is ``None``) shows nothing."""

    def __init__(self, agent: AgentStep, scribe: Scribe | None, ids: CallIds, step: int) -> None:
        self._agent = agent
        self.begun = False
        """Whether the response has opened its step."""
        self._scribe = scribe
        self._ids = ids
        self._step = step
        self._open: dict[int, tuple[str, str]] = {}  # part → (stem, id)
        self._opened = 0
        self._inputs: dict[int, tuple[str, bool]] = {}  # part → (stored id, whether its input is shown)
        self._assigned: dict[str, deque[str]] = {}
        self._texts: list[str] = []

    def hear(self, event: ModelEvent) -> None:
        if isinstance(event, TextDelta):
            self._streamed("text", event.part, event.text, frames.text_start, frames.text_delta)
        elif isinstance(event, ReasoningDelta):
            self._streamed(
                "reasoning", event.part, event.text, frames.reasoning_start, frames.reasoning_delta
            )
        elif isinstance(event, ProviderTool):
            self._end_open()
            stored = self._ids.assign(event.call_id)
            self._say(frames.tool_input_available(stored, event.tool, event.input, flagged=True))
            self._say(frames.tool_output_available(stored, event.output, flagged=True))
        else:
            if event.part not in self._inputs:
                self._end_open()
                tool = self._agent.tool(event.tool)
                stored = self._ids.assign(event.call_id)
                self._assigned.setdefault(event.call_id, deque()).append(stored)
                shown = tool is not None and tool.agent is None
                self._inputs[event.part] = (stored, shown)
                if shown:
                    self._say(frames.tool_input_start(stored, event.tool))
            stored, shown = self._inputs[event.part]
            if shown and event.text:
                self._say(frames.tool_input_delta(stored, event.text))

    def stored_id(self, provider_id: str) -> str:
        """The stored id of the response's next call with this provider id."""
        waiting = self._assigned.get(provider_id)
        return waiting.popleft() if waiting else self._ids.assign(provider_id)

    def end(self) -> None:
        self._end_open()

    def cut(self) -> list[str]:
        """The response will not be finished: closes what is open. Returns the texts that were said."""
        self._end_open()
        if self._scribe is not None:
            for stored, shown in self._inputs.values():
                part = self._scribe.fold.call(stored) if shown else None
                if part is not None and part["state"] == "input-streaming":
                    name = part["type"].removeprefix("tool-")
                    self._say(frames.tool_input_available(stored, name, {}))
                    self._say(frames.tool_output_error(stored, CUT, flagged=True))
        return self._texts

    def _streamed(
        self,
        stem: str,
        part: int,
        text: str,
        start: Callable[[str], Chunk],
        delta: Callable[[str, str], Chunk],
    ) -> None:
        if not text:
            return
        if part not in self._open:
            self._end_open()
            self._opened += 1
            self._open[part] = (stem, f"s{self._step}-{self._opened}")
            self._say(start(self._open[part][1]))
            if stem == "text":
                self._texts.append("")
        if stem == "text":
            self._texts[-1] += text
        self._say(delta(self._open[part][1], text))

    def _end_open(self) -> None:
        for stem, part_id in self._open.values():
            self._say(frames.text_end(part_id) if stem == "text" else frames.reasoning_end(part_id))
        self._open.clear()

    def _say(self, chunk: Chunk) -> None:
        if self._scribe is not None:
            if not self.begun:
                self.begun = True
                self._scribe.write(Draft.open_step)
            self._scribe.say(chunk)


def exceeded(limits: Limits, run: Run, max_steps: int, depth: int) -> bool:
    """Whether the run may not send another request. ``max_steps`` is the server's own limit; ``depth`` is a root's 0."""
    usage = run.usage or {}
    steps = max_steps if limits.max_steps is None else min(limits.max_steps, max_steps)
    tokens = usage.get("inputTokens", 0) + usage.get("outputTokens", 0)
    over_calls = limits.max_tool_calls is not None and usage.get("toolCalls", 0) > limits.max_tool_calls
    over_tokens = limits.max_tokens is not None and tokens > limits.max_tokens
    return run.step >= steps or over_calls or over_tokens or depth > MAX_DEPTH


async def ask(
    model: Model, request: ModelRequest, speech: Speech, *, jitter: Callable[[], float] = random.random
) -> ModelResponse:
    """Raises ``ModelFailure``. A stream without a response at its end is one, and so is a silence of ``IDLE_TIMEOUT_S``."""
    if in_transaction():
        raise RuntimeError("a model request inside a transaction")
    for attempt in range(RETRIES + 1):
        heard = False
        try:
            async with aclosing(model.step(request)) as events:
                while True:
                    async with asyncio.timeout(IDLE_TIMEOUT_S):
                        event = await anext(events, None)
                    if event is None:
                        raise ModelFailure(Code.PROVIDER_BAD_RESPONSE)
                    if isinstance(event, ModelResponse):
                        return event
                    heard = True
                    speech.hear(event)
        except TimeoutError as error:
            failure = ModelFailure(Code.PROVIDER_TIMEOUT)
            failure.__cause__ = error
        except ModelFailure as error:
            failure = error
        if heard or failure.code not in _AGAIN or attempt == RETRIES:
            raise failure
        wait = failure.retry_after_s if failure.retry_after_s is not None else 0.5 * 2**attempt
        if wait > MAX_RETRY_AFTER_S:
            raise failure
        await asyncio.sleep(wait * (0.75 + jitter() / 2))
    raise AssertionError("unreachable")
