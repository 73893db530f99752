"""Which parts of a posted assistant message are answers, and what is stored of each."""

from typing import Any
from uuid import UUID

import pytest

from app.domain.answers import (
    Answer,
    AnswerKind,
    answers_in,
    approval_answer,
    approval_id,
    first_of_each_call,
    run_of_approval,
)

APPROVAL_ID = approval_id(UUID(int=1), UUID(int=2))


def tool(state: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool-pick", "toolCallId": "c1", "input": {}, "state": state, **more}


def found(*parts: Any) -> list[Answer]:
    return list(answers_in("m1", parts))


def only(part: Any) -> Answer:
    (answer,) = found(part)
    return answer


# --- outputs and errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", [None, 0, False, "", [], {"deep": [1]}])
def test_an_output_is_an_answer_whatever_its_value(output: object) -> None:
    assert only(tool("output-available", output=output)) == Answer(
        "c1", AnswerKind.OUTPUT, {"output": output}, message_id="m1"
    )


def test_a_missing_output_is_null() -> None:
    assert only(tool("output-available")).value == {"output": None}


def test_an_error_is_an_answer() -> None:
    assert only(tool("output-error", errorText="denied by the browser")) == Answer(
        "c1", AnswerKind.ERROR, {"errorText": "denied by the browser"}, message_id="m1"
    )


def test_a_missing_error_text_is_kept_for_the_submit_to_refuse() -> None:
    assert only(tool("output-error")).value == {"errorText": None}


def test_a_dynamic_tool_part_answers_too() -> None:
    part = {**tool("output-available", output=1), "type": "dynamic-tool", "toolName": "pick"}
    assert only(part).call_id == "c1"


@pytest.mark.parametrize("state", ["output-available", "output-error"])
def test_an_output_flagged_as_the_servers_is_history(state: str) -> None:
    assert found(tool(state, output=1, errorText="x", providerExecuted=True)) == []


@pytest.mark.parametrize("flag", [False, None, "true", 1])
def test_only_a_true_flag_makes_an_output_history(flag: object) -> None:
    assert len(found(tool("output-available", output=1, providerExecuted=flag))) == 1


# --- approvals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("approved", [True, False])
def test_a_decision_is_an_answer(approved: bool) -> None:
    answer = only(tool("approval-responded", approval={"id": APPROVAL_ID, "approved": approved}))
    assert answer == Answer("c1", AnswerKind.APPROVAL, {"approved": approved}, APPROVAL_ID, "m1")


def test_a_decisions_reason_is_kept() -> None:
    given = {"id": APPROVAL_ID, "approved": False, "reason": "too expensive"}
    assert only(tool("approval-responded", approval=given)).value == {
        "approved": False,
        "reason": "too expensive",
    }


@pytest.mark.parametrize("reason", [None, "", 7, ["x"], {}])
def test_a_reason_that_is_no_text_is_dropped(reason: object) -> None:
    given = {"id": APPROVAL_ID, "approved": True, "reason": reason}
    assert only(tool("approval-responded", approval=given)).value == {"approved": True}


@pytest.mark.parametrize(
    ("more", "given_id", "approved"),
    [
        pytest.param({}, None, None, id="no approval object"),
        pytest.param({"approval": None}, None, None, id="a null approval"),
        pytest.param({"approval": "yes"}, None, None, id="an approval that is no object"),
        pytest.param({"approval": [APPROVAL_ID]}, None, None, id="an approval that is a list"),
        pytest.param({"approval": {"approved": True}}, None, True, id="no id"),
        pytest.param({"approval": {"id": 7, "approved": True}}, 7, True, id="an id that is a number"),
        pytest.param({"approval": {"id": None, "approved": True}}, None, True, id="a null id"),
        pytest.param(
            {"approval": {"id": [APPROVAL_ID], "approved": True}}, [APPROVAL_ID], True, id="a list of ids"
        ),
        pytest.param({"approval": {"id": APPROVAL_ID}}, APPROVAL_ID, None, id="approved missing"),
        pytest.param(
            {"approval": {"id": APPROVAL_ID, "approved": None}}, APPROVAL_ID, None, id="approved null"
        ),
        pytest.param(
            {"approval": {"id": APPROVAL_ID, "approved": "true"}}, APPROVAL_ID, "true", id="approved a string"
        ),
        pytest.param(
            {"approval": {"id": APPROVAL_ID, "approved": 1}}, APPROVAL_ID, 1, id="approved a number"
        ),
    ],
)
def test_a_malformed_decision_is_still_an_answer_that_the_submit_judges(
    more: dict[str, Any], given_id: object, approved: object
) -> None:
    answer = only(tool("approval-responded", **more))
    assert (answer.kind, answer.approval_id, answer.value) == (
        AnswerKind.APPROVAL,
        given_id,
        {"approved": approved},
    )


def test_a_decision_in_a_flagged_part_is_an_answer() -> None:
    given = {"id": APPROVAL_ID, "approved": True}
    assert len(found(tool("approval-responded", approval=given, providerExecuted=True))) == 1


# --- what is no answer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state", ["input-streaming", "input-available", "approval-requested", "output-denied", "no-such-state"]
)
def test_a_part_in_another_state_is_no_answer(state: str) -> None:
    assert found(tool(state, output=1, approval={"id": APPROVAL_ID, "approved": True})) == []


