"""What every answer carries: the session's id, CORS, a stream's headers; and ids of every shape in a path."""

import json
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote, unquote

import pytest

from app.streaming import sse
from tests.inprocess.agents import gates
from tests.inprocess.chat import Page, call, calls, script
from tests.inprocess.server import Server

ODD_IDS = ["a/b", "a b", "50%", "%2F", "ü", "日本", "a?b#c", "..", "a\\b", "😀", "~tilde", "x" * 256]


@pytest.mark.parametrize("chat_id", ODD_IDS)
async def test_an_odd_id_is_one_chat_on_every_route(server: Server, chat_id: str):
    page = Page(server, chat_id)
    reply = await page.play(calls(call("get_location", "loc")))
    assert unquote(reply.headers["x-session-id"]) == chat_id
    assert reply.headers["x-session-id"].isascii()
    assert (await server.snapshot(chat_id))["id"] == chat_id
    resumed = await server.resume(chat_id)
    assert resumed.status == 204
    assert unquote(resumed.headers["x-session-id"]) == chat_id
    assert (await server.answers(chat_id, {"toolCallId": "loc", "output": 1})).status == 200
    assert (await server.stop(chat_id))["status"] in ("idle", "completed", "stopped", "running")
    assert (await server.ask("DELETE", f"/chat/{quote(chat_id, safe='')}")).status == 204


@pytest.mark.parametrize("chat_id", ["a/b", "a/b/c"])
async def test_old_clients_send_the_slash_of_an_id_as_it_is(server: Server, chat_id: str):
    await Page(server, chat_id).play({"text": "hi"})
    assert (await (await server.ask("GET", f"/chat/{chat_id}")).json())["id"] == chat_id
    assert (await server.ask("GET", f"/chat/{chat_id}/stream")).status == 204


@pytest.mark.parametrize("suffix", ["stream", "answers", "stop"])
async def test_an_encoded_id_that_ends_like_an_address_is_an_id(server: Server, suffix: str):
    page = Page(server, f"a/{suffix}")
    assert (await page.send("hello")).status == 200
    encoded = f"/chat/a%2F{suffix}"
    snapshot = await (await server.ask("GET", encoded)).json()
    assert (snapshot["id"], len(snapshot["messages"])) == (f"a/{suffix}", 2)
    assert (await server.ask("GET", f"{encoded}/stream")).status == 204
    assert (await (await server.ask("POST", f"{encoded}/stop")).json()) == {"status": "idle"}
    assert (await server.ask("DELETE", encoded)).status == 204


@pytest.mark.parametrize("path", ["/chat", "/chat/", "/chat//stream"])
async def test_a_get_without_an_id_is_204(server: Server, path: str):
    assert (await server.ask("GET", path)).status == 204


ERRORS: list[tuple[str, str, Any]] = [
    ("POST", "/chat", {"id": "50% ü", "messages": []}),
    ("POST", "/chat", {"id": "50% ü", "messages": [{"id": "m", "role": "assistant", "parts": []}]}),
    ("GET", "/chat/50%25%20%C3%BC", None),
    ("POST", "/chat/50%25%20%C3%BC/stop", None),
    ("POST", "/chat/50%25%20%C3%BC/answers", {"answers": [{"toolCallId": "x", "output": 1}]}),
]


@pytest.mark.parametrize(("method", "path", "body"), ERRORS)
async def test_errors_carry_the_session_s_id_too(server: Server, method: str, path: str, body: Any):
    reply = await server.ask(method, path, body)
    assert reply.status >= 400
    assert reply.headers["x-session-id"] == "50%25 %C3%BC"


async def test_a_401_carries_it_as_well(serve: Any):
    async with serve(auth="api_key", api_keys="ada:secret-key") as server:
        reply = await server.ask("POST", "/chat", {"id": "chat", "messages": []})
        assert (reply.status, reply.headers["x-session-id"]) == (401, "chat")
        assert (await reply.json())["code"] == "auth_required"
        assert reply.headers["www-authenticate"] == "Bearer"


