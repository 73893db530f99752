"""THE error table: what a failure is called, what it answers and how loudly it is logged.

One exception class (``ServiceError``) carries a code; everything else about the failure is a row of ``ERRORS``. The HTTP body, the
``error`` frame of a stream and the stored error of a run are rendered from the same row.

``uncommitted`` is the status while nothing of the request is stored; ``committed`` once its user message or one of its answers
is: never 503 then, because a repeat would not be the same request any more. ``None``: the code cannot occur there.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, cast


class Code(StrEnum):
    VALIDATION_ERROR = "validation_error"
    VALIDATION_PAYLOAD_TOO_LARGE = "validation_payload_too_large"
    VALIDATION_UNSUPPORTED_MEDIA_TYPE = "validation_unsupported_media_type"
    FRAMEWORK_NOT_FOUND = "framework_not_found"
    FRAMEWORK_METHOD_NOT_ALLOWED = "framework_method_not_allowed"
    AUTH_REQUIRED = "auth_required"
    AUTH_FORBIDDEN = "auth_forbidden"
    STATE_SESSION_NOT_FOUND = "state_session_not_found"
    STATE_NOT_RESUMABLE = "state_not_resumable"
    STATE_RUN_ACTIVE = "state_run_active"
    STATE_CONCURRENCY_CONFLICT = "state_concurrency_conflict"
    STATE_SIZE_EXCEEDED = "state_size_exceeded"
    RATE_LIMITED = "rate_limited"
    FRAMEWORK_INTERNAL_ERROR = "framework_internal_error"
    FRAMEWORK_NOT_SUPPORTED = "framework_not_supported"
    FRAMEWORK_DRAINING = "framework_draining"
    TRANSPORT_STREAM_DROP = "transport_stream_drop"
    PROVIDER_RATE_LIMITED = "provider_rate_limited"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    PROVIDER_AUTH = "provider_auth"
    PROVIDER_CONTEXT_TOO_LONG = "provider_context_too_long"
    PROVIDER_CONTENT_FILTERED = "provider_content_filtered"
    PROVIDER_TIMEOUT = "provider_timeout"
    PROVIDER_BAD_RESPONSE = "provider_bad_response"
    RUN_LIMIT_EXCEEDED = "run_limit_exceeded"


class SubmitRefusalCause(StrEnum):
    """Why no answer of a request could be taken; the ``cause`` of ``state_not_resumable``."""

    UNKNOWN_TOOL_CALL = "unknown_tool_call"
    RUN_STOPPED = "run_stopped"
    STALE_RUN = "stale_run"
    ANSWER_NOT_STORED = "answer_not_stored"


Level = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Row:
    """One code. ``retryable``: the same request may be sent again as it is. ``sentence``: what a user may read."""

    uncommitted: int | None
    committed: int | None
    retryable: bool
    level: Level
    sentence: str
    do: str


# fmt: off
ERRORS: dict[Code, Row] = {
    #                                             before after  retry  level      sentence                                                  what the operator or the page does
    Code.VALIDATION_ERROR:                  Row(400,  400,  False, "info",    "The request is not valid.",                              "Correct the request; sending it again as it is cannot succeed."),
    Code.VALIDATION_PAYLOAD_TOO_LARGE:      Row(413,  413,  False, "info",    "The request or one of its answers is too large.",        "Send less, or raise the limit it ran into (`AGENT_SERVER_MAX_*_BYTES`)."),
    Code.VALIDATION_UNSUPPORTED_MEDIA_TYPE: Row(415,  None, False, "info",    "Send the request as application/json.",                  "Send `content-type: application/json`."),
    Code.FRAMEWORK_NOT_FOUND:               Row(404,  None, False, "info",    "There is nothing at this address.",                      "Check the path against `/docs`."),
    Code.FRAMEWORK_METHOD_NOT_ALLOWED:      Row(405,  None, False, "info",    "This address does not take that method.",                "Check the method against `/docs`."),
    Code.AUTH_REQUIRED:                     Row(401,  None, False, "info",    "Sign in to use this chat.",                              "Send valid credentials."),
    Code.AUTH_FORBIDDEN:                    Row(403,  None, False, "info",    "These credentials do not allow this.",                   "Use credentials with the scope that the route needs."),
    Code.STATE_SESSION_NOT_FOUND:           Row(404,  None, False, "info",    "This chat does not exist.",                              "Start it with a user message. Another owner's chat looks the same."),
    Code.STATE_NOT_RESUMABLE:               Row(409,  409,  False, "info",    "This answer can no longer be used. Reload the chat.",    "Read the snapshot; answer what its `pending` still names."),
    Code.STATE_RUN_ACTIVE:                  Row(409,  409,  False, "info",    "The chat is still answering. Wait for it or stop it.",   "Wait, stop the run, or set `AGENT_SERVER_ON_BUSY=interrupt`."),
    Code.STATE_CONCURRENCY_CONFLICT:        Row(503,  409,  True,  "warning", "Somebody else changed this chat at the same moment.",    "Before anything was stored, send again; afterwards read the snapshot."),
    Code.STATE_SIZE_EXCEEDED:               Row(413,  413,  False, "info",    "This chat message has become too large to store.",       "Send less, or raise `AGENT_SERVER_MAX_MESSAGE_BYTES`."),
    Code.RATE_LIMITED:                      Row(429,  None, True,  "info",    "Too many requests. Try again in a moment.",              "Wait for `Retry-After` seconds. Add replicas if it is the waiting runs."),
    Code.FRAMEWORK_INTERNAL_ERROR:          Row(503,  500,  True,  "error",   "Something went wrong on our side.",                      "503: send again. 500: read the snapshot. The log line has the cause chain."),
    Code.FRAMEWORK_NOT_SUPPORTED:           Row(500,  500,  False, "error",   "This chat's agent is not available here.",               "Register the agent that the session began with."),
    Code.FRAMEWORK_DRAINING:                Row(503,  None, True,  "info",    "The server is restarting. Try again in a moment.",       "Send again; the load balancer finds a replica that is ready."),
    Code.TRANSPORT_STREAM_DROP:             Row(None, 500,  False, "error",   "The answer is being written but could not be shown.",    "Read the snapshot or resume the stream; the run goes on."),
    Code.PROVIDER_RATE_LIMITED:             Row(None, None, True,  "warning", "The model is busy. Try again in a moment.",              "Raise the provider's quota or lower the load."),
    Code.PROVIDER_UNAVAILABLE:              Row(None, None, True,  "warning", "The model cannot be reached. Try again in a moment.",    "Check the provider's status and the network."),
    Code.PROVIDER_AUTH:                     Row(None, None, False, "error",   "The model refused this server's credentials.",           "Correct the provider's key or its permissions."),
    Code.PROVIDER_CONTEXT_TOO_LONG:         Row(None, None, False, "info",    "This chat is too long for the model.",                   "Start a new chat, or use a model with a longer context."),
    Code.PROVIDER_CONTENT_FILTERED:         Row(None, None, False, "info",    "The model refused to answer this.",                      "Nothing; the provider's filter decided."),
    Code.PROVIDER_TIMEOUT:                  Row(None, None, True,  "warning", "The model did not answer in time.",                      "Check the provider's latency; raise the agent's time limit."),
    Code.PROVIDER_BAD_RESPONSE:             Row(None, None, True,  "error",   "The model's answer was cut off or could not be read.",   "Look at the log line; often a proxy that closes streams."),
    Code.RUN_LIMIT_EXCEEDED:                Row(None, None, False, "info",    "The assistant reached the limit for one answer.",        "Raise the agent's limits if the work is legitimate."),
}
# fmt: on


class ServiceError(Exception):
    """A failure that has a code. ``detail`` is for the log only; the client reads the row's sentence.

    ``permanent``: a repeat would meet the same stored row, so it is never answered 503. ``committed``: something of the request
    is stored, so the second column applies. ``retry_after_s`` is sent as ``Retry-After``.
    """

    def __init__(
        self,
        code: Code,
        detail: str = "",
        *,
        cause: SubmitRefusalCause | None = None,
        tool_call_ids: Sequence[str] = (),
        committed: bool = False,
        permanent: bool = False,
        retry_after_s: float | None = None,
        sentence: str | None = None,
    ) -> None:
        super().__init__(detail or str(code))
        self.code = code
        self.detail = detail
        self.cause = cause
        self.tool_call_ids = tuple(tool_call_ids)
        self.committed = committed
        self.permanent = permanent
        self.retry_after_s = retry_after_s
        self.sentence = sentence
        self.logged = False  # its own lines are written already: the request writes none for it

    @property
    def status(self) -> int:
        """The HTTP status of this failure."""
        row = ERRORS[self.code]
        status = row.committed if self.committed or self.permanent else row.uncommitted
        return status or row.committed or row.uncommitted or 500

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body, and the text of an ``error`` frame."""
        return error_body(
            self.code, cause=self.cause, tool_call_ids=self.tool_call_ids, sentence=self.sentence
        )


