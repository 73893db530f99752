"""What a snapshot shows of calls that are answered and not yet drained."""

from typing import Any
from uuid import UUID

from app.domain.call_state import CLOSED, CallKind, CallState, CloseCode
from app.domain.ui_message import Part, rendered
from app.sessions.view import answered_parts
from app.store.calls import Call

LATE = CLOSED[CloseCode.TIMEOUT][1]
PART: Part = {"type": "tool-pick", "toolCallId": "c1", "input": {}}


def answered(kind: CallKind, answer: dict[str, Any], error_code: str | None = None) -> Call:
    return Call(
        "c1",
        UUID(int=1),
        UUID(int=1),
        step=1,
        ordinal=0,
        batch=1,
        kind=kind,
        tool="pick",
        input={},
        approval_id="apr" if kind is CallKind.APPROVAL else None,
        state=CallState.ANSWERED,
        answer=answer,
        error_code=error_code,
    )


def shown(stored: Part, *calls: Call) -> Part:
    (part,) = rendered([stored], answered_parts(list(calls)))
    return part


def test_a_clients_answer_is_shown_before_its_drain() -> None:
    call = answered(CallKind.CLIENT, {"output": 1})
    assert shown({**PART, "state": "input-available"}, call) == {
        **PART,
        "state": "output-available",
        "output": 1,
    }


def test_a_decision_is_shown_before_its_drain() -> None:
    waiting = {**PART, "state": "approval-requested", "approval": {"id": "apr"}}
    call = answered(CallKind.APPROVAL, {"approved": True})
    assert shown(waiting, call) == {
        **PART,
        "state": "approval-responded",
        "approval": {"id": "apr", "approved": True},
    }


def test_a_call_that_waits_is_shown_as_it_is_stored() -> None:
    call = answered(CallKind.CLIENT, {"output": 1})
    call.state, call.answer = CallState.PENDING, None
    assert shown({**PART, "state": "input-available"}, call)["state"] == "input-available"


def test_a_client_call_past_its_deadline_is_the_servers_error() -> None:
    call = answered(CallKind.CLIENT, {"errorText": LATE}, CloseCode.TIMEOUT)
    assert shown({**PART, "state": "input-available"}, call) == {
        **PART,
        "state": "output-error",
        "errorText": LATE,
        "providerExecuted": True,
    }


def test_an_approval_past_its_deadline_is_shown_without_its_approval() -> None:
    waiting = {**PART, "state": "approval-requested", "approval": {"id": "apr"}}
    call = answered(CallKind.APPROVAL, {"errorText": LATE}, CloseCode.TIMEOUT)
    assert shown(waiting, call) == {
        **PART,
        "state": "output-error",
        "errorText": LATE,
        "providerExecuted": True,
    }
