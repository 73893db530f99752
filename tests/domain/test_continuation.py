"""What follows the accepted answers, and which of the two 200s carries it."""

from typing import Any

import pytest

from app.domain.continuation import (
    CONTINUATION,
    BatchView,
    Continuation,
    Posted,
    Progress,
    Wire,
    held_in,
    posted,
    progress,
)
from app.domain.run_state import RunState
from tests.domain.grid import grid, names

SPEC = grid("""
             at_batch            beyond              elsewhere
  claimed    caller_resumes:A    caller_resumes:A    caller_resumes:B
  executing  deferred:A          deferred:A          deferred:B
  pending    awaiting_batch:B    awaiting_batch:B    awaiting_batch:B
  went_on    new_run:A           reanchor:B          consumed:B
  over       consumed:B          consumed:B          consumed:B
""")


@pytest.mark.parametrize(("cell", "expected"), SPEC.items(), ids=names(SPEC))
def test_continuation(cell: tuple[str, str], expected: str) -> None:
    name, wire = expected.split(":")
    assert CONTINUATION[Progress(cell[0]), Posted(cell[1])] == (Continuation(name), Wire(wire))


def test_the_table_has_these_rows_and_no_others() -> None:
    assert {
        (str(batch), str(at)): f"{name}:{wire}" for (batch, at), (name, wire) in CONTINUATION.rows.items()
    } == SPEC


def test_frames_are_never_appended_to_a_message_that_is_not_the_live_runs() -> None:
    assert {wire for (_, at), (_, wire) in CONTINUATION.rows.items() if at is Posted.ELSEWHERE} == {Wire.B}


# --- how far the batch has come -------------------------------------------------------------------------------------------


def view(
    *,
    batch: int = 1,
    current: int = 1,
    pending: int = 0,
    state: RunState = RunState.RUNNING,
    claimed: bool = False,
) -> BatchView:
    return BatchView(batch, current, pending, state, claimed, ("c1",))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(view(claimed=True), "claimed", id="this request claimed the run"),
        pytest.param(view(claimed=True, current=2), "claimed", id="a claim begins the next batch"),
        pytest.param(view(pending=1, state=RunState.SUSPENDED), "pending", id="another call waits"),
        pytest.param(view(pending=2), "pending", id="others wait while a tool still executes"),
        pytest.param(view(), "executing", id="nothing waits and the tree executes"),
        pytest.param(view(current=2), "went_on", id="the batch went on and the run is running"),
        pytest.param(
            view(current=3, state=RunState.SUSPENDED), "went_on", id="it went on and is suspended again"
        ),
        pytest.param(view(current=2, state=RunState.COMPLETED), "over", id="it went on and is complete"),
        pytest.param(view(current=2, state=RunState.FAILED), "over", id="it went on and failed"),
        pytest.param(view(current=2, state=RunState.STOPPED), "over", id="it went on and was stopped"),
        pytest.param(view(current=2, state=RunState.SUPERSEDED), "over", id="it went on and gave way"),
        pytest.param(view(state=RunState.FAILED), "over", id="the run failed before the batch went on"),
    ],
)
def test_progress(seen: BatchView, expected: str) -> None:
    assert progress(seen) is Progress(expected)


# --- what the client shows of it ------------------------------------------------------------------------------------------

STEP = {"type": "step-start"}
TEXT = {"type": "text", "text": "…"}
NOTE = {"type": "data-tool-output-elsewhere", "data": {}}
CHART = {"type": "data-chart", "id": "one", "data": {"n": 1}}
SOURCE = {"type": "source-url", "sourceId": "s1", "url": "https://a.example"}


