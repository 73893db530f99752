"""Sub-agents: a child's calls are the root's to show and anybody's to answer; the tree is one unit of state, ownership and batch."""

import asyncio
import json

import pytest

from app.agent.model_request import MAX_DEPTH
from app.domain.call_state import CLOSED, CloseCode
from tests.inprocess.agents import asked, gates, told
from tests.inprocess.chat import Page, call, calls, continues, is_harmless, mail, refusal, script
from tests.inprocess.server import Server


def research(call_id, *steps, tool="research"):
    return call(tool, call_id, topic=script(*steps))


def note(call_id):
    return call("publish_note", call_id, title="Notes")


def question(call_id):
    return call("ask_user", call_id, question="Sure?")


def one_level():
    """A client call of the root, a client call and an approval of its child."""
    return calls(
        call("get_location", "loc"), research("r", calls(question("q"), note("n")), {"text": "found"})
    )


def three_levels():
    """A client call of the root, an approval of its child, a question of its grandchild."""
    grandchild = research("d", calls(question("q")), {"text": "deep"}, tool="deeper")
    return calls(call("get_location", "loc"), research("r", calls(note("n"), grandchild), {"text": "found"}))


ANSWERS = {
    "loc": lambda page: page.output("loc", {"lat": 1}),
    "q": lambda page: page.output("q", "yes"),
    "n": lambda page: page.decide("n", True),
}


async def assert_whole(server: Server, page: Page) -> None:
    """The tree went on once: one note, every call with one result, and the reload shows what was live."""
    snapshot = await page.reload()
    assert (snapshot["status"], snapshot["pending"]) == ("idle", [])
    assert page.part("r")["output"] == "found"
    assert page.part("n")["state"] == "output-available"
    assert [line["kind"] for line in server.sent_mail()] == ["note"]
    assert told() == [("loc", "ok"), ("r", "ok")]


@pytest.mark.parametrize("levels", [one_level, three_levels])
@pytest.mark.parametrize(
    "order", [("loc", "q", "n"), ("n", "q", "loc"), ("q", "loc", "n"), ("q", "n", "loc")]
)
async def test_answers_one_by_one_in_every_order_complete_the_batch_once(server: Server, levels, order):
    page = Page(server)
    await page.play(levels(), {"text": "bye"})
    for call_id in order[:-1]:
        ANSWERS[call_id](page)
        assert is_harmless(await page.copy().post())
    ANSWERS[order[-1]](page)
    reply = await page.post()
    assert continues(reply, page.last["id"])
    assert page.text == "bye"
    await assert_whole(server, page)


async def test_answers_for_parent_and_child_in_one_request(server: Server):
    page = Page(server)
    await page.play(three_levels(), {"text": "bye"})
    for fill in ANSWERS.values():
        fill(page)
    assert continues(await page.post(), page.last["id"])
    await assert_whole(server, page)


async def test_a_childs_calls_can_be_answered_from_elsewhere(server: Server):
    page = Page(server)
    await page.play(three_levels(), {"text": "bye"})
    approval = page.part("n")["approval"]["id"]
    await server.answers("chat", {"toolCallId": "q", "output": "yes"})
    await server.answers("chat", {"toolCallId": "n", "approvalId": approval, "approved": True})
    reply = await server.answers("chat", {"toolCallId": "loc", "output": {"lat": 1}})
    assert (await reply.json())["outcomes"][0]["continuation"] == "caller_resumes"
    await server.quiet("chat")
    await assert_whole(server, page)


async def test_answers_for_three_levels_at_once_on_two_replicas_claim_the_tree_once(serve):
    async with serve() as one, serve() as two:
        page = Page(one)
        await page.play(three_levels(), {"text": "bye"})
        approval = page.part("n")["approval"]["id"]
        given = [
            {"toolCallId": "loc", "output": {"lat": 1}},
            {"toolCallId": "q", "output": "yes"},
            {"toolCallId": "n", "approvalId": approval, "approved": True},
        ]
        replies = await asyncio.gather(*(server.answers("chat", a) for a in given for server in (one, two)))
        outcomes = [(await reply.json())["outcomes"][0] for reply in replies]
        assert [o["outcome"] for o in outcomes].count("stored") == 3
        assert [o.get("continuation") for o in outcomes].count("caller_resumes") == 1
        await one.quiet("chat")
        await assert_whole(one, page)


