"""The before/after tables of the two release guides that the submit contract grew from: one test for each of their lines."""

from typing import Any

import pytest

from tests.inprocess.chat import Page, call, calls, continues, is_harmless, mail, refusal, script
from tests.inprocess.faults import Failure, failing
from tests.inprocess.server import Server

NOT_STORED = (409, "state_not_resumable", "answer_not_stored")


async def waiting(server: Server) -> Page:
    page = Page(server)
    await page.play(calls(call("get_location", "loc"), mail("m")), {"text": "bye"})
    return page


async def stored(server: Server, call_id: str) -> bool:
    (row,) = await server.sql("select answer from call where call_id = $1", call_id)
    return row["answer"] is not None


# --- a failed chat request is a typed HTTP error ----------------------------------------------------------


async def test_an_unclassified_failure_before_anything_is_committed_is_503(faulty: Server):
    with failing({1: Failure.REFUSED}):
        assert refusal(await Page(faulty).send("hi")) == (503, "framework_internal_error", None)


async def test_an_unclassified_failure_after_the_commit_is_500(faulty: Server):
    with failing({2: Failure.REFUSED}):
        assert refusal(await Page(faulty).send("hi")) == (500, "transport_stream_drop", None)


async def test_an_agent_that_cannot_take_answers_is_500_framework_not_supported(server: Server):
    page = await waiting(server)
    await server.sql("update session set agent = 'gone'")
    assert refusal(await page.output("loc", 1).post()) == (500, "framework_not_supported", None)


async def test_answers_that_all_name_calls_pending_nowhere_are_409_unknown_tool_call(server: Server):
    page = await waiting(server)
    page.part("loc")["toolCallId"] = "ghost"
    reply = await page.output("ghost", 1).post()
    assert refusal(reply) == (409, "state_not_resumable", "unknown_tool_call")


async def test_answers_that_all_belong_to_a_run_that_is_not_current_are_409_stale_run(server: Server):
    page = await waiting(server)
    late = page.copy().output("loc", 1).decide("m", True)
    await page.send("something else", "next")
    assert refusal(await late.post()) == (409, "state_not_resumable", "stale_run")


async def test_answers_that_all_belong_to_a_stopped_run_are_409_run_stopped(server: Server):
    page = await waiting(server)
    await server.stop("chat")
    assert refusal(await page.output("loc", 1).post()) == (409, "state_not_resumable", "run_stopped")


async def test_a_malformed_approval_id_where_none_applies_is_400(server: Server):
    page = await waiting(server)
    page.decide("m", True).part("m")["approval"]["id"] = "x"
    assert refusal(await page.post()) == (400, "validation_error", None)


async def test_a_committed_run_whose_stream_cannot_be_opened_is_500_transport_stream_drop(faulty: Server):
    page = await waiting(faulty)
    page.output("loc", 1).decide("m", True)
    with failing({4: Failure.REFUSED}):
        assert refusal(await page.post()) == (500, "transport_stream_drop", None)


async def test_an_answer_for_a_call_that_a_sub_agent_owns_is_submitted_like_any_other(server: Server):
    page = Page(server)
    child = script(calls(call("ask_user", "ask", question="q"), call("publish_note", "note", title="t")))
    await page.play(calls(call("research", "r", topic=child)), {"text": "bye"})
    reply = await page.output("ask", "yes").decide("note", True).post()
    assert continues(reply, page.last["id"])
    assert page.text == "bye"
    assert [line["callId"] for line in server.sent_mail()] == ["note"]
    live = page.messages
    await page.reload()
    assert [p["state"] for p in page.last["parts"] if "toolCallId" in p] == [
        p["state"] for p in live[-1]["parts"] if "toolCallId" in p
    ]


async def test_the_body_is_exactly_error_and_code_and_the_session_s_id_is_in_the_header(faulty: Server):
    with failing({1: Failure.REFUSED}):
        reply = await Page(faulty).send("hi")
    assert set(reply.error) == {"error", "code"}
    assert reply.headers["x-session-id"] == "chat"


@pytest.mark.parametrize("kind", ["public", "private", "timeout"])
async def test_a_failed_tool_renders_the_same_live_and_after_a_reload(server: Server, kind: str):
    page = Page(server)
    await page.play(calls(call("fail", "f", kind=kind)), {"text": "bye"})
    live = page.part("f")
    assert (live["state"], live["providerExecuted"]) == ("output-error", True)
    assert "hunter2" not in live["errorText"]
    assert "errorCode" not in live
    await page.reload()
    assert page.part("f") == live


async def test_a_successful_tool_is_its_result(server: Server):
    page = Page(server)
    await page.play(calls(call("get_weather", "w", city="Oslo")), {"text": "bye"})
    assert page.part("w")["output"]["city"] == "Oslo"


