"""What the Responses API of OpenAI refuses of a request: pairing, thoughts without their item, changed or unknown items, keys and
forms that it does not take.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

Item = dict[str, Any]


@dataclass
class Given:
    """What the server has given: each item by its id, and which thought stood directly before it."""

    items: dict[str, Item] = field(default_factory=dict)
    thought_of: dict[str, str] = field(default_factory=dict)

    def take(self, items: list[Item]) -> None:
        for before, item in zip([None, *items], items, strict=False):
            self.items[item["id"]] = item
            if before is not None and before["type"] == "reasoning":
                self.thought_of[item["id"]] = before["id"]


_BODY = {
    *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "stream", "include"),
    *("reasoning", "text", "max_output_tokens", "temperature", "top_p", "store", "truncation", "user"),
    *("previous_response_id", "prompt_cache_key", "prompt_cache_options", "service_tier"),
}
_KEYS: dict[str, set[str]] = {
    "message": {"type", "role", "content", "id", "status", "phase"},
    "reasoning": {"type", "id", "summary", "encrypted_content", "content", "status"},
    "function_call": {"type", "id", "call_id", "name", "arguments", "status"},
    "function_call_output": {"type", "id", "call_id", "output", "status"},
    "web_search_call": {"type", "id", "action", "status"},
}
_PARTS: dict[str, dict[str, set[str]]] = {
    "user": {
        "input_text": {"type", "text"},
        "input_image": {"type", "image_url", "file_id", "detail"},
        "input_file": {"type", "file_data", "filename", "file_url", "file_id"},
    },
    "assistant": {"output_text": {"type", "text", "annotations"}},
}


def faults_of(body: dict[str, Any], given: Given) -> list[str]:
    items: list[Item] = body["input"]
    faults = [f"an unknown parameter {key!r}" for key in sorted(set(body) - _BODY)]
    if not items:
        faults.append("no input")
    for number, item in enumerate(items):
        faults += [f"input[{number}]: {fault}" for fault in _faults_of(item, given)]
    return faults + _unpaired(items) + _torn(items, given)


def _unpaired(items: list[Item]) -> list[str]:
    faults: list[str] = []
    waiting: list[str] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            waiting.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in waiting:
                faults.append(f"No tool call found for function call output {item['call_id']}")
            else:
                waiting.remove(item["call_id"])
        elif kind == "message" and item.get("role") == "user" and waiting:
            faults.append(f"a user message before the outputs of {waiting}")
    return [*faults, *(f"No tool output found for function call {call_id}" for call_id in waiting)]


def _torn(items: list[Item], given: Given) -> list[str]:
    """Items that come back without what stood beside them."""
    faults: list[str] = []
    ids = [item["id"] for item in items if "id" in item]
    faults += [f"Duplicate item {item_id}" for item_id in sorted(set(ids)) if ids.count(item_id) > 1]
    for before, item in zip([None, *items], [*items, None], strict=True):
        before_id = before["id"] if before is not None and before.get("type") == "reasoning" else None
        item_id = item.get("id", "") if item is not None else ""
        wanted = given.thought_of.get(item_id)
        if before_id is not None and wanted != before_id:
            faults.append(f"{before_id} was provided without its required following item")
        elif wanted is not None and wanted != before_id:
            faults.append(f"{item_id} was provided without its required 'reasoning' item {wanted}")
    return faults


def _faults_of(item: Item, given: Given) -> list[str]:
    kind = item.get("type", "message")
    if kind not in _KEYS:
        return [f"an item of the unknown type {kind!r}"]
    if foreign := set(item) - _KEYS[kind]:
        return [f"a {kind} with {sorted(foreign)}"]
    item_id = item.get("id")
    if item_id is not None and item_id not in given.items:
        return [f"Item {item_id!r} not found"]
    if kind == "reasoning":
        if item_id is None:
            return ["a thought without its id"]
        return [] if _as_given(item, given.items[item_id]) else [f"{item_id} could not be verified"]
    if kind in ("function_call", "function_call_output") and not 0 < len(item["call_id"]) <= 64:
        return [f"the call id {item['call_id']!r}"]
    if kind == "function_call" and not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", item["name"]):
        return [f"the name {item['name']!r}"]
    if kind == "function_call":
        return _faults_of_arguments(item["arguments"])
    if kind == "function_call_output":
        return [] if isinstance(item["output"], str) else ["an output that is not a text"]
    if kind == "web_search_call":
        return (
            [] if item_id is not None and "sources" not in item["action"] else ["a search with its sources"]
        )
    return _faults_of_message(item)


def _as_given(item: Item, made: Item) -> bool:
    same = ("summary", "encrypted_content")
    return all(item.get(key) == made.get(key) for key in same)


def _faults_of_arguments(arguments: Any) -> list[str]:
    if not isinstance(arguments, str):
        return ["arguments that are not a text"]
    try:
        read = json.loads(arguments)
    except ValueError:
        return ["arguments that are not JSON"]
    return [] if isinstance(read, dict) else ["arguments that are not an object"]


def _faults_of_message(item: Item) -> list[str]:
    role, content = item.get("role"), item.get("content")
    if role not in ("user", "assistant", "system", "developer"):
        return [f"the role {role!r}"]
    if isinstance(content, str):
        return [] if content or role == "user" else ["an empty message"]
    faults: list[str] = []
    for part in content or ():
        keys = _PARTS.get(role, {}).get(part["type"])
        if keys is None or (foreign := set(part) - keys):
            faults.append(
                f"a {part['type']} of a {role} with {sorted(foreign) if keys else 'no right to it'}"
            )
        elif part["type"] == "input_image":
            url = str(part.get("image_url"))
            form = url[:8].lower().startswith(("https://", "http://")) or _inlined(url, "image/")
            faults += [] if form else [f"an image at {url[:40]!r}"]
        elif part["type"] == "input_file" and "file_data" in part:
            whole = part.get("filename") and _inlined(part["file_data"], "application/pdf")
            faults += [] if whole else ["a file without its name, or of a kind that is not taken"]
    return faults or ([] if content else ["an empty message"])


def _inlined(url: str, kind: str) -> bool:
    header, comma, data = url.partition(",")
    return bool(comma and data) and header.startswith(f"data:{kind}") and header.endswith(";base64")
