"""What the model is sent: the neutral history, one JSON entry a row.

The entries are ours, not a library's dump, so a library upgrade never makes a stored session unreadable. A provider's own dump
may ride on an assistant entry under ``provider`` for fidelity (signatures, tools that it ran itself); a reader that does not know
it ignores it.

Shapes (``VERSION`` 1)::

    user       {"v": 1, "role": "user", "parts": [{"type": "text", "text"} | {"type": "file", "mediaType", "url", "filename"?}]}
    assistant  {"v": 1, "role": "assistant", "parts": [{"type": "text", "text", "output"?: true}
                   | {"type": "reasoning", "text", "signature"?, "id"?}
                   | {"type": "call", "id", "tool", "input"}
                   | {"type": "file", "mediaType", "url"}],
                "provider"?: {"name", "version", "body", "details"?}, "usage"?: {"inputTokens", "outputTokens"}}
    tool       {"v": 1, "role": "tool", "results": [{"id", "tool", "outcome", "value"}]}

``outcome`` is a ``call_state.Outcome``; ``value`` is the output for ``ok``, else the text the model may read. ``output`` marks the
text that is a run's structured output, as JSON.

An entry of another version or with anything of another kind is not readable here (``is_readable``): it is kept as it is, for the
release that wrote it.

Invariant, kept by the writers and checked by ``unpaired``: directly after an assistant entry with calls stands one tool entry that
holds exactly one result for each of its calls.
"""

from collections.abc import Sequence
from typing import Any, cast

from app.domain.call_state import Outcome

VERSION = 1

Entry = dict[str, Any]

NOTHING_SAID = "(an empty message)"
"""What a model reads of a user message with nothing in it: providers refuse one without text."""


def user_entry(parts: Sequence[dict[str, Any]]) -> Entry:
    return {"v": VERSION, "role": "user", "parts": list(parts)}


def assistant_entry(
    parts: Sequence[dict[str, Any]],
    provider: dict[str, Any] | None = None,
    usage: dict[str, int] | None = None,
) -> Entry:
    entry: Entry = {"v": VERSION, "role": "assistant", "parts": list(parts)}
    if provider is not None:
        entry["provider"] = provider
    if usage is not None:
        entry["usage"] = usage
    return entry


def tool_entry(results: Sequence[dict[str, Any]]) -> Entry:
    return {"v": VERSION, "role": "tool", "results": list(results)}


# By role, the key of the list it holds and what each item of it has; a user's and an assistant's items are told apart by ``type``.
_SHAPES: dict[str, tuple[str, dict[str, set[str]]]] = {
    "user": ("parts", {"text": {"text"}, "file": {"mediaType", "url"}}),
    "assistant": (
        "parts",
        {
            "text": {"text"},
            "reasoning": {"text"},
            "call": {"id", "tool", "input"},
            "file": {"mediaType", "url"},
        },
    ),
    "tool": ("results", {"": {"id", "tool", "outcome", "value"}}),
}
_OUTCOMES = frozenset(Outcome)


def is_readable(entry: object) -> bool:
    """Whether this release knows everything that an entry holds."""
    fields = cast("Entry", entry) if isinstance(entry, dict) else {}
    held, kinds = _SHAPES.get(fields.get("role", ""), ("", {}))
    items = fields.get(held)
    if fields.get("v") != VERSION or not isinstance(items, list):
        return False
    return all(_is_known(item, kinds) for item in cast("list[object]", items))


def _is_known(item: object, kinds: dict[str, set[str]]) -> bool:
    fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    wanted = kinds.get(fields.get("type", ""))
    return wanted is not None and wanted <= fields.keys() and fields.get("outcome", "ok") in _OUTCOMES


def calls_of(entry: Entry) -> list[dict[str, Any]]:
    """The call parts of an assistant entry, in order; empty for any other entry."""
    if entry["role"] != "assistant":
        return []
    return [part for part in entry["parts"] if part["type"] == "call"]


def unpaired(entries: Sequence[Entry]) -> list[str]:
    """The ids of calls without exactly one result directly after them. Empty when a model may be sent this history."""
    wrong: list[str] = []
    for index, entry in enumerate(entries):
        calls = [part["id"] for part in calls_of(entry)]
        after = entries[index + 1] if index + 1 < len(entries) else None
        results = (
            [r["id"] for r in after["results"]]
            if calls and after is not None and after["role"] == "tool"
            else []
        )
        if sorted(calls) != sorted(results):
            wrong.extend(calls)
    return wrong
