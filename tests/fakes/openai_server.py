"""A loopback server that speaks the streamed chat completions of OpenAI, well and badly.

Each request takes the next of ``replies``; ``requests`` records what it sent. A reply is a coroutine function
that writes a whole HTTP response. Error bodies hold ``SECRET``, which must never leave the process.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

SECRET = "sk-planted-secret"

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class OpenAIServer:
    url: str = ""
    replies: list[Reply] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    connections: int = 0
    open: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The messages of the newest request."""
        return self.requests[-1]["messages"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self.open[task] = writer
        try:
            while head := await _read_head(reader, self.headers):
                self.requests.append(json.loads(await reader.readexactly(head)))
                await self.replies.pop(0)(writer)
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            del self.open[task]
            writer.close()


async def _read_head(reader: asyncio.StreamReader, kept: list[dict[str, str]] | None = None) -> int:
    """The content length of the next request; 0 when the peer has gone. Its headers go to ``kept``."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return 0
    lines = (line.partition(":") for line in head.decode().split("\r\n")[1:])
    headers = {name.lower(): value.strip() for name, _, value in lines if name}
    if kept is not None:
        kept.append(headers)
    return int(headers["content-length"])


@asynccontextmanager
async def openai_server() -> AsyncIterator[OpenAIServer]:
    fake = OpenAIServer()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield fake
    finally:
        server.close()
        serving = dict(fake.open)
        for writer in serving.values():
            writer.transport.abort()
        await asyncio.gather(*serving)


# --- chunks
# ------------------------------------------------------------------------------------------------------


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }


def text(piece: str) -> dict[str, Any]:
    return delta(content=piece)


def call_start(index: int, call_id: str, tool: str, arguments: str = "") -> dict[str, Any]:
    function = {"name": tool, "arguments": arguments}
    return delta(tool_calls=[{"index": index, "id": call_id, "type": "function", "function": function}])


def call_more(index: int, arguments: str) -> dict[str, Any]:
    return delta(tool_calls=[{"index": index, "function": {"arguments": arguments}}])


def usage(prompt: int, completion: int) -> dict[str, Any]:
    counted = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {**delta(), "choices": [], "usage": counted}


# --- replies
# -----------------------------------------------------------------------------------------------------


def stream(*chunks: dict[str, Any]) -> Reply:
    """A whole stream, as it should be."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        _open_stream(writer)
        _write_chunks(writer, chunks)
        _write(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    return reply


def answer(words: str = "ok") -> Reply:
    return stream(delta(role="assistant"), text(words), delta("stop"), usage(3, 2))


def drop(*chunks: dict[str, Any]) -> Reply:
    """The socket is closed in the middle of the stream."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        _open_stream(writer)
        _write_chunks(writer, chunks)
        await writer.drain()
        writer.transport.abort() if not chunks else writer.close()

    return reply


def refuse(status: int, code: str, *, error_type: str = "error", retry_after: str | None = None) -> Reply:
    """An error instead of a stream."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        error = {"message": f"refused {SECRET}", "type": error_type, "code": code, "param": None}
        body = json.dumps({"error": error}).encode()
        head = f"HTTP/1.1 {status} No\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        if retry_after is not None:
            head += f"retry-after: {retry_after}\r\n"
        writer.write(head.encode() + b"\r\n" + body)
        await writer.drain()

    return reply


def error_chunk() -> dict[str, Any]:
    """An error inside the stream."""
    return {"error": {"message": f"broke {SECRET}", "type": "server_error", "code": "server_error"}}


def silence() -> Reply:
    """Nothing at all, until the client gives up."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        _open_stream(writer)
        await writer.drain()
        await writer.wait_closed()

    return reply


def raw(data: bytes) -> Reply:
    """A stream with this text as its only event."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        _open_stream(writer)
        _write(writer, b"data: " + data + b"\n\n")
        _write(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    return reply


def _open_stream(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")


def _write_chunks(writer: asyncio.StreamWriter, chunks: Sequence[dict[str, Any]]) -> None:
    for chunk in chunks:
        _write(writer, b"data: " + json.dumps(chunk).encode() + b"\n\n")


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


# --- what the real one refuses
# -----------------------------------------------------------------------------------

_MESSAGE_KEYS = {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "refusal"}
_PART_KEYS = {"text": {"type", "text"}, "image_url": {"type", "image_url"}, "file": {"type", "file"}}


def faults_of(body: dict[str, Any]) -> list[str]:
    """What the real API would refuse of a request: pairing, ids, unknown keys, files of another form."""
    faults: list[str] = []
    waiting: list[str] = []
    for number, message in enumerate(body["messages"]):
        if foreign := set(message) - _MESSAGE_KEYS:
            faults.append(f"message {number} has {sorted(foreign)}")
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                faults.append(f"message {number} answers nothing")
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            faults.append(f"no result for {waiting} before message {number}")
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        if any(len(call_id) > 40 for call_id in waiting):
            faults.append(f"message {number} has an id of more than 40 characters")
        parts = message["content"] if isinstance(message.get("content"), list) else []
        foreign_parts = [part for part in parts if set(part) - _PART_KEYS.get(part["type"], set())]
        faults += [f"message {number} has a part {sorted(part)}" for part in foreign_parts]
    return faults + ([f"no result for {waiting}"] if waiting else [])
