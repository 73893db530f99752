"""The lives of a run and of a call: the legal steps typed by hand; every other pair is illegal."""

import pytest

from app.domain import call_state, run_state
from app.domain.call_state import CallEvent, CallKind, CallState, CloseCode, first_state
from app.domain.run_state import LIVE, SETTLED, RunEvent, RunState

RUN = {
    ("running", "suspend"): "suspended",
    ("running", "claim"): "running",  # a takeover
    ("running", "complete"): "completed",
    ("running", "fail"): "failed",
    ("running", "stop"): "stopped",
    ("running", "supersede"): "superseded",
    ("suspended", "claim"): "running",
    ("suspended", "fail"): "failed",  # a child that waits, when its root fails
    ("suspended", "stop"): "stopped",
    ("suspended", "supersede"): "superseded",
}

CALL = {
    ("ready", "begin"): "started",
    ("ready", "settle"): "settled",
    ("ready", "close"): "settled",
    ("pending", "answer"): "answered",
    ("pending", "close"): "settled",
    ("answered", "begin"): "started",
    ("answered", "settle"): "settled",
    ("answered", "close"): "settled",
    ("started", "ask"): "pending",  # a tool that asks while it runs
    ("started", "settle"): "settled",
    ("started", "close"): "settled",
}


def spelt(
    table: dict[tuple[CallState, CallEvent], CallState] | dict[tuple[RunState, RunEvent], RunState],
) -> object:
    return {(str(state), str(event)): str(then) for (state, event), then in table.items()}


def test_a_run_may_go_these_ways_and_no_others() -> None:
    assert spelt(run_state.NEXT_STATE) == RUN


def test_a_call_may_go_these_ways_and_no_others() -> None:
    assert spelt(call_state.NEXT_STATE) == CALL


def test_a_run_is_live_or_settled() -> None:
    assert {"running", "suspended"} == LIVE
    assert {"completed", "failed", "stopped", "superseded"} == SETTLED


def test_nothing_leaves_a_settled_run_or_a_settled_call() -> None:
    assert not [state for state, _ in run_state.NEXT_STATE if state in SETTLED]
    assert not [state for state, _ in call_state.NEXT_STATE if state is CallState.SETTLED]


@pytest.mark.parametrize(
    ("event", "states"),
    [
        ("suspend", {"running"}),
        ("claim", {"running", "suspended"}),
        ("complete", {"running"}),
        ("fail", {"running", "suspended"}),
        ("stop", {"running", "suspended"}),
        ("supersede", {"running", "suspended"}),
    ],
)
def test_the_guard_of_a_runs_event_is_the_states_it_may_leave(event: str, states: set[str]) -> None:
    assert run_state.leaves(RunEvent(event)) == states


@pytest.mark.parametrize(
    ("event", "states"),
    [
        ("answer", {"pending"}),
        ("begin", {"ready", "answered"}),
        ("ask", {"started"}),
        ("settle", {"ready", "answered", "started"}),
        ("close", {"ready", "pending", "answered", "started"}),
    ],
)
def test_the_guard_of_a_calls_event_is_the_states_it_may_leave(event: str, states: set[str]) -> None:
    assert call_state.leaves(CallEvent(event)) == states


@pytest.mark.parametrize(
    ("kind", "state"),
    [("server", "ready"), ("subagent", "started"), ("client", "pending"), ("approval", "pending")],
)
def test_what_a_person_answers_waits_a_child_run_has_begun_and_a_tool_is_ready(kind: str, state: str) -> None:
    assert first_state(CallKind(kind)) is CallState(state)


def test_a_person_answers_client_calls_and_approvals() -> None:
    assert {"client", "approval"} == call_state.ANSWERABLE


def test_only_a_tool_that_nobody_was_asked_about_may_ask_while_it_runs() -> None:
    assert {"server"} == call_state.ASKS


def test_each_code_of_a_call_that_the_server_closed_tells_the_model_and_the_user_what_became_of_it() -> None:
    assert {str(code): str(outcome) for code, (outcome, _) in call_state.CLOSED.items()} == {
        "run_stopped": "stopped",
        "client_tool_abandoned": "abandoned",
        "client_tool_timeout": "timeout",
        "run_failed": "error",
        "outcome_unknown": "unknown",
    }
    assert set(call_state.CLOSED) == set(CloseCode)
    assert all(text.endswith(".") for _, text in call_state.CLOSED.values())
