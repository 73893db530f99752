"""What the routes are handed, and the few steps that all of them share: the body, the session's id, the owner."""

from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request

from app.api.auth import Authenticator
from app.api.middleware import noted
from app.api.wire import chat_id_of, invalid
from app.errors import Code, ServiceError
from app.sessions.breaker import Breaker
from app.sessions.chat import Chat
from app.sessions.elsewhere import Elsewhere
from app.sessions.faults import as_service_error
from app.sessions.snapshot import Snapshots
from app.sessions.stop import Stop
from app.sessions.view import Views
from app.streaming.tail import Tail


@dataclass(frozen=True, slots=True)
class Services:
    """The use cases, built once in ``main``; in ``app.state.services``."""

    authenticate: Authenticator
    chat: Chat
    elsewhere: Elsewhere
    snapshots: Snapshots
    stop: Stop
    views: Views
    tail: Tail
    breaker: Breaker
    max_body_bytes: int


def services(request: Request) -> Services:
    return request.app.state.services


async def read_body(request: Request) -> bytes:
    """The whole body, up to the limit. Raises ``validation_unsupported_media_type`` or ``validation_payload_too_large``."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not (media == "application/json" or (media.startswith("application/") and media.endswith("+json"))):
        raise ServiceError(Code.VALIDATION_UNSUPPORTED_MEDIA_TYPE, "not a JSON media type")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ServiceError(Code.VALIDATION_UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not read")
    limit = services(request).max_body_bytes
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


def note_session(request: Request, chat_id: object) -> str:
    """Checks the chat id and notes it for the answer's header and the request's line."""
    session_id = chat_id_of(chat_id)
    noted(request.scope).session_id = session_id
    return session_id


async def owner_of(request: Request) -> str:
    """The authenticated owner. A failing hook is 503 before anything was done."""
    try:
        return await services(request).authenticate(request.headers, noted(request.scope).session_id)
    except Exception as error:
        raise as_service_error(error, committed=False) from error
