"""A message while a run is running: refused, or with ``on_busy = interrupt`` the run is closed for it."""

import pytest

from tests.inprocess.agents import gates, told
from tests.inprocess.chat import Page, call, calls, refusal, script
from tests.inprocess.server import Server

NEXT = script({"text": "next"})


async def running(server: Server) -> Page:
    page = Page(server)
    await page.play({"text": "first"}, message_id="first")
    await page.say(script(calls(call("hold", "h", gate="g"))), "second").open()
    await gates["g"].reached.wait()
    return page


async def rows(server: Server) -> list[object]:
    tables = ("session", "run", "message", "history", "call")
    return [
        await server.sql(f"select to_jsonb(t) - 'lease_until' as row from {t} t order by 1") for t in tables
    ]


async def test_a_busy_chat_stores_nothing_of_the_request(server: Server):
    page = await running(server)
    before = await rows(server)
    assert refusal(await page.send(NEXT, "next")) == (409, "state_run_active", None)
    assert await rows(server) == before


async def test_interrupt_closes_the_run_and_begins_the_next_in_one_transaction(serve):
    async with serve(on_busy="interrupt") as server:
        page = await running(server)
        reply = await page.send(NEXT, "next")
        assert reply.status == 200
        states = [r["state"] for r in await server.sql("select state from run order by created_at, id")]
        assert states == ["completed", "superseded", "completed"]
        assert told() == [("h", "unknown")], "it had begun"
        await page.reload()
        assert [m["role"] for m in page.messages] == ["user", "assistant"] * 3


@pytest.mark.parametrize("ask", ["edit", "regenerate", "retry"])
async def test_interrupt_takes_the_row_of_a_settled_session(serve, ask: str):
    async with serve(on_busy="interrupt") as server:
        page = await running(server)
        first = page.messages[0]
        keys: dict[str, object] = {"messages": [first]}
        if ask == "edit":
            edited = {**first, "parts": [{"type": "text", "text": script({"text": "edited"})}]}
            keys = {"messages": [edited], "messageId": "first"}
        if ask == "regenerate":
            keys["trigger"] = "regenerate-message"
        reply = await server.ask("POST", "/chat", page.body(**keys))
        seen = Page(server, messages=[first])
        await seen.take(reply)
        assert seen.text == ("edited" if ask == "edit" else "first")
        snapshot = await server.quiet("chat")
        shown = [m["id"] for m in snapshot["messages"] if m["role"] == "user"]
        assert shown == (["first", "second"] if ask == "retry" else ["first"])
        assert snapshot["status"] == "idle"


async def test_a_resent_message_of_the_live_run_attaches_and_interrupts_nothing(serve):
    async with serve(on_busy="interrupt") as server:
        page = await running(server)
        reply = await page.open()
        gates["g"].open()
        await page.take(reply)
        assert page.part("h")["output"] == "held at g"
        assert len(await server.sql("select 1 from run")) == 2
