"""``GET /chat/{id}/stream``: resume. 204 at once, or the whole live message from its first step, then live to the end."""

from fastapi import APIRouter, Request, Response

from app.api.chat import attached
from app.api.deps import note_path_session, open_stream, owner_of, services
from app.api.documented import COMMON, STREAM, errors
from app.errors import Code
from app.sessions.faults import as_service_error

router = APIRouter(tags=["chat"])


@router.get("/chat", include_in_schema=False)
@router.get("/chat/", include_in_schema=False)
@router.get("/chat//stream", include_in_schema=False)
async def nothing_to_resume(request: Request) -> Response:
    """Old clients build this address when their API's has a query."""
    await owner_of(request)
    return Response(status_code=204)


@router.get(
    "/chat/{chat_id:path}/stream",
    summary="Resume the live run's stream",
    response_class=Response,
    responses=STREAM
    | {204: {"description": "Nothing to resume."}}
    | errors(*COMMON, Code.TRANSPORT_STREAM_DROP),
)
async def resume(request: Request, chat_id: str) -> Response:
    session_id = note_path_session(request, chat_id)
    owner = await owner_of(request)
    open_stream(request, owner)
    use = services(request)
    try:
        attach = await use.snapshots.resume(owner, session_id)
    except Exception as error:
        raise as_service_error(error, committed=False) from error
    return Response(status_code=204) if attach is None else await attached(request, use, attach)
