"""Requests made from our own OpenAPI document: nothing answers 5xx, and nothing answers what is not written there."""

import asyncio
from contextlib import nullcontext, suppress
from typing import Any
from urllib.parse import urlencode

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from tests.inprocess.chat import Page, call, calls
from tests.inprocess.server import Server
from tests.security import examples

EACH = settings(
    max_examples=max(10, examples(0) // 100),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


async def document(server: Server) -> dict[str, Any]:
    return await (await server.ask("GET", "/openapi.json")).json()


async def test_every_route_is_documented_with_its_failures_in_one_shape(server: Server):
    paths = (await document(server))["paths"]
    assert {
        "/chat", "/chat/{chat_id}", "/chat/{chat_id}/stream", "/chat/{chat_id}/answers", "/chat/{chat_id}/stop", "/chats",
        "/metrics", "/health/live", "/health/ready",
    } <= set(paths)  # fmt: skip
    for path, operations in paths.items():
        for method, operation in operations.items():
            statuses = set(operation["responses"])
            assert "422" not in statuses, f"{method} {path}: our own refusals are 400"
            if not path.startswith("/health"):
                assert {"401", "403", "429", "503"} <= statuses, f"{method} {path}"
            for status, response in operation["responses"].items():
                if status.startswith(("4", "5")) and not path.startswith("/health"):
                    schema = response["content"]["application/json"]["schema"]
                    assert schema["required"] == ["error", "code"], f"{method} {path} {status}"


@pytest.mark.timeout(0)
async def test_what_is_made_from_the_document_is_answered_as_the_document_says(server: Server):
    await Page(server).play(calls(call("get_location", "loc")), {"text": "done"})
    raw = await document(server)
    schema = schemathesis.openapi.from_dict(raw)
    loop = asyncio.get_running_loop()
    answered: set[tuple[str, int]] = set()

    async def send(case: Any, documented: set[str]) -> None:
        kwargs = case.as_transport_kwargs(base_url="http://server")
        path = kwargs["url"].removeprefix("http://server")
        params = kwargs.get("params")
        if params:
            path += "?" + urlencode(params, doseq=True)
        body = kwargs.get("json")
        data = kwargs.get("data")
        headers = {k: v for k, v in dict(kwargs.get("headers") or {}).items() if k.lower() == "content-type"}
        if isinstance(data, str):
            data = data.encode()
        reply = await server.ask(
            case.method, path, body, raw=data if isinstance(data, bytes) and data else None, headers=headers
        )
        if reply.is_stream:
            await reply.rest()
        else:
            await reply.body()
        answered.add((f"{case.method} {case.operation.path}", reply.status))
        assert reply.status < 500 or case.operation.path.startswith("/health"), (case.method, path, body)
        # of a path that a generated id has led elsewhere (an id with a slash, "..", nothing), the router answers
        assert str(reply.status) in documented | {"404", "405", "204"}, (
            case.method,
            path,
            body,
            reply.status,
        )

    def against(strategy: Any, documented: set[str]) -> None:
        @EACH
        @given(strategy)
        def one(case: Any) -> None:
            asyncio.run_coroutine_threadsafe(send(case, documented), loop).result(30)

        one()

    def attack() -> None:
        for result in schema.get_all_operations():
            operation: Any = getattr(result, "ok")()  # noqa: B009, the type of a broken document has none
            documented = set(operation.definition.raw["responses"]) - {"default"}
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                # nothing may be wrong with an operation that takes any text
                with suppress(Unsatisfiable) if mode is GenerationMode.NEGATIVE else nullcontext():
                    against(operation.as_strategy(generation_mode=mode), documented)

    await asyncio.to_thread(attack)
    assert len({operation for operation, _ in answered}) == sum(len(each) for each in raw["paths"].values())
    assert server.logs.of("request.ended", level="error") == []
