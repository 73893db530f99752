"""What one request may hold, and what one owner may do at once."""

import asyncio
from typing import Any

import pytest

from app.api.limits import BUCKETS, OwnerLimits
from app.errors import ServiceError
from tests.inprocess import agents
from tests.inprocess.asgi import Exchange, Reply
from tests.inprocess.chat import Page, call, calls, script
from tests.inprocess.fixtures import Serve
from tests.inprocess.server import Server

HOOK = "tests.api.auth_hooks:by_header"


async def refused(reply: Reply, status: int, code: str) -> None:
    assert reply.status == status
    assert (await reply.json())["code"] == code


class Clock:
    def __init__(self) -> None:
        self.at = 50.0

    def __call__(self) -> float:
        return self.at


def admitted(limits: OwnerLimits, owner: str = "ada") -> float | None:
    """``None`` when admitted, else the seconds to wait."""
    try:
        limits.admit(owner)
    except ServiceError as error:
        return error.retry_after_s
    return None


def test_an_owner_has_its_rate_and_twice_as_much_in_a_burst():
    clock, told = Clock(), list[str]()
    limits = OwnerLimits(rate=2, streams=None, refused=told.append, now=clock)
    assert [admitted(limits) for _ in range(5)] == [None, None, None, None, 0.5]
    assert admitted(limits, "eve") is None
    clock.at += 0.5
    assert [admitted(limits), admitted(limits)] == [None, 0.5]
    clock.at += 3600
    assert [admitted(limits) for _ in range(5)] == [None, None, None, None, 0.5]
    assert told == ["owner_rate"] * 3


def test_a_rate_below_one_still_admits_the_first_request():
    limits = OwnerLimits(rate=0.1, streams=None, now=Clock())
    assert [admitted(limits), admitted(limits)] == [None, 10.0]


def test_owners_who_have_been_quiet_are_forgotten():
    clock = Clock()
    limits = OwnerLimits(rate=1, streams=None, now=clock)
    for n in range(BUCKETS):
        limits.admit(f"owner {n}")
    clock.at += 10
    limits.admit("one more")
    assert len(limits._buckets) == 1


def test_open_streams_are_counted_for_each_owner_and_given_back():
    limits = OwnerLimits(rate=None, streams=2)
    first, _ = limits.open_stream("ada"), limits.open_stream("ada")
    limits.open_stream("eve")
    with pytest.raises(ServiceError):
        limits.open_stream("ada")
    first()
    limits.open_stream("ada")
    assert limits.open_streams == 3


async def test_a_rate_is_answered_with_the_time_to_wait(serve: Serve):
    async with serve(auth=HOOK, owner_rate=1) as server:
        ada = {"x-user": "ada"}
        statuses = [(await server.ask("GET", "/chats", headers=ada)).status for _ in range(3)]
        assert statuses == [200, 200, 429]
        reply = await server.ask("GET", "/chats", headers=ada)
        assert int(reply.headers["retry-after"]) >= 1
        await refused(reply, 429, "rate_limited")
        assert (await server.ask("GET", "/chats", headers={"x-user": "eve"})).status == 200
        assert (await server.ask("GET", "/health/live")).status == 200


async def test_a_stream_too_many_is_refused_before_anything_is_stored(serve: Serve):
    async with serve(auth=HOOK, max_streams_per_owner=1) as server:
        server.headers = {"x-user": "ada"}
        page = Page(server, "a").say(script(calls(call("hold", gate="here"))))
        first = await page.open()
        await agents.gates["here"].reached.wait()
        other = await Page(server, "b").say("hello").open()
        await refused(other, 429, "rate_limited")
        await refused(await server.resume("a"), 429, "rate_limited")
        assert (await server.ask("GET", "/chat/b")).status == 404
        agents.gates["here"].open()
        await page.take(first)
        assert (await Page(server, "b").send("hello")).status == 200


async def test_a_stream_whose_client_left_is_not_counted_any_more(serve: Serve):
    async with serve(auth=HOOK, max_streams_per_owner=1) as server:
        server.headers = {"x-user": "ada"}
        first = await Page(server, "a").say(script(calls(call("hold", gate="here")))).open()
        await agents.gates["here"].reached.wait()
        await first.exchange.leave()
        again = await server.resume("a")
        assert again.status == 200
        agents.gates["here"].open()
        await again.rest()


async def test_live_runs_of_an_owner_are_counted_across_chats_and_replicas(serve: Serve):
    async with serve(auth=HOOK, max_live_per_owner=2) as one, serve(auth=HOOK, max_live_per_owner=2) as two:
        for server in (one, two):
            server.headers = {"x-user": "ada"}
        pages = [Page(one, "a"), Page(two, "b")]
        for page in pages:
            await page.play(calls(call("get_location", f"loc{page.chat_id}")))  # they wait
        reply = await Page(one, "c").say("hello").open()
        assert int(reply.headers["retry-after"]) >= 1
        await refused(reply, 429, "rate_limited")
        assert (await one.ask("GET", "/chat/c")).status == 404
        assert (await pages[0].send("another turn closes its own first")).status == 200
        assert (await Page(two, "c").send("hello")).status == 200
        one.headers = {"x-user": "eve"}
        assert (await Page(one, "c").send("hello")).status == 200


async def test_two_that_begin_at_once_do_not_both_get_the_last_place(serve: Serve):
    async with serve(auth=HOOK, max_live_per_owner=1) as server:
        server.headers = {"x-user": "ada"}
        pages = [Page(server, f"chat{n}") for n in range(4)]
        waits = script(calls(call("get_location", "loc")))
        replies = await asyncio.gather(*(page.say(waits).open() for page in pages))
        assert sorted(reply.status for reply in replies) == [200, 429, 429, 429]
        for page, reply in zip(pages, replies, strict=True):
            await page.take(reply)


