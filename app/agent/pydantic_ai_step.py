"""One model request in the machinery of a ``pydantic_ai.Agent``: a model of our port that is asked once.

A step is ``agent.iter`` through its model request and no further: the run is left before its tools would begin. A
response without tool calls goes on to the agent's own judgement of its output, which may ask the model again inside
the same step; so output functions and validators may run twice when the server dies in the middle of a step.

A valid structured output ends the run and is shown as JSON text; an output call beside other calls is not taken (the
model is told to repeat it): nothing is dropped that had an effect. Text that is judged is shown when it is, not as it
comes.
"""

import json
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import Agent as LibraryAgent
from pydantic_ai import exceptions, messages
from pydantic_graph import End

from app.agent.context import RequestContext
from app.agent.model import (
    ModelEvent,
    ModelFailure,
    ModelRequest,
    ModelResponse,
    Usage,
)
from app.agent.output import Held, output_part
from app.agent.plain import plain
from app.agent.pydantic_ai_calls import Run, begun, manager_of, tools_of
from app.agent.pydantic_ai_failures import classified, refuse_unfinished
from app.agent.pydantic_ai_messages import Translator, from_response
from app.agent.tools import Tool
from app.errors import Code

if TYPE_CHECKING:
    from app.agent.pydantic_ai_agent import Driver

NOTHING: dict[str, Any] = {}


class OwnStep:
    """A model that is asked once, by its agent. Its tools are known when it has answered."""

    def __init__(self, driver: "Driver", context: RequestContext) -> None:
        self._driver = driver
        self._context = context
        self._tools: dict[str, Tool] | None = None

    def tool(self, name: str) -> Tool | None:
        """The tool of that name, as this step's response may call it."""
        if self._tools is not None:
            return self._tools.get(name)
        return self._driver.known_tool(name)

    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        try:
            async with begun(self._driver, self._context, request.history) as run:
                async for event in self._driven(run):
                    yield event
        except ModelFailure:
            raise
        except Exception as error:
            code, retry_after_s = _failed(error)
            raise ModelFailure(code, retry_after_s=retry_after_s) from error

    async def _driven(self, run: Run) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        said = _Said(run, self._driver)
        node = await run.next(cast("Any", run.next_node))
        while True:
            if not LibraryAgent.is_model_request_node(node):
                raise ModelFailure(Code.FRAMEWORK_INTERNAL_ERROR)
            said.next_request()
            async with node.stream(run.ctx) as stream:
                async for event in stream:
                    for ours in said.heard(event):
                        yield ours
            node = await run.next(node)
            if not LibraryAgent.is_call_tools_node(node):
                continue  # a hook has sent the response back
            response = node.model_response
            refuse_unfinished(response, self._driver.model)
            kinds = said.kinds
            if any(kinds.get(call.tool_name) != "output" for call in response.tool_calls):
                self._tools = await tools_of(self._driver, run, response)
                said.keep(response)
                for ours in said.let_go():
                    yield ours
                break
            node = await run.next(node)
            if isinstance(node, End):
                for ours in said.end(response, node.data.output):
                    yield ours
                break
            said.keep(response, without_calls=True)
        yield said.response()


class _Said:
    """What a step's responses have said so far, and have shown of it. Parts are numbered over all of them."""

    def __init__(self, run: Run, driver: "Driver") -> None:
        self._run = run
        self._driver = driver
        self._translate = Translator()
        self._kinds: dict[str, str] | None = None
        self._judged = _judged(run)
        self._held = Held(lambda tool: self.kinds.get(tool) == "output", judged=self._judged)
        self._parts: list[dict[str, Any]] = []
        self._own: list[Any] = []
        self._usage = Usage()
        self._provider: dict[str, Any] | None = None

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kinds of the present request's tools, by name."""
        if self._kinds is None:
            self._kinds = {each.name: each.kind for each in manager_of(self._run).tool_defs}
        return self._kinds

    def next_request(self) -> None:
        self._translate, self._kinds = Translator(), None
        self._held.next_response()

    def heard(self, event: object) -> list[ModelEvent]:
        """What is shown of an event at once."""
        return [shown for ours in self._translate(event) for shown in self._held.heard(ours)]

    def let_go(self) -> list[ModelEvent]:
        return self._held.let_go()

    def keep(self, response: messages.ModelResponse, *, without_calls: bool = False) -> None:
        """Takes a response into what the history will hold. What its provider wants back of it goes back only with the
        whole of it: a thought without the call that followed it would be refused."""
        ours = from_response(response, self._driver.model)
        parts = [part for part in ours.parts if not (without_calls and part["type"] == "call")]
        whole = len(parts) == len(ours.parts) and ours.provider is not None
        self._parts += parts
        self._own += ours.provider["body"] if whole and ours.provider else [NOTHING] * len(parts)
        self._provider = ours.provider
        self._usage = Usage(
            self._usage.input_tokens + ours.usage.input_tokens,
            self._usage.output_tokens + ours.usage.output_tokens,
        )

    def end(self, response: messages.ModelResponse, output: object) -> list[ModelEvent]:
        """The run's end: its output, as text, where the response's own text is not it already."""
        self.keep(response, without_calls=True)
        if not response.tool_calls and not self._judged:
            return []
        text = output if isinstance(output, str) else json.dumps(plain(output), ensure_ascii=False)
        if not response.tool_calls:  # the text was judged: what came of it stands in its place
            self._parts = [part for part in self._parts if part["type"] != "text"]
            self._own = [NOTHING] * len(self._parts)
        before = self.let_go() if response.tool_calls else []
        text = plain(text)
        self._parts.append({"type": "text", "text": text} if isinstance(output, str) else output_part(text))
        self._own.append({})
        return [*before, *self._held.text(text)]

    def response(self) -> ModelResponse:
        provider = {**self._provider, "body": self._own} if self._provider else None
        return ModelResponse(self._parts, self._usage, provider)


def _judged(run: Run) -> bool:
    """Whether text is not the output as it stands: it is validated, parsed, or given to a function."""
    deps = run.ctx.deps
    processor = deps.output_schema.text_processor
    return bool(deps.output_validators) or (
        processor is not None and type(processor).__name__ != "TextOutputProcessor"
    )


def _failed(error: Exception) -> tuple[Code, float | None]:
    """The code of a failed step. What is neither the library's nor the network's is the agent's own code."""
    of_the_model = (exceptions.AgentRunError, OSError, ExceptionGroup)
    return (
        classified(cast("Exception", error))
        if isinstance(error, of_the_model)
        else (Code.FRAMEWORK_INTERNAL_ERROR, None)
    )
