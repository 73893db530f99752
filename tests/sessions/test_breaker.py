"""A loop that nobody foresaw ends in a visible error: the sixth equal harmless answer within ten seconds is refused."""

import asyncio

import pytest

from app.errors import Code, ServiceError
from app.sessions.breaker import LIMIT, WINDOW_S, Breaker
from tests.inprocess.chat import Page, call, calls, is_harmless, refusal
from tests.inprocess.server import Server

KEY = ("owner\nchat", "answers")


async def consumed(server: Server, chat_id: str = "chat") -> Page:
    page = Page(server, chat_id)
    await page.play(calls(call("get_location", "loc")), {"text": "bye"})
    again = page.copy()
    await page.output("loc", 1).post()
    return again.output("loc", 1)


async def test_the_sixth_same_answer_in_a_row_is_rate_limited(server: Server):
    page = await consumed(server)
    for _ in range(LIMIT):
        assert is_harmless(await page.copy().post())
    reply = await page.post()
    assert refusal(reply) == (429, "rate_limited", None)
    assert int(reply.headers["retry-after"]) >= 1


async def test_a_loop_without_an_answer_is_seen_too(server: Server):
    page = Page(server)
    await page.play({"text": "over"})
    for _ in range(LIMIT):
        assert is_harmless(await page.copy().post())
    assert refusal(await page.post()) == (429, "rate_limited", None)


async def test_another_answer_or_another_chat_is_no_loop(server: Server):
    page, elsewhere = await consumed(server), await consumed(server, "elsewhere")
    for _ in range(LIMIT):
        await page.copy().post()
    assert is_harmless(await page.copy().output("loc", 2).post())
    assert is_harmless(await elsewhere.post())


async def test_equal_requests_at_the_same_time_do_not_count(server: Server):
    page = await consumed(server)
    replies = await asyncio.gather(*(page.copy().open() for _ in range(LIMIT * 3)))
    for reply in replies:
        await Page(server, messages=[*page.messages]).take(reply)
        assert reply.status == 200


def test_only_what_was_sent_within_the_window_counts():
    breaker = Breaker()
    for second in range(LIMIT):
        breaker.check(KEY, read_at=second)
        breaker.sent(KEY, read_at=second, sent_at=second + 0.5)
    with pytest.raises(ServiceError) as refused:
        breaker.check(KEY, read_at=LIMIT)
    assert refused.value.code is Code.RATE_LIMITED
    breaker.check(KEY, read_at=WINDOW_S + 0.6)


def test_a_request_read_before_the_last_step_was_sent_does_not_count():
    breaker = Breaker()
    for _ in range(LIMIT * 4):
        breaker.check(KEY, read_at=1)
        breaker.sent(KEY, read_at=1, sent_at=2)
    breaker.check(KEY, read_at=3)
