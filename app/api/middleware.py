"""Plain ASGI around every request: its id, its canonical line, its ``X-Session-Id``, and the failure that nothing else caught.

Every request ends in exactly one line; a failed one carries its code and its cause chain there. Pure ASGI, because a stream must not
be buffered and its end must be seen.
"""

from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from starlette.responses import JSONResponse

from app.clock import monotonic, new_id
from app.errors import ERRORS, Code, ServiceError
from app.log import bound, cause_chain, get_logger
from app.metrics import Metrics
from app.streaming.tail import StreamDestroyed
from app.tracing import incoming

log = get_logger("app.request")

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"})
_TRACE_HEADERS = frozenset({b"traceparent", b"tracestate"})
_PRINTABLE = "".join(chr(c) for c in range(0x20, 0x7F) if chr(c) != "%")


@dataclass(slots=True)
class Noted:
    """What the routes note of a request for its line; in ``scope["state"]["noted"]``."""

    session_id: str | None = None
    error: ServiceError | None = None
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    began: float = field(default_factory=monotonic)
    body_left: bool = False
    """The body was not read to its end: the connection is closed with the answer, or the rest would be waited for."""
    on_end: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """Called when the answer is over, however it ends."""


def header_of(session_id: str) -> str:
    """The value of ``X-Session-Id``: printable ASCII, ``%`` and everything else percent-encoded as UTF-8."""
    return quote(session_id.encode(errors="replace"), safe=_PRINTABLE)


def as_sent(scope: Message) -> str:
    """The path that is routed. Below ``/chat/`` it is still percent-encoded: an id that holds ``/stream`` is not a stream's address.

    New clients encode an id, old ones send it raw: then its slashes are the path's, and the last segment decides."""
    path: str = scope["path"]
    raw: bytes | None = scope.get("raw_path")
    return raw.decode("latin-1") if raw is not None and path.startswith("/chat/") else path


def noted(scope: Message) -> Noted:
    return scope.setdefault("state", {}).setdefault("noted", Noted())


@contextmanager
def _traced(scope: Message) -> Generator[None]:
    """The caller's W3C trace goes on here: its id is on every line, and what the request starts belongs to it."""
    sent = {name: value.decode("latin-1") for name, value in scope["headers"] if name in _TRACE_HEADERS}
    with incoming(sent.get(b"traceparent", ""), sent.get(b"tracestate", "")) as trace_id:
        if trace_id is None:
            yield
        else:
            with bound(trace_id=trace_id):
                yield


class RequestLine:
    def __init__(self, app: Asgi, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        about = Noted()
        scope["path"] = as_sent(scope)
        scope.setdefault("state", {})["noted"] = about
        status = 0
        request_id = str(new_id())

        async def wrapped(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers: list[tuple[bytes, bytes]] = list(message.get("headers", []))
                headers.append((b"x-request-id", request_id.encode()))
                if about.session_id is not None:
                    headers.append((b"x-session-id", header_of(about.session_id).encode("ascii")))
                message = {**message, "headers": headers}
            await send(message)

        with _traced(scope), bound(request_id=request_id):
            try:
                await self._app(scope, receive, wrapped)
            except StreamDestroyed as error:
                about.facts["stream"] = f"destroyed: {error}"
                raise
            except Exception as error:
                about.error = ServiceError(Code.FRAMEWORK_INTERNAL_ERROR, permanent=True)
                about.error.__cause__ = error
                if status:
                    raise
                await JSONResponse(about.error.body, status_code=500)(scope, receive, wrapped)
            finally:
                for close in about.on_end:
                    close()
                self._say(scope, about, status, monotonic() - about.began)

    def _say(self, scope: Message, about: Noted, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "(none)")
        code = str(about.error.code) if about.error is not None else ""
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.requests.labels(method, route, str(status), code).inc()
        self._metrics.request_seconds.labels(route).observe(seconds)
        line: dict[str, Any] = {
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            **about.facts,
        }
        if about.session_id is not None:
            line["session"] = about.session_id
        error = about.error
        if error is None:
            log.info("request.ended", **line)
            return
        line["code"] = code
        if error.cause is not None:
            line["reason"] = str(error.cause)
        if error.logged:
            log.info("request.ended", **line)
            return
        if error.detail:
            line["detail"] = error.detail
        if error.__cause__ is not None and (causes := cause_chain(error.__cause__, said=error.detail)):
            line["causes"] = causes
        {"info": log.info, "warning": log.warning, "error": log.error}[ERRORS[error.code].level](
            "request.ended", **line
        )
