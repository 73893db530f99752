"""Between the library's words and ours: its events and responses as the port's, our history as its messages. Shared
by the adapter for models and the one for whole agents.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pydantic_ai
from pydantic_ai import messages
from pydantic_ai.models import Model as LibraryModel
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from app.agent.model import (
    ModelEvent,
    ModelResponse,
    ProviderTool,
    ReasoningDelta,
    TextDelta,
    ToolInputDelta,
    ToolSpec,
    Usage,
)
from app.agent.model_words import (
    PDF,
    given_file,
    media_type_of,
    portable_id,
    portable_name,
    read_input,
    result_text,
)
from app.agent.plain import plain
from app.agent.pydantic_ai_failures import innermost
from app.agent.pydantic_ai_provider_tools import (
    are_paired,
    dumped,
    is_dump,
    loaded,
    shown_input,
    shown_output,
)
from app.domain.call_state import Outcome
from app.domain.history import NOTHING_SAID, Entry

# --- what comes back
# ---------------------------------------------------------------------------------------------


class Translator:
    """The library's events as ours. Parts are numbered as they first say something."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str], int] = {}
        self._calls: dict[int, messages.ToolCallPart] = {}
        self._provider_calls: dict[int, messages.NativeToolCallPart] = {}

    def __call__(self, event: object) -> list[ModelEvent]:
        if isinstance(event, messages.PartStartEvent):
            part = event.part
            if isinstance(part, messages.ToolCallPart):
                self._calls[event.index] = part
                return [self._input(event.index, part.args)]
            if isinstance(part, messages.TextPart | messages.ThinkingPart):
                return self._said(event.index, part.content, isinstance(part, messages.ThinkingPart))
            if isinstance(part, messages.NativeToolCallPart):
                self._provider_calls[event.index] = part
            if isinstance(part, messages.NativeToolReturnPart):
                return self._ran(event.index, part)
        if isinstance(event, messages.PartDeltaEvent):
            delta = event.delta
            if isinstance(delta, messages.TextPartDelta | messages.ThinkingPartDelta):
                reasoning = isinstance(delta, messages.ThinkingPartDelta)
                return self._said(event.index, delta.content_delta, reasoning)
            if (
                isinstance(delta, messages.ToolCallPartDelta)
                and delta.args_delta
                and event.index in self._calls
            ):
                return [self._input(event.index, delta.args_delta)]
            if isinstance(delta, messages.ToolCallPartDelta) and event.index in self._provider_calls:
                called = delta.apply(self._provider_calls[event.index])
                self._provider_calls[event.index] = cast("messages.NativeToolCallPart", called)
        return []

    def _ran(self, index: int, result: messages.NativeToolReturnPart) -> list[ModelEvent]:
        calls = self._provider_calls.values()
        call = next((each for each in calls if each.tool_call_id == result.tool_call_id), None)
        if call is None:
            return []
        name, output = portable_name(result.tool_name), shown_output(result.content)
        number = self._number(index, "provider")
        return [ProviderTool(number, result.tool_call_id, name, shown_input(call), output)]

    def _said(self, index: int, text: str | None, reasoning: bool) -> list[ModelEvent]:
        if not text:
            return []
        part = self._number(index, "reasoning" if reasoning else "text")
        return [ReasoningDelta(part, text) if reasoning else TextDelta(part, text)]

    def _input(self, index: int, args: str | Mapping[str, Any] | None) -> ToolInputDelta:
        text = args if isinstance(args, str) else json.dumps(args) if args else ""
        call = self._calls[index]
        return ToolInputDelta(
            self._number(index, "call"), text, call.tool_call_id, portable_name(call.tool_name)
        )

    def _number(self, index: int, kind: str) -> int:
        return self._numbers.setdefault((index, kind), len(self._numbers))


def from_response(response: messages.ModelResponse, model: LibraryModel) -> ModelResponse:
    parts: list[dict[str, Any]] = []
    body: list[dict[str, Any]] = []
    paired = are_paired(response.parts)
    for part in response.parts:
        if isinstance(part, messages.NativeToolCallPart | messages.NativeToolReturnPart):
            body += [dumped(part)] if paired else []
            continue
        own = {key: value for key in _OWN if (value := getattr(part, key, None)) is not None}
        own = own if paired and (len(own) > 1 or "provider_name" not in own) else {}
        if isinstance(part, messages.TextPart) and part.content:
            parts.append({"type": "text", "text": plain(part.content)})
        elif isinstance(part, messages.ThinkingPart) and (part.content or own):
            parts.append({"type": "reasoning", "text": plain(part.content)})
        elif isinstance(part, messages.ToolCallPart):
            name, given = portable_name(part.tool_name), read_input(part.args)
            parts.append({"type": "call", "id": part.tool_call_id, "tool": name, "input": given})
        elif isinstance(part, messages.FilePart):
            parts.append({"type": "file", "mediaType": part.content.media_type, "url": part.content.data_uri})
        else:
            continue
        body.append(plain(own))
    provider: dict[str, Any] = {"name": _maker(model), "version": pydantic_ai.__version__, "body": body}
    if any(body) and response.provider_details:
        provider["details"] = plain(response.provider_details)
    usage = Usage(response.usage.input_tokens, response.usage.output_tokens)
    return ModelResponse(parts, usage, provider if any(body) else None)


