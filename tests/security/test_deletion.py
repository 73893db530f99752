"""A deleted or expired chat is gone from every table, and nothing of anybody else's is."""

import asyncio

import pytest

from app.sessions import sweep
from app.store.schema import metadata
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


OURS = set(metadata.tables)
"""Every table of the schema: one that is new has to be filled here, and then it has to be emptied by each way out."""


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
    assert await places(server, *gone) == OURS, "a table that this chat leaves no word in is not searched"
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
        assert await places(server, *gone) == OURS
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


async def test_two_replicas_that_purge_at_once_share_the_work_and_each_does_a_bounded_part(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sweep, "BITE", 10)
    monkeypatch.setattr(sweep, "BITES", 3)
    async with serve() as one, serve() as two:
        await Page(one).play({"text": "x"})
        await one.sql(
            "insert into call (session_id, call_id, run_id, root_run, step, ordinal, batch, kind, tool, input, state, outcome, "
            "settled_at) select session_id, 'old ' || n, id, id, 1, n, 1, 'server', 't', '{}', 'settled', 'ok', "
            "now() - interval '2 days' from run, generate_series(1, 900) n"
        )
        await one.sql(
            "insert into frame (run_id, seq, epoch, data) select gen_random_uuid(), n, 1, '{}' from generate_series(1, 900) n"
        )
        await asyncio.gather(one.running.sweeper.purge(), two.running.sweeper.purge())
        for table in ("call", "frame"):
            left = (await one.sql(f"select count(*) from {table}"))[0][0]
            assert left in range(300, 900), f"{table}: at most {2 * 3 * 100} go at once"
        for _ in range(3):
            await two.running.sweeper.purge()
        orphans = "select count(*) from frame where run_id not in (select id from run)"
        assert await one.sql("select count(*) from call") == await one.sql(orphans) == [(0,)]


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
