"""Every row of the response table and of the continuation table, through ``POST /chat``."""

from typing import Any

import pytest

from app.domain.chat_answer import CHAT_ANSWER
from app.domain.continuation import CONTINUATION
from tests.inprocess.agents import gates
from tests.inprocess.chat import Page, call, calls, continues, is_harmless, mail, refusal, script
from tests.inprocess.faults import Failure, failing
from tests.inprocess.server import Server

# --- which answer -----------------------------------------------------------------------------------------

RESPONSES = """
refused      refusal       refusal       refusal
failed       not_stored    retry         retry
misdirected  not_stored    not_stored    rejected
rejected     continuation  continuation  rejected
clean        continuation  continuation  impossible
"""
RESPONSE = {
    f"{trouble} + {accepted}": answer
    for trouble, *answers in (line.split() for line in RESPONSES.strip().splitlines())
    for accepted, answer in zip(("stored", "completed", "none"), answers, strict=True)
}
DRIVEN = [row for row in RESPONSE if row != "clean + none"]  # a request on this path has an answer


def test_every_row_of_the_response_table_has_a_scenario():
    assert {f"{a} + {b}": str(answer) for (a, b), answer in CHAT_ANSWER.rows.items()} == RESPONSE
    assert len(RESPONSE) == 15


async def two_calls(server: Server, accepted: str) -> Page:
    """``loc`` and ``m`` wait; ``loc`` is answered in the request, or was before, or is left alone."""
    page = Page(server)
    await page.play(calls(call("get_location", "loc"), mail("m")), {"text": "bye"})
    if accepted == "completed":
        assert (await server.answers("chat", {"toolCallId": "loc", "output": 1})).status == 200
    if accepted != "none":
        page.output("loc", 1)
    return page


def make_trouble(page: Page, trouble: str) -> None:
    match trouble:
        case "refused":
            page.decide("m", 1)
        case "failed":
            page.decide("m", True)
        case "misdirected":
            page.decide("m", True).part("m")["approval"]["id"] = "m"
        case "rejected":
            ghost = {"type": "tool-get_location", "toolCallId": "ghost", "input": {}}
            page.last["parts"].append({**ghost, "state": "output-available", "output": 1})
        case _:
            pass


@pytest.mark.parametrize("row", DRIVEN)
async def test_the_response_is_that_of_its_row(faulty: Server, row: str):
    trouble, _, accepted = row.partition(" + ")
    page = await two_calls(faulty, accepted)
    make_trouble(page, trouble)
    transaction_of_m = 3 if accepted == "stored" else 2
    plan = {transaction_of_m: Failure.KILLED} if trouble == "failed" else {}
    with failing(plan):
        reply = await page.post()
    stored = {
        r["call_id"]: r["answer"] for r in await faulty.sql("select * from call") if r["answer"] is not None
    }
    assert ("loc" in stored) == (accepted != "none"), "every other answer is submitted"
    assert "m" not in stored
    match RESPONSE[row]:
        case "refusal":
            assert refusal(reply) == (400, "validation_error", None)
        case "retry":
            assert refusal(reply) == (503, "framework_internal_error", None)
        case "not_stored":
            assert refusal(reply) == (409, "state_not_resumable", "answer_not_stored")
            assert reply.error["toolCallIds"] == ["m"]
            pending = {p["toolCallId"] for p in (await faulty.snapshot("chat"))["pending"]}
            assert pending == {"m"}, "the client can answer it again"
        case "rejected" if trouble == "misdirected":
            assert refusal(reply) == (400, "validation_error", None)
        case "rejected":
            assert refusal(reply) == (409, "state_not_resumable", "unknown_tool_call")
        case _:
            assert is_harmless(reply)
            told = [f["data"] for f in reply.frames if f["type"] == "data-resume-rejected"]
            ghost = {"toolCallId": "ghost", "reason": "unknown-tool-call"}
            assert told == ([ghost] if trouble == "rejected" else [])


# --- what follows -----------------------------------------------------------------------------------------

CONTINUATIONS = """
claimed    caller_resumes/A  caller_resumes/A  caller_resumes/B
executing  deferred/A        deferred/A        deferred/B
pending    awaiting_batch/B  awaiting_batch/B  awaiting_batch/B
went_on    new_run/A         reanchor/B        consumed/B
over       consumed/B        consumed/B        consumed/B
"""
FOLLOWS = {
    f"{progress} + {posted}": follows
    for progress, *row in (line.split() for line in CONTINUATIONS.strip().splitlines())
    for posted, follows in zip(("at_batch", "beyond", "elsewhere"), row, strict=True)
}


def test_every_row_of_the_continuation_table_has_a_scenario():
    table = {f"{a} + {b}": f"{follows}/{wire}" for (a, b), (follows, wire) in CONTINUATION.rows.items()}
    assert table == FOLLOWS
    assert len(FOLLOWS) == 15


LOCATION, SECOND = call("get_location", "loc"), calls(call("get_location", "second"))
STEPS: dict[str, list[dict[str, Any]]] = {
    "claimed": [calls(LOCATION), {"text": "bye"}],
    "executing": [calls(LOCATION, call("hold", "h", gate="g")), {"text": "bye"}],
    "pending": [calls(LOCATION, mail("m")), {"text": "bye"}],
    "went_on": [calls(LOCATION), SECOND],
    "over": [calls(LOCATION), {"text": "bye"}],
}


@pytest.mark.parametrize("row", FOLLOWS)
async def test_what_follows_the_answer_is_that_of_its_row(server: Server, row: str):
    progress, _, posted = row.partition(" + ")
    page = Page(server)
    if progress == "executing":
        reply = await page.say(script(*STEPS[progress])).open()
        await reply.until("tool-input-available", toolCallId="loc")
        await gates["g"].reached.wait()
        page.show(reply.frames)
    else:
        await page.play(*STEPS[progress])
    if progress in ("went_on", "over"):
        await page.copy().output("loc", 1).post()
    page.output("loc", 1)
    match posted:
        case "beyond":
            page.last["parts"] += [{"type": "step-start"}, {"type": "text", "text": "what followed"}]
        case "elsewhere":
            page.last["id"] = "a-copy-of-the-message"
        case _:
            pass
    server.logs.clear()
    answer = await page.open()
    gates["g"].open()
    await page.take(answer)
    line = next(line for line in server.logs.of("request.ended", route="/chat") if "continuation" in line)
    wire = "B" if is_harmless(answer) else "A"
    assert f"{line['continuation']}/{wire}" == FOLLOWS[row]
    assert wire == "B" or continues(answer, page.last["id"])
    elsewhere = [f["data"]["toolCallId"] for f in answer.frames if f["type"] == "data-tool-output-elsewhere"]
    assert elsewhere == (["loc"] if FOLLOWS[row] == "reanchor/B" else [])
    if progress in ("claimed", "executing"):
        snapshot = await server.quiet("chat")
        assert snapshot["run"]["status"] == "completed", "the run goes on whatever the client is answered"
