"""The UI message chunks we send: one constructor each, nothing outside the set that every client from ai 6.0.0 on accepts.

No nulls for optional keys, ``input`` and ``output`` always present, bare steps and endings, static tool parts only.
"""

import re
from typing import Any

Chunk = dict[str, Any]

START_STEP: Chunk = {"type": "start-step"}
FINISH_STEP: Chunk = {"type": "finish-step"}
FINISH: Chunk = {"type": "finish"}
ABORT: Chunk = {"type": "abort"}

# The chunk types that end a stream's content; one of them, then `[DONE]`, ends every whole stream.
ENDINGS = frozenset({"finish", "abort", "error"})


_DATA_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OUR_DATA = frozenset({"resume-rejected", "tool-output-elsewhere", "subagent"})


def start(message_id: str, metadata: dict[str, Any] | None = None) -> Chunk:
    chunk: Chunk = {"type": "start", "messageId": message_id}
    if metadata:
        chunk["messageMetadata"] = metadata
    return chunk


def message_metadata(metadata: dict[str, Any]) -> Chunk:
    return {"type": "message-metadata", "messageMetadata": metadata}


def error(text: str) -> Chunk:
    return {"type": "error", "errorText": text}


def text_start(part_id: str) -> Chunk:
    return {"type": "text-start", "id": part_id}


def text_delta(part_id: str, delta: str) -> Chunk:
    return {"type": "text-delta", "id": part_id, "delta": delta}


def text_end(part_id: str) -> Chunk:
    return {"type": "text-end", "id": part_id}


def reasoning_start(part_id: str) -> Chunk:
    return {"type": "reasoning-start", "id": part_id}


def reasoning_delta(part_id: str, delta: str) -> Chunk:
    return {"type": "reasoning-delta", "id": part_id, "delta": delta}


def reasoning_end(part_id: str) -> Chunk:
    return {"type": "reasoning-end", "id": part_id}


def file(media_type: str, url: str) -> Chunk:
    return {"type": "file", "mediaType": media_type, "url": url}


def source_url(source_id: str, url: str, title: str | None = None) -> Chunk:
    chunk: Chunk = {"type": "source-url", "sourceId": source_id, "url": url}
    if title is not None:
        chunk["title"] = title
    return chunk


def source_document(source_id: str, media_type: str, title: str, filename: str | None = None) -> Chunk:
    chunk: Chunk = {
        "type": "source-document",
        "sourceId": source_id,
        "mediaType": media_type,
        "title": title,
    }
    if filename is not None:
        chunk["filename"] = filename
    return chunk


def tool_input_start(call_id: str, tool: str) -> Chunk:
    return {"type": "tool-input-start", "toolCallId": call_id, "toolName": tool}


def tool_input_delta(call_id: str, text: str) -> Chunk:
    return {"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": text}


def tool_input_available(call_id: str, tool: str, input_: Any, *, flagged: bool = False) -> Chunk:
    """``flagged``: executed by the provider's side, so a client's ``onToolCall`` does not run it."""
    chunk: Chunk = {"type": "tool-input-available", "toolCallId": call_id, "toolName": tool, "input": input_}
    if flagged:
        chunk["providerExecuted"] = True
    return chunk


def tool_approval_request(call_id: str, approval_id: str) -> Chunk:
    return {"type": "tool-approval-request", "approvalId": approval_id, "toolCallId": call_id}


def tool_output_available(call_id: str, output: Any, *, flagged: bool | None = None) -> Chunk:
    """``flagged``: ``True`` for a server tool, ``False`` clears the flag of a replayed client call, ``None`` leaves it out."""
    chunk: Chunk = {"type": "tool-output-available", "toolCallId": call_id, "output": output}
    if flagged is not None:
        chunk["providerExecuted"] = flagged
    return chunk


def tool_output_error(call_id: str, text: str, *, flagged: bool | None = None) -> Chunk:
    chunk: Chunk = {"type": "tool-output-error", "toolCallId": call_id, "errorText": text}
    if flagged is not None:
        chunk["providerExecuted"] = flagged
    return chunk


def tool_output_denied(call_id: str) -> Chunk:
    return {"type": "tool-output-denied", "toolCallId": call_id}


def is_data_name(name: object) -> bool:
    """Whether an agent may send data parts of this name; those that mean something to this server are not its own."""
    return isinstance(name, str) and bool(_DATA_NAME.fullmatch(name)) and name not in _OUR_DATA


def data(name: str, value: Any, *, transient: bool = False, part_id: str | None = None) -> Chunk:
    """A ``data-<name>`` part. A transient one writes nothing to the client's message."""
    chunk: Chunk = {"type": f"data-{name}", "data": value}
    if part_id is not None:
        chunk["id"] = part_id
    if transient:
        chunk["transient"] = True
    return chunk


def resume_rejected(call_id: str, reason: str) -> Chunk:
    return data("resume-rejected", {"toolCallId": call_id, "reason": reason})


def output_elsewhere(call_id: str) -> Chunk:
    return data("tool-output-elsewhere", {"toolCallId": call_id})


def subagent_progress(call_id: str, tool: str, status: str, text: str) -> Chunk:
    return data(
        "subagent", {"toolCallId": call_id, "tool": tool, "status": status, "text": text}, transient=True
    )


# A step that writes to every client's copy of the message and holds no tool part, so that no stock predicate is true after it.
def boundary(message_id: str) -> list[Chunk]:
    return [START_STEP, start(message_id), FINISH_STEP]
