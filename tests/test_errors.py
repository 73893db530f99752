"""The error table against its rows typed by hand, the one body, and what a receiver reads of it."""

import json
import subprocess
import sys

import pytest

from app.errors import ERRORS, ChatError, Code, ServiceError, SubmitRefusalCause, error_body, parse_chat_error

# code                               before after  retryable
SPEC = """
validation_error                     400    400    no
validation_payload_too_large         413    413    no
validation_unsupported_media_type    415    -      no
framework_not_found                  404    -      no
framework_method_not_allowed         405    -      no
auth_required                        401    -      no
auth_forbidden                       403    -      no
state_session_not_found              404    -      no
state_not_resumable                  409    409    no
state_run_active                     409    409    no
state_concurrency_conflict           503    409    yes
state_size_exceeded                  413    413    no
rate_limited                         429    -      yes
framework_internal_error             503    500    yes
framework_not_supported              500    500    no
framework_draining                   503    -      yes
transport_stream_drop                -      500    no
provider_rate_limited                -      -      yes
provider_unavailable                 -      -      yes
provider_auth                        -      -      no
provider_context_too_long            -      -      no
provider_content_filtered            -      -      no
provider_timeout                     -      -      yes
provider_bad_response                -      -      yes
run_limit_exceeded                   -      -      no
"""
ROWS = {code: rest for code, *rest in (line.split() for line in SPEC.strip().splitlines())}


@pytest.mark.parametrize(("code", "row"), ROWS.items(), ids=ROWS)
def test_row(code: str, row: list[str]) -> None:
    found = ERRORS[Code(code)]
    statuses = [str(found.uncommitted or "-"), str(found.committed or "-")]
    assert [*statuses, "yes" if found.retryable else "no"] == row


def test_every_code_has_one_row_and_there_are_no_others() -> None:
    assert {str(code) for code in ERRORS} == {str(code) for code in Code} == set(ROWS)


def test_a_status_that_invites_a_repeat_is_never_answered_after_a_commit() -> None:
    assert not [code for code, row in ERRORS.items() if row.committed in (429, 503)]


def test_what_is_not_retryable_is_never_answered_with_a_status_that_invites_a_repeat() -> None:
    assert not [code for code, row in ERRORS.items() if row.uncommitted in (429, 503) and not row.retryable]


def test_every_row_says_a_sentence_to_the_user_and_what_to_do() -> None:
    assert all(row.sentence.endswith(".") and row.do.endswith(".") for row in ERRORS.values())


def test_a_lost_race_is_a_warning_and_a_failure_of_ours_an_error() -> None:
    assert ERRORS[Code.STATE_CONCURRENCY_CONFLICT].level == "warning"
    assert ERRORS[Code.FRAMEWORK_INTERNAL_ERROR].level == "error"


def test_the_causes_are_these_four() -> None:
    assert {str(cause) for cause in SubmitRefusalCause} == {
        "unknown_tool_call",
        "run_stopped",
        "stale_run",
        "answer_not_stored",
    }


# --- the status -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ServiceError(Code.FRAMEWORK_INTERNAL_ERROR), 503),
        (ServiceError(Code.FRAMEWORK_INTERNAL_ERROR, committed=True), 500),
        (ServiceError(Code.FRAMEWORK_INTERNAL_ERROR, permanent=True), 500),
        (ServiceError(Code.STATE_CONCURRENCY_CONFLICT), 503),
        (ServiceError(Code.STATE_CONCURRENCY_CONFLICT, committed=True), 409),
        (ServiceError(Code.VALIDATION_ERROR, committed=True), 400),
        (ServiceError(Code.TRANSPORT_STREAM_DROP), 500),
        (ServiceError(Code.AUTH_REQUIRED, committed=True), 401),
    ],
)
def test_the_status_depends_on_whether_something_is_stored(error: ServiceError, status: int) -> None:
    assert error.status == status


@pytest.mark.parametrize("code", list(Code))
def test_no_code_is_answered_503_once_something_is_stored(code: Code) -> None:
    if ERRORS[code].committed is not None:
        assert ServiceError(code, committed=True).status != 503


# --- the body -------------------------------------------------------------------------------------------------------------


