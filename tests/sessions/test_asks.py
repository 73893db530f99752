"""A tool that asks while it runs: its call was a server's, and waits for a person from then on."""

import json

import pytest

from app.domain.call_state import CLOSED, CloseCode
from app.domain.continuation import Held
from app.sessions.plans import Attach, Mode
from tests.inprocess.agents import gates, told
from tests.inprocess.chat import Page, call, calls, continues, is_harmless, mail, refusal, script
from tests.inprocess.server import Server


def research(call_id, *steps):
    return call("research", call_id, topic=script(*steps))


async def rows(server: Server, call_id: str) -> tuple[str, str]:
    [row] = await server.sql("select kind, state from call where call_id = $1", call_id)
    return row["kind"], row["state"]


def effects(server: Server) -> list[tuple[str, str]]:
    return [(line["kind"], line["callId"]) for line in server.sent_mail()]


async def test_an_approval_waits_unflagged_and_runs_the_tool_again_with_the_yes(server: Server):
    page = Page(server)
    reply = await page.play(calls(call("asks", "a"), call("get_weather", "w", city="Oslo")), {"text": "bye"})
    assert reply.types[-2:] == ["finish-step", "finish"]
    part = page.part("a")
    assert part["state"] == "approval-requested"
    assert "providerExecuted" not in part
    assert page.part("w")["state"] == "output-available"
    assert effects(server) == []
    live = page.messages
    snapshot = await page.reload()
    assert snapshot["status"] == "suspended"
    [pending] = snapshot["pending"]
    assert pending.pop("expiresAt")
    assert pending == {
        "toolCallId": "a",
        "kind": "approval",
        "toolName": "asks",
        "input": {"gate": ""},
        "approvalId": part["approval"]["id"],
    }
    assert page.messages == live
    assert continues(await page.decide("a", True).post(), page.last["id"])
    assert (page.part("a")["output"], page.text) == ("allowed", "bye")
    assert effects(server) == [("asked", "a")]
    assert told() == [("a", "ok"), ("w", "ok")]
    await page.reload()
    assert page.part("a")["approval"]["approved"] is True


async def test_a_no_is_told_with_its_reason_and_the_tool_never_goes_on(server: Server):
    page = Page(server)
    await page.play(calls(call("asks", "a")))
    await page.decide("a", False, "not today").post()
    assert page.part("a")["state"] == "output-denied"
    assert told() == [("a", "denied")]
    assert "not today" in page.text
    assert effects(server) == []


async def test_an_output_from_elsewhere_is_the_result_and_the_tool_is_not_run_again(server: Server):
    page = Page(server)
    await page.play(calls(call("defers", "d")), {"text": "bye"})
    assert page.part("d")["state"] == "input-available"
    snapshot = await page.reload()
    assert [(p["toolCallId"], p["kind"]) for p in snapshot["pending"]] == [("d", "client")]
    answered = await server.answers("chat", {"toolCallId": "d", "output": {"n": 42}})
    assert (await answered.json())["outcomes"][0]["continuation"] == "caller_resumes"
    await server.quiet("chat")
    await page.reload()
    assert (page.part("d")["output"], page.text) == ({"n": 42}, "bye")
    assert effects(server) == [("deferred", "d")]
    assert told() == [("d", "ok")]


async def test_the_page_may_answer_it_too(server: Server):
    page = Page(server)
    await page.play(calls(call("defers", "d")), {"text": "bye"})
    assert continues(await page.error("d", "no luck").post(), page.last["id"])
    assert told() == [("d", "error")]


async def test_two_that_ask_are_one_batch_with_what_waited_already(server: Server):
    page = Page(server)
    await page.play(
        calls(call("asks", "a"), mail("m"), call("asks", "b"), call("defers", "d")), {"text": "bye"}
    )
    for fill in (
        lambda: page.decide("b", True),
        lambda: page.decide("m", True),
        lambda: page.output("d", 1),
    ):
        fill()
        assert is_harmless(await page.copy().post())
    assert continues(await page.decide("a", False).post(), page.last["id"])
    assert sorted(effects(server)) == [("asked", "b"), ("deferred", "d"), ("email", "m")]
    assert told() == [("a", "denied"), ("m", "ok"), ("b", "ok"), ("d", "ok")]


async def test_an_answer_moves_nothing_while_a_sibling_executes(server: Server):
    page = Page(server)
    both = calls(call("asks", "a"), call("hold", "h", gate="g"))
    reply = await page.say(script(both, {"text": "bye"})).open()
    request = await reply.until("tool-approval-request", toolCallId="a")
    assert await rows(server, "a") == ("approval", "pending"), "it is committed before it is shown"
    late = await server.resume("chat")
    await late.until("tool-approval-request", toolCallId="a")
    answered = await server.answers(
        "chat", {"toolCallId": "a", "approvalId": request["approvalId"], "approved": True}
    )
    assert (await answered.json())["outcomes"][0]["continuation"] == "deferred"
    assert effects(server) == []
    gates["g"].open()
    await page.take(reply)
    assert (page.part("a")["output"], page.part("h")["output"], page.text) == ("allowed", "held at g", "bye")
    await late.rest()
    assert late.types[-1] == "finish"


