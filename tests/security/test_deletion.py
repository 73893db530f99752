"""A deleted or expired chat is gone from every table, and nothing of anybody else's is."""

from tests.inprocess import agents
from tests.inprocess.chat import Page, call, calls, mail, script
from tests.inprocess.fixtures import Serve
from tests.inprocess.server import Server
from tests.security.database import places, tables

NEEDLES = (
    "needle-text",
    "needle-input",
    "needle-output",
    "needle-reason",
    "needle-chat",
    "needle-extra",
    "needle-answer",
)


async def fill(server: Server, chat_id: str = "needle-chat") -> Page:
    """A chat with every kind of row: two turns, calls of each kind, a child run, answers, frames."""
    page = Page(server, chat_id)
    child = script(
        calls(call("ask_user", "child-loc", question="needle-input")), {"text": "needle-text child"}
    )
    await page.send(
        script(
            calls(call("get_weather", "w", city="needle-input"), call("research", "r", topic=child)),
            calls(mail("m", "needle-input@example.com"), call("get_location", "loc")),
            {"text": "needle-text answer", "reasoning": "needle-text thought"},
        ),
        extra="needle-extra",
    )
    await page.output("child-loc", {"at": "needle-output"}).post()
    await page.output("loc", {"at": "needle-output"}).decide("m", False, "needle-reason").post()
    await page.play({"text": "needle-text again"})
    await page.play(calls(call("pick_option", "open", question="needle-input", options=["a"])))
    return page


async def ids(server: Server, chat_id: str) -> list[str]:
    rows = await server.sql(
        "select session.id as s, run.id as r from session join run on run.session_id = session.id where chat_id = $1",
        chat_id,
    )
    return [str(value) for row in rows for value in row]


async def test_a_deleted_chat_is_gone_from_every_table_at_once(server: Server):
    await fill(server)
    gone = [*NEEDLES, *(await ids(server, "needle-chat"))]
    assert len(gone) > len(NEEDLES)
    assert {"session", "run", "message", "history", "call", "frame"} <= await places(server, *gone)
    assert (await server.ask("DELETE", "/chat/needle-chat")).status == 204
    assert await places(server, *gone) == set()


async def test_a_deleted_chat_takes_nothing_of_another_with_it(server: Server):
    await fill(server)
    other = Page(server, "other")
    await other.play(calls(call("get_location", "loc")), {"text": "kept"})
    before = {table: await server.sql(f'select count(*) from "{table}"') for table in await tables(server)}
    await fill(server, "third")
    await server.ask("DELETE", "/chat/third")
    after = {table: await server.sql(f'select count(*) from "{table}"') for table in await tables(server)}
    assert before == after
    reply = await other.output("loc", 1).post()
    assert other.text == "kept", reply.frames


async def test_a_chat_deleted_while_it_runs_is_gone_once_its_owner_has_noticed(server: Server):
    page = Page(server, "needle-chat").say(
        script(calls(call("hold", gate="here"), text="needle-text"), {"text": "needle-text late"})
    )
    reply = await page.open()
    await agents.gates["here"].reached.wait()
    gone = ["needle-text", "needle-chat", *(await ids(server, "needle-chat"))]
    owned = [each.task for each in server.running.supervisor._owned.values()]
    assert (await server.ask("DELETE", "/chat/needle-chat")).status == 204
    agents.gates["here"].open()
    for task in owned:
        await task
    assert {frame["type"] for frame in await reply.rest()} >= {"start"}
    await server.running.sweeper.purge()
    assert await places(server, *gone) == set()


async def test_an_idle_chat_expires_with_all_its_rows_and_a_busy_one_stays(serve: Serve):
    async with serve(session_retention=60) as server:
        await fill(server)
        await Page(server, "young").play({"text": "x"})
        gone = [*NEEDLES, *(await ids(server, "needle-chat"))]
        await server.sql(
            "update session set updated_at = now() - interval '61 seconds' where chat_id = 'needle-chat'"
        )
        await server.running.sweeper.purge()
        assert await places(server, *gone) == set()
        assert (await server.snapshot("young"))["messages"]


async def test_sweeps_are_bounded_and_shared_between_replicas(serve: Serve):
    async with serve(session_retention=60) as one, serve(session_retention=60) as two:
        await one.sql(
            "insert into session (id, owner, chat_id, agent, updated_at) "
            "select gen_random_uuid(), 'local', 'old ' || n, 'tester', now() - interval '1 hour' from generate_series(1, 450) n"
        )
        await one.running.sweeper.purge()
        left = (await one.sql("select count(*) from session"))[0][0]
        assert left == 250  # a bite at a time
        await two.running.sweeper.purge()
        await two.running.sweeper.purge()
        assert (await one.sql("select count(*) from session"))[0][0] == 0


async def test_frames_of_runs_that_are_over_go_and_those_of_a_running_one_stay(server: Server):
    await Page(server, "over").play({"text": "needle-text"})
    page = Page(server, "running").say(script(calls(call("hold", gate="here"), text="kept")))
    reply = await page.open()
    await agents.gates["here"].reached.wait()
    await server.sql("update run set trim_at = now() - interval '1 hour'")
    await server.running.sweeper.purge()
    assert "frame" not in await places(server, "needle-text")
    agents.gates["here"].open()
    await page.take(reply)
    assert page.last["parts"]
