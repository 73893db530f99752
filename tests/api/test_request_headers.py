"""The headers that an agent is told: those that are named, of the request that began the turn, for the whole turn."""

from typing import Any

import pytest
from starlette.requests import Request

from app.api.request_headers import headers_for_agents
from tests.inprocess.chat import Page, call, calls, script
from tests.inprocess.server import JSON, Server

ALLOWED = "X-Tenant, x-page,authorization,cookie"
SEEN = call("told_headers", "t")


async def begin(page: Page, *steps: dict[str, Any], message_id: str = "u", **headers: str) -> Page:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    body = page.say(script(*steps), message_id).body()
    await page.take(await page.server.ask("POST", "/chat", body, headers=sent))
    return page


async def test_a_tool_is_told_the_named_headers_and_no_other(serve: Any):
    async with serve(request_headers=ALLOWED) as server:
        page = await begin(
            Page(server), calls(SEEN), X_TENANT="ädä", x_other="no", authorization="Bearer s3cret"
        )
        assert page.part("t")["output"] == {"x-tenant": "ädä", "authorization": "Bearer s3cret"}
        assert "s3cret" not in str(server.logs.lines)
        assert "s3cret" not in str({**await server.snapshot("chat"), "messages": []})


async def test_without_the_setting_nothing_is_told_or_stored(server: Server):
    page = await begin(Page(server), calls(SEEN), x_tenant="a")
    assert page.part("t")["output"] == {}
    assert [row["headers"] for row in await server.sql("select headers from run")] == [None]


async def test_the_turn_keeps_its_headers_for_every_step_sub_agent_answer_and_replica(serve: Any):
    async with serve(request_headers=ALLOWED) as server, serve() as other:
        child = calls(call("research", "r", topic=script(calls(call("told_headers", "c")), {"text": "x"})))
        steps = calls(SEEN), child, calls(call("get_location", "loc")), calls(call("told_headers", "after"))
        page = await begin(Page(server), *steps, x_tenant="a")
        rows = await server.sql("select value from call where call_id in ('t', 'c') order by call_id")
        assert [row["value"] for row in rows] == ['{"x-tenant":"a"}'] * 2
        there = page.copy(other).output("loc", 1)
        await there.take(await other.ask("POST", "/chat", there.body(), headers={"x-tenant": "b"}))
        assert there.part("after")["output"] == {"x-tenant": "a"}, "whoever answers"


async def test_a_new_turn_and_an_edit_have_the_headers_of_their_own_request(serve: Any):
    async with serve(request_headers=ALLOWED) as server:
        page = await begin(Page(server), calls(SEEN), x_tenant="a")
        await begin(page, calls(call("told_headers", "second")), message_id="u2", x_page="/orders")
        assert page.part("second")["output"] == {"x-page": "/orders"}
        body = page.body(trigger="regenerate-message", messages=page.messages[:3])
        again = Page(server, messages=page.messages[:3])
        await again.take(await server.ask("POST", "/chat", body, headers={"x-tenant": "c"}))
        [part] = [part for part in again.last["parts"] if part["type"] == "tool-told_headers"]
        assert part["output"] == {"x-tenant": "c"}


async def test_a_run_that_an_earlier_release_began_has_none(serve: Any):
    async with serve(request_headers=ALLOWED) as server:
        page = await begin(Page(server), calls(call("get_location", "loc")), calls(SEEN), x_tenant="a")
        await server.sql("update run set headers = null")
        await page.output("loc", 1).post()
        assert page.part("t")["output"] == {}


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        pytest.param({"x-tenant": "a" * 8192}, 413, "validation_payload_too_large", id="too large"),
        pytest.param(
            {"x-tenant": "a" * 5000, "x-page": "b" * 5000}, 413, "validation_payload_too_large", id="both"
        ),
        pytest.param({"x-tenant": "a\x01b"}, 400, "validation_error", id="a control character"),
        pytest.param({"x-other": "a" * 9000}, 200, None, id="one that nobody is told may be as it likes"),
    ],
)
async def test_headers_that_cannot_be_kept_are_refused_before_anything_is_stored(
    serve: Any, headers: dict[str, str], status: int, code: str | None
):
    async with serve(request_headers=ALLOWED) as server:
        page = Page(server).say(script({"text": "hi"}), "u")
        reply = await page.take(await server.ask("POST", "/chat", page.body(), headers=headers))
        assert reply.status == status
        if code is not None:
            assert reply.error["code"] == code
            assert await server.sql("select 1 from session") == []


async def test_a_page_of_another_origin_may_send_them(serve: Any):
    async with serve(cors_origins="https://app.example.com", request_headers=ALLOWED) as server:
        asked = {
            "origin": "https://app.example.com",
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type,x-tenant",
        }
        reply = await server.ask("OPTIONS", "/chat", headers={**asked, **JSON})
        assert reply.status == 200


def test_headers_sent_more_than_once_are_joined_as_http_says():
    raw = [
        (b"X-Page", b"a"),
        (b"cookie", b"one=1"),
        (b"x-page", b"b"),
        (b"cookie", b"two=2"),
        (b"x-tenant", b"\xe9"),
    ]
    request = Request({"type": "http", "headers": [(name.lower(), value) for name, value in raw]})
    found = headers_for_agents(request, ("x-page", "cookie", "x-tenant", "absent"))
    assert found == {"x-page": "a, b", "cookie": "one=1; two=2", "x-tenant": "é"}