async def test_the_chat_of_another_owner_is_not_there(serve: Any):
    async with serve(auth="api_key", api_keys="ada:key-of-ada,bob:key-of-bob") as server:
        server.headers = {"authorization": "Bearer key-of-ada"}
        await Page(server).play({"text": "mine"})
        server.headers = {"authorization": "Bearer key-of-bob"}
        assert (await server.ask("GET", "/chat/chat")).status == 404
        assert (await server.ask("DELETE", "/chat/chat")).status == 404
        page = Page(server)
        await page.play({"text": "also mine"})
        assert page.text == "also mine"
        assert (await (await server.ask("GET", "/chats")).json())["chats"][0]["id"] == "chat"


async def test_a_stream_has_the_headers_that_keep_it_a_stream(server: Server):
    for reply in [await Page(server).play({"text": "hi"}), await Page(server, "b").play({"text": "x"})]:
        assert reply.headers["content-type"] == "text/event-stream"
        assert reply.headers["cache-control"] == "no-cache, no-transform"
        assert reply.headers["x-accel-buffering"] == "no"
        assert reply.headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert "connection" not in reply.headers
        assert "content-length" not in reply.headers
        assert reply.headers["x-run-id"]


async def test_the_first_bytes_leave_before_the_model_says_anything(server: Server):
    reply = await Page(server).say(script({"text": "x [at g]"}), "u").open()
    await reply.until("start")
    gates["g"].open()
    await reply.rest()


async def test_silence_is_broken_by_comments():
    async def silent() -> AsyncGenerator[list[dict[str, Any]] | None, None]:
        for _ in range(4):
            yield None
        yield [{"type": "finish"}]

    quiet = sse.KEEP_ALIVE_S
    now = iter([0.0, quiet - 1, quiet, quiet, 2 * quiet - 1, 2 * quiet, 2 * quiet, 99.0])
    told = [data async for data in sse.events(silent(), clock=lambda: next(now))]
    assert told == [b": keep-alive\n\n", b": keep-alive\n\n", b'data: {"type":"finish"}\n\n', sse.DONE]


@pytest.mark.parametrize(
    "step",
    [
        {"text": "hi"},
        {"text": "x", "error": "unavailable"},
        {"error": "no_finish"},
        calls(call("get_location", "l")),
    ],
)
async def test_done_ends_every_whole_stream(server: Server, step: dict[str, Any]):
    page = Page(server)
    await page.play(step)
    replayed = await Page(server, messages=page.messages[:1]).post()
    assert replayed.done
    reply = await server.ask("POST", "/chat", page.body(messages=[page.messages[0]]))
    assert b"".join([chunk async for chunk in reply.chunks()]).endswith(b"data: [DONE]\n\n")


async def test_cors_allows_what_a_stock_client_sends_and_exposes_what_it_reads(serve: Any):
    async with serve(cors_origins="https://app.example.com") as server:
        origin = {"origin": "https://app.example.com"}
        asked = "content-type, authorization, user-agent, last-event-id"
        preflight = await server.ask(
            "OPTIONS",
            "/chat",
            headers={
                **origin,
                "access-control-request-method": "POST",
                "access-control-request-headers": asked,
            },
        )
        assert preflight.status == 200
        allowed = {
            name.strip().lower() for name in preflight.headers["access-control-allow-headers"].split(",")
        }
        assert set(asked.split(", ")) <= allowed
        reply = await server.ask("GET", "/chat/nobody", headers=origin)
        exposed = reply.headers["access-control-expose-headers"]
        assert {"x-session-id", "x-run-id", "x-vercel-ai-ui-message-stream"} <= set(exposed.split(", "))
        assert reply.headers["access-control-allow-origin"] == "https://app.example.com"
        stranger = await server.ask("GET", "/chat/nobody", headers={"origin": "https://evil.example.com"})
        assert "access-control-allow-origin" not in stranger.headers


async def test_a_failure_of_ours_carries_cors_and_the_one_body(serve: Any):
    async with serve(cors_origins="*") as server:
        await server.sql("drop table session cascade")
        reply = await server.ask("GET", "/chat/chat", headers={"origin": "https://app.example.com"})
        assert reply.status == 500
        assert reply.headers["access-control-allow-origin"] == "*"
        assert json.loads(await reply.body())["code"] == "framework_internal_error"
