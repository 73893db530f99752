"""What a posted body is reduced to before a path is chosen; the invalid rows of the path table."""

from typing import Any

import pytest

from app.domain.turn import InvalidTurn, Turn, read_turn, user_history, valid_id

U1: dict[str, Any] = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
U2: dict[str, Any] = {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "again"}]}


def answered(call_id: str, output: object = 1) -> dict[str, Any]:
    return {
        "type": "tool-pick",
        "toolCallId": call_id,
        "state": "output-available",
        "input": {},
        "output": output,
    }


def assistant(message_id: str | None, *parts: Any) -> dict[str, Any]:
    return {"id": message_id, "role": "assistant", "parts": list(parts)}


def turn(*messages: Any, trigger: object = None, message_id: object = None) -> Turn:
    return read_turn(messages, trigger=trigger, message_id=message_id)


def calls(read: Turn) -> list[str]:
    return [answer.call_id for answer in read.answers]


# --- invalid ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "more"),
    [
        pytest.param([], {}, id="no message"),
        pytest.param([], {"trigger": "regenerate-message"}, id="no message to regenerate"),
        pytest.param(
            [{"id": "s1", "role": "system", "parts": []}], {}, id="the last message is the system's"
        ),
        pytest.param(
            [U1, {"id": "t1", "role": "tool", "parts": []}], {}, id="the last message has an unknown role"
        ),
        pytest.param([{"id": "u1", "parts": []}], {}, id="the last message has no role"),
        pytest.param([{**U1, "role": 7}], {}, id="a role that is no string"),
        pytest.param([U1, "hello"], {}, id="the last message is no object"),
        pytest.param([None], {}, id="the last message is null"),
        pytest.param([{"id": "u1", "role": "user", "parts": []}], {}, id="a user message with no parts"),
        pytest.param([{"id": "u1", "role": "user"}], {}, id="a user message without parts"),
        pytest.param([{**U1, "parts": "hello"}], {}, id="parts that are no list"),
        pytest.param([{**U1, "parts": ["hello"]}], {}, id="a part that is no object"),
        pytest.param([{**U1, "parts": [{"text": "hello"}]}], {}, id="a part without a type"),
        pytest.param([{**U1, "parts": [{"type": "text"}]}], {}, id="a text part without text"),
        pytest.param([{**U1, "parts": [{"type": "text", "text": 7}]}], {}, id="a text that is no string"),
        pytest.param(
            [{**U1, "parts": [{"type": "file", "url": "data:,x"}]}], {}, id="a file without its kind"
        ),
        pytest.param(
            [{**U1, "parts": [{"type": "file", "mediaType": "image/png"}]}], {}, id="a file without its url"
        ),
        pytest.param([{**U1, "id": 7}], {}, id="an id that is no string"),
        pytest.param([{**U1, "id": "u" * 257}], {}, id="an id that is too long"),
        pytest.param([{**U1, "id": "u\n1"}], {}, id="an id with a control character"),
        pytest.param([U1], {"trigger": "resume-message"}, id="an unknown trigger"),
        pytest.param([U1], {"trigger": ""}, id="an empty trigger"),
        pytest.param([U1], {"trigger": ["submit-message"]}, id="a trigger that is no string"),
        pytest.param([U1], {"message_id": 7}, id="a messageId that is no string"),
        pytest.param(
            [assistant("a1")], {"trigger": "regenerate-message"}, id="regenerate without a user message"
        ),
        pytest.param([U1, assistant(None, answered("c1"))], {}, id="a message to continue without an id"),
        pytest.param([U1, assistant("", answered("c1"))], {}, id="a message to continue with an empty id"),
        pytest.param([U1, assistant("a" * 257)], {}, id="a message to continue with an id that is too long"),
    ],
)
def test_invalid(messages: list[Any], more: dict[str, Any]) -> None:
    with pytest.raises(InvalidTurn):
        turn(*messages, **more)


def test_a_refusal_repeats_nothing_of_what_was_posted() -> None:
    with pytest.raises(InvalidTurn) as caught:
        turn({**U1, "parts": [{"type": "text", "text": {"secret": "hunter2"}}]}, trigger="submit-message")
    assert "hunter2" not in str(caught.value)


# --- a user message is last ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trigger", [None, "submit-message"])
def test_a_missing_trigger_is_a_submit(trigger: str | None) -> None:
    read = turn(U1, trigger=trigger)
    assert (read.regenerate, read.continued, read.answers) == (False, None, ())
    assert read.user is not None
    assert read.user.id == "u1"


def test_a_user_message_may_come_without_an_id() -> None:
    read = turn({"role": "user", "parts": U1["parts"]})
    assert read.user is not None
    assert read.user.id is None


def test_the_text_of_an_older_callers_content_is_its_part() -> None:
    read = turn({"id": "u1", "role": "user", "content": "hello"})
    assert read.user is not None
    assert list(read.user.parts) == [{"type": "text", "text": "hello"}]


def test_metadata_rides_along_when_it_is_an_object() -> None:
    kept, dropped = turn({**U1, "metadata": {"a": 1}}).user, turn({**U1, "metadata": [1]}).user
    assert kept is not None
    assert dropped is not None
    assert (kept.metadata, dropped.metadata) == ({"a": 1}, None)


def test_kinds_of_parts_that_nobody_knows_are_let_in() -> None:
    assert turn({**U1, "parts": [{"type": "from-the-future", "x": 1}]}).user is not None


