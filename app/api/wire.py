"""What comes in: bytes to checked values. The names that are spelled on the wire are spelled here.

JSON is read strictly where laxness loses data (NaN, Infinity, nesting over 64) and leniently where strictness would refuse what
stock clients send (unknown keys, unknown kinds of parts). Half surrogate pairs are replaced: nothing after this file meets one.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, cast
from uuid import UUID

import orjson

from app.domain.answers import Answer, AnswerKind, approval_answer, first_of_each_call
from app.domain.turn import MAX_ID_LENGTH, InvalidTurn, TooLong, Turn, read_turn, valid_id
from app.errors import Code, ServiceError

MAX_NESTING = 64
_KNOWN_KEYS = frozenset({"id", "sessionId", "messages", "message", "trigger", "messageId", "agent"})


def invalid(why: str) -> ServiceError:
    """``why`` is for the log: our own words, never posted values."""
    return ServiceError(Code.VALIDATION_ERROR, why)


def read_json(body: bytes) -> Any:
    """The JSON value of a body. Raises ``validation_error``."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = _read_leniently(body)
    _check(value)
    return value


def _read_leniently(body: bytes) -> Any:
    """Accepts what orjson refuses and clients do send: half surrogate pairs. Everything else it refuses stays refused."""
    try:
        text = body.decode()
        value = json.loads(text, parse_int=_number, parse_constant=_refuse_constant)
        return json.loads(
            json.dumps(value, ensure_ascii=False)
            .encode("utf-16", "surrogatepass")
            .decode("utf-16", "replace")
        )
    except (ValueError, RecursionError) as error:
        raise invalid("the body is not JSON") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _number(digits: str) -> int | float:
    """Over 64 bits a float, as orjson has it: JavaScript writes its large numbers without an exponent."""
    number = int(digits)
    return number if -(2**63) <= number < 2**64 else float(digits)


def _check(value: Any) -> None:
    """Depth and numbers, without recursion. Raises ``validation_error``."""
    level: list[Any] = [value]
    for depth in range(MAX_NESTING + 1):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict | list) and depth == MAX_NESTING:
                raise invalid("the body is nested too deeply")
            if isinstance(item, dict):
                deeper.extend(cast("dict[str, Any]", item).values())
            elif isinstance(item, list):
                deeper.extend(cast("list[Any]", item))
            elif isinstance(item, float) and not math.isfinite(item):
                raise invalid("a number is not finite")
        if not deeper:
            return
        level = deeper


def read_object(body: bytes) -> Mapping[str, Any]:
    value = read_json(body)
    if not isinstance(value, dict):
        raise invalid("the body is not an object")
    return cast("dict[str, Any]", value)


def chat_id_of(value: object) -> str:
    """1 to 256 characters, none of them a control character. Raises ``validation_payload_too_large`` or ``validation_error``."""
    if isinstance(value, str) and len(value) > MAX_ID_LENGTH:
        raise ServiceError(Code.VALIDATION_PAYLOAD_TOO_LARGE, "the chat id is over its limit")
    if not valid_id(value):
        raise invalid("the chat id is missing or holds control characters")
    return cast("str", value)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """``POST /chat``. ``request``: the extra keys, handed to the agent."""

    agent: str | None
    request: Mapping[str, Any]
    turn: Turn


def session_id_in(fields: Mapping[str, Any]) -> str:
    """``sessionId`` wins over ``id``."""
    return chat_id_of(fields.get("sessionId", fields.get("id")))


def read_chat(fields: Mapping[str, Any]) -> ChatRequest:
    """Raises ``validation_error``."""
    messages: Any = fields.get("messages")
    if messages is None and fields.get("message") is not None:
        messages = [fields["message"]]
    if not isinstance(messages, list):
        raise invalid("messages is not a list")
    agent = fields.get("agent")
    if agent is not None and not isinstance(agent, str):
        raise invalid("agent is not a string")
    try:
        turn = read_turn(
            cast("list[Any]", messages), trigger=fields.get("trigger"), message_id=fields.get("messageId")
        )
    except TooLong as error:
        raise ServiceError(Code.VALIDATION_PAYLOAD_TOO_LARGE, str(error)) from error
    except InvalidTurn as error:
        raise invalid(str(error)) from error
    return ChatRequest(agent, {k: v for k, v in fields.items() if k not in _KNOWN_KEYS}, turn)


def read_answers(fields: Mapping[str, Any]) -> tuple[Answer, ...]:
    """``{answers: [{toolCallId, output} | {toolCallId, errorText} | {toolCallId, approvalId, approved, reason?}]}``."""
    answers = fields.get("answers")
    if not isinstance(answers, list) or not answers:
        raise invalid("answers is not a list with an answer")
    return first_of_each_call([_answer(item) for item in cast("list[Any]", answers)])


def _answer(item: Any) -> Answer:
    if not isinstance(item, dict):
        raise invalid("an answer is not an object")
    fields = cast("dict[str, Any]", item)
    call_id = fields.get("toolCallId")
    if not isinstance(call_id, str) or not call_id:
        raise invalid("an answer without toolCallId")
    if "approvalId" in fields or "approved" in fields:
        return approval_answer(
            call_id, fields.get("approvalId"), fields.get("approved"), fields.get("reason")
        )
    if "errorText" in fields:
        return Answer(call_id, AnswerKind.ERROR, {"errorText": fields["errorText"]})
    if "output" in fields:
        return Answer(call_id, AnswerKind.OUTPUT, {"output": fields["output"]})
    raise invalid("an answer with neither output, errorText nor approved")


def read_stop(fields: Mapping[str, Any]) -> UUID | None:
    run_id = fields.get("runId")
    if run_id is None:
        return None
    try:
        return UUID(str(run_id))
    except ValueError as error:
        raise invalid("runId is not a run's id") from error
