"""A tree of three levels that ends early, or whose calls are closed for it: every level is reached, what was answered is kept."""

import pytest

from app.domain.call_state import CLOSED, CloseCode
from tests.inprocess.agents import asked, gates, told
from tests.inprocess.asgi import Reply
from tests.inprocess.chat import Page, call, calls, continues, refusal, script
from tests.inprocess.server import Server
from tests.sessions.test_deadlines import pass_deadlines
from tests.sessions.test_subagents import ANSWERS, note, research, three_levels


def ended(page: Page) -> dict[str, str]:
    """How each call is shown: its state, and for an error its text."""
    parts = [part for part in page.messages[1]["parts"] if "toolCallId" in part]
    assert len({part["toolCallId"] for part in parts}) == len(parts), "each call is shown once"
    return {part["toolCallId"]: part.get("errorText", part["state"]) for part in parts}


def held():
    """A client call of the root and an approval of its child wait, while a tool of its grandchild runs."""
    grandchild = research("d", calls(call("hold", "h", gate="deep")), {"text": "deep"}, tool="deeper")
    return calls(call("get_location", "loc"), research("r", calls(note("n"), grandchild), {"text": "found"}))


async def shows(reply: Reply, *call_ids: str) -> None:
    """Reads on until the calls are there to be answered."""
    asked_for = {"tool-input-available", "tool-approval-request"}
    while set(call_ids) - {f["toolCallId"] for f in reply.frames if f["type"] in asked_for}:
        assert await reply.frame() is not None


async def running(server: Server) -> tuple[Page, Reply]:
    """The third level works, the child waits; the root's call is answered, which moves nothing."""
    page = Page(server)
    reply = await page.say(script(held(), {"text": "bye"})).open()
    await shows(reply, "loc", "n")
    await gates["deep"].reached.wait()
    answered = await server.answers("chat", {"toolCallId": "loc", "output": {"lat": 1}})
    assert (await answered.json())["outcomes"][0]["outcome"] == "stored"
    return page, reply


async def test_answers_of_children_in_an_abandoned_message_are_taken_first(server: Server):
    page = Page(server)
    await page.play(three_levels(), {"text": "bye"})
    page.output("q", "yes").decide("n", True)
    await page.send(script({"text": "next"}), "next")
    assert told() == [("loc", "abandoned"), ("r", "abandoned")]
    assert not server.sent_mail(), "an approved tool that has not begun never begins"
    await page.reload()
    closed = CLOSED[CloseCode.ABANDONED][1]
    assert ended(page) == {"loc": closed, "n": closed, "q": "output-available", "r": closed}


async def test_a_regenerated_tree_begins_anew_and_answers_of_the_old_one_are_stale(server: Server):
    page = Page(server)
    await page.play(three_levels(), {"text": "bye"})
    late = page.copy()
    for fill in ANSWERS.values():
        fill(late)
    page.messages = page.messages[:1]
    await page.post(trigger="regenerate-message")
    assert refusal(await late.post()) == (409, "state_not_resumable", "stale_run")
    assert not server.sent_mail()
    page.output("loc_2", {"lat": 1}).output("q_2", "yes").decide("n_2", True)
    assert continues(await page.post(), page.last["id"])
    assert page.text == "bye"
    assert [line["callId"] for line in server.sent_mail()] == ["n_2"]
    assert told() == [("loc_2", "ok"), ("r_2", "ok")]


async def test_a_stop_while_the_third_level_works_reaches_it_and_keeps_what_was_answered(server: Server):
    page, reply = await running(server)
    assert (await server.stop("chat"))["status"] == "stopped"
    await page.take(reply)
    live = page.messages
    await page.reload()
    closed = CLOSED[CloseCode.RUN_STOPPED][1]
    assert ended(page) == {"loc": "output-available", "n": closed, "r": closed}
    assert ended(Page(server, messages=live)) == ended(page)
    assert {row["state"] for row in await server.sql("select state from run")} == {"stopped"}
    await page.play({"text": "next"}, message_id="next")
    assert told() == [("loc", "ok"), ("r", "stopped")]


async def test_an_interrupt_while_the_third_level_works_reaches_it(serve):
    async with serve(on_busy="interrupt") as server:
        page, _ = await running(server)
        await page.send(script({"text": "next"}), "next")
        assert page.text == "next"
        assert told() == [("loc", "ok"), ("r", "abandoned")]
        gates["deep"].open()
        await page.reload()
        closed = CLOSED[CloseCode.ABANDONED][1]
        assert ended(page) == {"loc": "output-available", "n": closed, "r": closed}
        states = await server.sql("select state from run order by created_at, id")
        assert [row["state"] for row in states] == ["superseded"] * 3 + ["completed"]


@pytest.mark.parametrize("order", [("sweep", "loc"), ("loc", "sweep")])
async def test_deadlines_of_the_lower_levels_pass_and_the_root_still_waits(server: Server, order):
    page = Page(server)
    grandchild = research("d", calls(call("timed_location", "q")), {"text": "deep"}, tool="deeper")
    child = research("r", calls(call("timed_email", "n", to="x"), grandchild), {"text": "found"})
    await page.play(calls(call("get_location", "loc"), child), {"text": "bye"})
    models = len(asked)
    for event in order:
        assert len(asked) == models, "nothing goes on before the last call is answered"
        if event == "sweep":
            assert await pass_deadlines(server) == 2
        else:
            await server.answers("chat", {"toolCallId": "loc", "output": 1})
    await server.quiet("chat")
    await page.reload()
    closed = CLOSED[CloseCode.TIMEOUT][1]
    shown = {"loc": "output-available", "n": closed, "q": closed, "r": "output-available"}
    assert ended(page) == shown
    assert page.text == "bye"
    assert sorted(told(request) for request in asked[models:]) == [
        [("loc", "ok"), ("r", "ok")],
        [("n", "timeout"), ("d", "ok")],
        [("q", "timeout")],
    ]
    assert not server.sent_mail()


async def test_a_tree_of_which_every_level_was_answered_early_goes_on_by_itself(server: Server):
    page = Page(server)
    grandchild = research("d", calls(call("ask_user", "q", question="?")), {"text": "deep"}, tool="deeper")
    child = research("r", calls(note("n"), grandchild), {"text": "found"})
    reply = await page.say(
        script(calls(call("get_location", "loc"), call("hold", "h", gate="root"), child), {"text": "bye"})
    ).open()
    await gates["root"].reached.wait()
    await shows(reply, "loc", "q", "n")
    page.show(reply.frames)
    approval = page.part("n")["approval"]["id"]
    page.messages.pop()
    for answer in (
        {"toolCallId": "q", "output": "yes"},
        {"toolCallId": "n", "approvalId": approval, "approved": True},
        {"toolCallId": "loc", "output": {"lat": 1}},
    ):
        answered = await server.answers("chat", answer)
        assert (await answered.json())["outcomes"][0]["outcome"] == "stored"
    gates["root"].open()
    await page.take(reply)
    assert page.text == "bye"
    await page.reload()
    assert [line["kind"] for line in server.sent_mail()] == ["note"]
    assert told() == [("loc", "ok"), ("h", "ok"), ("r", "ok")]
