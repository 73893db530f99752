"""A model that does what the user's message says: for tests, conformance and load
(``AGENT_SERVER_SCRIPTED``).

A message ``script:`` + a JSON list drives its turn; each model request takes the next step of the list. Any
other message goes to the agent's own model. A step (every key optional)::

    {"text", "reasoning", "chunks": pieces the text is sent in, "delay_ms": between pieces, "first_ms": before
    the first one,
     "calls": [{"tool", "input", "id"?}],
     "error": "rate_limited" | "unavailable" | "drop" | "no_finish" | "context"}

An error comes after the step's text, if it has one; ``drop`` also after half of its first call's input. Past
the last step the answer is ``done `` + the turn's tool results, ``[{"id", "outcome", "value"}]`` in order as
compact JSON.

A script that cannot be read is answered with a text that says why. The model is a pure function of the
history.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

from app.agent.model import (
    Model,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolInputDelta,
    Usage,
)
from app.agent.model_words import read_input
from app.agent.present_turn import PresentTurn, present_turn
from app.errors import Code

PREFIX = "script:"

ERRORS: dict[str, Code] = {
    "rate_limited": Code.PROVIDER_RATE_LIMITED,
    "unavailable": Code.PROVIDER_UNAVAILABLE,
    "drop": Code.PROVIDER_UNAVAILABLE,
    "no_finish": Code.PROVIDER_BAD_RESPONSE,
    "context": Code.PROVIDER_CONTEXT_TOO_LONG,
}


class ScriptError(ValueError):
    """The script cannot be read; ``str()`` tells its author why."""


@dataclass(frozen=True, slots=True)
class Step:
    """One model request of a script. ``calls`` are call parts as in ``domain.history``."""

    text: str = ""
    reasoning: str = ""
    chunks: int = 1
    delay_ms: float = 0
    first_ms: float = 0
    calls: Sequence[dict[str, Any]] = field(default_factory=tuple)
    error: str | None = None


class ScriptedModel:
    """Plays scripts; hands every other turn to ``inner``."""

    def __init__(self, inner: Model) -> None:
        self.inner = inner

    def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        turn = present_turn(request.history)
        if not turn.text.startswith(PREFIX):
            return self.inner.step(request)
        try:
            step = _step_of(turn)
        except ScriptError as error:
            step = Step(text=f"This script cannot be played: {error}")
        return _play(step, len(request.history))

    async def aclose(self) -> None:
        await close(self.inner)


async def close(resource: object) -> None:
    """Close a model, or a toolset, that holds connections, and leave any other alone."""
    closing = getattr(resource, "aclose", None)
    if closing is not None:
        await closing()


def _step_of(turn: PresentTurn) -> Step:
    steps = read_script(turn.text.removeprefix(PREFIX))
    if turn.step < len(steps):
        return steps[turn.step]
    told = [
        {"id": result["id"], "outcome": result["outcome"], "value": result["value"]}
        for result in turn.results
    ]
    return Step(text="done " + json.dumps(told, separators=(",", ":"), ensure_ascii=False))


async def _play(step: Step, size: int) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
    parts: list[dict[str, Any]] = []
    await _wait(step.first_ms)
    if step.reasoning:
        yield ReasoningDelta(len(parts), step.reasoning)
        parts.append({"type": "reasoning", "text": step.reasoning})
    if step.text:
        for index, piece in enumerate(_pieces(step.text, step.chunks)):
            if index:
                await _wait(step.delay_ms)
            yield TextDelta(len(parts), piece)
        parts.append({"type": "text", "text": step.text})
    for call in step.calls:
        text = json.dumps(call["input"], separators=(",", ":"), ensure_ascii=False)
        half = (len(text) + 1) // 2
        yield ToolInputDelta(len(parts), text[:half], call["id"], call["tool"])
        if step.error == "drop":
            break
        yield ToolInputDelta(len(parts), text[half:], call["id"], call["tool"])
        parts.append(call)
    if step.error is not None:
        raise ModelFailure(ERRORS[step.error])
    yield ModelResponse(
        parts, Usage(input_tokens=size, output_tokens=len(step.text.split()) + len(step.calls))
    )


async def _wait(milliseconds: float) -> None:
    if milliseconds > 0:
        await asyncio.sleep(milliseconds / 1000)


def _pieces(text: str, count: int) -> list[str]:
    count = min(count, len(text))
    edges = [index * len(text) // count for index in range(count + 1)]
    return [text[start:end] for start, end in pairwise(edges)]


def read_script(text: str) -> list[Step]:
    """The steps of a script. Raises ``ScriptError``."""
    try:
        steps = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScriptError(f"it is not JSON ({error})") from None
    if not isinstance(steps, list):
        raise ScriptError("it is a JSON list of steps")
    return [_read_step(step, index) for index, step in enumerate(cast("list[object]", steps))]


_TYPES: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "reasoning": (str,),
    "chunks": (int,),
    "delay_ms": (int, float),
    "first_ms": (int, float),
    "calls": (list,),
    "error": (str,),
}


def _read_step(raw: object, index: int) -> Step:
    if not isinstance(raw, dict):
        raise ScriptError(f"step {index} is not an object")
    given = cast("dict[str, Any]", raw)
    for key, value in given.items():
        if key not in _TYPES:
            raise ScriptError(f"step {index} has an unknown key {key!r}")
        if not isinstance(value, _TYPES[key]) or isinstance(value, bool):
            raise ScriptError(f"step {index}: {key} is of the wrong type")
    if given.get("chunks", 1) < 1:
        raise ScriptError(f"step {index}: chunks is at least 1")
    if given.get("error", "drop") not in ERRORS:
        raise ScriptError(f"step {index}: error is one of {', '.join(ERRORS)}")
    calls = [_read_call(call, index, number) for number, call in enumerate(given.get("calls", []))]
    given["calls"] = calls
    return Step(**given)


def _read_call(raw: object, step: int, number: int) -> dict[str, Any]:
    call = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    call_id = call.get("id", f"call_{step}_{number}")
    if not isinstance(call.get("tool"), str) or not isinstance(call_id, str) or not call_id:
        raise ScriptError(f'step {step}: a call is {{"tool", "input", "id"?}}')
    if unknown := set(call) - {"tool", "input", "id"}:
        raise ScriptError(f"step {step}: a call has an unknown key {min(unknown)!r}")
    given = call.get("input", {})
    read = given if isinstance(given, str) else read_input(json.dumps(given))
    return {"type": "call", "id": call_id, "tool": call["tool"], "input": read}
