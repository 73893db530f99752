"""How long a finished call and an idle chat are remembered, and what a late answer is told afterwards."""

from tests.inprocess.chat import Page, call, calls, continues, is_harmless, refusal
from tests.inprocess.server import Server

LOCATED = (calls(call("get_location", "loc")), {"text": "bye"})


async def answered(server: Server) -> Page:
    page = Page(server)
    await page.play(*LOCATED)
    reply = await page.output("loc", {"x": 1}).post()
    assert continues(reply, page.last["id"])
    page.messages[-1]["parts"] = page.last["parts"][:2]
    return page


async def age(server: Server, seconds: float) -> None:
    await server.sql("update call set settled_at = settled_at - make_interval(secs => $1)", seconds)


async def test_within_its_retention_a_drained_call_says_already_completed(server: Server):
    page = await answered(server)
    await age(server, 86_000)
    await server.running.sweeper.purge()
    assert is_harmless(await page.post())


async def test_past_its_retention_the_call_is_unknown_again(server: Server):
    page = await answered(server)
    await age(server, 86_401)
    await server.running.sweeper.purge()
    assert refusal(await page.post()) == (409, "state_not_resumable", "unknown_tool_call")


async def test_a_tombstone_is_never_dropped_while_its_run_is_live(server: Server):
    page = Page(server)
    await page.play(calls(call("get_location", "first")), calls(call("get_location", "second")))
    await page.output("first", 1).post()
    again = page.copy()
    again.messages[-1]["parts"] = again.last["parts"][:2]
    await age(server, 10_000_000)
    await server.running.sweeper.purge()
    reply = await again.post()
    assert continues(reply, page.last["id"]), "its continuation is live"
    assert {"first", "second"} <= {row["call_id"] for row in await server.sql("select call_id from call")}


async def test_an_idle_session_expires_and_its_answers_are_unknown(serve):
    async with serve(session_retention=60) as server:
        page = Page(server)
        await page.play(*LOCATED)
        await server.sql("update session set updated_at = now() - interval '2 minutes'")
        await server.running.sweeper.purge()
        assert (await server.ask("GET", "/chat/chat")).status == 404
        assert refusal(await page.output("loc", 1).post()) == (
            409,
            "state_not_resumable",
            "unknown_tool_call",
        )