async def test_a_request_that_succeeded_in_part_still_carries_its_rejections(server: Server):
    page = await waiting(server)
    ghost = {"type": "tool-x", "toolCallId": "ghost", "state": "output-available", "input": {}, "output": 1}
    page.last["parts"].append(ghost)
    reply = await page.output("loc", 1).decide("m", True).post()
    assert continues(reply, page.last["id"])
    told = [f["data"] for f in reply.frames if f["type"] == "data-resume-rejected"]
    assert told == [{"toolCallId": "ghost", "reason": "unknown-tool-call"}]


# --- the three answers ------------------------------------------------------------------------------------


async def test_awaiting_batch_is_an_empty_step_and_not_an_empty_stream(server: Server):
    page = await waiting(server)
    assert is_harmless(await page.output("loc", 1).post())


async def test_consumed_is_an_empty_step_and_not_a_409(server: Server):
    page = await waiting(server)
    page.output("loc", 1).decide("m", True)
    again = page.copy()
    await page.post()
    assert is_harmless(await again.post())


async def test_an_attach_that_re_anchors_names_its_calls_inside_the_step(server: Server):
    page = Page(server)
    await page.play(calls(call("get_location", "loc")), calls(call("get_location", "two")), {"text": "bye"})
    await page.copy().output("loc", 1).post()
    page.output("loc", 1).last["parts"] += [{"type": "step-start"}, {"type": "text", "text": "more"}]
    reply = await page.post()
    assert is_harmless(reply)
    assert reply.types[3:-2] == ["data-tool-output-elsewhere"]


async def test_a_stored_answer_beside_a_stale_one_for_a_call_that_waits_is_answer_not_stored(server: Server):
    page = Page(server)
    await page.play(calls(mail("old")), message_id="u1")
    stale = page.part("old")["approval"]["id"]
    await page.play(calls(call("get_location", "loc"), mail("m")), {"text": "bye"}, message_id="u2")
    page.output("loc", 1).decide("m", True).part("m")["approval"]["id"] = stale
    reply = await page.post()
    assert refusal(reply) == NOT_STORED
    assert reply.error["toolCallIds"] == ["m"]
    assert await stored(server, "loc")


async def test_a_stored_answer_beside_a_malformed_one_for_an_approval_that_waits_is_answer_not_stored(
    server: Server,
):
    page = await waiting(server)
    page.output("loc", 1).decide("m", True).part("m")["approval"]["id"] = "x"
    reply = await page.post()
    assert refusal(reply) == NOT_STORED
    assert reply.error["toolCallIds"] == ["m"]
    assert await stored(server, "loc")


@pytest.mark.parametrize(
    ("position", "lost", "kept"), [(3, "m", "loc"), (2, "loc", "m")], ids=["later", "earlier"]
)
async def test_a_transient_failure_of_one_answer_submits_every_other(
    faulty: Server, position: int, lost: str, kept: str
):
    page = await waiting(faulty)
    page.output("loc", 1).decide("m", True)
    with failing({position: Failure.KILLED}):
        reply = await page.post()
    assert refusal(reply) == NOT_STORED
    assert reply.error["toolCallIds"] == [lost]
    assert (await stored(faulty, lost), await stored(faulty, kept)) == (False, True)


@pytest.mark.parametrize(
    ("settings", "value", "expected"),
    [
        ({"max_answer_bytes": 100}, "x" * 200, (413, "validation_payload_too_large", None)),
        ({"max_message_bytes": 800}, "x" * 900, (413, "state_size_exceeded", None)),
    ],
)
async def test_an_answer_refused_as_sent_keeps_its_code_and_every_other_is_submitted(
    serve: Any, settings: dict[str, int], value: str, expected: tuple[Any, ...]
):
    async with serve(**settings) as server:
        page = await waiting(server)
        reply = await page.output("loc", value).decide("m", True).post()
        assert refusal(reply) == expected
        assert (await stored(server, "loc"), await stored(server, "m")) == (False, True)


async def test_an_answer_that_its_tool_s_schema_refuses_is_400_and_may_be_given_again(server: Server):
    page = Page(server)
    await page.play(calls(call("typed_answer", "t")), {"text": "bye"})
    assert refusal(await page.copy().output("t", {"n": "one"}).post()) == (400, "validation_error", None)
    assert continues(await page.output("t", {"n": 1}).post(), page.last["id"])


async def test_a_refusal_wins_over_a_transient_failure(faulty: Server):
    page = await waiting(faulty)
    page.output("loc", 1).decide("m", "yes")
    with failing({2: Failure.KILLED}):
        assert refusal(await page.post()) == (400, "validation_error", None)


async def test_a_consumed_answer_never_replaces_what_a_new_one_continues(server: Server):
    page = Page(server)
    await page.play(calls(call("get_location", "one")), calls(call("get_location", "two")), {"text": "bye"})
    await page.output("one", 1).post()
    reply = await page.output("two", 2).post()
    assert continues(reply, page.last["id"])
    assert page.text == "bye"


async def test_a_permanent_store_error_is_500_and_not_503(faulty: Server):
    page = await waiting(faulty)
    with failing({2: Failure.PERMANENT}):
        reply = await page.output("loc", 1).post()
    assert refusal(reply) == (500, "framework_internal_error", None)
