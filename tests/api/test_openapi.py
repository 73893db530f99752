"""The OpenAPI document names every route and every typed error that it can answer."""

from typing import Any

import pytest

from app.errors import ERRORS, Code
from tests.inprocess.server import Server

ROUTES = [
    ("post", "/chat"),
    ("get", "/chat/{chat_id}"),
    ("delete", "/chat/{chat_id}"),
    ("get", "/chat/{chat_id}/stream"),
    ("post", "/chat/{chat_id}/answers"),
    ("post", "/chat/{chat_id}/stop"),
    ("get", "/chats"),
    ("get", "/health/live"),
    ("get", "/health/ready"),
]
NEVER_DOCUMENTED = {"framework_not_found", "framework_method_not_allowed"}


@pytest.fixture
async def document(server: Server) -> dict[str, Any]:
    return await (await server.ask("GET", "/openapi.json")).json()


def described(operation: dict[str, Any], status: int | None) -> str:
    return operation["responses"].get(str(status), {}).get("description", "")


async def test_every_route_is_there(document: dict[str, Any]):
    found = {
        (method, path.replace(":path", ""))
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert set(ROUTES) <= found


async def test_the_chat_names_every_error_that_it_can_answer(document: dict[str, Any]):
    operation = document["paths"]["/chat"]["post"]
    streamed_only = {
        code for code, row in ERRORS.items() if row.uncommitted is None and row.committed is None
    }
    for code in set(Code) - streamed_only - NEVER_DOCUMENTED:
        row = ERRORS[code]
        for status in {row.uncommitted, row.committed} - {None}:
            assert f"`{code}`" in described(operation, status), (code, status)


async def test_every_documented_error_has_the_one_body(document: dict[str, Any]):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for status, response in operation["responses"].items():
                if status.startswith(("4", "5", "default")) and not path.startswith(("/health", "/metrics")):
                    schema = response["content"]["application/json"]["schema"]
                    assert schema.get("required") == ["error", "code"], (path, method, status)
            assert "422" not in operation["responses"], (path, method)
