"""One exchange with an ASGI application: what it sends is read as it sends it, and the peer may leave at any point."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextvars import copy_context
from typing import Any
from urllib.parse import unquote

DONE = "[DONE]"


class Exchange:
    """A request that the application works on. ``hold_reading`` makes it a reader that takes nothing for a while."""

    def __init__(self, app: Any, scope: dict[str, Any], body: Sequence[bytes]) -> None:
        self._app = app
        self._scope = scope
        self._body = list(body) or [b""]
        self._sent: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._reading = asyncio.Event()
        self._reading.set()
        self.held_up = asyncio.Event()
        """The application has something to send that is not taken."""
        self.failure: BaseException | None = None
        self.task = asyncio.create_task(self._run(), context=copy_context())

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
        except Exception as error:
            self.failure = error
        finally:
            self._sent.put_nowait(None)

    async def _receive(self) -> dict[str, Any]:
        if self._body:
            chunk = self._body.pop(0)
            return {"type": "http.request", "body": chunk, "more_body": bool(self._body)}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if not self._reading.is_set():
            self.held_up.set()
        await self._reading.wait()
        if not self._gone.is_set():
            self._sent.put_nowait(dict(message))

    def hold_reading(self) -> None:
        self.held_up.clear()
        self._reading.clear()

    def read_on(self) -> None:
        self._reading.set()

    async def next(self) -> dict[str, Any] | None:
        """The next ASGI message; ``None`` when the application is done with it."""
        return await self._sent.get()

    async def leave(self) -> None:
        """The peer is gone; returns when the application has noticed."""
        self._gone.set()
        self._reading.set()
        await asyncio.wait({self.task})


class Reply:
    """What was answered. A stream is read with ``frame``, ``until`` and ``rest``; anything else with ``json``."""

    def __init__(self, exchange: Exchange, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self.exchange = exchange
        self.status = status
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
        self.frames: list[dict[str, Any]] = []
        self.comments = 0
        self.done = False
        self.ended = False
        self.error: Any = None
        self._buffer = b""

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def destroyed(self) -> bool:
        """Whether the connection ended without a clean end."""
        return self.ended and self.exchange.failure is not None

    async def chunks(self) -> AsyncIterator[bytes]:
        while not self.ended:
            message = await self.exchange.next()
            if message is None:
                self.ended = True
                return
            yield message.get("body", b"")

    async def body(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def json(self) -> Any:
        return json.loads(await self.body())

    async def events(self) -> AsyncIterator[str]:
        """The stream's events as they come: the text after ``data: ``."""
        while True:
            while b"\n\n" in self._buffer:
                event, self._buffer = self._buffer.split(b"\n\n", 1)
                if event.startswith(b":"):
                    self.comments += 1
                    continue
                assert event.startswith(b"data: "), event
                yield event.removeprefix(b"data: ").decode()
            message = None if self.ended else await self.exchange.next()
            if message is None:
                self.ended = True
                assert not self._buffer, "the stream ended inside an event"
                return
            self._buffer += message.get("body", b"")

    async def frame(self) -> dict[str, Any] | None:
        """The next frame; ``None`` at the end of the stream."""
        async for event in self.events():
            assert not self.done, "something after [DONE]"
            if event == DONE:
                self.done = True
                continue
            self.frames.append(json.loads(event))
            return self.frames[-1]
        return None

    async def until(self, kind: str, **keys: Any) -> dict[str, Any]:
        """Reads up to the next frame of this type that has these keys."""
        while (frame := await self.frame()) is not None:
            if frame["type"] == kind and all(frame.get(key) == value for key, value in keys.items()):
                return frame
        raise AssertionError(f"no {kind} {keys} in {[f['type'] for f in self.frames]}")

    async def rest(self) -> list[dict[str, Any]]:
        """Reads to the end; all frames of the stream."""
        while await self.frame() is not None:
            pass
        return self.frames

    @property
    def types(self) -> list[str]:
        return [frame["type"] for frame in self.frames]


async def request(
    app: Any,
    method: str,
    path: str,
    *,
    body: bytes | Sequence[bytes] = b"",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Returns when the status line is here. ``body``: its chunks; a sequence has no declared length."""
    whole = isinstance(body, bytes)
    sent = dict(headers or {})
    if whole and body:
        sent.setdefault("content-length", str(len(body)))
    target, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(target),
        "raw_path": target.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    exchange = Exchange(app, scope, [body] if whole else list(body))
    message = await exchange.next()
    if message is None:
        raise exchange.failure or AssertionError("nothing was answered")
    assert message["type"] == "http.response.start"
    return Reply(exchange, message["status"], message["headers"])
