"""The one result of a call: what the model is told, what the user is shown, and who gave it."""

from typing import Any

import pytest

from app.domain import frames
from app.domain.call_state import CLOSED, CallKind, CallState, CloseCode, Outcome
from app.domain.results import Result, at_the_end, closed, fold_result, of_answer, shown, to_model
from app.domain.ui_message import MessageFold, Part

CLIENT, APPROVAL, SERVER, SUBAGENT = CallKind.CLIENT, CallKind.APPROVAL, CallKind.SERVER, CallKind.SUBAGENT


# --- an answer as a result --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "answer", "code", "expected"),
    [
        (CLIENT, {"output": {"a": 1}}, None, Result(Outcome.OK, {"a": 1})),
        (CLIENT, {"output": None}, None, Result(Outcome.OK, None)),
        (CLIENT, {"errorText": "no"}, None, Result(Outcome.ERROR, "no", "client_tool_error")),
        (APPROVAL, {"approved": False}, None, Result(Outcome.DENIED, "", "denied")),
        (APPROVAL, {"approved": False, "reason": "no"}, None, Result(Outcome.DENIED, "no", "denied")),
        (APPROVAL, {"approved": True}, None, None),  # its tool has yet to run
        (CLIENT, {"errorText": "late"}, "client_tool_timeout", closed(CloseCode.TIMEOUT)),
        (APPROVAL, {"errorText": "late"}, "client_tool_timeout", closed(CloseCode.TIMEOUT)),
    ],
)
def test_the_result_that_an_answer_is(
    kind: CallKind, answer: dict[str, Any], code: str | None, expected: Result | None
) -> None:
    assert of_answer(kind, answer, code) == expected


# --- when a run ends --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "state", "answer", "expected"),
    [
        pytest.param(CLIENT, CallState.PENDING, None, "stopped", id="a call that waits"),
        pytest.param(SERVER, CallState.READY, None, "stopped", id="a tool that has not begun"),
        pytest.param(SERVER, CallState.STARTED, None, "unknown", id="a tool that runs"),
        pytest.param(SUBAGENT, CallState.STARTED, None, "stopped", id="a sub-agent, which is no tool"),
        pytest.param(
            APPROVAL,
            CallState.ANSWERED,
            {"approved": True},
            "stopped",
            id="granted and not begun: it never begins",
        ),
        pytest.param(APPROVAL, CallState.STARTED, {"approved": True}, "unknown", id="granted and running"),
        pytest.param(APPROVAL, CallState.ANSWERED, {"approved": False}, "denied", id="denied"),
        pytest.param(CLIENT, CallState.ANSWERED, {"output": 1}, "ok", id="an answer keeps its value"),
        pytest.param(CLIENT, CallState.ANSWERED, {"errorText": "no"}, "error", id="an error keeps its text"),
    ],
)
def test_every_call_without_a_result_gets_one(
    kind: CallKind, state: CallState, answer: dict[str, Any] | None, expected: str
) -> None:
    result = at_the_end(
        kind, state, answer, None, code=CloseCode.RUN_STOPPED, started=CloseCode.OUTCOME_UNKNOWN
    )
    assert result.outcome is Outcome(expected)


# --- what is shown ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "result", "expected"),
    [
        (SERVER, Result(Outcome.OK, 1), [frames.tool_output_available("c1", 1, flagged=True)]),
        (APPROVAL, Result(Outcome.OK, 1), [frames.tool_output_available("c1", 1, flagged=True)]),
        (CLIENT, Result(Outcome.OK, 1), [frames.tool_output_available("c1", 1)]),
        (CLIENT, Result(Outcome.ERROR, "no", "client_tool_error"), [frames.tool_output_error("c1", "no")]),
        (APPROVAL, Result(Outcome.DENIED, "no", "denied"), [frames.tool_output_denied("c1")]),
        (
            SERVER,
            Result(Outcome.ERROR, "for the model", "tool_failed", "The tool failed."),
            [frames.tool_output_error("c1", "The tool failed.", flagged=True)],
        ),
        (
            SUBAGENT,
            Result(Outcome.OK, "found"),
            [
                frames.tool_input_available("c1", "pick", {"n": 1}, flagged=True),
                frames.tool_output_available("c1", "found", flagged=True),
            ],
        ),
        *(
            (kind, closed(code), [frames.tool_output_error("c1", CLOSED[code][1], flagged=True)])
            for kind in (CLIENT, APPROVAL, SERVER)
            for code in CloseCode
        ),
    ],
)
def test_the_frames_of_a_result(kind: CallKind, result: Result, expected: list[frames.Chunk]) -> None:
    assert shown(kind, "c1", "pick", {"n": 1}, result) == expected


def asked(kind: CallKind) -> MessageFold:
    fold = MessageFold()
    fold.apply(frames.START_STEP)
    if kind is not SUBAGENT:
        fold.apply(frames.tool_input_available("c1", "pick", {"n": 1}))
    if kind is APPROVAL:
        fold.apply(frames.tool_approval_request("c1", "apr"))
    return fold


@pytest.mark.parametrize(
    ("kind", "answer", "result", "expected"),
    [
        pytest.param(
            APPROVAL,
            {"approved": True},
            Result(Outcome.OK, 1),
            {
                "state": "output-available",
                "output": 1,
                "providerExecuted": True,
                "approval": {"id": "apr", "approved": True},
            },
            id="a granted approval says so beside its output",
        ),
        pytest.param(
            APPROVAL,
            {"approved": False, "reason": "no"},
            Result(Outcome.DENIED, "no", "denied"),
            {"state": "output-denied", "approval": {"id": "apr", "approved": False, "reason": "no"}},
            id="a denied one says so too, unflagged",
        ),
        pytest.param(
            APPROVAL,
            {"approved": True},
            closed(CloseCode.RUN_STOPPED),
            {
                "state": "output-error",
                "errorText": CLOSED[CloseCode.RUN_STOPPED][1],
                "providerExecuted": True,
            },
            id="one that the server closed has no approval any more",
        ),
        pytest.param(
            CLIENT,
            {"errorText": "…"},
            closed(CloseCode.TIMEOUT),
            {"state": "output-error", "errorText": CLOSED[CloseCode.TIMEOUT][1], "providerExecuted": True},
            id="a client call past its deadline is the server's",
        ),
        pytest.param(
            CLIENT,
            {"output": 1},
            Result(Outcome.OK, 1),
            {"state": "output-available", "output": 1},
            id="a client's output",
        ),
        pytest.param(
            SUBAGENT,
            None,
            Result(Outcome.OK, "x"),
            {"state": "output-available", "output": "x", "providerExecuted": True},
            id="a sub-agent's",
        ),
    ],
)
def test_the_part_of_a_result(
    kind: CallKind, answer: dict[str, Any] | None, result: Result, expected: Part
) -> None:
    fold = asked(kind)
    fold_result(fold, "c1", shown(kind, "c1", "pick", {"n": 1}, result), answer, result)
    part = {"type": "tool-pick", "toolCallId": "c1", "input": {"n": 1}}
    assert fold.stored() == [{"type": "step-start"}, {**part, **expected}]


def test_the_model_is_told_the_outcome_and_the_value() -> None:
    assert to_model("c1", "pick", Result(Outcome.ERROR, "for the model", "tool_failed", "for the user")) == {
        "id": "c1",
        "tool": "pick",
        "outcome": "error",
        "value": "for the model",
    }
