"""What becomes of one answer: the rows as the rules say them, and the two classifiers that lead to one."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from app.domain.answers import (
    PENDING,
    SUBMIT,
    Answer,
    AnswerKind,
    CallFacts,
    Fitness,
    Outcome,
    Standing,
    approval_answer,
    approval_id,
    has_malformed_id,
    kind_misfit,
    standing_of,
)
from app.domain.call_state import CallKind, CallState, CloseCode
from app.domain.run_state import RunState
from tests.domain.grid import grid, names

SPEC = grid("""
                    fit                 malformed_id             misfit
  absent            unknown_tool_call   malformed_approval_id    unknown_tool_call
  not_answerable    unknown_tool_call   unknown_tool_call        unknown_tool_call
  run_stopped       run_stopped         run_stopped              run_stopped
  superseded        stale_run           stale_run                stale_run
  over              already_completed   already_completed        already_completed
  waits_elsewhere   stale_run           malformed_approval_id    stale_run
  waits             stored              malformed_approval_id    refused
""")


@pytest.mark.parametrize(("cell", "outcome"), SPEC.items(), ids=names(SPEC))
def test_outcome(cell: tuple[str, str], outcome: str) -> None:
    assert SUBMIT[Standing(cell[0]), Fitness(cell[1])] is Outcome(outcome)


def test_the_table_has_these_rows_and_no_others() -> None:
    assert {(str(call), str(answer)): str(outcome) for (call, answer), outcome in SUBMIT.rows.items()} == SPEC


def test_every_outcome_but_a_fault_has_a_row() -> None:
    assert set(Outcome) - set(SUBMIT.rows.values()) == {Outcome.FAILED}


def test_a_call_is_pending_when_it_waits_for_this_answer_or_another() -> None:
    assert {"waits", "waits_elsewhere"} == PENDING


# --- how the call stands ---------------------------------------------------------------------------------------------

RUN, OTHER, UNIQUE = UUID(int=1), UUID(int=2), UUID(int=3)
OURS, THEIRS = approval_id(RUN, UNIQUE), approval_id(OTHER, UNIQUE)
OUTPUT = Answer("c1", AnswerKind.OUTPUT, {"output": 1})


def call(
    *,
    kind: CallKind = CallKind.CLIENT,
    state: CallState = CallState.PENDING,
    drained: bool = False,
    answer: Mapping[str, Any] | None = None,
    error_code: str | None = None,
    root_state: RunState = RunState.SUSPENDED,
    stop_requested: bool = False,
) -> CallFacts:
    return CallFacts(
        call_id="c1",
        root_run=RUN,
        kind=kind,
        state=state,
        approval_id=OURS if kind is CallKind.APPROVAL else None,
        drained=drained,
        answer=answer,
        error_code=error_code,
        root_state=root_state,
        stop_requested=stop_requested,
        batch=1,
    )


ANSWERED: dict[str, Any] = {"state": CallState.ANSWERED, "answer": {"output": 1}}
SETTLED: dict[str, Any] = {"state": CallState.SETTLED}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(None, "absent", id="no row"),
        pytest.param(
            call(kind=CallKind.SERVER, state=CallState.READY), "not_answerable", id="a server tool's"
        ),
        pytest.param(
            call(kind=CallKind.SUBAGENT, state=CallState.STARTED), "not_answerable", id="a sub-agent's"
        ),
        pytest.param(
            call(**SETTLED, error_code=CloseCode.RUN_FAILED, root_state=RunState.FAILED),
            "not_answerable",
            id="closed because its run failed",
        ),
        pytest.param(
            call(**SETTLED, error_code=CloseCode.RUN_STOPPED, root_state=RunState.STOPPED),
            "run_stopped",
            id="closed by a stop",
        ),
        pytest.param(
            call(**ANSWERED, root_state=RunState.STOPPED),
            "run_stopped",
            id="answered, then stopped before the drain",
        ),
        pytest.param(
            call(
                **SETTLED, error_code=CloseCode.RUN_STOPPED, root_state=RunState.RUNNING, stop_requested=True
            ),
            "run_stopped",
            id="a stop is recorded, not yet settled",
        ),
        pytest.param(
            call(**SETTLED, drained=True, answer={"output": 1}, root_state=RunState.STOPPED),
            "over",
            id="drained before its run was stopped",
        ),
        pytest.param(
            call(**SETTLED, error_code=CloseCode.ABANDONED, root_state=RunState.SUPERSEDED),
            "superseded",
            id="abandoned",
        ),
        pytest.param(
            call(**ANSWERED, root_state=RunState.SUPERSEDED),
            "superseded",
            id="answered, then abandoned before the drain",
        ),
        pytest.param(
            call(**SETTLED, drained=True, answer={"output": 1}, root_state=RunState.SUPERSEDED),
            "over",
            id="drained before its run gave way",
        ),
        pytest.param(call(**ANSWERED), "over", id="answered"),
        pytest.param(
            call(state=CallState.ANSWERED, answer={"errorText": "…"}, error_code=CloseCode.TIMEOUT),
            "over",
            id="answered by its deadline",
        ),
        pytest.param(
            call(**SETTLED, drained=True, answer={"output": 1}, root_state=RunState.COMPLETED),
            "over",
            id="a tombstone",
        ),
        pytest.param(
            call(**SETTLED, drained=True, answer={"output": 1}, root_state=RunState.FAILED),
            "over",
            id="drained before its run failed",
        ),
        pytest.param(call(), "waits", id="pending in a suspended run"),
        pytest.param(call(root_state=RunState.RUNNING), "waits", id="pending while the tree still executes"),
    ],
)
def test_how_a_call_stands(facts: CallFacts | None, expected: str) -> None:
    assert standing_of(facts, OUTPUT, None) is Standing(expected)


def test_a_granted_approval_that_was_closed_because_its_run_failed_is_not_answerable() -> None:
    facts = call(
        kind=CallKind.APPROVAL,
        **SETTLED,
        answer={"approved": True},
        error_code=CloseCode.RUN_FAILED,
        root_state=RunState.FAILED,
    )
    assert standing_of(facts, approval_answer("c1", OURS, True, None), None) is Standing.NOT_ANSWERABLE


@pytest.mark.parametrize(
    ("answer", "root_of_message", "expected"),
    [
        (OUTPUT, None, "waits"),
        (OUTPUT, RUN, "waits"),
        (OUTPUT, OTHER, "waits_elsewhere"),
        (approval_answer("c1", OURS, True, None), None, "waits"),
        (approval_answer("c1", OURS, True, None), RUN, "waits"),
        (approval_answer("c1", OURS, True, None), OTHER, "waits_elsewhere"),
        (approval_answer("c1", THEIRS, True, None), None, "waits_elsewhere"),
        (approval_answer("c1", THEIRS, True, None), RUN, "waits_elsewhere"),
        (approval_answer("c1", "apr_1", True, None), RUN, "waits"),  # names no run
    ],
)
def test_an_answer_may_name_another_root_run_by_its_message_or_its_approval_id(
    answer: Answer, root_of_message: UUID | None, expected: str
) -> None:
    facts = call(kind=CallKind.APPROVAL if answer.kind is AnswerKind.APPROVAL else CallKind.CLIENT)
    assert standing_of(facts, answer, root_of_message) is Standing(expected)


# --- whether the answer fits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [None, "", "apr_1", OURS.upper(), OURS + "0", f" {OURS}", OURS + "\n", 7, True, [OURS], {}]
)
def test_an_approval_id_in_another_format_is_malformed(given: object) -> None:
    assert has_malformed_id(approval_answer("c1", given, True, None))


def test_an_approval_id_of_ours_is_well_formed_whatever_run_it_names() -> None:
    assert not has_malformed_id(approval_answer("c1", OURS, True, None))
    assert not has_malformed_id(approval_answer("c1", THEIRS, True, None))


def test_an_output_has_no_approval_id_to_be_malformed() -> None:
    assert not has_malformed_id(OUTPUT)


@pytest.mark.parametrize("approved", [None, "true", "yes", 1, 0, [True], {}])
def test_approved_is_a_boolean_and_nothing_else(approved: object) -> None:
    answer = approval_answer("c1", OURS, approved, None)
    assert kind_misfit(call(kind=CallKind.APPROVAL), answer) == "approved is not a boolean"


@pytest.mark.parametrize("approved", [True, False])
def test_a_decision_with_this_calls_id_fits(approved: bool) -> None:
    assert kind_misfit(call(kind=CallKind.APPROVAL), approval_answer("c1", OURS, approved, "because")) is None


def test_an_approval_id_of_this_run_that_is_another_calls_does_not_fit() -> None:
    other_call = approval_id(RUN, UUID(int=9))
    assert (
        kind_misfit(call(kind=CallKind.APPROVAL), approval_answer("c1", other_call, True, None)) is not None
    )


@pytest.mark.parametrize("answer", [OUTPUT, Answer("c1", AnswerKind.ERROR, {"errorText": "no"})])
def test_an_output_does_not_fit_an_approval(answer: Answer) -> None:
    assert kind_misfit(call(kind=CallKind.APPROVAL), answer) == "an output for an approval call"


def test_an_approval_does_not_fit_a_client_call() -> None:
    assert kind_misfit(call(), approval_answer("c1", OURS, True, None)) == "an approval for a client call"


@pytest.mark.parametrize("output", [None, 0, "", [], {"a": 1}])
def test_any_output_fits_a_client_call_as_to_its_kind(output: object) -> None:
    assert kind_misfit(call(), Answer("c1", AnswerKind.OUTPUT, {"output": output})) is None


@pytest.mark.parametrize(("text", "fits"), [("no", True), ("", True), (None, False), (1, False), ({}, False)])
def test_an_error_text_is_a_string(text: object, fits: bool) -> None:
    misfit = kind_misfit(call(), Answer("c1", AnswerKind.ERROR, {"errorText": text}))
    assert (misfit is None) is fits
