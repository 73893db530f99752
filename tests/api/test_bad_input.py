"""Everything that is wrong as sent: a 4xx with the one body, nothing stored, and the server answers the next request."""

import json
from typing import Any

import pytest

from tests.inprocess.chat import Page, refusal, script
from tests.inprocess.server import Server

USER = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
INVALID = (400, "validation_error", None)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def chat(**keys: Any) -> bytes:
    return json.dumps({"id": "chat", "messages": [USER], **keys}).encode()


def with_messages(*messages: Any) -> bytes:
    return chat(messages=list(messages))


def raw(extra: str) -> bytes:
    return b'{"id":"chat","messages":[' + json.dumps(USER).encode() + b'],"extra":' + extra.encode() + b"}"


BAD: dict[str, bytes] = {
    "an empty body": b" ",
    "malformed JSON": b'{"id": "chat", ',
    "two values": chat() + chat(),
    "NaN": raw("NaN"),
    "Infinity": raw("[-Infinity]"),
    "a number over every float": raw("1e400"),
    "nesting over the limit": raw(nested(64)),
    "nesting far over the limit": raw(nested(200_000)),
    "a body that is no UTF-8": b'{"id":"chat\xff","messages":[]}',
    "a body in UTF-16": chat().decode().encode("utf-16"),
    "a list": b"[]",
    "a string": b'"chat"',
    "null": b"null",
    "no id": json.dumps({"messages": [USER]}).encode(),
    "a null id": chat(id=None),
    "an id that is a number": chat(id=7),
    "an empty id": chat(id=""),
    "an id with a newline": chat(id="a\nb"),
    "an id with NUL": chat(id="a\0b"),
    "an id with DEL": chat(id="a\x7fb"),
    "a sessionId that is a list": chat(sessionId=["chat"]),
    "no messages": json.dumps({"id": "chat"}).encode(),
    "messages that are null": chat(messages=None),
    "messages that are an object": chat(messages={}),
    "no message at all": with_messages(),
    "a message that is a string": with_messages("hi"),
    "a message that is null": with_messages(None),
    "a message without a role": with_messages({"id": "u", "parts": USER["parts"]}),
    "a system message at the end": with_messages({**USER, "role": "system"}),
    "a tool message at the end": with_messages({**USER, "role": "tool"}),
    "a user message without parts": with_messages({"id": "u", "role": "user"}),
    "a user message with no part": with_messages({**USER, "parts": []}),
    "parts that are a string": with_messages({**USER, "parts": "hi"}),
    "a part that is a string": with_messages({**USER, "parts": ["hi"]}),
    "a text part without text": with_messages({**USER, "parts": [{"type": "text"}]}),
    "a text that is a number": with_messages({**USER, "parts": [{"type": "text", "text": 1}]}),
    "a file without its url": with_messages({**USER, "parts": [{"type": "file", "mediaType": "image/png"}]}),
    "a message id that is a number": with_messages({**USER, "id": 1}),
    "a message id with a control character": with_messages({**USER, "id": "u\x01"}),
    "an assistant message without an id": with_messages(USER, {"role": "assistant", "parts": []}),
    "an unknown trigger": chat(trigger="resume-stream"),
    "a trigger that is a number": chat(trigger=1),
    "a messageId that is an object": chat(messageId={}),
    "regenerate without a user message": chat(
        messages=[{"id": "a", "role": "assistant", "parts": []}], trigger="regenerate-message"
    ),
    "an unknown agent": chat(agent="nobody"),
    "an agent that is a number": chat(agent=1),
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
async def test_it_is_refused_as_invalid_and_stores_nothing(server: Server, body: bytes):
    reply = await Page(server).take(await server.ask("POST", "/chat", raw=body))
    assert refusal(reply) == INVALID
    assert reply.headers["content-type"].startswith("application/json")
    assert not await server.sql("select 1 from session")
    (line,) = server.logs.of("request.ended")
    assert (line["level"], line["status"], line["code"]) == ("info", 400, "validation_error")
    assert "causes" not in line or not any("chat" in cause for cause in line["causes"])


LARGE = (413, "validation_payload_too_large", None)


async def test_an_id_over_its_limit_is_too_large(server: Server):
    for body in (chat(id="x" * 257), with_messages({**USER, "id": "x" * 257})):
        reply = await Page(server).take(await server.ask("POST", "/chat", raw=body))
        assert refusal(reply) == LARGE
    assert (await server.ask("POST", "/chat", raw=chat(id="x" * 256))).status == 200


async def test_a_body_over_its_limit_is_refused_by_its_declared_length(serve: Any):
    async with serve(max_body_bytes=1000) as server:
        reply = await Page(server).take(await server.ask("POST", "/chat", raw=chat(extra="x" * 1000)))
        assert refusal(reply) == LARGE


async def test_a_streamed_body_is_refused_at_its_limit(serve: Any):
    async with serve(max_body_bytes=1000) as server:
        sent = [b'{"id":"chat","extra":"', *[b"x" * 100] * 1000]
        reply = await server.ask("POST", "/chat", raw=sent)
        assert refusal(await Page(server).take(reply)) == LARGE
        assert len(reply.exchange._body) > 900, "the rest is not read"


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
async def test_another_media_type_is_unsupported(server: Server, media: str):
    for path in ("/chat", "/chat/chat/answers"):
        reply = await server.ask("POST", path, raw=chat(), headers={"content-type": media})
        assert refusal(await Page(server).take(reply)) == (415, "validation_unsupported_media_type", None)


@pytest.mark.parametrize(
    "media", ["application/json; charset=utf-8", "Application/JSON", "application/ld+json"]
)
async def test_json_by_any_of_its_names_is_read(server: Server, media: str):
    reply = await server.ask("POST", "/chat", raw=chat(), headers={"content-type": media})
    assert reply.status == 200


async def test_a_compressed_body_is_unsupported(server: Server):
    reply = await server.ask("POST", "/chat", raw=chat(), headers={"content-encoding": "gzip"})
    assert reply.status == 415


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/nowhere", (404, "framework_not_found", None)),
        ("POST", "/", (405, "framework_method_not_allowed", None)),
        ("PUT", "/chat", (405, "framework_method_not_allowed", None)),
        ("POST", "/chats", (405, "framework_method_not_allowed", None)),
        ("GET", "/chats?limit=many", INVALID),
        ("GET", "/chats?limit=0", INVALID),
        ("GET", "/chats?cursor=%F0", INVALID),
        ("GET", "/chats?cursor=bm90aGluZw==", INVALID),
        ("GET", "/chat/nobody", (404, "state_session_not_found", None)),
        ("DELETE", "/chat/nobody", (404, "state_session_not_found", None)),
        ("GET", "/chat/a%00b", INVALID),
    ],
)
async def test_what_the_framework_refuses_has_the_same_body(
    server: Server, method: str, path: str, expected: tuple[Any, ...]
):
    assert refusal(await Page(server).take(await server.ask(method, path))) == expected


