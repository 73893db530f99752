"""Does an answer fit its pending call, as it was sent? A misfit is an error of its own, and a repeat cannot succeed."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from app.domain.answers import Answer, AnswerKind, CallFacts, kind_misfit
from app.errors import Code, ServiceError
from app.store import calls, messages
from app.store.transaction import Tx


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """In bytes of JSON: one answer, one error text or reason, one stored message."""

    answer: int
    error_text: int
    message: int


async def misfit(
    tx: Tx, session_id: UUID, call: CallFacts, answer: Answer, limits: AnswerLimits
) -> ServiceError | None:
    """The typed refusal of an answer for a pending call; ``None`` when it may be stored."""
    if (why := kind_misfit(call, answer)) is not None:
        return ServiceError(Code.VALIDATION_ERROR, why)
    size = len(orjson.dumps(dict(answer.value)))
    text = answer.value.get("errorText") or answer.value.get("reason") or ""
    if size > limits.answer or len(str(text).encode()) > limits.error_text:
        return ServiceError(Code.VALIDATION_PAYLOAD_TOO_LARGE, "the answer is over its limit")
    if await messages.size(tx, call.root_run) + size > limits.message:
        return ServiceError(Code.STATE_SIZE_EXCEEDED, "the message would be over its limit with this answer")
    if answer.kind is AnswerKind.OUTPUT:
        row = await calls.get(tx, session_id, call.call_id)
        if (
            row is not None
            and row.output_schema is not None
            and not _fits(answer.value["output"], row.output_schema)
        ):
            return ServiceError(Code.VALIDATION_ERROR, "the output does not fit the tool's schema")
    return None


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    import jsonschema  # imported when the first schema is met: it is slow to import and most tools have none

    return jsonschema.Draft202012Validator(schema).is_valid(value)  # pyright: ignore[reportUnknownMemberType]
