"""A deleted chat is gone from every table, and its live run with it."""

from tests.inprocess.agents import gates
from tests.inprocess.chat import Page, call, calls, refusal, script
from tests.inprocess.server import Server


async def delete(server: Server, chat_id: str = "chat") -> int:
    return (await server.ask("DELETE", f"/chat/{chat_id}")).status


async def test_everything_of_the_chat_is_gone(server: Server):
    page = Page(server)
    await page.play(calls(call("get_location", "loc")), {"text": "bye"})
    assert await delete(server) == 204
    for table in ("session", "run", "message", "history", "call"):
        assert not await server.sql(f"select 1 from {table}"), table
    assert refusal(await page.output("loc", 1).post()) == (409, "state_not_resumable", "unknown_tool_call")
    assert not await server.sql("select 1 from session"), "an answer makes no session"


async def test_a_live_run_is_stopped_first_and_its_stream_does_not_end_cleanly(server: Server):
    page = Page(server)
    stream = await page.say(script(calls(call("hold", "h", gate="g")))).open()
    await gates["g"].reached.wait()
    assert await delete(server) == 204
    await stream.rest()
    assert "finish" not in stream.types
    assert not await server.sql("select 1 from run")


async def test_a_second_delete_is_404(server: Server):
    await Page(server).play({"text": "x"})
    assert await delete(server) == 204
    assert await delete(server) == 404


async def test_the_id_may_begin_anew(server: Server):
    page = Page(server)
    await page.play({"text": "old"})
    await delete(server)
    page = Page(server)
    await page.play({"text": "new"})
    assert len((await server.snapshot("chat"))["messages"]) == 2
