"""The structured output of a declared agent: a run that ends with a checked JSON value in place of a text.

The output is a tool that the model calls, ``final_result``, or the JSON that it writes where its provider asks for
one. The model of an agent that declares one is wrapped (``Judged``), and each response is judged when it is whole:

==================================================  ====================================================
the only calls are outputs, and one fits            the run ends; the output is the response's last text
no calls, and the text is JSON that fits            the same
an output that its schema refuses                   a failed result says why, and the run goes on
outputs beside other calls                          they fail, the other calls run
no calls, and any other text                        shown, and a failed call of ``final_result`` says so
==================================================  ====================================================

So every try is a step: the agent's limits bound them. Text that may be the output is shown when it is judged.
"""

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from app.agent.model import (
    Model,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    TextDelta,
    ToolInputDelta,
    ToolSpec,
)
from app.agent.tool_input import InputShape, InvalidInput, from_model, from_schema, parsed
from app.agent.tools import Tool

NAME = "final_result"
NOT_YET = "Not taken: other tools were called in the same response. Call it again, alone, when you have their results."
NO_OUTPUT = "A text is not the output. Call it, with the output as its arguments."
_DESCRIPTION = "Give the output, which ends the work."
_FENCED = re.compile(r"\s*```(?:json)?\n(.*)\n```\s*", re.DOTALL)

OutputDeclaration = type[BaseModel] | Mapping[str, Any]


@dataclass(frozen=True)
class Output:
    """What a run ends with: a JSON object of this shape."""

    description: str
    shape: InputShape

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(NAME, self.description, self.shape.schema, output=True)

    def check(self, given: object) -> dict[str, Any]:
        """The output as plain JSON, defaults applied. Raises ``InvalidInput``."""
        value = parsed(given)
        if not isinstance(value, dict):
            raise InvalidInput("The output must be a JSON object.")
        return self.shape.check(value)


def output_from(declared: OutputDeclaration) -> Output:
    """A pydantic model, or a JSON schema of an object. Raises ``ValueError`` or ``TypeError`` for anything else."""
    if isinstance(declared, Mapping):
        return Output(str(declared.get("description") or _DESCRIPTION), from_schema(declared))
    if not (isinstance(declared, type) and issubclass(declared, BaseModel)):  # pyright: ignore[reportUnnecessaryIsInstance]  users' modules are not all typed
        raise TypeError("an output is a pydantic model or a JSON schema of an object")
    shape = from_model(declared)
    return Output(str(shape.schema.get("description") or _DESCRIPTION), shape)


class Held:
    """What a step's responses show of themselves at once. Parts are numbered over all of them.

    ``judged``: a text may be the output; it is held until it is known not to be."""

    def __init__(self, is_output: Callable[[str], bool], *, judged: bool) -> None:
        self._is_output = is_output
        self._judged = judged
        self._first = 0  # the number of the present response's first part
        self._shown = 0
        self._holding: list[ModelEvent] = []
        self._hold = judged

    def next_response(self) -> None:
        """What was held of the one before is never shown."""
        self._first, self._holding, self._hold = self._shown, [], self._judged

    def heard(self, event: ModelEvent) -> list[ModelEvent]:
        """Not an output's call, nor text that has yet to be judged. Text beside a tool's call is not the output."""
        event = replace(event, part=event.part + self._first) if self._first else event
        self._shown = max(self._shown, event.part + 1)
        if isinstance(event, TextDelta) and self._hold:
            self._holding.append(event)
            return []
        if not isinstance(event, ToolInputDelta):
            return [event]
        if self._is_output(event.tool):
            return []
        self._hold = False
        return [*self.let_go(), event]

    def let_go(self) -> list[ModelEvent]:
        """What was held, to be shown now."""
        held, self._holding = self._holding, []
        return held

    def text(self, text: str) -> list[ModelEvent]:
        """A text of the step's own."""
        number, self._shown = self._shown, self._shown + 1
        return [TextDelta(number, text)]


def output_part(text: str) -> dict[str, Any]:
    """The part of the history that is a run's structured output."""
    return {"type": "text", "text": text, "output": True}


class Judged:
    """A model whose responses are judged, for one step. ``tool`` answers for ``final_result`` afterwards."""

    def __init__(self, model: Model, output: Output) -> None:
        self._model = model
        self._output = output
        self._refusal = NO_OUTPUT

    def tool(self) -> Tool:
        """The output's tool, for a call that is none: it refuses what it is given, and says why."""

        def check(given: Any) -> dict[str, Any]:
            if self._refusal:
                raise InvalidInput(self._refusal)
            return self._output.check(given)

        shape = InputShape(self._output.shape.schema, check, lambda stored: stored)
        return Tool(NAME, self._output.description, shape.schema, run=_never, shape=shape)

    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        held = Held(lambda tool: tool == NAME, judged=True)
        asked = replace(request, tools=(*request.tools, self._output.spec))
        async with aclosing(self._model.step(asked)) as events:
            async for event in events:
                if not isinstance(event, ModelResponse):
                    for shown in held.heard(event):
                        yield shown
                    continue
                response, shown = self._judge(event, held)
                for each in shown:
                    yield each
                yield response

    def _judge(self, response: ModelResponse, held: Held) -> tuple[ModelResponse, list[ModelEvent]]:
        calls = [part for part in response.parts if part["type"] == "call"]
        if any(call["tool"] != NAME for call in calls):
            self._refusal = NOT_YET
            return response, held.let_go()
        text = "".join(part["text"] for part in response.parts if part["type"] == "text")
        given = [call["input"] for call in calls] if calls else _objects_in(text)
        output = next((value for each in given if (value := self._fitting(each)) is not None), None)
        if output is not None:
            return self._end(response, json.dumps(output, ensure_ascii=False), held, instead=not calls)
        if calls:
            self._refusal = ""
            return response, held.let_go()
        made: dict[str, Any] = {"type": "call", "id": NAME, "tool": NAME, "input": {}}
        return replace(response, parts=[*response.parts, made], provider=None), held.let_go()

    def _end(
        self, response: ModelResponse, text: str, held: Held, *, instead: bool
    ) -> tuple[ModelResponse, list[ModelEvent]]:
        """``instead``: the output was the response's text. What its provider wants back goes back only with the whole of
        a response, and this is none any more."""
        left_out = ("call", "text") if instead else ("call",)
        parts = [part for part in response.parts if part["type"] not in left_out]
        before = [] if instead else held.let_go()
        ended = replace(response, parts=[*parts, output_part(text)], provider=None)
        return ended, [*before, *held.text(text)]

    def _fitting(self, given: object) -> dict[str, Any] | None:
        try:
            return self._output.check(given)
        except InvalidInput:
            return None


def _objects_in(text: str) -> list[str]:
    """The one JSON object that a text may be."""
    fenced = _FENCED.fullmatch(text)
    bare = (fenced[1] if fenced else text).strip()
    return [bare] if bare.startswith("{") else []


async def _never(*_: Any) -> Any:
    raise AssertionError("an output is no tool that runs")