@pytest.mark.parametrize(
    "part",
    [
        None,
        "tool-pick",
        7,
        [],
        {},
        {"type": "text", "text": "hello"},
        {"type": "data-note", "toolCallId": "c1", "state": "output-available"},
        {"type": "tool", "toolCallId": "c1", "state": "output-available"},
        {"type": 7, "toolCallId": "c1", "state": "output-available"},
        {"toolCallId": "c1", "state": "output-available"},
        {"type": "tool-pick", "state": "output-available"},
        {"type": "tool-pick", "toolCallId": "", "state": "output-available"},
        {"type": "tool-pick", "toolCallId": 7, "state": "output-available"},
        {"type": "tool-pick", "toolCallId": "c1"},
        {"type": "tool-pick", "toolCallId": "c1", "state": ["output-available"]},
    ],
)
def test_anything_else_is_no_answer_and_no_error(part: object) -> None:
    assert found(part) == []


def test_answers_are_found_in_the_whole_message_in_order() -> None:
    parts = [
        {"type": "step-start"},
        {**tool("output-available", output=1), "toolCallId": "c1"},
        {"type": "text", "text": "…"},
        {"type": "step-start"},
        {**tool("output-error", errorText="x"), "toolCallId": "c2"},
        {"type": "step-start"},  # what a harmless step left on the client
    ]
    assert [answer.call_id for answer in found(*parts)] == ["c1", "c2"]


# --- several answers ----------------------------------------------------------------------------------------------------


def test_the_first_answer_of_a_call_counts() -> None:
    first, second = (
        approval_answer("c1", APPROVAL_ID, False, None),
        approval_answer("c1", APPROVAL_ID, True, None),
    )
    other = Answer("c2", AnswerKind.OUTPUT, {"output": 1})
    assert first_of_each_call([first, other, second]) == (first, other)


def test_no_answers_are_no_answers() -> None:
    assert first_of_each_call([]) == ()


# --- approval ids -------------------------------------------------------------------------------------------------------


def test_an_approval_id_carries_its_root_run() -> None:
    run, unique = UUID("01234567-89ab-7cde-8f01-23456789abcd"), UUID(int=5)
    assert run_of_approval(approval_id(run, unique)) == run


@pytest.mark.parametrize(
    "value", [None, 1, "", "apr__", "apr_xyz_xyz", APPROVAL_ID[:-1], APPROVAL_ID + "0", [APPROVAL_ID]]
)
def test_what_is_not_our_format_names_no_run(value: object) -> None:
    assert run_of_approval(value) is None
