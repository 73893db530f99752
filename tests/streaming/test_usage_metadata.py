"""What a turn has used, in its message's metadata: the same live, in every replay and after a reload, however the turn ends."""

import json
from collections import Counter
from typing import Any

import pytest

from tests.inprocess.agents import gates
from tests.inprocess.asgi import Reply
from tests.inprocess.chat import Page, call, calls, script
from tests.inprocess.server import Server

WEATHER = call("get_weather", "w", city="Oslo")


async def begin(page: Page, *steps: dict[str, Any]) -> Reply:
    return await page.say(script(*steps), "u").open(agent="counted")


async def in_the_rows(server: Server) -> dict[str, int]:
    """The usage of all runs together, as their rows say it."""
    total: Counter[str] = Counter()
    for row in await server.sql("select usage from run where usage is not null"):
        total.update(json.loads(row["usage"]))
    return dict(total)


async def assert_everywhere(server: Server, page: Page) -> dict[str, int]:
    """The page, its reload and a replay tell the same, which is what is stored."""
    usage = page.last["metadata"]["usage"]
    assert (await server.snapshot("chat"))["messages"][-1]["metadata"] == {"usage": usage}
    replayed = Page(server, messages=page.messages[:1])
    await replayed.post()
    assert replayed.last["metadata"] == {"usage": usage}
    assert +Counter(usage) == +Counter(await in_the_rows(server))
    return usage


async def test_every_response_of_the_tree_counts(server: Server):
    page = Page(server)
    child = script(calls(WEATHER), {"text": "found"})
    both = [call("research", name, topic=child) for name in ("r1", "r2")]
    reply = await page.take(await begin(page, calls(*both), {"text": "bye"}))
    told = [
        f["messageMetadata"]["usage"]["requests"] for f in reply.frames if f["type"] == "message-metadata"
    ]
    assert told == [1, 2, 3, 4, 5, 6], "after each model response, of a sub-agent's too"
    usage = await assert_everywhere(server, page)
    assert (usage["requests"], usage["toolCalls"]) == (6, 4)
    assert (await server.snapshot("chat"))["run"]["usage"]["requests"] == 2, "the root's own"
    [line] = server.logs.of("run.ended")
    assert line["usage"] == usage
    [last] = await server.sql(
        "select body from history where role = 'assistant' order by position desc limit 1"
    )
    assert '"usage":{"inputTokens":' in str(last["body"]).replace(" ", "").replace("'", '"')


async def test_an_agent_that_does_not_ask_for_it_has_no_metadata(server: Server):
    page = Page(server)
    reply = await page.play(calls(WEATHER), {"text": "bye"})
    assert "essageMetadata" not in str(reply.frames)
    assert "metadata" not in (await server.snapshot("chat"))["messages"][-1]


@pytest.mark.parametrize("end", ["failed", "stopped", "taken over"])
async def test_a_turn_that_is_cut_keeps_what_was_committed(server: Server, end: str):
    page = Page(server)
    second = {"text": "half [at half]", **({"error": "context"} if end == "failed" else {})}
    live = await begin(page, calls(WEATHER), second)
    await gates["half"].reached.wait()
    if end == "stopped":
        await server.stop("chat")
    if end == "taken over":
        await server.crash()
        server.running.supervisor._claim_now.set()
    gates["half"].open()
    await live.rest()
    if end == "taken over":
        assert live.destroyed
        await server.quiet("chat")
        page.messages = page.messages[:1]
        await page.post()
    else:
        page.show(live.frames)
    usage = await assert_everywhere(server, page)
    assert usage["requests"] == (2 if end == "taken over" else 1)


@pytest.mark.parametrize("again", [False, True], ids=["the answer", "the answer again"])
async def test_a_client_that_continues_ends_with_the_same(server: Server, again: bool):
    page = Page(server)
    await page.take(
        await begin(page, calls(call("get_location", "loc")), calls(WEATHER), {"text": "[at end] bye"})
    )
    assert page.last["metadata"]["usage"]["requests"] == 1
    message_id = page.output("loc", 1).last["id"]
    reply = await page.open()
    await gates["end"].reached.wait()
    if again:
        await reply.exchange.leave()
        reply = await page.open()
    late = await server.resume("chat")
    gates["end"].open()
    await page.take(reply)
    assert reply.frames[0]["messageMetadata"]["usage"]["requests"] in (1, 2), (
        "as it is stored when the stream is opened"
    )
    assert [frame["type"] for frame in reply.frames[:3]] == ["start", "start-step", "start"]
    assert {frame["messageId"] for frame in reply.frames if frame["type"] == "start"} == {message_id}
    await late.rest()
    seen = Page(server, messages=page.messages[:1])
    seen.show(late.frames)
    usage = await assert_everywhere(server, page)
    assert usage["requests"] == 3
    assert seen.last["metadata"] == page.last["metadata"]
