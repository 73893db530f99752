"""Tools that a provider runs by itself: a web search, code, a remote MCP server.

No row of ours, no result of ours. The provider wants its calls and results back as they were, in their places, and without
them may refuse the thoughts that led to them; so the library's dump of them rides in the ``provider`` body of their entry, and
another model is not told of them. The user sees one settled tool part for each, without what only the provider can read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import messages

from app.agent.model_words import read_input
from app.agent.plain import plain

NativePart = messages.NativeToolCallPart | messages.NativeToolReturnPart

_DUMP = "provider_tool"
_PARTS: TypeAdapter[messages.ModelResponsePart] = TypeAdapter(messages.ModelResponsePart)


def dumped(part: NativePart) -> dict[str, Any]:
    """An item of an entry's ``provider`` body: it stands for no part of the entry's own."""
    return {_DUMP: plain(_PARTS.dump_python(part, mode="json", exclude_none=True))}


def is_dump(item: Mapping[str, Any]) -> bool:
    return _DUMP in item


def loaded(item: Mapping[str, Any]) -> messages.ModelResponsePart | None:
    """``None`` for a dump that this version of the library cannot read."""
    try:
        return _PARTS.validate_python(item[_DUMP])
    except ValidationError:
        return None


def are_paired(parts: Sequence[messages.ModelResponsePart]) -> bool:
    """Whether each call that the provider ran has its result: half of one would be refused."""
    calls = [part.tool_call_id for part in parts if isinstance(part, messages.NativeToolCallPart)]
    results = [part.tool_call_id for part in parts if isinstance(part, messages.NativeToolReturnPart)]
    return sorted(calls) == sorted(results)


def shown_input(call: messages.NativeToolCallPart | None) -> Any:
    return read_input(call.args) if call is not None else {}


def shown_output(content: Any) -> Any:
    """A result without what is sealed for the provider."""
    return _unsealed(plain(content))


def _unsealed(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _unsealed(item) for key, item in fields.items() if not key.startswith("encrypted_")}
    return [_unsealed(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value