# --- what looks odd and is right ------------------------------------------------------------------------


async def echoed(server: Server, body: bytes) -> dict[str, Any]:
    reply = await server.ask("POST", "/chat", raw=body)
    assert reply.status == 200, await reply.body()
    await reply.rest()
    return (await server.snapshot("chat"))["messages"][0]


async def test_half_a_surrogate_pair_is_accepted_and_replaced(server: Server):
    body = chat(messages=[{**USER, "parts": [{"type": "text", "text": "TEXT"}]}])
    message = await echoed(server, body.replace(b"TEXT", rb"a\ud83d b\u0000 \ud83d\ude00"))
    assert message["parts"][0]["text"] == "a\ufffd b\0 😀"


@pytest.mark.parametrize("text", ["nul \0 here", r"the text \u0000 itself", "\u2028 \x1f \x7f"])
async def test_a_nul_and_a_text_that_spells_one_survive(server: Server, text: str):
    message = await echoed(server, chat(messages=[{**USER, "parts": [{"type": "text", "text": text}]}]))
    assert message["parts"][0]["text"] == text


@pytest.mark.parametrize("beside", ["whole", r"half a pair: \ud83d"])
@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (str(2**64 - 1), 2**64 - 1),
        (str(2**64), 2.0**64),
        ("18446744073709552000", 2.0**64),
        (str(-(10**30)), -1e30),
    ],
)
async def test_an_integer_over_64_bits_is_the_float_that_javascript_has(
    server: Server, number: str, kept: float, beside: str
):
    body = chat(messages=[{**USER, "metadata": {"n": "NUMBER", "s": "BESIDE"}}])
    message = await echoed(
        server, body.replace(b'"NUMBER"', number.encode()).replace(b"BESIDE", beside.encode())
    )
    assert message["metadata"]["n"] == kept
    assert type(message["metadata"]["n"]) is type(kept)


async def test_an_integer_that_no_float_holds_is_refused(server: Server):
    for number in ("9" * 400, "9" * 5000):
        assert (await server.ask("POST", "/chat", raw=raw(number))).status == 400


async def test_nesting_up_to_the_limit_is_read(server: Server):
    assert (await server.ask("POST", "/chat", raw=raw(nested(63)))).status == 200


async def test_session_id_wins_over_id_and_message_stands_for_messages(server: Server):
    body = json.dumps({"id": "other", "sessionId": "chat", "message": USER}).encode()
    assert (await echoed(server, body))["id"] == "u"
    assert (await server.ask("GET", "/chat/other")).status == 404


async def test_a_user_message_without_an_id_gets_one(server: Server):
    message = await echoed(server, with_messages({"role": "user", "parts": USER["parts"]}))
    assert message["id"]


async def test_an_id_of_an_assistant_message_is_no_user_message(server: Server):
    page = Page(server)
    await page.play({"text": "hi"})
    page.say(script({"text": "x"}), page.last["id"])
    assert refusal(await page.post()) == INVALID
