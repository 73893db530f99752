"""What the routes are handed, and the few steps that all of them share: the body, the session's id, the owner."""

import asyncio
from dataclasses import dataclass
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request

from app.api.auth import Authenticator, Principal, Scope
from app.api.limits import BodyLimits, OwnerLimits
from app.api.middleware import noted
from app.api.wire import chat_id_of, invalid
from app.errors import Code, ServiceError
from app.metrics import Metrics
from app.sessions.breaker import Breaker
from app.sessions.chat import Chat
from app.sessions.elsewhere import Elsewhere
from app.sessions.snapshot import Snapshots
from app.sessions.stop import Stop
from app.streaming.tail import Tail

AUTH_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Services:
    """The use cases, built once in ``main``; in ``app.state.services``."""

    authenticate: Authenticator
    chat: Chat
    elsewhere: Elsewhere
    snapshots: Snapshots
    stop: Stop
    tail: Tail
    breaker: Breaker
    body: BodyLimits
    owners: OwnerLimits
    metrics: Metrics
    request_headers: tuple[str, ...]
    """Those that agents are told."""
    metrics_here: bool
    """Whether ``GET /metrics`` is served among the other routes, and not on a port of its own."""


def services(request: Request) -> Services:
    return request.app.state.services


async def read_body(request: Request) -> bytes:
    """The whole body, up to the limits. Raises ``validation_unsupported_media_type``, ``validation_payload_too_large``, and
    ``validation_error`` for one that does not arrive in time."""
    about, about.body_left = noted(request.scope), True
    limits = services(request).body
    try:
        async with asyncio.timeout(limits.seconds):
            body = await _read(request, limits.bytes)
    except TimeoutError as error:
        raise invalid("the body did not arrive in time") from error
    about.body_left = False
    return body


async def _read(request: Request, limit: int) -> bytes:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not (media == "application/json" or (media.startswith("application/") and media.endswith("+json"))):
        raise ServiceError(Code.VALIDATION_UNSUPPORTED_MEDIA_TYPE, "not a JSON media type")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ServiceError(Code.VALIDATION_UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not read")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise ServiceError(Code.VALIDATION_PAYLOAD_TOO_LARGE, "the body is over its limit")
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise ServiceError(Code.VALIDATION_PAYLOAD_TOO_LARGE, "the body is over its limit")
            chunks.append(chunk)
    except ClientDisconnect as error:
        raise invalid("the client left before its body was whole") from error
    return b"".join(chunks)


async def read_optional_body(request: Request) -> bytes:
    """The body of a route that needs none: ``{}`` when there is nothing."""
    if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        return b"{}"
    return await read_body(request) or b"{}"


def note_path_session(request: Request, chat_id: str) -> str:
    """The same for an id in a path, which is routed as it was sent (see ``middleware.as_sent``)."""
    return note_session(request, unquote(chat_id))


def note_session(request: Request, chat_id: object) -> str:
    """Checks the chat id and notes it for the answer's header and the request's line."""
    session_id = chat_id_of(chat_id)
    noted(request.scope).session_id = session_id
    return session_id


async def principal_of(request: Request) -> Principal:
    """The authenticated principal, within its request rate. Whatever fails on our side is 503 before anything was done."""
    use = services(request)
    try:
        async with asyncio.timeout(AUTH_TIMEOUT_S):
            principal = await use.authenticate(request.headers, noted(request.scope).session_id)
    except ServiceError:
        raise
    except Exception as error:
        raise ServiceError(Code.FRAMEWORK_INTERNAL_ERROR, "authentication failed on our side") from error
    use.owners.admit(principal.owner)
    return principal


async def owner_of(request: Request, scope: Scope = Scope.CHAT) -> str:
    """The authenticated owner. Raises ``auth_required``, ``auth_forbidden`` without ``scope``, ``rate_limited``, and 503 when
    authentication itself fails."""
    principal = await principal_of(request)
    principal.check(scope)
    return principal.owner


def open_stream(request: Request, owner: str) -> None:
    """Counts the answer as one of the owner's open streams, to its end. Raises ``rate_limited``."""
    noted(request.scope).on_end.append(services(request).owners.open_stream(owner))
