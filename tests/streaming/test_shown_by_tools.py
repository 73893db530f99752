"""Data parts and sources that tools show: live and reloaded alike, once each, in their first place."""

from typing import Any

import pytest

from tests.inprocess.agents import gates
from tests.inprocess.chat import Page, call, calls, continues, script
from tests.inprocess.server import Server


def data(value: Any, part_id: str | None = None, name: str = "chart", **more: Any) -> dict[str, Any]:
    return {"data": name, "value": value, **({"id": part_id} if part_id else {}), **more}


def url(address: str, **more: Any) -> dict[str, Any]:
    return {"url": address, **more}


EVERYTHING = [
    data(1, "one"),
    data("first"),
    data(2, "one"),
    data("unseen", transient=True),
    data("second"),
    url("https://a.example", title="A"),
    {"document": "A paper", "media_type": "application/pdf", "filename": "a.pdf"},
    data(3, "one"),
]
STORED = [
    {"type": "data-chart", "id": "one", "data": 3},
    {"type": "data-chart", "id": "s-1", "data": "first"},
    {"type": "data-chart", "id": "s-2", "data": "second"},
    {"type": "source-url", "sourceId": "s-3", "url": "https://a.example", "title": "A"},
    {
        "type": "source-document",
        "sourceId": "s-4",
        "mediaType": "application/pdf",
        "title": "A paper",
        "filename": "a.pdf",
    },
]


