"""Every row of the path table, through ``POST /chat``.

Before each request the session has had one finished turn (``past``); its standing is that of the turn after it (``now``).
"""

from collections.abc import Awaitable, Callable

import pytest

from app.domain.path import PATH, Ask, Standing
from tests.inprocess.agents import gates
from tests.inprocess.asgi import Reply
from tests.inprocess.chat import Page, call, calls, is_harmless, script
from tests.inprocess.server import Server

NOW = {
    "running": script(calls(call("hold", "h", gate="g"))),
    "suspended": script(calls(call("get_location", "loc"))),
    "settled": script({"text": "now is over"}),
}
UNREACHABLE = {
    "same_live + none": "a known message is in a session",
    "same_past + none": "a known message is in a session",
    "again_live + none": "a known message is in a session",
    "again_past + none": "a known message is in a session",
    "edit + none": "a known message is in a session",
    "same_live + settled": "a live run is running or suspended",
    "again_live + settled": "a live run is running or suspended",
}
ROWS = """
answers + none          submit
answers + running       submit
answers + suspended     submit
answers + settled       submit
nothing + none          not_found
nothing + running       busy
nothing + suspended     case_b
nothing + settled       case_b
new + none              fresh
new + running           busy
new + suspended         abandon
new + settled           next_turn
same_live + running     attach
same_live + suspended   retry
same_past + running     busy
same_past + suspended   retry
same_past + settled     retry
again_live + running    attach
again_live + suspended  rewind
again_past + running    busy
again_past + suspended  rewind
again_past + settled    rewind
edit + running          busy
edit + suspended        rewind
edit + settled          rewind
"""
EXPECTED = {line.rpartition(" ")[0].strip(): line.split()[-1] for line in ROWS.strip().splitlines()}


def test_every_row_has_a_scenario_or_a_reason_why_it_cannot_happen():
    table = {f"{ask} + {standing}": str(path) for (ask, standing), path in PATH.rows.items()}
    assert set(EXPECTED) | set(UNREACHABLE) == set(table)
    assert {name for name, path in table.items() if path == "impossible"} == set(UNREACHABLE)
    assert {name: table[name] for name in EXPECTED} == EXPECTED
    assert len(table) == len(Ask) * len(Standing) == 32


def user(message_id: str, text: str) -> dict[str, object]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


async def standing_session(server: Server, standing: str) -> Page:
    page = Page(server)
    if standing == "none":
        page.say("hello", "past")
        page.messages.append({"id": "m", "role": "assistant", "parts": [{"type": "text", "text": "hi"}]})
        return page
    await page.send(script(calls(call("get_location", "old")), {"text": "past is over"}), "past")
    await page.output("old", 1).post()
    page.say(NOW[standing], "now")
    reply = await page.open()
    if standing == "running":
        await gates["g"].reached.wait()
    else:
        await page.take(reply)
    return page


def asks(page: Page, ask: str) -> dict[str, object]:
    """The body that asks this."""
    past, now = page.messages[:1], next((m for m in page.messages if m["id"] == "now"), None)
    match ask:
        case "answers":
            answered = {
                "type": "tool-get_location",
                "toolCallId": "old",
                "state": "output-available",
                "input": {},
            }
            return page.body(messages=[*past, {"id": "m", "role": "assistant", "parts": [answered]}])
        case "nothing":
            said = {
                "id": page.messages[1]["id"],
                "role": "assistant",
                "parts": [{"type": "text", "text": "said"}],
            }
            return page.body(messages=[*past, said])
        case "new":
            return page.body(messages=[*page.messages, user("new", "something new")])
        case "same_live":
            return page.body(messages=[*past, now])
        case "same_past":
            return page.body(messages=past)
        case "again_live":
            return page.body(messages=[*past, now], trigger="regenerate-message")
        case "again_past":
            return page.body(messages=page.messages[:2], trigger="regenerate-message")
        case _:
            return page.body(messages=[user("past", "other words")], messageId="past")


async def path_taken(server: Server, ask: Callable[[], Awaitable[Reply]]) -> str:
    """What the rows and the answer say happened."""
    before = {row["id"] for row in await server.sql("select id from run")}
    server.logs.clear()
    reply = await ask()
    after = await server.sql("select id, state, input_message from run order by created_at, id")
    begun = [row for row in after if row["id"] not in before]
    following = "running" in {row["state"] for row in after} and not begun
    gates["g"].open()
    await Page(server, messages=[user("x", "x")]).take(reply)
    line = server.logs.of("request.ended")[-1]
    if (reply.error or {}).get("code") == "state_not_resumable" or "continuation" in line:
        return "submit"
    if reply.error is not None:
        return {"state_session_not_found": "not_found", "state_run_active": "busy"}[reply.error["code"]]
    if begun:
        cut = await server.sql("select 1 from message where cut_at is not null")
        superseded = [row for row in after if row["state"] == "superseded"]
        if cut:
            return "rewind"
        if not before:
            return "fresh"
        return "abandon" if superseded else "next_turn"
    if is_harmless(reply):
        return "case_b"
    return "attach" if following else "retry"


@pytest.mark.parametrize("row", EXPECTED)
async def test_a_request_takes_the_path_of_its_row(server: Server, row: str):
    ask, _, standing = row.partition(" + ")
    page = await standing_session(server, standing)
    body = asks(page, ask)
    assert await path_taken(server, lambda: server.ask("POST", "/chat", body)) == EXPECTED[row]
