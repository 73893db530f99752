"""A loopback server that speaks the streamed Responses API of OpenAI, and refuses what the real one refuses.

Each request takes the next of ``replies``: a ``turn`` of items, or a reply of ``openai_server`` (an HTTP error, a silence).
Before that it is judged by ``faults_of``, which knows what this server has given: an item that comes back comes as it was,
a thought stands directly before the item that followed it, every call has exactly one output. A fault is answered 400 and
kept in ``faults``.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.openai_server import SECRET, Reply, _read_head, _write
from tests.fakes.responses_rules import Given, faults_of

Item = dict[str, Any]


@dataclass
class Pause:
    """Where a stream says that it is there, and waits."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)


def reasoning(*thoughts: str) -> Item:
    """A thought; without a summary the user sees nothing of it."""
    return {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": thought} for thought in thoughts],
    }


def text(said: str, *annotations: Item) -> Item:
    part = {"type": "output_text", "text": said, "annotations": list(annotations)}
    return {"type": "message", "role": "assistant", "content": [part]}


def cited(said: str, url: str, title: str) -> Item:
    return text(
        said,
        {"type": "url_citation", "url": url, "title": title, "start_index": 0, "end_index": len(said)},
    )


def refusal(why: str) -> Item:
    return {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": why}]}


def call(call_id: str, name: str, arguments: str | None = None, /, **given: Any) -> Item:
    """``arguments``: the JSON as the model wrote it, in place of ``given``."""
    written = json.dumps(given) if arguments is None else arguments
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": written}


def searched(query: str, *urls: str) -> Item:
    """A search that the provider itself has made."""
    sources = [{"type": "url", "url": url} for url in urls]
    return {"type": "web_search_call", "action": {"type": "search", "query": query, "sources": sources}}


@dataclass
class Turn:
    """A streamed response. ``ending``: the last event's type, or ``None`` for none at all. ``pause``: half of the last
    item's events have been sent there, and the rest is sent only when the pause is over. ``drop``: then the socket is
    closed."""

    items: tuple[Item, ...]
    ending: str | None = "response.completed"
    reason: str | None = None
    error: dict[str, str] | None = None
    pause: Pause | None = None
    drop: bool = False


def turn(*items: Item, **fields: Any) -> Turn:
    return Turn(items, **fields)


def failed(code: str, *items: Item) -> Turn:
    return Turn(items, "response.failed", error={"code": code, "message": f"broke {SECRET}"})


def error_event(code: str, *items: Item) -> Turn:
    return Turn(items, "error", error={"code": code, "message": f"broke {SECRET}"})


def incomplete(reason: str, *items: Item) -> Turn:
    return Turn(items, "response.incomplete", reason=reason)


def lost(*items: Item) -> Turn:
    """The socket is closed in the middle of the last item."""
    return Turn(items, None, drop=True)


@dataclass
class ResponsesServer:
    url: str = ""
    replies: list[Turn | Reply] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    given: Given = field(default_factory=Given)
    serving: set[asyncio.Task[None]] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def sent(self) -> list[Item]:
        """The items of the newest request."""
        return self.requests[-1]["input"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        try:
            while length := await _read_head(reader):
                body = json.loads(await reader.readexactly(length))
                self.requests.append(body)
                if found := faults_of(body, self.given):
                    self.faults += found
                    _refuse(writer, found)
                elif isinstance(reply := self.replies.pop(0), Turn):
                    await self._speak(writer, reply)
                else:
                    await reply(writer)
                await writer.drain()
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.serving.discard(task)
            writer.close()

    async def _speak(self, writer: asyncio.StreamWriter, said: Turn) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        numbers = itertools.count()

        def event(kind: str, **fields: Any) -> None:
            told = json.dumps({"type": kind, "sequence_number": next(numbers), **fields})
            _write(writer, f"event: {kind}\ndata: {told}\n\n".encode())

        response: dict[str, Any] = {
            "id": f"resp_{next(self._numbers)}",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "status": "in_progress",
            "output": [],
            "tools": [],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
        }
        event("response.created", response=response)
        whole = [self._numbered(item) for item in said.items]
        for index, item in enumerate(whole):
            events = list(_streamed(item))
            half = index == len(whole) - 1 and (said.pause is not None or said.drop)
            sent = events[: (len(events) + 1) // 2] if half else events
            for kind, fields in sent:
                event(kind, output_index=index, **fields)
            if half and said.pause is not None:
                await writer.drain()
                said.pause.reached.set()
                await said.pause.over.wait()
                for kind, fields in events[len(sent) :]:
                    event(kind, output_index=index, **fields)
        if said.drop:
            await writer.drain()
            writer.close()
            return
        if said.ending is not None:
            self._end(event, said, {**response, "output": whole})
            if said.ending in ("response.completed", "response.incomplete"):
                self.given.take(whole)
        _write(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")

    def _end(self, event: Any, said: Turn, response: dict[str, Any]) -> None:
        kind = said.ending or ""
        if kind == "error":
            event("error", param=None, **(said.error or {}))
            return
        usage = {
            "input_tokens": 5,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 12,
        }
        ended = {"status": kind.removeprefix("response."), "error": said.error, "usage": usage}
        why = {"reason": said.reason} if said.reason else None
        event(kind, response={**response, **ended, "incomplete_details": why})

    def _numbered(self, item: Item) -> Item:
        prefixes = {"reasoning": "rs", "message": "msg", "function_call": "fc", "web_search_call": "ws"}
        made = {**item, "id": f"{prefixes[item['type']]}_{next(self._numbers)}", "status": "completed"}
        if item["type"] == "reasoning":
            made["encrypted_content"] = f"SEALED-{made['id']}"
        return made


def _streamed(item: Item) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of one item, in order."""
    kind, item_id = item["type"], item["id"]
    about: dict[str, Any] = {"item_id": item_id}
    empty: dict[str, Any] = {"reasoning": {"summary": []}, "message": {"content": []}}.get(kind, {})
    if kind == "function_call":
        empty = {"arguments": ""}
    begun = {**item, **empty, "status": "in_progress"}
    begun.pop("encrypted_content", None)
    yield "response.output_item.added", {"item": begun}
    if kind == "reasoning":
        for index, part in enumerate(item["summary"]):
            at = {**about, "summary_index": index}
            yield (
                "response.reasoning_summary_part.added",
                {**at, "part": {"type": "summary_text", "text": ""}},
            )
            for piece in _pieces(part["text"]):
                yield "response.reasoning_summary_text.delta", {**at, "delta": piece}
            yield "response.reasoning_summary_text.done", {**at, "text": part["text"]}
    elif kind == "message":
        part = item["content"][0]
        at = {**about, "content_index": 0}
        stem = "refusal" if part["type"] == "refusal" else "output_text"
        whole = part["refusal"] if stem == "refusal" else part["text"]
        more: dict[str, Any] = {} if stem == "refusal" else {"logprobs": []}
        for piece in _pieces(whole):
            yield f"response.{stem}.delta", {**at, "delta": piece, **more}
        for index, annotation in enumerate(part.get("annotations", ())):
            told = {**at, "annotation_index": index, "annotation": annotation}
            yield "response.output_text.annotation.added", told
        yield f"response.{stem}.done", {**at, ("refusal" if stem == "refusal" else "text"): whole, **more}
    elif kind == "function_call":
        for piece in _pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {**about, "delta": piece}
        done = {**about, "name": item["name"], "arguments": item["arguments"]}
        yield "response.function_call_arguments.done", done
    yield "response.output_item.done", {"item": item}


def _pieces(whole: str) -> list[str]:
    middle = len(whole) // 2
    return [piece for piece in (whole[:middle], whole[middle:]) if piece]


def _refuse(writer: asyncio.StreamWriter, faults: list[str]) -> None:
    error = {"message": "; ".join(faults), "type": "invalid_request_error", "param": "input", "code": None}
    body = json.dumps({"error": error}).encode()
    writer.write(b"HTTP/1.1 400 No\r\ncontent-type: application/json\r\n")
    writer.write(f"content-length: {len(body)}\r\n\r\n".encode() + body)


@asynccontextmanager
async def responses_server() -> AsyncIterator[ResponsesServer]:
    fake = ResponsesServer()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield fake
    finally:
        server.close()
        serving = list(fake.serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
