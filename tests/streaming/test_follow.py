"""Replay and follow, from any replica and any point: what a reader holds at the end is what the live reader held."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.inprocess.agents import gates
from tests.inprocess.asgi import Reply
from tests.inprocess.chat import Page, call, calls, mail, script
from tests.inprocess.server import Server

POINTS = ("one", "two", "three")
LONG = script(
    {
        "reasoning": "hm",
        "text": "first [at one]",
        "calls": [call("fail", "f", kind="public"), call("nothing", "n")],
    },
    {"text": "second [at two]", "calls": [call("hold", "h", gate="three")]},
    {"text": "the end"},
)


@pytest.fixture
async def two(serve: Any) -> AsyncIterator[tuple[Server, Server]]:
    async with serve() as one, serve() as other:
        yield one, other


def seen_by(page: Page, reply: Reply) -> Page:
    """A page that held only the user message and was shown this stream."""
    seen = Page(page.server, page.chat_id, [page.messages[0]])
    seen.show(reply.frames)
    return seen


async def test_a_reader_that_comes_anywhere_ends_with_what_was_live(two: tuple[Server, Server]):
    page = Page(two[0])
    live = await page.say(LONG, "u").open()
    readers: list[Reply] = []
    for point in POINTS:
        await gates[point].reached.wait()
        readers += [await server.resume("chat") for server in two]
        gates[point].open()
    everybody = [live, *readers]
    await asyncio.gather(*(reply.rest() for reply in everybody))
    assert all(reply.done and not reply.destroyed for reply in everybody)
    shown = [seen_by(page, reply).messages for reply in everybody]
    snapshot = await two[1].snapshot("chat")
    assert all(messages == snapshot["messages"] for messages in shown)


async def test_a_replay_begins_with_the_whole_message_and_its_first_step(server: Server):
    page = Page(server)
    await page.say(LONG, "u").open()
    gates["one"].open()
    await gates["two"].reached.wait()
    reader = await server.resume("chat")
    assert (await reader.frame())["type"] == "start"  # pyright: ignore[reportOptionalSubscript]
    assert (await reader.frame()) == {"type": "start-step"}
    gates["two"].open()
    gates["three"].open()
    await reader.rest()
    assert reader.types.count("start") == 1, "no writing prefix in a replay"


async def test_a_slow_reader_holds_nobody_up_and_misses_nothing(server: Server):
    page = Page(server)
    slow = await page.say(LONG, "u").open()
    await slow.until("start")
    slow.exchange.hold_reading()
    quick = await server.resume("chat")
    for point in POINTS:
        gates[point].open()
    await quick.rest()
    assert quick.done
    slow.exchange.read_on()
    await slow.rest()
    assert seen_by(page, slow).messages == seen_by(page, quick).messages


async def test_a_reader_that_leaves_takes_nobody_with_it(server: Server):
    page = Page(server)
    first = await page.say(LONG, "u").open()
    await gates["one"].reached.wait()
    second = await server.resume("chat")
    await first.exchange.leave()
    for point in POINTS:
        gates[point].open()
    await second.rest()
    assert second.done
    assert seen_by(page, second).messages == (await server.snapshot("chat"))["messages"]


async def test_frames_of_a_step_that_a_takeover_undoes_destroy_their_reader(server: Server):
    page = Page(server)
    live = await page.say(script({"text": "half [at one]"}), "u").open()
    await live.until("text-delta")
    await server.crash()
    gates["one"].open()
    server.running.supervisor._claim_now.set()
    await live.rest()
    assert live.destroyed
    assert not live.done
    assert not {"finish", "abort", "error"} & set(live.types), "a client must not take it for an end"
    await server.quiet("chat")
    reader = Page(server, messages=page.messages[:1])
    await reader.reload()
    assert reader.text == "half [at one]"


async def test_a_reader_of_nothing_but_committed_frames_reads_on_through_a_takeover(server: Server):
    page = Page(server)
    live = await page.say(script(calls(call("hold", "h", gate="three")), {"text": "bye"}), "u").open()
    await live.until("tool-input-available", toolCallId="h")
    await gates["three"].reached.wait()
    await server.crash()
    server.running.supervisor._claim_now.set()
    await live.rest()
    assert live.done
    assert not live.destroyed
    assert seen_by(page, live).messages == (await server.snapshot("chat"))["messages"]


@pytest.mark.parametrize("reads_at", [0, 1], ids=["where-the-next-owner-is", "elsewhere"])
@pytest.mark.parametrize("handed_over", [True, False], ids=["committed", "undone"])
async def test_what_a_reader_was_sent_ahead_of_its_commit_stands_once_it_is_committed(
    two: tuple[Server, Server], reads_at: int, handed_over: bool
):
    """A reader was sent a step before its commit; when it looks again, the run has another owner already."""
    page, (owner, _) = Page(two[0]), two
    said = {"text": "one[at one]two[at two]", "chunks": 2}
    steps = {**said, "calls": [call("hold", "h", gate="three")]}, {"text": "bye"}
    await page.say(script(*steps), "u").open()
    reader = await two[reads_at].resume("chat")
    await gates["one"].reached.wait()
    await reader.until("text-delta")
    reader.exchange.hold_reading()
    gates["one"].open()
    await gates["two"].reached.wait()
    await reader.exchange.held_up.wait()
    if handed_over:
        gates["two"].open()
        await gates["three"].reached.wait()
    await owner.crash()
    owner.running.supervisor._claim_now.set()
    gates["two"].open()
    gates["three"].open()
    await owner.quiet("chat")
    reader.exchange.read_on()
    await reader.rest()
    assert (reader.done, reader.destroyed) == (handed_over, not handed_over)
    if handed_over:
        assert seen_by(page, reader).messages == (await owner.snapshot("chat"))["messages"]


async def test_what_a_drained_owner_had_not_committed_is_shown_to_nobody_who_comes_then(serve: Any):
    """A client that was cut resumes at once, perhaps before any replica has room for the run."""
    async with serve(max_running=1) as other:
        async with serve(drain_seconds=0) as drained:
            page = Page(drained)
            await page.say(script({"text": "half [at one]"}), "u").open()
            await gates["one"].reached.wait()
            busy = await Page(other, "busy").say(script({"text": "[at two]"}), "u").open()
            await gates["two"].reached.wait()
        resumed = await other.resume("chat")
        assert (await resumed.frame())["type"] == "start"
        for gate in ("one", "two"):
            gates[gate].open()
        await asyncio.gather(busy.rest(), resumed.rest())
        assert resumed.done
        assert not resumed.destroyed
        assert seen_by(page, resumed).messages == (await other.snapshot("chat"))["messages"]


async def test_a_gap_that_cannot_be_closed_destroys_its_reader(two: tuple[Server, Server]):
    page = Page(two[0])
    await page.say(script({"text": "a [at one]"}, {"text": "never seen"}), "u").open()
    await gates["one"].reached.wait()
    far = await two[1].resume("chat")
    await far.until("text-delta")
    await two[0].sql("create rule lost as on insert to frame do instead nothing")
    gates["one"].open()
    await two[0].quiet("chat")
    await far.rest()
    assert far.destroyed
    assert "finish" not in far.types


async def test_a_shutdown_destroys_every_stream_that_follows_a_run(serve: Any):
    async with serve(drain_seconds=0) as server:
        live = await Page(server).say(script(calls(call("hold", "h", gate="three"))), "u").open()
        await gates["three"].reached.wait()
    await live.rest()
    assert live.destroyed
    assert not live.done


# --- endings ----------------------------------------------------------------------------------------------


def resends(message: dict[str, Any]) -> bool:
    """Whether a stock predicate (tool calls, or approval responses) holds for this message: it would be sent again."""
    parts = message["parts"]
    start = max((i for i, part in enumerate(parts) if part["type"] == "step-start"), default=-1)
    own = [p for p in parts[start + 1 :] if "toolCallId" in p and not p.get("providerExecuted")]
    settled = {"output-available", "output-error", "output-denied"}
    complete = bool(own) and all(p["state"] in settled for p in own)
    responded = any(p["state"] == "approval-responded" for p in own)
    return complete or (responded and all(p["state"] in settled | {"approval-responded"} for p in own))


async def ending_with(page: Page, how: str) -> Reply:
    steps = (
        calls(call("get_location", "loc"), mail("m")),
        calls(call("guarded_hold", "g", gate="one")),
        {"text": "bye"},
    )
    await page.play(*steps)
    if how == "pending":
        return await page.copy().output("loc", 1).post()
    reply = await page.output("loc", 1).decide("m", how != "denied").post()
    if how in ("answered", "denied"):
        return reply
    reply = await page.decide("g", True).open()
    await gates["one"].reached.wait()
    if how == "stopped":
        await page.server.stop("chat")
    gates["one"].open()
    await page.take(reply)
    return reply


@pytest.mark.parametrize("how", ["pending", "answered", "denied", "stopped", "completed"])
async def test_no_stream_ends_with_a_step_that_a_stock_predicate_would_send_again(server: Server, how: str):
    page = Page(server)
    reply = await ending_with(page, how)
    assert reply.done
    assert not resends(page.last) or how == "pending"
    replayed = Page(server, messages=page.messages[:1])
    again = await replayed.post()
    assert again.done
    assert not resends(replayed.last)
    reloaded = Page(server)
    await reloaded.reload()
    assert [p.get("state") for p in replayed.last["parts"] if "toolCallId" in p] == [
        p.get("state") for p in reloaded.last["parts"] if "toolCallId" in p
    ]


async def test_a_stopped_step_of_a_settled_client_call_is_closed_by_a_boundary(server: Server):
    page = Page(server)
    await page.play(calls(call("get_location", "loc"), call("pick_option", "p", question="q", options=["a"])))
    await page.copy().output("loc", 1).post()
    await server.stop("chat")
    replayed = Page(server, messages=page.messages[:1])
    reply = await replayed.post()
    assert reply.types[-4:] == ["start-step", "start", "finish-step", "abort"]
    assert not resends(replayed.last)
    await page.reload()
    shown = [
        {k: v for k, v in p.items() if (k, v) != ("providerExecuted", False)} for p in replayed.last["parts"]
    ]
    assert page.last["parts"] == shown[:-1], "the boundary is not stored"
