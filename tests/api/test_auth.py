"""Who may call what: every route, every kind of credentials, and what another owner sees."""

from typing import Any

import pytest

from app.api import deps
from app.main import authenticator
from app.settings import Settings, SettingsError
from tests.api import auth_hooks
from tests.fakes.issuer import key_set, private_key, published, publishing, token
from tests.inprocess.chat import Page, call, calls
from tests.inprocess.fixtures import Serve
from tests.inprocess.server import Server

HOOK = "tests.api.auth_hooks:by_header"
OPEN = {("GET", "/health/live"), ("GET", "/health/ready"), ("GET", "/docs")}
SCOPE_OF_OTHERS = {("POST", "/chat/{chat_id:path}/answers"): "answers", ("GET", "/metrics"): "admin"}


def routes(server: Server) -> list[tuple[str, str]]:
    """Every route of the service, as declared; the page's own files are not the service."""
    found: list[tuple[str, str]] = []
    for route in _flat(server.app.routes):
        path, methods = getattr(route, "path", None), getattr(route, "methods", None) or ()
        if not type(route).__module__.startswith("fastapi") or path is None:
            continue
        if "playground" in getattr(getattr(route, "endpoint", None), "__module__", ""):
            continue
        found += [(method, path) for method in sorted(methods) if method != "HEAD"]
    return sorted(set(found))


def _flat(found: Any) -> list[Any]:
    out: list[Any] = []
    for route in found:
        inner = getattr(getattr(route, "original_router", None), "routes", None)
        out += _flat(inner) if inner is not None else [route]
    return out


def body_for(method: str, path: str, chat_id: str) -> Any:
    if method != "POST":
        return None
    if path == "/chat":
        parts = [{"type": "tool-get_location", "toolCallId": "loc", "state": "output-available", "output": 1}]
        return {"id": chat_id, "messages": [{"id": "a1", "role": "assistant", "parts": parts}]}
    return {"answers": [{"toolCallId": "loc", "output": 1}]} if path.endswith("answers") else {}


async def ask(server: Server, route: tuple[str, str], chat_id: str = "chat", **headers: str):
    method, path = route
    target = path.replace("{chat_id:path}", chat_id)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await server.ask(method, target, body_for(method, path, chat_id), headers=sent)


async def test_every_route_but_health_and_static_pages_asks_who_is_there(serve: Serve):
    async with serve(auth="api_key", api_keys="ada:k-ada") as server:
        declared = routes(server)
        assert len(declared) >= 12
        for route in declared:
            reply = await ask(server, route)
            expected = {200} if route in OPEN else {401}
            assert {reply.status} == expected, route
            if reply.status == 401:
                assert reply.headers["www-authenticate"] == "Bearer"
                assert await reply.json() == {"error": "Sign in to use this chat.", "code": "auth_required"}
                assert reply.headers.get("x-session-id") == (
                    "chat" if "chat_id" in route[1] or route == ("POST", "/chat") else None
                )


async def test_every_route_needs_its_scope(serve: Serve):
    async with serve(auth=HOOK) as server:
        for route in routes(server):
            needed = SCOPE_OF_OTHERS.get(route, "chat")
            others = " ".join({"chat", "answers", "admin"} - {needed})
            reply = await ask(server, route, x_user="ada", x_scopes=others)
            if route in OPEN or route == ("GET", "/openapi.json"):
                assert reply.status == 200
                continue
            assert reply.status == 403, route
            assert (await reply.json())["code"] == "auth_forbidden"
            reply = await ask(server, route, x_user="ada", x_scopes=needed)
            assert reply.status not in (401, 403), route


async def test_another_owners_chat_looks_in_every_way_like_one_that_does_not_exist(serve: Serve):
    async with serve(auth=HOOK) as server:
        server.headers = {"x-user": "ada", "x-scopes": "chat answers admin"}
        await Page(server).play(calls(call("get_location", "loc")))
        before = await server.snapshot("chat")
        answers_of_eve: list[Any] = []
        for route in routes(server):
            if "chat_id" not in route[1] and route != ("POST", "/chat"):
                continue
            found: list[Any] = []
            for chat_id in ("chat", "none"):  # Ada's, and nobody's
                reply = await ask(server, route, chat_id, x_user="eve", x_scopes="chat answers admin")
                headers = {
                    k: v for k, v in reply.headers.items() if k not in ("x-request-id", "x-session-id")
                }
                assert reply.headers["x-session-id"] == chat_id
                found.append((reply.status, await reply.body(), headers))
            assert found[0] == found[1], route
            answers_of_eve.append((route, found[0][0]))
        assert {status for _, status in answers_of_eve} <= {204, 404, 409}
        assert len(answers_of_eve) == 6
        assert await server.snapshot("chat") == before
        listed = await server.ask("GET", "/chats", headers={"x-user": "eve"})
        assert (await listed.json()) == {"chats": []}