# What a model wants to see again of a part that it made itself.
_OWN = ("id", "signature", "provider_details", "provider_name")
_NOTHING: Mapping[str, Any] = {}


def _maker(model: LibraryModel) -> str:
    """Who made a response: the provider's other API, or other model, may refuse its details."""
    return f"{model.system}/{type(innermost(model)).__name__}/{model.model_name}"


# --- what is sent
# ------------------------------------------------------------------------------------------------


def tool_definition(spec: ToolSpec) -> ToolDefinition:
    schema = dict(spec.input_schema)
    kind = "output" if spec.output else "function"
    return ToolDefinition(
        name=spec.name, description=spec.description, parameters_json_schema=schema, kind=kind
    )


def request_parameters(tools: Sequence[ToolSpec]) -> ModelRequestParameters:
    """What a model is offered. How an output is asked for is its provider's best way: a tool, or a text of that form."""
    offered = [tool_definition(spec) for spec in tools if not spec.output]
    output = next((spec for spec in tools if spec.output), None)
    if output is None:
        return ModelRequestParameters(function_tools=offered)
    return ModelRequestParameters(
        function_tools=offered,
        output_mode="auto",
        output_tools=[tool_definition(output)],
        output_object=OutputObjectDefinition(dict(output.input_schema), output.name, output.description),
    )


def to_messages(
    history: Sequence[Entry], model: LibraryModel, instructions: str = ""
) -> list[messages.ModelMessage]:
    sent: list[messages.ModelMessage] = []
    rename: Callable[[str], str] = str
    for entry in history:
        if entry["role"] == "user":
            content = [_user_content(part, model) for part in entry["parts"]]
            said = [item for item in content if not isinstance(item, str) or item.strip()]
            sent.append(messages.ModelRequest([messages.UserPromptPart(said or [NOTHING_SAID])]))
        elif entry["role"] == "tool":
            sent.append(messages.ModelRequest([_tool_return(result, rename) for result in entry["results"]]))
        else:
            own = _own_details(entry, model)
            rename = str if own is not None else portable_id
            if parts := _response_parts(entry, own, rename):
                details = entry["provider"].get("details") if own is not None else None
                sent.append(
                    messages.ModelResponse(parts, provider_name=model.system, provider_details=details)
                )
    last = sent[-1] if sent else None
    if instructions:
        if not isinstance(last, messages.ModelRequest):
            sent.append(last := messages.ModelRequest([]))
        last.instructions = instructions
    return sent


Own = Sequence[Mapping[str, Any] | messages.ModelResponsePart]


def _own_details(entry: Entry, model: LibraryModel) -> Own | None:
    """The own details of each part, and between them what the provider itself has run; ``None`` when another model, or
    nobody, made the response, or when not all of it can be read any more."""
    provider: Mapping[str, Any] = entry.get("provider") or {}
    body = provider.get("body")
    if provider.get("name") != _maker(model) or not isinstance(body, list):
        return None
    items = cast("list[dict[str, Any]]", body)
    own = [loaded(item) if is_dump(item) else item for item in items]
    whole = sum(isinstance(item, dict) for item in own) == len(entry["parts"])
    return [item for item in own if item is not None] if whole and None not in own else None


def _response_parts(
    entry: Entry, own: Own | None, rename: Callable[[str], str]
) -> list[messages.ModelResponsePart]:
    parts: list[messages.ModelResponsePart] = []
    said = iter(entry["parts"])
    for details in own if own is not None else [_NOTHING] * len(entry["parts"]):
        if not isinstance(details, Mapping):
            parts.append(details)
            continue
        part = next(said)
        if part["type"] == "text" and (part["text"].strip() or details):  # spaces alone would be refused
            parts.append(messages.TextPart(part["text"], **details))
        elif part["type"] == "reasoning" and details:  # without its signature no provider wants it back
            parts.append(messages.ThinkingPart(part["text"], **details))
        elif part["type"] == "call":
            given = part["input"] if isinstance(part["input"], dict) else {"INVALID_JSON": part["input"]}
            parts.append(messages.ToolCallPart(part["tool"], given, rename(part["id"]), **details))
    return parts


def _tool_return(result: Mapping[str, Any], rename: Callable[[str], str]) -> messages.ToolReturnPart:
    call_id = rename(result["id"])
    if result["outcome"] == Outcome.OK:
        # An empty text would look like a failure.
        content = result["value"] if result["value"] is not None else "null"
        return messages.ToolReturnPart(result["tool"], content, call_id)
    outcome = {Outcome.ERROR: "failed", Outcome.DENIED: "denied"}.get(
        Outcome(result["outcome"]), "interrupted"
    )
    return messages.ToolReturnPart(result["tool"], result_text(result), call_id, outcome=cast("Any", outcome))


def _user_content(part: Mapping[str, Any], model: LibraryModel) -> messages.UserContent:
    if part["type"] == "text":
        return part["text"]
    given = given_file(part, adapter=type(innermost(model)).__name__)
    if isinstance(given, str):
        return given
    if given is not None:
        return messages.BinaryContent(given.data, media_type=given.media_type)
    media_type = media_type_of(part)
    kind = messages.DocumentUrl if media_type == PDF else messages.ImageUrl
    return kind(part["url"], media_type=media_type)
