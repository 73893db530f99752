"""The parser, and whole requests, against anything that is, or nearly is, JSON."""

import asyncio
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.api.limits import BodyLimits
from app.api.wire import read_answers, read_chat, read_object, read_stop, session_id_in
from app.domain.turn import user_history, valid_id
from app.errors import Code, ServiceError
from tests.inprocess.chat import Page, call, calls, mail
from tests.inprocess.server import Server
from tests.security import examples
from tests.security.careless import Careless, written

EVERYTHING = [HealthCheck.too_slow, HealthCheck.data_too_large]
PARSER = settings(max_examples=examples(3000), deadline=None, database=None, suppress_health_check=EVERYTHING)
REQUESTS = settings(
    max_examples=max(150, examples(0) // 100), deadline=None, database=None, suppress_health_check=EVERYTHING
)
LIMITS = BodyLimits(2**20, 1.0, 50, 50)
SEEDS = st.integers(0, 2**63)
REFUSALS = {Code.VALIDATION_ERROR, Code.VALIDATION_PAYLOAD_TOO_LARGE}


def read_all(body: bytes) -> None:
    """Every reader of a body: each takes it or refuses it with a code, and never quotes it for the log."""
    fields: Any = None
    with suppress(ServiceError):
        fields = read_object(body)
    if fields is None:
        return
    for read in (LIMITS.check, session_id_in, read_answers, read_stop, _read_turn):
        refusal = _refusal(read, fields)
        if refusal is not None:
            assert refusal.code in REFUSALS
            assert all(word not in refusal.detail for word in _long_texts(fields)), (
                "a posted text would be logged"
            )


def _refusal(read: Any, fields: Any) -> ServiceError | None:
    try:
        read(fields)
    except ServiceError as error:
        return error
    return None


def _read_turn(fields: Any) -> None:
    turn = read_chat(fields).turn
    if turn.user is not None:
        assert turn.user.id is None or valid_id(turn.user.id)
        orjson.dumps(user_history(turn.user.parts))  # what the model is sent can be stored
    if turn.continued is not None:
        assert valid_id(turn.continued.id)
    assert all(answer.call_id for answer in (*turn.answers, *turn.closing_answers))


def _long_texts(value: Any) -> list[str]:
    """Short ones may be words of ours."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [text for each in inner for text in _long_texts(each)]
    return [*found, value] if isinstance(value, str) and len(value) > 20 else found


@pytest.mark.timeout(0)
@PARSER
@given(SEEDS)
def test_no_json_breaks_the_parser(seed: int):
    read_all(written(Careless(seed).body()))


@pytest.mark.timeout(0)
@PARSER
@given(SEEDS, st.binary(max_size=3))
def test_no_broken_json_breaks_the_parser(seed: int, splinter: bytes):
    careless = Careless(seed)
    body = written(careless.body())
    at = careless.randrange(len(body))
    read_all(body[:at] + splinter + body[at + careless.randrange(3) :])


@pytest.mark.timeout(0)
@PARSER
@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(body: bytes):
    read_all(body)


@pytest.mark.timeout(0)
async def test_no_request_is_answered_with_our_fault(server: Server):
    """Whole requests against a chat with open calls: refused or answered, never 5xx, and the chat can still be used."""
    page = Page(server)
    await page.play(calls(call("get_location", "loc"), mail("m")), {"text": "done"})
    loop = asyncio.get_running_loop()
    tried: list[int] = []

    async def send(path: str, value: Any) -> None:
        reply = await server.ask("POST", path, raw=written(value))
        assert reply.status < 500, (path, value, await reply.body())
        if reply.is_stream:
            await reply.rest()
            assert reply.done
        else:
            known = {"error", "code", "cause", "toolCallIds", "outcomes", "runId", "status"}
            assert set(await reply.json()) <= known
        tried.append(reply.status)

    @REQUESTS
    @given(SEEDS)
    def attack(seed: int) -> None:
        careless = Careless(seed)
        path = careless.choice(["/chat", "/chat", "/chat/chat/answers", "/chat/chat/stop"])
        value = careless.answers() if path.endswith("answers") else careless.body()
        asyncio.run_coroutine_threadsafe(send(path, value), loop).result(30)

    await asyncio.to_thread(attack)
    assert {200, 400} <= set(tried)
    assert server.logs.of("request.ended", level="error") == []
    assert server.sent_mail() == []
    assert (await Page(server, "after").send("hello")).status == 200
