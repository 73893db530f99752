"""A loopback server that speaks the streamed messages API of Anthropic, and refuses what the real one refuses.

Each request takes the next of ``replies`` (content blocks, a ``Turn`` of them that ends in another way, or an ``error``);
before that it is judged by ``faults_of``: pairing, ids, signatures, files, unknown keys. A fault is answered 400 and kept in
``faults``.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.openai_server import SECRET, Reply, _read_head, _write

Block = dict[str, Any]
SEALED = "SEALED"


def text(said: str, pieces: int = 2) -> Block:
    return {"type": "text", "text": said, "pieces": pieces}


def thinking(thought: str, signature: str) -> Block:
    return {"type": "thinking", "thinking": thought, "signature": signature}


def redacted(data: str) -> Block:
    return {"type": "redacted_thinking", "data": data}


def tool_use(call_id: str, name: str, **given: Any) -> Block:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def searched(call_id: str, query: str) -> list[Block]:
    """A search that the provider itself has made."""
    found = [
        {
            "type": "web_search_result",
            "url": "https://example.com",
            "title": "t",
            "encrypted_content": SEALED,
            "page_age": None,
        }
    ]
    return [
        {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"query": query}},
        {"type": "web_search_tool_result", "tool_use_id": call_id, "content": found},
    ]


@dataclass
class Turn:
    """A response that does not just end. ``stop_reason``: why it stopped, ``None`` when the socket is closed instead.
    ``error``: the type of an error event in its place."""

    blocks: list[Block]
    stop_reason: str | None = None
    error: str | None = None


def ended(stop_reason: str, *blocks: Block) -> Turn:
    return Turn(list(blocks), stop_reason)


def broken(error: str, *blocks: Block) -> Turn:
    return Turn(list(blocks), error=error)


def lost(*blocks: Block) -> Turn:
    """The socket is closed in the middle of the stream."""
    return Turn(list(blocks))


def error(status: int, kind: str, *, message: str = "", retry_after: str | None = None) -> Reply:
    """An error instead of a stream."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        _answer_error(writer, status, kind, f"{message} {SECRET}", retry_after)

    return reply


@dataclass
class AnthropicServer:
    url: str = ""
    replies: list[list[Block] | Turn | Reply] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    signatures: set[str] = field(default_factory=set)
    open: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.open.add(task)
        try:
            while length := await _read_head(reader):
                body = json.loads(await reader.readexactly(length))
                self.requests.append(body)
                found = faults_of(body, self.signatures)
                self.faults += found
                if found:
                    _answer_error(writer, 400, "invalid_request_error", "; ".join(found))
                elif callable(reply := self.replies.pop(0)):
                    await reply(writer)
                else:
                    self._speak(writer, reply)
                await writer.drain()
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open.discard(task)
            writer.close()

    def _speak(self, writer: asyncio.StreamWriter, said: list[Block] | Turn) -> None:
        blocks = said if isinstance(said, list) else said.blocks
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        usage = {"input_tokens": 5, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
        _event(
            writer,
            "message_start",
            message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage},
        )
        for index, block in enumerate(blocks):
            self.signatures |= {value for key in ("signature", "data") if (value := block.get(key))}
            started, deltas = _streamed(block)
            _event(writer, "content_block_start", index=index, content_block=started)
            for delta in deltas:
                _event(writer, "content_block_delta", index=index, delta=delta)
            _event(writer, "content_block_stop", index=index)
        reason = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
        if isinstance(said, Turn):
            if said.error is not None:
                _event(writer, "error", error={"type": said.error, "message": SECRET})
            if said.stop_reason is None:
                writer.close()
                return
            reason = said.stop_reason
        end = {"stop_reason": reason, "stop_sequence": None}
        _event(writer, "message_delta", delta=end, usage={"output_tokens": 7})
        _event(writer, "message_stop")
        writer.write(b"0\r\n\r\n")


