"""``GET /``, the page, and ``/playground/…``, its files."""

import os
from collections.abc import Mapping
from pathlib import Path

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parent / "static"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

PAGE_HEADERS: Mapping[str, str] = {
    "cache-control": "no-cache",  # its files' addresses change with each build
    "content-security-policy": _POLICY,
    "permissions-policy": "geolocation=(self), camera=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class _Files(StaticFiles):
    """Files that a browser may keep for ever when it asks for a version, as the page does."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        versioned = scope.get("query_string", b"").startswith(b"v=")
        response.headers["cache-control"] = "public, max-age=31536000, immutable" if versioned else "no-cache"
        response.headers["x-content-type-options"] = "nosniff"
        return response


def install(app: FastAPI) -> None:
    """Serves the page at ``/`` and its files below ``/playground``."""

    async def page() -> Response:
        return FileResponse(STATIC / "index.html", headers=PAGE_HEADERS)

    app.add_api_route("/", page, methods=["GET", "HEAD"], include_in_schema=False)
    # compressed here and nowhere else: a stream must not pass through it
    app.mount("/playground", GZipMiddleware(_Files(directory=STATIC), minimum_size=1024))
