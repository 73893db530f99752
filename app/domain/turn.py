"""What a client posted to ``POST /chat``, reduced to the facts that the path decision needs.

``read_turn`` believes nothing of the posted history but the message that is new, and the answers in the continued and trailing
assistant messages. It raises ``InvalidTurn`` for the rows of the path table that are invalid, with a reason for the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast
from unicodedata import category

from app.domain.answers import Answer, answers_in, first_of_each_call
from app.domain.history import NOTHING_SAID, Entry, user_entry

MAX_ID_LENGTH = 256
SUBMIT_MESSAGE, REGENERATE_MESSAGE = "submit-message", "regenerate-message"


class InvalidTurn(ValueError):
    """The request is malformed. ``str()`` is a reason made of our own words and key names, never of posted values."""


class TooLong(InvalidTurn):
    """An id is over its limit."""


@dataclass(frozen=True, slots=True)
class Posted:
    """One posted message. ``id`` is ``None`` when a user message came without one."""

    id: str | None
    role: str
    parts: Sequence[Any]
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """``user`` is ``U``: the last message when it is a user's, or the last user message of a regeneration. ``continued``: the
    message a 200 would append to, when the last message is an assistant's. ``last_assistant``: the last assistant message in the
    list, whose answers are taken before a new ``U`` closes the live run."""

    regenerate: bool
    message_id: str | None
    user: Posted | None
    continued: Posted | None
    last_assistant: Posted | None
    answers: tuple[Answer, ...]

    @property
    def closing_answers(self) -> tuple[Answer, ...]:
        """The answers of the last assistant message in the list."""
        if self.last_assistant is None or self.last_assistant.id is None:
            return ()
        return first_of_each_call(answers_in(self.last_assistant.id, self.last_assistant.parts))


def valid_id(value: object) -> bool:
    """1 to 256 characters, none of them a control character."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= MAX_ID_LENGTH
        and all(category(c) not in ("Cc", "Cs") for c in value)
    )


def read_turn(messages: Sequence[Any], *, trigger: object, message_id: object) -> Turn:
    if trigger not in (None, SUBMIT_MESSAGE, REGENERATE_MESSAGE):
        raise InvalidTurn("unknown trigger")
    if message_id is not None and not isinstance(message_id, str):
        raise InvalidTurn("messageId is not a string")
    if not messages:
        raise InvalidTurn("no message")
    last = _posted(messages[-1])
    regenerate = trigger == REGENERATE_MESSAGE
    if last.role not in ("user", "assistant"):
        raise InvalidTurn("the last message is neither a user's nor an assistant's")
    last_assistant = _last_assistant(messages)
    if regenerate or last.role == "user":
        user = (
            last
            if last.role == "user"
            else next((_posted(m) for m in reversed(messages) if _role(m) == "user"), None)
        )
        if user is None:
            raise InvalidTurn("nothing to regenerate: no user message")
        _check_user(user)
        return Turn(regenerate, message_id, user, None, last_assistant, ())
    named = None
    if message_id is not None:
        mine = (m for m in messages if _role(m) == "assistant" and m.get("id") == message_id)
        named = next((_posted(m) for m in mine), None)
    continued = named or last
    if not valid_id(continued.id):
        raise InvalidTurn("an assistant message to continue without a valid id")
    holders = [named, last] if named is not None else [last]
    held = chain(*(answers_in(m.id or "", m.parts) for m in holders))
    return Turn(regenerate, message_id, None, continued, last_assistant, first_of_each_call(held))


def _last_assistant(messages: Sequence[Any]) -> Posted | None:
    """The last assistant message in the list; one that cannot be read holds no answers, and is not worth a refusal."""
    found = next((m for m in reversed(messages) if _role(m) == "assistant"), None)
    try:
        return _posted(found) if found is not None else None
    except InvalidTurn:
        return None


def _role(message: object) -> object:
    return cast("Mapping[str, Any]", message).get("role") if isinstance(message, Mapping) else None


def _posted(message: object) -> Posted:
    if not isinstance(message, Mapping):
        raise InvalidTurn("a message is not an object")
    fields = cast("Mapping[str, Any]", message)
    role, parts, id_, metadata = (
        fields.get("role"),
        fields.get("parts"),
        fields.get("id"),
        fields.get("metadata"),
    )
    if not isinstance(role, str):
        raise InvalidTurn("a message has no role")
    if parts is None and isinstance(fields.get("content"), str):
        parts = [{"type": "text", "text": fields["content"]}]  # what ai 4 and hand-written callers send
    if not isinstance(parts, list):
        raise InvalidTurn("a message has no parts")
    if id_ is not None and not isinstance(id_, str):
        raise InvalidTurn("a message id is not a string")
    return Posted(
        id_ or None,
        role,
        cast("list[Any]", parts),
        cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else None,
    )


def _check_user(user: Posted) -> None:
    if user.id is not None and len(user.id) > MAX_ID_LENGTH:
        raise TooLong("the user message's id is over its limit")
    if user.id is not None and not valid_id(user.id):
        raise InvalidTurn("the user message's id holds control characters")
    if not user.parts:
        raise InvalidTurn("the user message has no parts")
    for part in user.parts:
        fields = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        kind = fields.get("type")
        if not isinstance(kind, str):
            raise InvalidTurn("a part of the user message has no type")
        if kind == "text" and not isinstance(fields.get("text"), str):
            raise InvalidTurn("a text part without text")
        if kind == "file" and not (
            isinstance(fields.get("url"), str) and isinstance(fields.get("mediaType"), str)
        ):
            raise InvalidTurn("a file part without url or mediaType")


def user_history(parts: Sequence[Mapping[str, Any]]) -> Entry:
    """A user message as the model sees it: its texts and files. Kinds of parts we do not know never reach the model."""
    kept: list[dict[str, Any]] = []
    for part in parts:
        if part["type"] == "text" and part["text"]:
            kept.append({"type": "text", "text": part["text"]})
        elif part["type"] == "file":
            kept.append({key: part[key] for key in ("type", "mediaType", "url", "filename") if key in part})
    return user_entry(kept or [{"type": "text", "text": NOTHING_SAID}])