def _streamed(block: Block) -> tuple[Block, list[Block]]:
    match block["type"]:
        case "text":
            said, size = block["text"], max(1, len(block["text"]) // block["pieces"])
            pieces = [said[start : start + size] for start in range(0, len(said), size)]
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
        case "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "tool_use" | "server_tool_use":
            given = block["input"]
            written = given if isinstance(given, str) else json.dumps(given)
            deltas = [
                {"type": "input_json_delta", "partial_json": piece} for piece in (written[:3], written[3:])
            ]
            return {**block, "input": {}}, deltas
        case _:
            return block, []


def _event(writer: asyncio.StreamWriter, kind: str, **fields: Any) -> None:
    _write(writer, f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode())


def _answer_error(
    writer: asyncio.StreamWriter, status: int, kind: str, message: str, retry_after: str | None = None
) -> None:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
    writer.write(f"HTTP/1.1 {status} No\r\ncontent-type: application/json\r\n".encode())
    if retry_after is not None:
        writer.write(f"retry-after: {retry_after}\r\n".encode())
    writer.write(f"content-length: {len(body)}\r\n\r\n".encode() + body)


# --- what it refuses

_KEYS: dict[str, set[str]] = {
    "text": {"type", "text", "cache_control", "citations"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "image": {"type", "source", "cache_control"},
    "document": {"type", "source", "title", "context", "citations", "cache_control"},
    "tool_use": {"type", "id", "name", "input", "cache_control"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "server_tool_use": {"type", "id", "name", "input", "cache_control"},
    "web_search_tool_result": {"type", "tool_use_id", "content", "cache_control"},
}
_MEDIA = {
    "image": {"image/png", "image/jpeg", "image/gif", "image/webp"},
    "document": {"application/pdf", "text/plain"},
}


def faults_of(body: dict[str, Any], signatures: set[str]) -> list[str]:
    """What the real API would refuse of a request. ``signatures``: those that this server has given."""
    faults: list[str] = []
    known = {
        "model",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "max_tokens",
        "stream",
        "temperature",
        "thinking",
    }
    if foreign := set(body) - known:
        faults.append(f"unknown keys {sorted(foreign)}")
    waiting: list[str] = []
    for number, message in enumerate(body["messages"]):
        content = message["content"]
        blocks: list[Block] = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if set(message) != {"role", "content"} or not blocks:
            faults.append(f"message {number} is not a role and a content")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            faults.append(f"message {number} has results for {results} and not for {waiting}")
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        ran = [block["id"] for block in blocks if block["type"] == "server_tool_use"]
        told = [block["tool_use_id"] for block in blocks if block["type"] == "web_search_tool_result"]
        if ran != told:
            faults.append(f"message {number} has a search without its result, or the other way")
        for block in blocks:
            faults += [
                f"message {number}: {fault}" for fault in _faults_of(block, message["role"], signatures)
            ]
    if body["messages"][-1]["role"] != "user":
        faults.append("the last message is not the user's")
    return faults


def _faults_of(block: Block, role: str, signatures: set[str]) -> list[str]:
    kind = block["type"]
    if kind not in _KEYS or (foreign := set(block) - _KEYS[kind]):
        return [f"a {kind} block with {sorted(foreign) if kind in _KEYS else 'an unknown type'}"]
    if kind in ("tool_use", "thinking", "redacted_thinking") and role != "assistant":
        return [f"a {kind} block of a {role}"]
    if kind in ("image", "document", "tool_result") and role != "user":
        return [f"a {kind} block of an {role}"]
    if kind == "text" and not block["text"].strip():
        return ["text content blocks must contain non-whitespace text"]
    if kind == "tool_use":
        return _faults_of_call(block)
    if kind == "thinking" and block["signature"] not in signatures:
        return ["a thought without the signature it was given"]
    if kind == "redacted_thinking" and block["data"] not in signatures:
        return ["a redacted thought that was changed"]
    if kind == "web_search_tool_result" and any(b["encrypted_content"] != SEALED for b in block["content"]):
        return ["a search result that was changed"]
    if kind in _MEDIA:
        source = block["source"]
        if source["type"] == "url":
            return [] if source["url"].startswith("https://") else ["a URL that is not https"]
        return [] if source["media_type"] in _MEDIA[kind] else [f"a {kind} of {source['media_type']}"]
    return []


def _faults_of_call(block: Block) -> list[str]:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", block["id"]):
        return [f"the id {block['id']!r}"]
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"]):
        return [f"the name {block['name']!r}"]
    return [] if isinstance(block["input"], dict) else ["an input that is not an object"]


@asynccontextmanager
async def anthropic_server() -> AsyncIterator[AnthropicServer]:
    fake = AnthropicServer()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield fake
    finally:
        server.close()
        for task in list(fake.open):
            task.cancel()
        await asyncio.gather(*fake.open, return_exceptions=True)