async def test_a_client_that_was_attached_before_it_asked_is_asked(server: Server):
    """No stock client sends while a call of its step is open; one of another kind may."""
    page = Page(server)
    both = calls(call("get_location", "loc"), call("asks", "a", gate="g"), call("hold", "h", gate="end"))
    reply = await page.say(script(both, {"text": "bye"})).open()
    await reply.until("tool-input-available", toolCallId="h")
    await gates["g"].reached.wait()
    page.show(reply.frames)
    tab = page.copy()
    attached = await tab.output("loc", 1).open()
    gates["g"].open()
    await attached.until("tool-approval-request", toolCallId="a")
    assert is_harmless(await page.copy().output("loc", 1).post()), "by now the batch waits"
    gates["end"].open()
    await tab.take(attached)
    assert tab.part("a")["state"] == "approval-requested"
    assert continues(await tab.decide("a", True).post(), tab.last["id"])
    assert (tab.part("a")["output"], tab.text) == ("allowed", "bye")
    await reply.exchange.leave()


@pytest.mark.parametrize(("asked", "told_of_it"), [((), 1), (("a",), 0)])
async def test_a_client_that_is_attached_just_after_it_asked_is_asked_once(server: Server, asked, told_of_it):
    """The submit saw the tool still running, and its stream is opened a moment later."""
    page = Page(server)
    both = calls(call("get_location", "loc"), call("asks", "a"))
    await page.play(both, {"text": "bye"})
    held = Held(frozenset({"loc", "a"}), frozenset(asked))
    [row] = await server.sql("select id, message from run")
    attach = Attach(
        row["id"],
        row["message"],
        Mode.DEFERRED,
        batch=("loc", "a"),
        held=held,
        continued=row["message"],
    )
    stream = await server.running.tail.open(attach)
    sent = [chunk["type"] async for chunks in stream for chunk in chunks or ()]
    assert sent.count("tool-approval-request") == told_of_it
    assert "tool-input-available" not in sent


async def test_a_sub_agents_tool_asks_in_the_roots_message(server: Server):
    page = Page(server)
    child = calls(call("asks", "a"), call("defers", "d"))
    await page.play(calls(research("r", child, {"text": "found"})), {"text": "bye"})
    assert [p["type"] for p in page.last["parts"]] == ["step-start", "tool-asks", "tool-defers"]
    assert page.part("a")["input"] == {"gate": ""}
    live = page.messages
    await page.reload()
    assert page.messages == live
    reply = await page.decide("a", True).output("d", "x").post()
    assert continues(reply, page.last["id"])
    assert (page.part("a")["output"], page.part("r")["output"], page.text) == ("allowed", "found", "bye")
    assert effects(server) == [("deferred", "d"), ("asked", "a")]


async def test_of_a_sub_agents_calls_those_fail_that_the_message_cannot_hold_any_more(serve):
    async with serve(max_message_bytes=2500) as server:
        page = Page(server)
        child = calls(*(call("asks", f"a{n}") for n in range(16)))
        reply = await page.play(calls(research("r", child, {"text": "found"})), {"text": "bye"})
        assert reply.types[-1] == "finish"
        pending = [each["toolCallId"] for each in (await server.snapshot("chat"))["pending"]]
        assert pending == [part["toolCallId"] for part in page.last["parts"] if "toolCallId" in part]
        failed = await server.sql("select error_code from call where state = 'settled'")
        assert 0 < len(pending) == 16 - len(failed) < 16
        assert {row["error_code"] for row in failed} == {"tool_output_too_large"}


async def test_it_may_ask_in_a_later_step_of_a_tree_that_went_on(server: Server):
    page = Page(server)
    child = research("r", calls(call("asks", "a")), calls(call("asks", "b")), {"text": "found"})
    await page.play(calls(child), calls(call("asks", "c")), {"text": "bye"})
    for call_id in ("a", "b", "c"):
        assert continues(await page.decide(call_id, True).post(), page.last["id"])
    assert page.text == "bye"
    assert effects(server) == [("asked", "a"), ("asked", "b"), ("asked", "c")]