def tool(call_id: object) -> dict[str, Any]:
    return {"type": "tool-pick", "toolCallId": call_id, "state": "output-available"}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([STEP, TEXT, tool("c1")], "at_batch", id="the call is last"),
        pytest.param([STEP, tool("c1"), TEXT], "at_batch", id="a text of the same step follows"),
        pytest.param([STEP, tool("c1"), tool("s1")], "at_batch", id="another tool of the same step follows"),
        pytest.param([STEP, tool("c1"), STEP], "at_batch", id="the empty step of a harmless answer"),
        pytest.param(
            [STEP, tool("c1"), STEP, NOTE, STEP, NOTE], "at_batch", id="two harmless answers with data"
        ),
        pytest.param([STEP, tool("c1"), NOTE], "at_batch", id="data in the same step"),
        pytest.param(
            [STEP, tool("c1"), STEP, CHART, SOURCE], "at_batch", id="a later step with what a tool showed"
        ),
        pytest.param([STEP, tool("c1"), STEP, TEXT], "beyond", id="a later step with text"),
        pytest.param([STEP, tool("c1"), STEP, NOTE, tool("s1")], "beyond", id="a later step with a tool"),
        pytest.param([STEP, tool("c1"), STEP, STEP, TEXT], "beyond", id="content after an empty step"),
        pytest.param([STEP, tool("c1"), STEP, tool("c2")], "at_batch", id="a batch over two steps"),
        pytest.param(
            [STEP, tool("c1"), STEP, tool("c2"), STEP, TEXT], "beyond", id="content after both of its steps"
        ),
        pytest.param([tool("c1"), STEP, TEXT], "beyond", id="no step-start before the call"),
        pytest.param([tool("c1"), TEXT], "at_batch", id="no step-start at all"),
        pytest.param([STEP, TEXT], "at_batch", id="no call of the batch is shown"),
        pytest.param([], "at_batch", id="nothing is shown"),
        pytest.param([None, "x", 7, {"type": 7}, STEP, tool("c1")], "at_batch", id="parts of no kind"),
        pytest.param(
            [STEP, tool("c1"), STEP, {"kind": "?"}], "beyond", id="a later part of no kind is content"
        ),
        pytest.param([STEP, tool(["c1"]), tool(None)], "at_batch", id="call ids of no kind"),
    ],
)
def test_what_the_continued_message_shows_of_the_batch(parts: list[Any], expected: str) -> None:
    assert posted(parts, batch=("c1", "c2"), is_runs_message=True) is Posted(expected)


def test_another_runs_message_shows_nothing_of_the_batch_whatever_it_holds() -> None:
    assert posted([STEP, tool("c1")], batch=("c1",), is_runs_message=False) is Posted.ELSEWHERE


# --- what it holds of it ----------------------------------------------------------------------------------------------------


def test_the_calls_that_a_message_shows() -> None:
    assert held_in([STEP, tool("c1"), TEXT, tool(["c2"]), None, tool("c3")]).calls == {"c1", "c3"}


@pytest.mark.parametrize(
    ("shown", "stored", "lacks"),
    [
        pytest.param([CHART], CHART, False, id="the same data"),
        pytest.param(
            [{**CHART, "data": {"n": 1.0}}], CHART, False, id="the same number as a browser spells it"
        ),
        pytest.param([{**CHART, "data": {"n": 2}}], CHART, True, id="data with another value"),
        pytest.param([{**CHART, "id": "two"}], CHART, True, id="data under another id"),
        pytest.param([{**CHART, "type": "data-note"}], CHART, True, id="data of another name"),
        pytest.param([{**CHART, "id": 1}, {**CHART, "id": []}], CHART, True, id="data under ids of no kind"),
        pytest.param([{"type": ["data-chart"], "id": "one"}], CHART, True, id="a part of no kind"),
        pytest.param([], CHART, True, id="no data"),
        pytest.param([SOURCE], SOURCE, False, id="the same source"),
        pytest.param(
            [{**SOURCE, "url": "https://edited.example"}], SOURCE, False, id="a source that was edited"
        ),
        pytest.param([{**SOURCE, "sourceId": "s2"}], SOURCE, True, id="another source"),
        pytest.param([], SOURCE, True, id="no source"),
        pytest.param(
            [], {"type": "data-chart", "data": 1}, False, id="data without an id cannot be told apart"
        ),
        pytest.param([], TEXT, False, id="a text is no such part"),
        pytest.param([], STEP, False, id="a step is no such part"),
    ],
)
def test_what_a_message_lacks_of_data_and_sources(
    shown: list[dict[str, Any]], stored: dict[str, Any], lacks: bool
) -> None:
    assert held_in([STEP, *shown]).lacks(stored) is lacks