def test_the_answers_that_a_new_message_leaves_behind_are_those_of_the_last_assistant_message() -> None:
    read = turn(
        U1,
        assistant("a1", answered("c1")),
        U2,
        assistant("a2", answered("c2"), answered("c3")),
        {**U1, "id": "u3"},
    )
    assert read.answers == ()
    assert [(a.call_id, a.message_id) for a in read.closing_answers] == [("c2", "a2"), ("c3", "a2")]


def test_of_two_answers_left_behind_for_one_call_the_first_counts() -> None:
    read = turn(U1, assistant("a1", answered("c1", "first"), answered("c1", "second")), U2)
    assert [a.value for a in read.closing_answers] == [{"output": "first"}]


def test_no_assistant_message_leaves_no_answers_behind() -> None:
    assert turn(U1, U2).closing_answers == ()


# --- regenerate ---------------------------------------------------------------------------------------------------------


def test_regenerate_takes_the_last_user_message_of_the_list() -> None:
    read = turn(U1, assistant("a1"), U2, assistant("a2"), trigger="regenerate-message", message_id="a2")
    assert read.user is not None
    assert (read.user.id, read.regenerate, read.continued, read.answers) == ("u2", True, None, ())


def test_regenerate_of_a_trailing_assistant_message_submits_no_answers() -> None:
    assert turn(U1, assistant("a1", answered("c1")), trigger="regenerate-message").answers == ()


# --- an assistant message is last ---------------------------------------------------------------------------------------


def test_the_trailing_assistant_message_is_continued() -> None:
    read = turn(U1, assistant("a1", answered("c1")))
    assert read.user is None
    assert read.continued is not None
    assert (read.continued.id, calls(read)) == ("a1", ["c1"])


def test_the_message_that_is_named_is_continued_and_its_answers_come_first() -> None:
    read = turn(
        U1,
        assistant("a1", answered("c1")),
        U2,
        assistant("a2", answered("c2")),
        message_id="a1",
        trigger="submit-message",
    )
    assert read.continued is not None
    assert (read.continued.id, calls(read)) == ("a1", ["c1", "c2"])
    assert [answer.message_id for answer in read.answers] == ["a1", "a2"]


def test_of_two_answers_for_one_call_the_named_messages_counts() -> None:
    read = turn(
        U1,
        assistant("a1", answered("c1", "named")),
        assistant("a2", answered("c1", "trailing")),
        message_id="a1",
    )
    assert [answer.value for answer in read.answers] == [{"output": "named"}]


@pytest.mark.parametrize("name", ["u1", "nobody"])
def test_a_name_that_is_no_assistant_messages_leaves_the_trailing_one(name: str) -> None:
    read = turn(U1, assistant("a1", answered("c1")), message_id=name)
    assert read.continued is not None
    assert read.continued.id == "a1"


def test_answers_in_messages_that_are_neither_named_nor_last_are_history() -> None:
    read = turn(U1, assistant("a1", answered("c1")), U2, assistant("a2", answered("c2")))
    assert calls(read) == ["c2"]


def test_a_trailing_assistant_message_without_answers_asks_for_nothing() -> None:
    read = turn(U1, assistant("a1", {"type": "text", "text": "done"}))
    assert read.continued is not None
    assert read.answers == ()


def test_without_a_name_the_trailing_message_is_continued_whatever_came_before() -> None:
    read = turn(U1, assistant(None), U2, assistant("a2", answered("c2")))
    assert read.continued is not None
    assert read.continued.id == "a2"


@pytest.mark.parametrize("older", [None, "x", 7, {}, {"role": "user"}, {"role": "user", "id": 7, "parts": 7}])
def test_older_history_is_not_believed_and_not_judged(older: object) -> None:
    assert turn(older, U1).user is not None


@pytest.mark.parametrize("older", [{"role": "assistant"}, {"role": "assistant", "id": 7, "parts": []}])
def test_an_older_assistant_message_is_not_judged_either(older: object) -> None:
    assert turn(older, U1).user is not None


# --- ids ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["a", "a/b", "a b", "ä", "💬", "%2F", "..", "a" * 256, "💬" * 256])
def test_an_id_is_1_to_256_characters(value: str) -> None:
    assert valid_id(value)


@pytest.mark.parametrize(
    "value", ["", "a" * 257, "a\x00", "\t", "a\nb", "\x7f", "\x85", "\ud800", None, 7, True, ["a"], b"a"]
)
def test_anything_else_is_no_id(value: object) -> None:
    assert not valid_id(value)


# --- what the model sees ------------------------------------------------------------------------------------------------


def test_a_model_sees_texts_and_files_and_no_other_parts() -> None:
    photo = {
        "type": "file",
        "mediaType": "image/png",
        "url": "data:image/png;base64,AA==",
        "filename": "a.png",
        "extra": 1,
    }
    entry = user_history(
        [{"type": "text", "text": "look"}, {"type": "from-the-future"}, {"type": "text", "text": ""}, photo]
    )
    assert entry["role"] == "user"
    assert entry["parts"] == [
        {"type": "text", "text": "look"},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA==", "filename": "a.png"},
    ]


def test_a_model_never_sees_a_user_message_with_nothing_in_it() -> None:
    assert user_history([{"type": "data-note", "data": 1}])["parts"] == [
        {"type": "text", "text": "(an empty message)"}
    ]