def test_a_body_is_the_public_sentence_and_the_code_and_nothing_of_the_detail() -> None:
    error = ServiceError(Code.VALIDATION_ERROR, "the column secret_plan is missing")
    assert error.body == {"error": "The request is not valid.", "code": "validation_error"}
    assert str(error) == "the column secret_plan is missing"


def test_a_body_names_cause_and_calls_where_there_are_any() -> None:
    error = ServiceError(
        Code.STATE_NOT_RESUMABLE, cause=SubmitRefusalCause.ANSWER_NOT_STORED, tool_call_ids=["c1", "c2"]
    )
    assert error.body == {
        "error": "This answer can no longer be used. Reload the chat.",
        "code": "state_not_resumable",
        "cause": "answer_not_stored",
        "toolCallIds": ["c1", "c2"],
    }


# --- what a receiver reads ------------------------------------------------------------------------------------------------

OURS: list[tuple[str, ChatError]] = [
    (
        json.dumps(error_body(Code.STATE_RUN_ACTIVE)),
        ChatError("state_run_active", "The chat is still answering. Wait for it or stop it."),
    ),
    (
        json.dumps(error_body(Code.STATE_NOT_RESUMABLE, cause=SubmitRefusalCause.RUN_STOPPED)),
        ChatError(
            "state_not_resumable", "This answer can no longer be used. Reload the chat.", cause="run_stopped"
        ),
    ),
    (
        json.dumps(
            error_body(
                Code.STATE_NOT_RESUMABLE,
                cause=SubmitRefusalCause.ANSWER_NOT_STORED,
                tool_call_ids=["c1", "c2"],
            )
        ),
        ChatError(
            "state_not_resumable",
            "This answer can no longer be used. Reload the chat.",
            "answer_not_stored",
            ("c1", "c2"),
        ),
    ),
    ('{"error": "Later.", "code": "a_code_from_the_future"}', ChatError("a_code_from_the_future", "Later.")),
    ('{"error": "ünïcode ☂", "code": "x", "more": {"a": 1}}', ChatError("x", "ünïcode ☂")),
    ('{"error": "", "code": "x", "cause": null, "toolCallIds": null}', ChatError("x", "")),
    ('{"error": "e", "code": "x", "cause": 7, "toolCallIds": "c1"}', ChatError("x", "e")),
    (
        '{"error": "e", "code": "x", "toolCallIds": ["c1", 7, null, "c2"]}',
        ChatError("x", "e", tool_call_ids=("c1", "c2")),
    ),
]
NOT_OURS = [
    "",
    " ",
    "fetch failed",
    "<html><body>502 Bad Gateway</body></html>",
    "null",
    "7",
    '"validation_error"',
    "[]",
    "{}",
    '{"error": "e"}',
    '{"code": "x"}',
    '{"error": {"message": "from a provider", "code": "x"}}',
    '{"error": {"message": "m"}, "code": "x"}',
    '{"error": "e", "code": 500}',
    '{"error": null, "code": null}',
    '[{"error": "e", "code": "x"}]',
    '{"error": "e", "code": "x"',
    '{"detail": "Not Found"}',
    "The response body is empty.",
]


@pytest.mark.parametrize(("text", "expected"), OURS)
def test_a_failure_of_ours_is_read(text: str, expected: ChatError) -> None:
    assert parse_chat_error(text) == expected


@pytest.mark.parametrize("text", NOT_OURS)
def test_any_other_text_is_none(text: str) -> None:
    assert parse_chat_error(text) is None


def test_a_text_that_is_nested_without_end_is_none() -> None:
    assert parse_chat_error("[" * 100_000) is None


@pytest.mark.parametrize("code", list(Code))
def test_every_body_that_the_server_makes_is_read_back(code: Code) -> None:
    body = ServiceError(code, cause=SubmitRefusalCause.STALE_RUN, tool_call_ids=["c"]).body
    assert parse_chat_error(json.dumps(body)) == ChatError(str(code), body["error"], "stale_run", ("c",))


def test_a_client_in_python_imports_it_alone() -> None:
    program = "import sys, app.errors; print(sorted({'fastapi', 'pydantic', 'sqlalchemy', 'asyncpg'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