async def test_chats_of_an_owner_are_counted_across_replicas_and_a_deleted_one_makes_room(serve: Serve):
    async with (
        serve(auth=HOOK, max_sessions_per_owner=2) as one,
        serve(auth=HOOK, max_sessions_per_owner=2) as two,
    ):
        for server in (one, two):
            server.headers = {"x-user": "ada", "x-scopes": "chat admin"}
        await Page(one, "a").play({"text": "x"})
        await Page(two, "b").play({"text": "x"})
        reply = await Page(one, "c").say("hello").open()
        assert int(reply.headers["retry-after"]) >= 1
        assert await reply.json() == {
            "error": "There are too many chats. Delete one, then try again.",
            "code": "rate_limited",
        }
        assert (await one.ask("GET", "/chat/c")).status == 404, "nothing of it is stored"
        counted = await (await one.ask("GET", "/metrics")).body()
        assert b'agent_server_rate_limited_total{limit="owner_sessions"} 1.0' in counted
        assert (await Page(two, "a").send("a chat that is there goes on")).status == 200
        assert (await two.ask("DELETE", "/chat/a")).status == 204
        assert (await Page(one, "c").send("hello")).status == 200
        one.headers = {"x-user": "eve"}
        assert (await Page(one, "c").send("hello")).status == 200


async def test_of_many_first_messages_at_once_only_as_many_chats_come_to_be_as_there_are_places(serve: Serve):
    limits = {"auth": HOOK, "max_sessions_per_owner": 3}
    async with serve(**limits) as one, serve(**limits) as two:
        for server in (one, two):
            server.headers = {"x-user": "ada"}
        pages = [
            Page((one, two)[n % 2], f"chat{n % 6}") for n in range(12)
        ]  # each chat twice, on both replicas
        replies = await asyncio.gather(*(page.say(script({"text": "x"})).open() for page in pages))
        for page, reply in zip(pages, replies, strict=True):
            await page.take(reply)
        assert {reply.status for reply in replies} <= {200, 409, 429}
        assert await one.sql("select count(*) from session") == [(3,)]


# --- the body


def chat_scope(server: Server) -> dict[str, Any]:
    return {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": "POST",
        "scheme": "http", "path": "/chat", "raw_path": b"/chat", "query_string": b"", "root_path": "", "state": {},
        "headers": [(b"content-type", b"application/json"), (b"transfer-encoding", b"chunked")],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip


class Trickle(Exchange):
    """A body whose first chunk comes and whose second never does."""

    async def _receive(self) -> dict[str, Any]:
        if self._body:
            return {"type": "http.request", "body": self._body.pop(0), "more_body": True}
        await self._gone.wait()
        return {"type": "http.disconnect"}


async def test_a_body_that_trickles_in_is_cut_and_its_connection_closed(serve: Serve):
    async with serve(body_timeout_seconds=0.05) as server:
        exchange = Trickle(server.app, chat_scope(server), [b'{"id": "chat", '])
        message = await exchange.next()
        assert message is not None
        reply = Reply(exchange, message["status"], message["headers"])
        assert reply.headers["connection"] == "close"
        await refused(reply, 400, "validation_error")
        assert server.logs.of("request.ended", status=400, detail="the body did not arrive in time")


async def test_a_body_that_is_refused_unread_closes_its_connection(serve: Serve):
    async with serve(max_body_bytes=100) as server:
        for headers, sent, status in [
            ({}, b"x" * 101, 413),
            ({}, [b"x" * 60, b"x" * 60], 413),
            ({"content-length": "9" * 30}, b"x", 413),
            ({"content-type": "text/plain"}, b"{}", 415),
            ({"content-encoding": "gzip"}, b"\x1f\x8b", 415),
        ]:
            reply = await server.ask("POST", "/chat", raw=sent, headers=headers)
            assert (reply.status, reply.headers.get("connection")) == (status, "close")
        reply = await server.ask("POST", "/chat", raw=b"{}")
        assert (reply.status, reply.headers.get("connection")) == (400, None)


async def test_messages_and_parts_and_answers_of_a_request_are_bounded(serve: Serve):
    async with serve(max_messages=3, max_parts=2) as server:
        text = {"type": "text", "text": "hello"}

        def message(n: int, parts: int) -> dict[str, Any]:
            return {"id": f"u{n}", "role": "user", "parts": [text] * parts}

        for messages in ([message(n, 1) for n in range(4)], [message(0, 3), message(1, 1)], [message(0, 3)]):
            reply = await server.ask("POST", "/chat", {"id": "chat", "messages": messages})
            await refused(reply, 413, "validation_payload_too_large")
        reply = await server.ask("POST", "/chat", {"id": "chat", "message": message(0, 3)})
        await refused(reply, 413, "validation_payload_too_large")
        answers = [{"toolCallId": f"c{n}", "output": n} for n in range(3)]
        await refused(await server.answers("chat", *answers), 413, "validation_payload_too_large")
        fits = {"id": "chat", "messages": [message(n, 2) for n in range(3)]}
        reply = await server.ask("POST", "/chat", fits)
        assert reply.status == 200
        await reply.rest()


@pytest.mark.parametrize(
    "odd", [{"messages": 7}, {"messages": [7]}, {"messages": [{"parts": {}}]}, {"message": []}]
)
async def test_what_cannot_be_counted_is_left_to_the_parser(server: Server, odd: dict[str, Any]):
    await refused(await server.ask("POST", "/chat", {"id": "chat", **odd}), 400, "validation_error")
