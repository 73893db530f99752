"""Every row of the submit table, through ``POST /chat``: how a call stands, whether the answer fits, what becomes of it.

Each scenario gives an answer to one call; beside it nothing is answered, so that the response names the outcome.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.domain.answers import SUBMIT, Fitness, Standing
from tests.inprocess.agents import gates
from tests.inprocess.asgi import Reply
from tests.inprocess.chat import Page, calls, mail, refusal, script
from tests.inprocess.server import Server

OUTCOMES = """
absent           unknown_tool_call   malformed_approval_id   unknown_tool_call
not_answerable   unknown_tool_call   unknown_tool_call       unknown_tool_call
run_stopped      run_stopped         run_stopped             run_stopped
superseded       stale_run           stale_run               stale_run
over             already_completed   already_completed       already_completed
waits_elsewhere  stale_run           malformed_approval_id   stale_run
waits            stored              malformed_approval_id   refused
"""
EXPECTED = {
    f"{standing} + {fitness}": outcome
    for standing, *outcomes in (line.split() for line in OUTCOMES.strip().splitlines())
    for fitness, outcome in zip(("fit", "malformed_id", "misfit"), outcomes, strict=True)
}
GATED = script(calls(mail("gate")), {"text": "sent"})


def test_every_row_has_a_scenario():
    assert {f"{a} + {b}": str(outcome) for (a, b), outcome in SUBMIT.rows.items()} == EXPECTED
    assert len(EXPECTED) == len(Standing) * len(Fitness) == 21


async def absent(page: Page) -> None:
    await page.send(GATED)
    await page.server.sql("delete from call")


async def not_answerable(page: Page) -> None:
    """Closed because its run failed: the child's approval waits while the root goes over its limits."""
    await page.send(GATED)
    await page.server.sql(
        "update run set state = 'failed', settled_at = now(), error_code = 'run_limit_exceeded'"
    )
    await page.server.sql(
        "update call set state = 'settled', outcome = 'error', error_code = 'run_failed', settled_at = now()"
    )


async def run_stopped(page: Page) -> None:
    await page.send(GATED)
    await page.server.stop(page.chat_id)


async def superseded(page: Page) -> None:
    await page.send(GATED)
    other = page.copy()
    await other.send("something else", "later")


async def over(page: Page) -> None:
    await page.send(GATED)
    await page.copy().decide("gate", True).post()


async def waits(page: Page) -> None:
    await page.send(GATED)


async def waits_elsewhere(page: Page) -> None:
    """Two runs have a call that waits; the answer to the second names the message of the first."""
    await page.send(script({"text": "an earlier turn"}))
    earlier = page.last["id"]
    await page.send(GATED)
    page.last["id"] = earlier


SESSIONS: dict[str, Callable[[Page], Awaitable[None]]] = {
    function.__name__: function
    for function in (absent, not_answerable, run_stopped, superseded, over, waits, waits_elsewhere)
}


def answer(page: Page, fitness: str) -> Page:
    match fitness:
        case "fit":
            return page.decide("gate", True)
        case "malformed_id":
            page.decide("gate", True).part("gate")["approval"]["id"] = "approval-1"
            return page
        case _:
            return page.decide("gate", "yes")


def outcome_of(reply: Reply, log: dict[str, Any]) -> str:
    if reply.status == 200:
        return "stored" if log["continuation"] == "caller_resumes" else "already_completed"
    status, code, cause = refusal(reply)
    if code == "state_not_resumable" and cause is not None:
        return cause
    assert (status, code) == (400, "validation_error")
    return "malformed_approval_id" if log["detail"] == "a malformed approval id" else "refused"


@pytest.mark.parametrize("row", EXPECTED)
async def test_an_answer_becomes_what_its_row_says(server: Server, row: str):
    standing, _, fitness = row.partition(" + ")
    page = Page(server)
    await SESSIONS[standing](page)
    answered_before = await server.sql("select answer from call")
    reply = await answer(page, fitness).post()
    assert outcome_of(reply, server.logs.of("request.ended")[-1]) == EXPECTED[row]
    if EXPECTED[row] != "stored":
        assert await server.sql("select answer from call") == answered_before, "nothing else is stored"
    approved_once = EXPECTED[row] == "stored" or standing == "over"
    assert len(server.sent_mail()) == approved_once
    gates.clear()
