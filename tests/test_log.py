"""A line of the log is one fact, never lost, and holds no secret and no content."""

import io
import json
import logging
import time
from collections.abc import Iterator

import pytest
import structlog
from pydantic import BaseModel

from app.log import Outage, bound, cause_chain, configure, get_logger, mask


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    out = io.StringIO()
    configure("json", out)
    yield out
    structlog.reset_defaults()
    root.handlers[:], root.level = before[0], before[1]


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def raised(make: "type[Exception] | Exception", cause: BaseException | None = None) -> Exception:
    try:
        raise make from cause
    except Exception as error:
        return error


class Form(BaseModel):
    age: int


def validation_error(value: str) -> Exception:
    try:
        Form(age=value)  # type: ignore[arg-type]
    except ValueError as error:
        return error
    raise AssertionError


def test_a_line_holds_the_event_its_data_and_what_is_bound(stream: io.StringIO) -> None:
    with bound(run_id="r1"):
        get_logger("app.x").info("run.settled", steps=3)
    (line,) = lines(stream)
    assert line["event"] == "run.settled"
    assert line["steps"] == 3
    assert line["run_id"] == "r1"
    assert line["logger"] == "app.x"
    assert line["level"] == "info"


def test_an_outage_is_told_when_it_begins_and_when_it_is_over(stream: io.StringIO) -> None:
    outage = Outage(get_logger("app.x"), "bell.lost", "bell.restored")
    outage.over()
    for _ in range(2):
        for _ in range(3):
            outage.failed(ConnectionError("away"))
        outage.over()
        outage.over()
    told = [(line["event"], line["level"], line.get("tries"), line.get("causes")) for line in lines(stream)]
    assert (
        told
        == [
            ("bell.lost", "warning", None, ["ConnectionError: away"]),
            ("bell.restored", "info", 3, None),
        ]
        * 2
    )


def test_other_libraries_speak_through_the_same_renderer(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").info("Started %d", 3)
    (line,) = lines(stream)
    assert line["event"] == "Started 3"


@pytest.mark.parametrize("name", ["uvicorn.access", "sqlalchemy.engine", "httpx2", "openai._base_client"])
def test_libraries_that_tell_contents_are_silent(stream: io.StringIO, name: str) -> None:
    logging.getLogger(name).info("the user's secret wish")
    assert stream.getvalue() == ""


def test_an_exception_is_one_line_with_its_causes_and_its_place(stream: io.StringIO) -> None:
    get_logger("app.x").error("request.failed", exc_info=raised(RuntimeError("b"), cause=ValueError("a\nb")))
    (line,) = lines(stream)
    assert line["causes"] == ["RuntimeError: b", "ValueError: a b"]
    assert "raised" in str(line["trace"])
    assert "Traceback" not in stream.getvalue()


def test_a_value_that_json_cannot_hold_never_loses_the_line(stream: io.StringIO) -> None:
    get_logger("app.x").info("odd", number=2**80, text="\ud800", thing=object(), kinds={1: {2}})
    (line,) = lines(stream)
    assert line["number"] == 2**80
    assert line["thing"] == "<object>"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:s3cr@t@db/x", "postgresql://me:***@db/x"),
        ("redis://:pw@cache", "redis://:***@cache"),
        ("connect to a://u:p@h and b://v:q@i", "connect to a://u:***@h and b://v:***@i"),
        ("http://localhost:8000/a@b", "http://localhost:8000/a@b"),
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer ***"),
        ("Incorrect API key provided: sk-proj-abc_123456", "Incorrect API key provided: sk-***"),
        ("postgresql:///d?host=/run&password=abc&x=1", "postgresql:///d?host=/run&password=***&x=1"),
        (
            "grant_type=x&client_secret=abc&access_token=d.e",
            "grant_type=x&client_secret=***&access_token=***",
        ),
        ("AWS_SECRET_ACCESS_KEY=abc max_tokens=5", "AWS_SECRET_ACCESS_KEY=*** max_tokens=5"),
        ("{'x-api-key': 'a b', 'cookie': \"sid='c'\"}", "{'x-api-key': ***, 'cookie': ***}"),
        ('{"password": "a b", "max_tokens": "5"}', '{"password": ***, "max_tokens": "5"}'),
        ("Authorization='Bearer abcdefgh'", "Authorization='Bearer ***'"),
    ],
)
def test_secrets_are_masked(text: str, shown: str) -> None:
    assert mask(text) == shown


def test_a_key_of_the_environment_is_masked_whatever_it_looks_like(stream: io.StringIO) -> None:
    environment = {
        "GROQ_API_KEY": "gsk.0123+456",
        "HF_TOKEN": "0123+456",
        "PGPASSWORD": "agent",
        "LANG": "de_DE.UTF-8",
    }
    configure("json", stream, environment)
    error = RuntimeError("no such key: gsk.0123+456, agent, de_DE.UTF-8")
    get_logger("app.x").error("run.failed", exc_info=error)
    get_logger("app.x").warning("odd", said="0123+456 gskx0123+456")
    failed, odd = lines(stream)
    assert failed["causes"] == ["RuntimeError: no such key: ***, agent, de_DE.UTF-8"]
    assert odd["said"] == "*** gskx***"
    configure("json", stream)
    assert mask("gsk.0123+456") == "gsk.0123+456"


@pytest.mark.parametrize(
    "unit",
    ["a", "a-", "a:", "a://", "://", "://a:", "bearer ", "sk-", "token=", "token': \"", "token'", "'", " "],
)
def test_a_message_that_quotes_a_megabyte_is_masked_in_one_go(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    began = time.process_time()
    mask(text)
    mask("://" + text)
    assert time.process_time() - began < 5, "in proportion to its length; a square of it is hours"


def test_an_error_that_quotes_its_input_tells_only_its_kind() -> None:
    (line,) = cause_chain(validation_error("the user's secret wish"))
    assert line.endswith("ValidationError: age: int_parsing")


def test_a_file_error_does_not_tell_the_path() -> None:
    assert cause_chain(FileNotFoundError(2, "No such file", "/home/me/x")) == [
        "FileNotFoundError: [Errno 2] No such file"
    ]


def test_a_group_tells_its_members() -> None:
    assert cause_chain(ExceptionGroup("two", [ValueError("a"), KeyError("b")])) == [
        "ExceptionGroup: two (2 sub-exceptions)",
        "ValueError: a",
        "KeyError: 'b'",
    ]


def test_a_suppressed_context_is_not_told() -> None:
    error = RuntimeError("b")
    error.__context__, error.__suppress_context__ = ValueError("a"), True
    assert cause_chain(error) == ["RuntimeError: b"]


def test_a_circle_and_a_long_chain_end() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert cause_chain(first) == ["ValueError: a", "ValueError: b"]

    error: Exception | None = None
    for number in range(30):
        error = raised(ValueError(str(number)), cause=error)
    assert error is not None
    assert len(cause_chain(error)) == 11


def test_a_long_message_is_cut_and_an_unprintable_one_does_not_matter() -> None:
    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise ValueError("no")

    assert len(cause_chain(ValueError("x" * 5000))[0]) < 600
    assert "<message lost: ValueError>" in cause_chain(UnprintableError())[0]


def test_a_chain_leaves_out_what_its_line_says_already() -> None:
    error = raised(ValueError("no parts"), raised(KeyError("a")))
    assert cause_chain(error, said="no parts") == ["KeyError: 'a'"]
    assert cause_chain(error, said="") == ["ValueError: no parts", "KeyError: 'a'"]
