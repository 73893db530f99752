"""What the OpenAPI document says of a route's failures: every typed error that it can answer."""

from collections import defaultdict
from typing import Any

from app.errors import ERRORS, Code

_BODY: dict[str, Any] = {
    "type": "object",
    "required": ["error", "code"],
    "properties": {
        "error": {"type": "string", "description": "What a user may read."},
        "code": {"type": "string"},
        "cause": {
            "type": "string",
            "enum": ["unknown_tool_call", "run_stopped", "stale_run", "answer_not_stored"],
        },
        "toolCallIds": {"type": "array", "items": {"type": "string"}},
    },
}

COMMON = (
    Code.VALIDATION_ERROR,
    Code.AUTH_REQUIRED,
    Code.AUTH_FORBIDDEN,
    Code.RATE_LIMITED,
    Code.STATE_CONCURRENCY_CONFLICT,
    Code.FRAMEWORK_INTERNAL_ERROR,
)
WITH_BODY = (Code.VALIDATION_PAYLOAD_TOO_LARGE, Code.VALIDATION_UNSUPPORTED_MEDIA_TYPE)


def errors(*codes: Code) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route: status → its codes, with the one body shape."""
    by_status: defaultdict[int, list[Code]] = defaultdict(list)
    for code in codes:
        for status in {ERRORS[code].uncommitted, ERRORS[code].committed} - {None}:
            by_status[status or 500].append(code)
    described: dict[int | str, dict[str, Any]] = {
        status: {
            "description": "; ".join(f"`{code}`: {ERRORS[code].sentence}" for code in sorted(found)),
            "content": {"application/json": {"schema": _BODY}},
        }
        for status, found in sorted(by_status.items())
    }
    # without a default FastAPI would add its own 422, which nobody is ever answered
    described["default"] = {
        "description": "Any other failure, in the same shape.",
        "content": {"application/json": {"schema": _BODY}},
    }
    return described


STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A UI message stream (`x-vercel-ai-ui-message-stream: v1`).",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}