async def test_the_same_chat_id_under_two_owners_is_two_chats(serve: Serve):
    async with serve(auth=HOOK) as server:
        for user in ("ada", "eve"):
            server.headers = {"x-user": user}
            await Page(server).play({"text": f"for {user}"})
        for user in ("ada", "eve"):
            server.headers = {"x-user": user}
            messages = (await server.snapshot("chat"))["messages"]
            assert messages[-1]["parts"][-1]["text"] == f"for {user}"
        await server.ask("DELETE", "/chat/chat")
        server.headers = {"x-user": "ada"}
        assert (await server.snapshot("chat"))["messages"]


async def test_a_token_of_the_issuer_lets_its_subject_in(serve: Serve):
    key = private_key("ES256")
    with publishing(key_set(published(key, "ES256", kid="k1"))) as address:
        settings = {
            "jwt_jwks_url": address,
            "jwt_issuer": "me",
            "jwt_audience": "chat",
            "jwt_owner_claim": "tenant",
        }
        async with serve(auth="jwt", **settings) as server:
            good = {"iss": "me", "aud": "chat", "tenant": "acme"}
            server.headers = {"authorization": f"Bearer {token(key, 'ES256', **good)}"}
            await Page(server).play({"text": "hello"})
            assert [row["owner"] for row in await server.sql("select owner from session")] == ["acme"]
            for claims in (
                {**good, "iss": "you"},
                {**good, "aud": "x"},
                {**good, "tenant": None},
                {**good, "exp": 1},
            ):
                server.headers = {"authorization": f"Bearer {token(key, 'ES256', **claims)}"}
                assert (await server.ask("GET", "/chat/chat")).status == 401
            server.headers = {"authorization": f"Bearer {token(key, 'ES256', scope='answers', **good)}"}
            assert (await server.ask("GET", "/chat/chat")).status == 403


async def test_an_issuer_that_cannot_be_reached_is_our_fault_and_not_the_callers(serve: Serve):
    key = private_key("ES256")
    async with serve(auth="jwt", jwt_jwks_url="http://127.0.0.1:9/jwks") as server:
        reply = await server.ask(
            "GET", "/chat/chat", headers={"authorization": f"Bearer {token(key, 'ES256')}"}
        )
        assert reply.status == 503
        assert (await reply.json())["code"] == "framework_internal_error"
        assert (await server.ask("GET", "/chat/chat")).status == 401


async def test_a_hook_reads_the_headers_and_the_session_and_knows_nobody_by_none(serve: Serve):
    async with serve(auth=HOOK) as server:
        auth_hooks.seen.clear()
        assert (await server.ask("GET", "/chat/a%2Fb/stream", headers={"x-user": "ada"})).status == 204
        assert (await server.ask("GET", "/chat/a%2Fb/stream")).status == 401
        assert auth_hooks.seen == [("ada", "a/b"), (None, "a/b")]


@pytest.mark.parametrize("name", ["broken", "lost"])
async def test_a_hook_that_raises_lets_nobody_in_and_is_logged_once(serve: Serve, name: str):
    async with serve(auth=f"tests.api.auth_hooks:{name}") as server:
        reply = await server.ask("GET", "/chat/chat")
        assert reply.status == 503
        assert await reply.json() == {
            "error": "Something went wrong on our side.",
            "code": "framework_internal_error",
        }
        (line,) = server.logs.failures
        assert line["event"] == "request.ended"
        assert line["causes"]


@pytest.mark.parametrize("what", ["number", "control", "long", "pair"])
async def test_a_hook_that_returns_something_odd_lets_nobody_in(serve: Serve, what: str):
    async with serve(auth="tests.api.auth_hooks:odd") as server:
        assert (await server.ask("GET", "/chats", headers={"x-odd": what})).status == 503


async def test_a_hook_that_hangs_is_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(deps, "AUTH_TIMEOUT_S", 0.05)
    async with serve(auth="tests.api.auth_hooks:hangs") as server:
        assert (await server.ask("GET", "/chats")).status == 503


async def test_without_authentication_all_are_one_owner_and_a_reachable_address_is_told_in_the_log(
    serve: Serve,
):
    async with serve() as server:
        assert server.logs.of("auth.off") == []
        assert (await server.ask("GET", "/metrics")).status == 200
    async with serve(host="0.0.0.0", allow_unauthenticated=True) as server:
        assert server.logs.of("auth.off", level="warning", host="0.0.0.0")


@pytest.mark.parametrize("spec", ["no_such_module:hook", "tests.api.auth_hooks:no_such_hook"])
def test_a_hook_that_cannot_be_loaded_is_told_before_the_start(spec: str):
    with pytest.raises(SettingsError, match="cannot be loaded"):
        authenticator(Settings(auth=spec))
