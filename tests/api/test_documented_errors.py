"""Every error that the OpenAPI document promises, of every route, is had here once by a request: nothing is documented in vain."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from app.errors import Code
from app.main import create_app
from app.settings import Settings
from tests.acceptance.replica import free_port
from tests.inprocess.agents import gates
from tests.inprocess.asgi import Reply
from tests.inprocess.chat import Page, call, calls, mail, script
from tests.inprocess.faults import Failure, FaultyStore, failing
from tests.inprocess.fixtures import Serve
from tests.inprocess.server import Server

Route = tuple[str, str]
CHAT: Route = ("POST", "/chat")
STREAM: Route = ("GET", "/chat/{chat_id}/stream")
ANSWERS: Route = ("POST", "/chat/{chat_id}/answers")
STOP: Route = ("POST", "/chat/{chat_id}/stop")
SNAPSHOT: Route = ("GET", "/chat/{chat_id}")
METRICS: Route = ("GET", "/metrics")


def documented() -> dict[Code, set[Route]]:
    found: dict[Code, set[Route]] = {}
    for path, operations in (
        create_app(Settings(agents="tests.inprocess.agents:AGENTS")).openapi()["paths"].items()
    ):
        for method, operation in operations.items():
            for response in operation["responses"].values():
                for code in re.findall(r"`([a-z_]+)`:", response.get("description", "")):
                    found.setdefault(Code(code), set()).add((method.upper(), path))
    return found


DOCUMENTED = documented()
USER = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}


async def ask(server: Server, route: Route, chat_id: str = "none", **how: Any) -> Reply:
    """A request that is well formed, but for what ``how`` says."""
    method, path = route
    if method == "POST" and "raw" not in how:
        answers = [{"toolCallId": "loc", "output": 1}]
        how = {"body": {"id": chat_id, "messages": [USER]} if route == CHAT else {"answers": answers}, **how}
    return await server.ask(method, path.replace("{chat_id}", chat_id), **how)


# --- one way for all routes


async def malformed(server: Server, route: Route) -> Reply:
    if route[0] == "POST":
        return await ask(server, route, raw=b"{")
    return await ask(server, ("GET", "/chats?limit=x") if route[1] == "/chats" else route, "a%00b")


async def without_credentials(server: Server, route: Route) -> Reply:
    return await ask(server, route)


async def without_its_scope(server: Server, route: Route) -> Reply:
    scopes = {ANSWERS: "chat admin", METRICS: "chat answers"}.get(route, "answers admin")
    return await ask(server, route, headers={"x-user": "ada", "x-scopes": scopes})


async def too_often(server: Server, route: Route) -> Reply:
    for _ in range(2):
        reply = await ask(
            server, route, headers={"x-user": route[1] + route[0], "x-scopes": "chat answers admin"}
        )
    return reply


async def too_much(server: Server, route: Route) -> Reply:
    return await ask(server, route, raw=b'"' + b"x" * 200 + b'"')


async def another_media_type(server: Server, route: Route) -> Reply:
    return await ask(server, route, raw=b"{}", headers={"content-type": "text/plain"})


async def lost_race(server: Server, route: Route) -> Reply:
    await Page(server, "there").play(calls(call("get_location", "loc")))
    with failing({1: Failure.SERIALIZATION}):
        return await ask(server, route, "there")


async def authentication_that_fails(server: Server, route: Route) -> Reply:
    return await ask(server, route)


async def unknown_chat(server: Server, route: Route) -> Reply:
    if route != CHAT:
        return await ask(server, route)
    nothing = {"id": "a1", "role": "assistant", "parts": [{"type": "text", "text": "x"}]}
    return await ask(server, route, body={"id": "none", "messages": [nothing]})


# --- ways of a few routes


async def unknown_call(server: Server, route: Route) -> Reply:
    page = Page(server)
    await page.play(calls(call("get_location", "loc")))
    page.part("loc")["toolCallId"] = "other"
    body = (
        page.output("other", 1).body()
        if route == CHAT
        else {"answers": [{"toolCallId": "other", "output": 1}]}
    )
    return await ask(server, route, "chat", body=body)


async def running(server: Server, route: Route) -> Reply:
    await Page(server).say(script(calls(call("hold", gate="g")))).open()
    await gates["g"].reached.wait()
    return await ask(server, route, "chat")


async def over_the_stores_limit(server: Server, route: Route) -> Reply:
    await Page(server).play(calls(call("get_location", "loc"), mail("m")))
    long = "x" * 3000
    if route == CHAT:
        user = {**USER, "parts": [{"type": "text", "text": long}]}
        return await ask(server, route, "chat", body={"id": "chat", "messages": [user]})
    return await ask(server, route, "chat", body={"answers": [{"toolCallId": "loc", "output": long}]})


async def agent_that_is_gone(server: Server, route: Route) -> Reply:
    await Page(server).play(calls(call("get_location", "loc")))
    await server.sql("update session set agent = 'of an earlier release'")
    return await ask(server, route, "chat")


async def draining(server: Server, route: Route) -> Reply:
    server.running.supervisor.draining = True
    return await ask(server, route)


async def frames_that_cannot_be_opened(server: Server, route: Route) -> Reply:
    if route == STREAM:
        await Page(server).say(script(calls(call("hold", gate="g")))).open()
        await gates["g"].reached.wait()
    with failing({2: Failure.REFUSED}):
        return await ask(server, route, "chat")


async def elsewhere(server: Server, route: Route) -> Reply:
    return await ask(server, route)


BY_HEADER = {"auth": "tests.api.auth_hooks:by_header"}
WAYS: dict[Code, tuple[Callable[[Server, Route], Awaitable[Reply]], dict[str, Any]]] = {
    Code.VALIDATION_ERROR: (malformed, {}),
    Code.VALIDATION_PAYLOAD_TOO_LARGE: (too_much, {"max_body_bytes": 100}),
    Code.VALIDATION_UNSUPPORTED_MEDIA_TYPE: (another_media_type, {}),
    Code.FRAMEWORK_NOT_FOUND: (elsewhere, {"metrics_port": free_port()}),
    Code.AUTH_REQUIRED: (without_credentials, BY_HEADER),
    Code.AUTH_FORBIDDEN: (without_its_scope, BY_HEADER),
    Code.STATE_SESSION_NOT_FOUND: (unknown_chat, {}),
    Code.STATE_NOT_RESUMABLE: (unknown_call, {}),
    Code.STATE_RUN_ACTIVE: (running, {}),
    Code.STATE_CONCURRENCY_CONFLICT: (lost_race, {"around": FaultyStore}),
    Code.STATE_SIZE_EXCEEDED: (over_the_stores_limit, {"max_message_bytes": 2000}),
    Code.RATE_LIMITED: (too_often, {**BY_HEADER, "owner_rate": 0.01}),
    Code.FRAMEWORK_INTERNAL_ERROR: (authentication_that_fails, {"auth": "tests.api.auth_hooks:lost"}),
    Code.FRAMEWORK_NOT_SUPPORTED: (agent_that_is_gone, {}),
    Code.FRAMEWORK_DRAINING: (draining, {}),
    Code.TRANSPORT_STREAM_DROP: (frames_that_cannot_be_opened, {"around": FaultyStore}),
}


async def emptied(database_url: str) -> None:
    database = await asyncpg.connect(database_url)
    await database.execute("truncate session cascade")
    await database.close()


def test_every_documented_code_has_its_way_here():
    assert set(WAYS) == set(DOCUMENTED)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("code", WAYS, ids=str)
async def test_a_documented_error_is_had_of_every_route_that_promises_it(
    serve: Serve, database_url: str, code: Code
):
    way, settings = WAYS[code]
    got: dict[Route, tuple[int, str]] = {}
    for route in DOCUMENTED[code]:
        async with serve(**settings) as server:
            reply = await way(server, route)
            assert not reply.is_stream, route
            got[route] = (reply.status, (await reply.json())["code"])
        await emptied(database_url)
    assert {route: answer for route, answer in got.items() if answer[1] != code} == {}
