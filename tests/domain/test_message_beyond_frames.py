"""What no frame can say about a message: decisions, calls that the server closed, answers before their drain."""

from typing import Any

import pytest

from app.domain import frames
from app.domain.ui_message import MessageFold, Part, answered_state, rendered

STEP: Part = {"type": "step-start"}
OPEN = frames.START_STEP
ASKED = frames.tool_input_available("c1", "pick", {"n": 1})


def call(state: str, **more: Any) -> Part:
    return {"type": "tool-pick", "toolCallId": "c1", "state": state, "input": {"n": 1}, **more}


def asked_for_approval() -> MessageFold:
    fold = MessageFold()
    for chunk in (OPEN, ASKED, frames.tool_approval_request("c1", "apr")):
        fold.apply(chunk)
    return fold


def test_a_decision_is_written_into_its_part() -> None:
    fold = asked_for_approval()
    fold.respond("c1", {"approved": False, "reason": "no"})
    assert fold.stored()[1] == call(
        "approval-responded", approval={"id": "apr", "approved": False, "reason": "no"}
    )


def test_a_call_that_the_server_closes_is_a_flagged_error_without_an_approval() -> None:
    fold = asked_for_approval()
    fold.close("c1", "Not answered in time.")
    assert fold.stored()[1] == call("output-error", errorText="Not answered in time.", providerExecuted=True)


def test_a_call_that_is_closed_loses_the_output_that_its_client_showed() -> None:
    fold = MessageFold()
    for chunk in (OPEN, ASKED, frames.tool_output_available("c1", 1)):
        fold.apply(chunk)
    fold.close("c1", "Stopped.")
    assert fold.stored()[1] == call("output-error", errorText="Stopped.", providerExecuted=True)


def test_a_draft_that_is_not_committed_can_be_taken_back_while_a_text_is_open() -> None:
    fold = MessageFold()
    for chunk in (OPEN, frames.text_start("t"), frames.text_delta("t", "a")):
        fold.apply(chunk)
    before = fold.copy()
    fold.apply(ASKED)
    fold.restore(before)
    fold.apply(frames.text_delta("t", "b"))
    fold.apply(frames.text_end("t"))
    assert fold.stored() == [STEP, {"type": "text", "text": "ab", "state": "done"}]


# --- a call between its answer and its drain --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "answer", "shown"),
    [
        ("client", {"output": 1}, {"state": "output-available", "output": 1}),
        ("client", {"output": None}, {"state": "output-available", "output": None}),
        ("client", {"errorText": "no"}, {"state": "output-error", "errorText": "no"}),
        (
            "approval",
            {"approved": True},
            {"state": "approval-responded", "approval": {"id": "apr", "approved": True}},
        ),
        (
            "approval",
            {"approved": False, "reason": "no"},
            {"state": "approval-responded", "approval": {"id": "apr", "approved": False, "reason": "no"}},
        ),
    ],
)
def test_an_answered_call_shows_its_answer_until_its_drain(
    kind: str, answer: dict[str, Any], shown: Part
) -> None:
    assert answered_state(kind, answer, "apr") == shown


def test_a_snapshot_lays_the_answers_over_the_stored_parts_and_changes_nothing_else() -> None:
    stored = [STEP, call("input-available"), {**call("input-available"), "toolCallId": "c2"}]
    shown = rendered(stored, {"c1": {"state": "output-available", "output": 1}})
    assert shown == [
        STEP,
        call("output-available", output=1),
        {**call("input-available"), "toolCallId": "c2"},
    ]
    assert stored[1]["state"] == "input-available"


def test_going_back_takes_the_metadata_back_too() -> None:
    fold = MessageFold(metadata={"usage": {"requests": 1}})
    before = fold.copy()
    fold.apply(frames.message_metadata({"usage": {"requests": 2}}))
    fold.restore(before)
    assert fold.metadata == {"usage": {"requests": 1}}


def test_what_a_tool_has_shown_is_found_again_whatever_was_undone_since():
    def chart(value: int, part_id: str):
        return frames.data("chart", value, part_id=part_id)

    fold = MessageFold([{"type": "data-chart", "id": "a", "data": 1}])
    fold.apply(chart(2, "b"))
    before = fold.copy()
    for chunk in (chart(3, "a"), chart(3, "b"), chart(3, "c")):
        fold.apply(chunk)
    fold.restore(before)
    assert fold.shown_by(chart(0, "c")) is None
    for chunk in (chart(4, "a"), chart(4, "b"), chart(4, "c")):
        fold.apply(chunk)
    assert [(part["id"], part["data"]) for part in fold.parts] == [("a", 4), ("b", 4), ("c", 4)]
