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
                "provider"?: {"name", "version", "body", "details"?}}
    tool       {"v": 1, "role": "tool", "results": [{"id", "tool", "outcome", "value"}]}

``outcome`` is a ``call_state.Outcome``; ``value`` is the output for ``ok``, else the text the model may read. ``output`` marks the
text that is a run's structured output, as JSON.

Invariant, kept by the writers and checked by ``unpaired``: directly after an assistant entry with calls stands one tool entry that
holds exactly one result for each of its calls.
"""

from collections.abc import Sequence
from typing import Any

VERSION = 1

Entry = dict[str, Any]

NOTHING_SAID = "(an empty message)"
"""What a model reads of a user message with nothing in it: providers refuse one without text."""


def user_entry(parts: Sequence[dict[str, Any]]) -> Entry:
    return {"v": VERSION, "role": "user", "parts": list(parts)}


def assistant_entry(parts: Sequence[dict[str, Any]], provider: dict[str, Any] | None = None) -> Entry:
    entry: Entry = {"v": VERSION, "role": "assistant", "parts": list(parts)}
    if provider is not None:
        entry["provider"] = provider
    return entry


def tool_entry(results: Sequence[dict[str, Any]]) -> Entry:
    return {"v": VERSION, "role": "tool", "results": list(results)}


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