@pytest.mark.parametrize("on", ["approval", "deferral"])
async def test_what_was_allowed_is_not_asked_again(server: Server, on):
    page = Page(server)
    await page.play(calls(call("insists", "i", on=on)), {"text": "bye"})
    assert continues(await page.decide("i", True).post(), page.last["id"])
    assert page.part("i")["errorText"] == "The tool asked once more for what it had been given."
    assert page.text == "bye"
    [row] = await server.sql("select error_code from call")
    assert row["error_code"] == "tool_asked_again"


async def test_a_tree_that_loses_its_owner_while_it_waits_goes_on_waiting(server: Server):
    page = Page(server)
    both = calls(call("asks", "a"), call("hold", "h", gate="g"))
    reply = await page.say(script(both, {"text": "bye"})).open()
    await reply.until("tool-approval-request", toolCallId="a")
    await gates["g"].reached.wait()
    await server.crash()
    await server.quiet("chat")
    await reply.exchange.leave()
    page.messages = []
    snapshot = await page.reload()
    assert [p["toolCallId"] for p in snapshot["pending"]] == ["a"]
    assert page.part("h")["errorText"] == CLOSED[CloseCode.OUTCOME_UNKNOWN][1]
    assert continues(await page.decide("a", True).post(), page.last["id"])
    assert effects(server) == [("asked", "a")]
    assert told() == [("a", "ok"), ("h", "unknown")]


async def test_a_suspended_one_outlives_the_process(server: Server, serve):
    page = Page(server)
    await page.play(calls(call("asks", "a")), {"text": "bye"})
    async with serve() as other:
        again = page.copy(other)
        await again.reload()
        assert continues(await again.decide("a", True).post(), again.last["id"])
        assert effects(other) == [("asked", "a")]


async def test_a_stop_that_is_recorded_comes_before_it(server: Server):
    page = Page(server)
    reply = await page.say(script(calls(call("asks", "a", gate="g")), {"text": "bye"})).open()
    await gates["g"].reached.wait()
    await server.sql("update run set stop_requested_at = now()")
    gates["g"].open()
    await page.take(reply)
    assert reply.types[-1] == "abort"
    assert "tool-approval-request" not in reply.types
    assert page.part("a")["errorText"] == CLOSED[CloseCode.RUN_STOPPED][1]
    assert await rows(server, "a") == ("server", "settled")


async def test_a_stop_closes_it_while_it_waits(server: Server):
    page = Page(server)
    await page.play(calls(call("asks", "a"), call("defers", "d")))
    late = page.copy().decide("a", True).output("d", 1)
    await server.stop("chat")
    assert refusal(await late.post()) == (409, "state_not_resumable", "run_stopped")
    await page.reload()
    for call_id in ("a", "d"):
        part = page.part(call_id)
        assert (part["errorText"], part["providerExecuted"]) == (CLOSED[CloseCode.RUN_STOPPED][1], True)
        assert "approval" not in part


async def test_a_new_message_closes_it(server: Server):
    page = Page(server)
    await page.play(calls(call("asks", "a")))
    late = page.copy().decide("a", True)
    await page.send("never mind")
    assert refusal(await late.post()) == (409, "state_not_resumable", "stale_run")
    assert effects(server) == []
    assert told() == [("a", "abandoned")]


async def test_its_deadline_begins_when_the_run_suspends(server: Server):
    page = Page(server)
    both = calls(call("asks", "a"), call("hold", "h", gate="g"))
    reply = await page.say(script(both, {"text": "bye"})).open()
    await reply.until("tool-approval-request", toolCallId="a")
    assert [r["deadline_at"] for r in await server.sql("select deadline_at from call")] == [None, None]
    gates["g"].open()
    await page.take(reply)
    assert (await server.snapshot("chat"))["pending"][0]["expiresAt"]
    await server.sql("update call set deadline_at = now() - interval '1 second' where state = 'pending'")
    await server.running.sweeper.deadlines()
    await server.quiet("chat")
    assert told() == [("a", "timeout"), ("h", "ok")]
    assert effects(server) == []


async def test_an_answer_before_it_asked_is_none(server: Server):
    page = Page(server)
    reply = await page.say(script(calls(call("asks", "a", gate="g")))).open()
    await gates["g"].reached.wait()
    answered = await server.answers("chat", {"toolCallId": "a", "output": "forged"})
    assert ((await answered.json())["code"], answered.status) == ("state_not_resumable", 409)
    gates["g"].open()
    await page.take(reply)
    assert page.part("a")["state"] == "approval-requested"
    assert "forged" not in json.dumps(await server.snapshot("chat"))


async def test_its_metric_says_that_it_asked(server: Server):
    page = Page(server)
    await page.play(calls(call("asks", "a")))
    metrics = await (await server.ask("GET", "/metrics")).body()
    assert b'tool_seconds_count{outcome="asked",tool="asks"} 1.0' in metrics
    assert server.logs.failures == []