def error_body(
    code: Code,
    *,
    cause: SubmitRefusalCause | None = None,
    tool_call_ids: Sequence[str] = (),
    sentence: str | None = None,
) -> dict[str, Any]:
    """``{error, code}``, plus ``cause`` and ``toolCallIds`` where there are any.

    ``sentence`` replaces the row's public sentence; it must hold nothing that came from outside."""
    body: dict[str, Any] = {"error": sentence or ERRORS[code].sentence, "code": str(code)}
    if cause is not None:
        body["cause"] = str(cause)
    if tool_call_ids:
        body["toolCallIds"] = list(tool_call_ids)
    return body


@dataclass(frozen=True, slots=True)
class ChatError:
    """A failure as its receiver reads it. ``code`` and ``cause`` are plain strings: a newer server may know more of them."""

    code: str
    error: str
    cause: str | None = None
    tool_call_ids: tuple[str, ...] = ()


def parse_chat_error(text: str) -> ChatError | None:
    """The failure that a non-2xx body, or the ``errorText`` of an ``error`` frame, tells; ``None`` when the text is not ours.

    For clients in Python; the README's page has the same function in TypeScript."""
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    body = cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}
    code, error, cause, ids = (body.get(key) for key in ("code", "error", "cause", "toolCallIds"))
    if not isinstance(code, str) or not isinstance(error, str):
        return None
    listed = cast("list[object]", ids) if isinstance(ids, list) else []
    return ChatError(
        code,
        error,
        cause if isinstance(cause, str) else None,
        tuple(each for each in listed if isinstance(each, str)),
    )