async def test_a_suspended_tree_outlives_the_process(server: Server, serve):
    page = Page(server)
    await page.play(three_levels(), {"text": "bye"})
    async with serve() as other:
        again = page.copy(other)
        await again.reload()
        for fill in ANSWERS.values():
            fill(again)
        assert continues(await again.post(), again.last["id"])
        await assert_whole(other, again)


async def test_a_tree_that_loses_its_owner_goes_on_from_its_last_commit(server: Server):
    page = Page(server)
    child = research("r", calls(call("get_weather", "w", city="Oslo")), {"text": "[at child] found"})
    reply = await page.say(script(calls(child), {"text": "bye"})).open()
    await gates["child"].reached.wait()
    await server.crash()
    gates["child"].open()
    await server.quiet("chat")
    await reply.exchange.leave()
    page.messages = []
    await page.reload()
    assert page.part("r")["output"] == "[at child] found"
    assert page.text == "bye"


@pytest.mark.parametrize("levels", [1, 2])
async def test_a_child_that_asks_again_beside_a_tool_whose_owner_is_lost_can_still_be_answered(
    server: Server, levels: int
):
    """Its parent's call is of an earlier batch than the one that waits, and is answered by nobody."""
    page = Page(server)
    steps = (calls(question("q1")), calls(question("q2"), call("hold", "h", gate="g")), {"text": "found"})
    deep = calls(research("d", *steps, tool="deeper"))
    child = research("r", *steps) if levels == 1 else research("r", deep, {"text": "found"})
    await page.play(calls(child), {"text": "bye"})
    reply = await page.output("q1", "yes").open()
    await gates["g"].reached.wait()
    await server.crash()
    await server.quiet("chat")
    await reply.exchange.leave()
    snapshot = await page.reload()
    assert [waiting["toolCallId"] for waiting in snapshot["pending"]] == ["q2"]
    assert page.last["parts"][-1].get("toolCallId") == "q2", "no step was begun that nobody needs"
    assert continues(await page.output("q2", "yes").post(), page.last["id"])
    assert page.part("r")["output"] == "found"
    assert page.text == "bye"


async def test_a_child_works_beside_the_roots_own_tools(server: Server):
    page = Page(server)
    both = calls(call("hold", "h", gate="tool"), research("r", {"text": "[at child] found"}))
    reply = await page.say(script(both, {"text": "bye"})).open()
    await gates["tool"].reached.wait()
    await gates["child"].reached.wait()
    gates["tool"].open()
    gates["child"].open()
    await page.take(reply)
    assert (page.part("h")["output"], page.part("r")["output"]) == ("held at tool", "[at child] found")


async def test_its_progress_is_seen_and_not_stored(server: Server):
    page = Page(server)
    reply = await page.play(calls(research("r", {"text": "found"})), {"text": "bye"})
    progress = [frame for frame in reply.frames if frame["type"] == "data-subagent"]
    assert progress
    assert all(frame["transient"] for frame in progress)
    assert progress[0]["data"]["toolCallId"] == "r"
    assert "data-subagent" not in json.dumps(await server.snapshot("chat"))


async def test_a_childs_failure_is_a_failed_result_of_the_parents_call(server: Server):
    page = Page(server)
    await page.play(calls(research("r", {"error": "context"})), {"text": "bye"})
    part = page.part("r")
    assert (part["state"], part["providerExecuted"]) == ("output-error", True)
    assert page.text == "bye"
    assert told() == [("r", "error")]


@pytest.mark.parametrize("tool", ["unruly", "lost"])
async def test_what_a_childs_own_code_raises_fails_this_child_and_nobody_else(server: Server, tool: str):
    page = Page(server)
    await page.play(calls(call("get_location", "loc"), call(tool, "c", topic="go")), {"text": "bye"})
    assert page.part("c")["state"] == "output-error"
    assert [waiting["toolCallId"] for waiting in (await server.snapshot("chat"))["pending"]] == ["loc"]
    await page.output("loc", {"lat": 1}).post()
    assert page.text == "bye"
    assert told() == [("loc", "ok"), ("c", "error")]
    assert "private" not in json.dumps(await server.snapshot("chat"))


