"""``GET /health/live``, ``GET /health/ready``."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request, Response

from app.api.json_response import OrjsonResponse

router = APIRouter(tags=["health"])

Ready = Callable[[], Awaitable[dict[str, str]]]


@router.head("/health/live", include_in_schema=False)
@router.get("/health/live", summary="The process answers")
async def live() -> Response:
    return OrjsonResponse({"status": "live"})


@router.head("/health/ready", include_in_schema=False)
@router.get(
    "/health/ready", summary="The database answers, its schema is at head, and the server is not draining"
)
async def ready(request: Request) -> Response:
    """``{status, …}``: 200 when every check is ``ok``, else 503 with what is wrong."""
    check: Ready = request.app.state.ready
    found = await check()
    fine = all(value == "ok" for value in found.values())
    return OrjsonResponse(
        {"status": "ready" if fine else "not ready", **found}, status_code=200 if fine else 503
    )
