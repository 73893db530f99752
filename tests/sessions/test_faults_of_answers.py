"""The database fails while one of two answers is being stored: the other one is stored, and a repeat ends right.

Transactions of the request: 1 the facts, then one for each answer, and one more after a failed one, which reads what became of it.
"""

from typing import Any

import pytest

from tests.inprocess.chat import Page, call, calls, continues, mail, refusal
from tests.inprocess.faults import NOTHING_STORED, Failure, failing
from tests.inprocess.server import Server

NOT_STORED_LINE = "handleResumePath: submit failed (its answer was not stored)"
NOT_STORED = (409, "state_not_resumable", "answer_not_stored")


async def both_filled_in(server: Server) -> Page:
    page = Page(server)
    await page.play(calls(call("get_location", "loc"), mail("m")), {"text": "bye"})
    server.logs.clear()
    return page.output("loc", {"x": 1}).decide("m", True)


async def answers(server: Server) -> dict[str, Any]:
    return {row["call_id"]: row["answer"] for row in await server.sql("select call_id, answer from call")}


async def repeated(page: Page) -> None:
    """The same request again ends in the run's content; the tool ran once and each answer was taken once."""
    reply = await page.post()
    assert continues(reply, page.last["id"])
    await page.server.quiet("chat")
    await page.reload()
    assert page.text == "bye"
    assert page.part("loc")["output"] == {"x": 1}
    assert len(page.server.sent_mail()) == 1


@pytest.mark.parametrize("failure", NOTHING_STORED)
@pytest.mark.parametrize(("position", "lost"), [(2, "loc"), (3, "m")])
async def test_the_other_answer_is_stored_and_the_lost_one_is_named(
    faulty: Server, failure: Failure, position: int, lost: str
):
    page = await both_filled_in(faulty)
    with failing({position: failure}):
        reply = await page.post()
    assert refusal(reply) == NOT_STORED
    assert reply.error["toolCallIds"] == [lost]
    assert {call_id for call_id, answer in (await answers(faulty)).items() if answer is None} == {lost}
    assert [(line["event"], line["call_id"]) for line in faulty.logs.failures] == [(NOT_STORED_LINE, lost)]
    assert faulty.logs.failures[0]["causes"], "with its cause chain"
    assert [line["status"] for line in faulty.logs.of("request.ended")] == [409]
    assert [p["toolCallId"] for p in (await faulty.snapshot("chat"))["pending"]] == [lost]
    await repeated(page)


@pytest.mark.parametrize("failure", NOTHING_STORED)
async def test_with_nothing_stored_the_request_may_be_sent_again(faulty: Server, failure: Failure):
    page = await both_filled_in(faulty)
    with failing({2: failure, 4: failure}):
        reply = await page.post()
    assert refusal(reply) == (503, "framework_internal_error", None)
    assert set((await answers(faulty)).values()) == {None}
    assert [line["event"] for line in faulty.logs.failures] == ["request.ended"]
    await repeated(page)


@pytest.mark.parametrize("failure", NOTHING_STORED)
async def test_a_fault_before_the_facts_are_read_stores_nothing(faulty: Server, failure: Failure):
    page = await both_filled_in(faulty)
    with failing({1: failure}):
        reply = await page.post()
    assert reply.status == 503
    assert set((await answers(faulty)).values()) == {None}
    assert [line["event"] for line in faulty.logs.failures] == ["request.ended"]
    await repeated(page)


@pytest.mark.parametrize("position", [2, 3])
async def test_a_lost_reply_of_one_answer_is_resolved_by_reading_again(faulty: Server, position: int):
    page = await both_filled_in(faulty)
    with failing({position: Failure.REPLY_LOST}):
        reply = await page.post()
    assert continues(reply, page.last["id"])
    assert page.text == "bye"
    assert len(faulty.sent_mail()) == 1
    assert not faulty.logs.failures


async def test_when_that_cannot_be_read_the_answer_counts_as_lost_and_the_run_goes_on(faulty: Server):
    page = await both_filled_in(faulty)
    with failing({3: Failure.REPLY_LOST, 4: Failure.REFUSED}):
        reply = await page.post()
    assert refusal(reply) == NOT_STORED
    assert (await faulty.quiet("chat"))["run"]["status"] == "completed"
    assert len(faulty.sent_mail()) == 1


async def test_a_permanent_store_error_of_one_answer_wins_and_the_other_is_stored(faulty: Server):
    page = await both_filled_in(faulty)
    with failing({2: Failure.PERMANENT}):
        reply = await page.post()
    assert refusal(reply) == (500, "framework_internal_error", None)
    assert {call_id for call_id, answer in (await answers(faulty)).items() if answer is None} == {"loc"}
    assert [line["event"] for line in faulty.logs.failures] == ["request.ended"]


async def test_a_row_that_cannot_be_read_is_500_and_the_other_answer_is_stored(faulty: Server):
    page = await both_filled_in(faulty)
    await faulty.sql(
        "alter table call drop constraint call_kind_check, drop constraint call_an_approval_has_its_id_check"
    )
    await faulty.sql("update call set kind = 'of a later release' where call_id = 'loc'")
    reply = await page.post()
    assert refusal(reply) == (500, "framework_internal_error", None)
    assert (await answers(faulty))["m"] is not None
    assert [line["event"] for line in faulty.logs.failures] == ["request.ended"]


async def test_an_attach_whose_frames_cannot_be_opened_is_500_and_the_run_goes_on(faulty: Server):
    page = await both_filled_in(faulty)
    with failing({4: Failure.REFUSED}):
        reply = await page.post()
    assert refusal(reply) == (500, "transport_stream_drop", None)
    assert (await faulty.quiet("chat"))["run"]["status"] == "completed"
    assert len(faulty.sent_mail()) == 1