async def test_children_that_delegate_for_ever_end_at_a_depth_and_the_root_goes_on(server: Server):
    page = Page(server)
    await page.play(calls(call("endless", "e", topic="go")), {"text": "bye"})
    assert page.part("e")["output"] == "was told ['ok']"
    assert page.text == "bye"
    ended = await server.sql(
        "select state, error_code from run where parent_run is not null order by created_at"
    )
    assert [(row["state"], row["error_code"]) for row in ended] == [
        *[("completed", None)] * MAX_DEPTH,
        ("failed", "run_limit_exceeded"),
    ]


async def test_a_childs_part_is_shown_only_when_it_is_settled(server: Server):
    page = Page(server)
    reply = await page.play(calls(research("r", calls(question("q")))))
    assert not [
        frame for frame in reply.frames if frame.get("toolCallId") == "r" and "data" not in frame["type"]
    ]
    snapshot = await server.snapshot("chat")
    shown = [part.get("toolCallId") for part in snapshot["messages"][-1]["parts"]]
    assert (shown.count("q"), shown.count("r")) == (1, 0)
    assert [waiting["toolCallId"] for waiting in snapshot["pending"]] == ["q"]


async def test_a_stop_reaches_the_whole_tree(server: Server):
    page = Page(server)
    await page.play(three_levels(), {"text": "bye"})
    late = page.copy()
    for fill in ANSWERS.values():
        fill(late)
    await server.stop("chat")
    assert refusal(await late.post()) == (409, "state_not_resumable", "run_stopped")
    await page.reload()
    for call_id in ("loc", "q", "n", "r"):
        part = page.part(call_id)
        assert (part["state"], part["errorText"]) == ("output-error", CLOSED[CloseCode.RUN_STOPPED][1])
    states = await server.sql("select state from run")
    assert {row["state"] for row in states} == {"stopped"}
    assert not server.sent_mail()


async def test_a_new_message_abandons_the_whole_tree(server: Server):
    page = Page(server)
    await page.play(three_levels(), {"text": "bye"})
    late = page.copy().decide("n", True)
    await page.send("never mind")
    assert refusal(await late.post()) == (409, "state_not_resumable", "stale_run")
    assert not server.sent_mail()
    states = await server.sql("select state from run where created_at < (select max(created_at) from run)")
    assert {row["state"] for row in states} == {"superseded"}


async def test_an_early_answer_moves_nothing_while_the_tree_executes(server: Server):
    page = Page(server)
    both = calls(call("hold", "h", gate="tool"), research("r", calls(question("q")), {"text": "found"}))
    reply = await page.say(script(both, {"text": "bye"})).open()
    await reply.until("tool-input-available", toolCallId="q")
    models = len(asked)
    answered = await server.answers("chat", {"toolCallId": "q", "output": "yes"})
    assert (await answered.json())["outcomes"] == [
        {"toolCallId": "q", "outcome": "stored", "continuation": "deferred"}
    ]
    assert len(asked) == models, "not even its own child run went on"
    gates["tool"].open()
    await page.take(reply)
    assert page.part("r")["output"] == "found"
    assert page.text == "bye"


async def test_a_provider_that_repeats_ids_in_child_and_parent_gets_one_row_each(server: Server):
    page = Page(server)
    await page.play(calls(mail("x"), research("r", calls(mail("x")), {"text": "found"})), {"text": "bye"})
    for part in list(page.last["parts"]):
        if part.get("state") == "approval-requested":
            page.decide(part["toolCallId"], True)
    await page.post()
    assert [line["kind"] for line in server.sent_mail()] == ["email", "email"]
    assert page.part("x_2")["state"] == "output-available"


@pytest.mark.parametrize("whose", ["root", "child"])
async def test_an_output_that_a_message_could_not_hold_fails_its_own_call_whoever_made_it(serve, whose):
    async with serve(max_message_bytes=2500) as server:
        page = Page(server)
        step = calls(call("much", "m", size=2500), call("much", "n", size=10))
        steps = (step, {"text": "bye"})
        await page.play(*(steps if whose == "root" else (calls(research("r", *steps)), {"text": "bye"})))
        assert page.text == "bye"
        rows = await server.sql("select call_id, error_code from call where tool = 'much' order by call_id")
        assert [tuple(row) for row in rows] == [("m", "tool_output_too_large"), ("n", None)]