def shown(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The data parts and sources of a message."""
    return [part for part in message["parts"] if part["type"].startswith(("data-", "source-"))]


def values(message: dict[str, Any]) -> list[Any]:
    return [part.get("data", part.get("url")) for part in shown(message)]


async def reloaded(page: Page) -> Page:
    again = Page(page.server, page.chat_id)
    await again.reload()
    return again


@pytest.mark.parametrize("tool", ["show", "show_in_thread"])
async def test_what_is_shown_is_stored_as_it_was_live(server: Server, tool: str):
    page = Page(server)
    reply = await page.play(calls(call(tool, "s", what=EVERYTHING)), {"text": "bye"})
    assert shown(page.last) == STORED
    transient = [frame for frame in reply.frames if frame.get("transient")]
    assert [frame["data"] for frame in transient] == ["unseen"]
    assert (await server.snapshot("chat"))["messages"] == page.messages
    replayed = Page(server, messages=page.messages[:1])
    again = await replayed.post()
    assert shown(replayed.last) == STORED
    assert not [frame for frame in again.frames if frame.get("transient")]


async def test_a_turn_that_shows_nothing_but_data_is_a_whole_message(server: Server):
    page = Page(server)
    child = script(calls(call("show", "s", what=[data(1), url("https://a.example")])), {"text": "found"})
    await page.play(calls(call("research", "r", topic=child)))
    assert [part["type"] for part in page.last["parts"]][:4] == [
        "step-start",
        "data-chart",
        "source-url",
        "tool-research",
    ]
    assert (await server.snapshot("chat"))["messages"] == page.messages


async def test_a_reader_that_comes_in_the_middle_sees_the_same(server: Server, serve: Any):
    async with serve() as other:
        page = Page(server)
        step = calls(call("show", "s", what=[data(1, "one")], gate="g", then=[data(2, "one"), data(3)]))
        live = await page.say(script(step, {"text": "bye"}), "u").open()
        await gates["g"].reached.wait()
        await live.until("data-chart", data=1)
        late = [await each.resume("chat") for each in (server, other)]
        for reader in late:
            await reader.until("data-chart", data=1)
        gates["g"].open()
        await page.take(live)
        for reader in late:
            await reader.rest()
            seen = Page(server, messages=page.messages[:1])
            seen.show(reader.frames)
            assert seen.messages == page.messages
        assert values(page.last) == [2, 3]
        assert (await other.snapshot("chat"))["messages"] == page.messages


async def test_an_id_that_was_shown_in_an_earlier_step_is_replaced_there_and_leaves_no_empty_step(
    server: Server,
):
    page = Page(server)
    await page.play(
        calls(call("show", "a", what=[data(1, "one")])),
        calls(call("show_approved", "b", what=[data(2, "one")])),
        {"text": "bye"},
    )
    await page.decide("b", True).post()
    kinds = [part["type"] for part in page.last["parts"]]
    assert kinds == [
        "step-start",
        "tool-show",
        "data-chart",
        "step-start",
        "tool-show_approved",
        "step-start",
        "text",
    ]
    assert values(page.last) == [2]
    stored = (await server.snapshot("chat"))["messages"]
    assert [part["type"] for part in stored[-1]["parts"]] == kinds
    assert values(stored[-1]) == [2]


# --- what a tool may not send -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        data(1, name="subagent"),
        data(1, name="resume-rejected"),
        data(1, name="tool-output-elsewhere"),
        data(1, name=""),
        data(1, name="a b"),
        data(1, name="x" * 65),
        data(1, "a\nb"),
        data(1, "x" * 257),
        url(""),
        {"document": "", "media_type": "text/plain"},
    ],
    ids=str,
)
@pytest.mark.parametrize("tool", ["show", "show_in_thread"])
async def test_what_cannot_be_sent_fails_its_call_and_shows_nothing(
    server: Server, tool: str, wrong: dict[str, Any]
):
    page = Page(server)
    await page.play(calls(call(tool, "s", what=[data("before"), wrong, data("after")])), {"text": "bye"})
    assert page.part("s")["state"] == "output-error"
    assert values(page.last) == ["before"]
    assert "ValueError" in str(server.logs.of("tool.failed"))


@pytest.mark.parametrize("stored", [True, False])
async def test_a_tool_that_shows_without_end_fails_and_the_next_turn_works(serve: Any, stored: bool):
    async with serve(max_message_bytes=100_000) as server:
        page = Page(server)
        await page.play(calls(call("show_for_ever", "s", stored=stored)), {"text": "bye"})
        assert page.part("s")["state"] == "output-error"
        assert page.text == "bye"
        assert (await server.snapshot("chat"))["messages"] == page.messages
        await page.play({"text": "still here"})
        assert page.text == "still here"


async def test_a_part_that_no_message_can_hold_fails_its_call_and_not_the_run(serve: Any):
    async with serve(max_message_bytes=100_000) as server:
        page = Page(server)
        large = [data("x" * 60_000), data("never")]
        await page.play(
            calls(call("show", "s", what=large), call("show", "t", what=[data("small")])), {"text": "bye"}
        )
        assert page.part("s")["errorText"] == "The message is full: the tool cannot show more."
        assert (values(page.last), page.text) == (["small"], "bye")
        assert (await server.snapshot("chat"))["messages"] == page.messages


async def test_a_message_that_is_full_of_parts_can_still_be_posted(serve: Any):
    async with serve(max_parts=60) as server:
        page = Page(server)
        many = [data(number) for number in range(100)]
        for tool in ("show", "show_in_thread"):
            await page.play(calls(call(tool, f"{tool}1", what=many)), {"text": "bye"})
            part = page.part(f"{tool}1")
            if tool == "show":
                assert part["errorText"] == "The message is full: the tool cannot show more."
            assert len(page.last["parts"]) < 60
        assert (await page.send("and again")).status == 200


# --- calls that are over ------------------------------------------------------------------------------------------------------


async def test_a_tool_whose_call_is_over_shows_nothing(server: Server):
    page = Page(server)
    late = call("show_too_late", "s", what=[data(1), data(2, transient=True), {"emit": 3}], gate="g")
    reply = await page.say(script(calls(late), {"text": "[at here] bye"}), "u").open()
    await gates["here"].reached.wait()
    gates["g"].open()
    await gates["g_over"].reached.wait()
    gates["here"].open()
    await page.take(reply)
    assert page.part("s")["state"] == "output-error"
    assert not [frame for frame in reply.frames if frame["type"].startswith("data-")]
    assert shown((await server.snapshot("chat"))["messages"][-1]) == []


async def test_a_tool_of_a_stopped_run_shows_nothing_more(server: Server):
    page = Page(server)
    step = calls(
        call("show_too_late", "s", what=[data("late")], gate="g"), call("show", "t", what=[data("early")])
    )
    reply = await page.say(script(step), "u").open()
    await reply.until("data-chart", data="early")
    await gates["g"].reached.wait()
    await server.stop("chat")
    gates["g"].open()
    await page.take(reply)
    assert reply.types[-1] == "abort"
    assert values(page.last) == ["early"]
    assert values((await server.snapshot("chat"))["messages"][-1]) == ["early"]


# --- crashes ------------------------------------------------------------------------------------------------------------------


async def take_over(server: Server) -> None:
    await server.crash()
    server.running.supervisor._claim_now.set()


async def test_what_was_shown_and_not_committed_is_undone_by_a_crash_and_its_reader_told(server: Server):
    page = Page(server)
    step = calls(call("show", "s", what=[data("lost")], gate="g"))
    live = await page.say(script(step, {"text": "bye"}), "u").open()
    await live.until("data-chart", data="lost")
    await gates["g"].reached.wait()
    await take_over(server)
    await live.rest()
    assert live.destroyed, "its client is in error and not in a false ready"
    await server.quiet("chat")
    again = await reloaded(page)
    assert shown(again.last) == []
    assert again.part("s")["state"] == "output-error"


async def test_what_a_siblings_result_has_committed_survives_a_crash(server: Server):
    page = Page(server)
    step = calls(call("show", "s", what=[data("kept")], gate="g"), call("hold", "h", gate="sibling"))
    live = await page.say(script(step, {"text": "bye"}), "u").open()
    await live.until("data-chart", data="kept")
    gates["sibling"].open()
    await live.until("tool-output-available", toolCallId="h")
    await take_over(server)
    await page.take(live)
    assert live.done
    assert not live.destroyed
    assert values(page.last) == ["kept"]
    assert (await server.snapshot("chat"))["messages"] == page.messages


async def test_a_tool_that_is_run_again_shows_its_parts_once(server: Server):
    page = Page(server)
    what = [data("one"), url("https://a.example"), data("two", "mine")]
    step = calls(call("show_again", "s", what=what, gate="g"), call("hold", "h", gate="sibling"))
    live = await page.say(script(step, {"text": "bye"}), "u").open()
    gates["sibling"].open()
    await live.until("tool-output-available", toolCallId="h")
    await gates["g"].reached.wait()
    await take_over(server)
    gates["g"].open()
    await page.take(live)
    assert live.done
    assert values(page.last) == ["one", "https://a.example", "two"]
    assert (await server.snapshot("chat"))["messages"] == page.messages


# --- clients that continue ----------------------------------------------------------------------------------------------------

BATCH = (
    calls(
        call("show", "first", what=[data("old", "one"), url("https://old.example")]),
        text="Look.",
    ),
    calls(
        call("get_location", "loc"),
        call("show", "s", what=[data("new", "one"), data("two"), url("https://new.example")], gate="g"),
    ),
)

ALL = ["new", "https://old.example", "two", "https://new.example"]


async def cut_before_it_was_shown(server: Server) -> tuple[Page, Page]:
    """Two pages of a tree whose second step still executes: one that has seen everything, and one that was cut early."""
    page = Page(server)
    live = await page.say(script(*BATCH, {"text": "[at end] bye"}), "u").open()
    await live.until("tool-input-available", toolCallId="loc")
    early = [f for f in live.frames if f.get("data") != "new" and f.get("url") != "https://new.example"]
    cut = page.copy()
    cut.show([f for f in early if f.get("data") != "two"])
    await live.until("source-url", url="https://new.example")
    page.show(live.frames)
    await live.exchange.leave()
    assert values(page.last) == ALL
    return page, cut


@pytest.mark.parametrize("lacks", [True, False], ids=["a client that was cut", "a client that holds all"])
async def test_an_answer_while_the_step_executes_is_given_what_it_lacks(server: Server, lacks: bool):
    whole, cut = await cut_before_it_was_shown(server)
    page = cut if lacks else whole
    message_id = page.last["id"]
    reply = await page.output("loc", 1).open()
    assert reply.status == 200
    gates["g"].open()
    gates["end"].open()
    await page.take(reply)
    assert continues(reply, message_id)
    assert sorted(values(page.last)) == sorted(ALL)
    assert values((await server.snapshot("chat"))["messages"][-1]) == ALL


@pytest.mark.parametrize("lacks", [True, False], ids=["a client that was cut", "a client that holds all"])
@pytest.mark.parametrize("resent", [False, True], ids=["the last answer", "an answer that was taken before"])
async def test_an_answer_after_the_step_is_given_what_it_lacks(server: Server, lacks: bool, resent: bool):
    whole, cut = await cut_before_it_was_shown(server)
    gates["g"].open()
    await server.quiet("chat")
    page = cut if lacks else whole
    message_id = page.last["id"]
    reply = await page.output("loc", 1).open()
    await gates["end"].reached.wait()
    if resent:
        await reply.exchange.leave()
        reply = await page.open()
    gates["end"].open()
    await page.take(reply)
    assert continues(reply, message_id)
    assert sorted(values(page.last)) == sorted(ALL)
    assert values((await server.snapshot("chat"))["messages"][-1]) == ALL


async def test_a_client_that_lacks_nothing_is_sent_nothing_again(server: Server):
    whole, _ = await cut_before_it_was_shown(server)
    gates["g"].open()
    gates["end"].open()
    await server.quiet("chat")
    reply = await whole.output("loc", 1).post()
    assert not [kind for kind in reply.types if kind.startswith(("data-", "source-"))]
