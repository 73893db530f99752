"""The database fails while a user message is being stored: what is answered, stored and logged, and that a repeat ends right."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.contextvars import get_contextvars

from app.store.transaction import Store, Tx
from tests.inprocess.agents import gates
from tests.inprocess.chat import Page, call, calls, refusal, script
from tests.inprocess.faults import NOTHING_STORED, Failure, FaultyStore, failing
from tests.inprocess.fixtures import Serve
from tests.inprocess.server import Server

TURN = script({"text": "hello"})
CONFLICT = (503, "state_concurrency_conflict", None)
INTERNAL = (503, "framework_internal_error", None)


async def repeated(page: Page) -> None:
    """The same request again shows the whole turn, which happened once."""
    page.messages = page.messages[:1]
    reply = await page.post()
    assert reply.status == 200
    assert reply.done
    snapshot = await page.server.quiet("chat")
    assert page.messages == snapshot["messages"]
    assert [m["role"] for m in snapshot["messages"]] == ["user", "assistant"]
    assert page.text == "hello"
    assert len(await page.server.sql("select 1 from run")) == 1


def one_line(server: Server, level: str) -> None:
    """The failed request has one line, with its cause."""
    assert [(line["event"], line["level"]) for line in server.logs.failures] == [("request.ended", level)]
    assert server.logs.failures[0]["causes"]


@pytest.mark.parametrize("failure", NOTHING_STORED)
async def test_nothing_of_a_failed_turn_is_stored_and_it_may_be_sent_again(faulty: Server, failure: Failure):
    page = Page(faulty)
    with failing({1: failure}):
        reply = await page.send(TURN)
    conflict = failure is Failure.SERIALIZATION
    assert refusal(reply) == (CONFLICT if conflict else INTERNAL)
    assert not await faulty.sql("select 1 from session")
    one_line(faulty, "warning" if conflict else "error")
    await repeated(page)


async def test_a_permanent_store_error_is_not_retryable(faulty: Server):
    with failing({1: Failure.PERMANENT}):
        reply = await Page(faulty).send(TURN)
    assert refusal(reply) == (500, "framework_internal_error", None)
    one_line(faulty, "error")


async def test_a_lost_reply_of_the_commit_is_resolved_by_reading_again(faulty: Server):
    page = Page(faulty)
    with failing({1: Failure.REPLY_LOST}):
        reply = await page.send(TURN)
    assert reply.status == 200
    assert page.text == "hello"
    assert not faulty.logs.failures
    await repeated(page)


async def test_when_that_cannot_be_read_it_is_503_and_the_repeat_attaches_to_the_turn(faulty: Server):
    page = Page(faulty)
    with failing({1: Failure.REPLY_LOST, 2: Failure.REFUSED}):
        reply = await page.send(TURN)
    assert refusal(reply) == INTERNAL
    one_line(faulty, "error")
    await repeated(page)


@pytest.mark.parametrize("failure", [Failure.REFUSED, Failure.KILLED])
async def test_a_run_whose_frames_cannot_be_opened_is_500_and_goes_on(faulty: Server, failure: Failure):
    page = Page(faulty)
    with failing({2: failure}):
        reply = await page.send(TURN)
    assert refusal(reply) == (500, "transport_stream_drop", None), "never 503: the input is committed"
    one_line(faulty, "error")
    await repeated(page)


@pytest.mark.parametrize("failure", NOTHING_STORED)
async def test_a_failed_abandonment_leaves_the_suspended_run_as_it_was(faulty: Server, failure: Failure):
    page = Page(faulty)
    await page.play({"calls": [{"tool": "get_location", "input": {}, "id": "loc"}]})
    before = await faulty.snapshot("chat")
    with failing({1: failure}):
        reply = await page.output("loc", 1).send(TURN, "next")
    assert reply.status == 503
    assert await faulty.snapshot("chat") == before
    page.messages.pop()
    assert (await page.send(TURN, "next")).status == 200
    after = await faulty.snapshot("chat")
    assert [m["role"] for m in after["messages"]] == ["user", "assistant", "user", "assistant"]


async def test_the_database_s_own_words_reach_no_client(faulty: Server):
    with failing({1: Failure.PERMANENT}):
        reply = await Page(faulty).send(TURN)
    assert reply.error == {
        "error": "Something went wrong on our side.",
        "code": "framework_internal_error",
    }


class Away(FaultyStore):
    """A database that what drives a run does not reach, ``left`` times more."""

    left = 0

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        if self.left and "run_id" in get_contextvars():
            self.left -= 1
            raise ConnectionRefusedError(111, "made: the database is away")
        async with super().transaction() as tx:
            yield tx


async def test_a_pause_of_a_run_is_told_when_it_begins_and_when_it_is_over(serve: Serve):
    stores: list[Away] = []

    def around(store: Store) -> Away:
        stores.append(Away(store))
        return stores[-1]

    async with serve(around=around) as server:
        page = Page(server).say(script(calls(call("hold", gate="g")), {"text": "done"}))
        reply = await page.open()
        await gates["g"].reached.wait()
        stores[0].left = 3
        gates["g"].open()
        await page.take(reply)
        assert page.text == "done"
        (paused,), (resumed,) = server.logs.of("run.paused"), server.logs.of("run.resumed")
        assert paused["causes"] == ["ConnectionRefusedError: [Errno 111] made: the database is away"]
        assert (resumed["tries"], resumed["run_id"]) == (3, paused["run_id"])
        assert resumed["session"] == "chat"
