"""``GET /chat/{id}``, ``GET /chats``, ``DELETE /chat/{id}``."""

from collections.abc import Awaitable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request, Response

from app.api.deps import note_path_session, owner_of, services
from app.api.documented import COMMON, errors
from app.api.json_response import OrjsonResponse
from app.errors import Code, ServiceError
from app.sessions.faults import as_service_error
from app.sessions.snapshot import MAX_PAGE, PAGE

router = APIRouter(tags=["history"])
T = TypeVar("T")


async def typed(work: Awaitable[T]) -> T:
    """A read, or a write whose repeat is harmless: its faults are answered as uncommitted."""
    try:
        return await work
    except ServiceError:
        raise
    except Exception as error:
        raise as_service_error(error, committed=False) from error


@router.get("/chats", summary="The owner's chats, the newest change first", responses=errors(*COMMON))
async def chats(
    request: Request, limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = PAGE, cursor: str | None = None
) -> Response:
    owner = await owner_of(request)
    return OrjsonResponse(await typed(services(request).snapshots.chats(owner, limit=limit, cursor=cursor)))


@router.get(
    "/chat/{chat_id:path}",
    summary="What a reload shows: `useChat({id, messages: snap.messages, resume: snap.live})`",
    responses=errors(*COMMON, Code.STATE_SESSION_NOT_FOUND),
)
async def snapshot(
    request: Request,
    chat_id: str,
    limit: Annotated[int | None, Query(ge=1, le=MAX_PAGE)] = None,
    before: str | None = None,
) -> Response:
    session_id = note_path_session(request, chat_id)
    owner = await owner_of(request)
    read = services(request).snapshots.read(owner, session_id, limit=limit, before=before)
    return OrjsonResponse(await typed(read))


@router.delete(
    "/chat/{chat_id:path}",
    summary="Delete a chat and all its rows; a live run is stopped first",
    status_code=204,
    responses=errors(*COMMON, Code.STATE_SESSION_NOT_FOUND),
)
async def delete(request: Request, chat_id: str) -> Response:
    session_id = note_path_session(request, chat_id)
    owner = await owner_of(request)
    await typed(services(request).snapshots.delete(owner, session_id))
    return Response(status_code=204)
