"""``GET /metrics``, when it has no port of its own."""

from fastapi import APIRouter, Request, Response

from app.api.auth import Scope
from app.api.deps import principal_of, services
from app.api.documented import errors
from app.errors import Code, ServiceError
from app.metrics import CONTENT_TYPE_LATEST

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    summary="What was counted, for Prometheus",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus's text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    }
    | errors(
        Code.AUTH_REQUIRED,
        Code.AUTH_FORBIDDEN,
        Code.RATE_LIMITED,
        Code.FRAMEWORK_NOT_FOUND,
        Code.FRAMEWORK_INTERNAL_ERROR,
    ),
)
async def metrics(request: Request) -> Response:
    """Needs the scope ``admin``. 404 when the metrics have a port of their own."""
    use = services(request)
    if not use.metrics_here:
        raise ServiceError(Code.FRAMEWORK_NOT_FOUND, "the metrics have a port of their own")
    (await principal_of(request)).check(Scope.ADMIN)
    return Response(use.metrics.render(), media_type=CONTENT_TYPE_LATEST)
