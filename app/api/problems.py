"""Every failure to its one JSON body: ``{error, code}`` with the status of its row. The original is logged, never sent."""

import math

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from app.api.middleware import noted
from app.errors import Code, ServiceError

# What the framework says with a bare status.
_BY_STATUS: dict[int, Code] = {
    400: Code.VALIDATION_ERROR,
    401: Code.AUTH_REQUIRED,
    403: Code.AUTH_FORBIDDEN,
    404: Code.FRAMEWORK_NOT_FOUND,
    405: Code.FRAMEWORK_METHOD_NOT_ALLOWED,
    413: Code.VALIDATION_PAYLOAD_TOO_LARGE,
    415: Code.VALIDATION_UNSUPPORTED_MEDIA_TYPE,
    422: Code.VALIDATION_ERROR,
    429: Code.RATE_LIMITED,
}


def render(request: Request, error: ServiceError) -> Response:
    noted(request.scope).error = error
    headers: dict[str, str] = {}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after_s)))
    if noted(request.scope).body_left:
        headers["connection"] = "close"
    if error.code is Code.AUTH_REQUIRED:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(error.body, status_code=error.status, headers=headers)


def install(app: FastAPI) -> None:
    """Registers the handlers of everything that FastAPI turns into an answer by itself."""

    async def service_error(request: Request, error: Exception) -> Response:
        return render(
            request, error if isinstance(error, ServiceError) else ServiceError(Code.FRAMEWORK_INTERNAL_ERROR)
        )

    async def http_error(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        response = render(
            request,
            ServiceError(_BY_STATUS.get(status, Code.FRAMEWORK_INTERNAL_ERROR), permanent=status >= 500),
        )
        if isinstance(error, HTTPException) and error.headers:
            response.headers.update(error.headers)
        return response

    async def unreadable(request: Request, error: Exception) -> Response:
        where = (
            [".".join(str(p) for p in e["loc"]) for e in error.errors()]
            if isinstance(error, RequestValidationError)
            else []
        )
        return render(request, ServiceError(Code.VALIDATION_ERROR, f"refused: {', '.join(where)}"))

    app.add_exception_handler(ServiceError, service_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, unreadable)
