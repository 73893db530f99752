"""``GET /openapi.json`` (for whoever may call at all) and ``GET /docs``, a static page that reads it."""

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html

from app.api.deps import principal_of
from app.api.json_response import OrjsonResponse

router = APIRouter(include_in_schema=False)


@router.get("/openapi.json")
async def document(request: Request) -> Response:
    """Every route with every typed error it can answer."""
    await principal_of(request)
    app: FastAPI = request.app
    return OrjsonResponse(app.openapi())


@router.get("/docs")
async def page() -> Response:
    """The page holds nothing of this server; it is as public as its file."""
    return get_swagger_ui_html(openapi_url="/openapi.json", title="agent-server")
