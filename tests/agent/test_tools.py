"""Tools: what their declaration becomes, which inputs they take, and how every way of failing ends."""

import asyncio
import dataclasses
import datetime as dt
import enum
import functools
import math
import threading
import uuid
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import structlog
from pydantic import BaseModel, Field

from app.agent import tool_run
from app.agent.plain import MAX_DEPTH, plain
from app.agent.tools import (
    InvalidInput,
    Kind,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    client_tool,
    invalid_input,
    run_tool,
    subagent,
    tool,
    unknown_tool,
)
from app.domain.call_state import Outcome

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext("ada", "chat", "run", "call", {"tone": "dry"}, Path("unused"))


@pytest.fixture(autouse=True)
def logged():
    with structlog.testing.capture_logs() as entries:
        yield entries


# --- declarations


def test_a_typed_function_becomes_a_schema_without_its_context():
    @tool
    def find(query: str, context: ToolContext, limit: Annotated[int, Field(ge=1)] = 3) -> list[str]:
        """Find things.

        Args:
            query: What to look for.
            limit: How many (at most): a number.

        Returns:
            Names.
        """
        return [query] * limit

    assert find.name == "find"
    assert find.description == "Find things."
    assert find.input_schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["query"],
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "default": 3,
                "description": "How many (at most): a number.",
            },
        },
    }
    assert find.spec.input_schema is find.input_schema


def test_parameters_may_be_called_like_methods_of_a_model():
    @tool
    def odd(json: str, copy: int = 1, model_dump: bool = False, schema: str = "s") -> None: ...

    assert odd.check({"json": "x"}) == {"json": "x", "copy": 1, "model_dump": False, "schema": "s"}


def test_parameters_that_json_cannot_fill_are_refused():
    def untyped(a): ...
    def many(*a: int): ...
    def keywords(**a: int): ...
    def positional(a: int, /): ...
    def unresolved(a: "Nowhere"): ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable]

    for function in (untyped, many, keywords, positional, unresolved):
        with pytest.raises(TypeError, match=function.__name__):
            tool(function)


async def _nothing(_: ToolContext, __: dict[str, Any]) -> None: ...


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "has space", "run": _nothing},
        {"name": "", "run": _nothing},
        {"name": "x" * 65, "run": _nothing},
        {"name": "new\n", "run": _nothing},
        {"client": True, "run": _nothing},
        {"client": True, "needs_approval": True},
        {"client": True, "agent": "a"},
        {"agent": "a", "needs_approval": True},
        {},
        {"run": _nothing, "timeout_s": 0},
        {"client": True, "deadline_s": -1.0},
        {"run": _nothing, "input_schema": {"type": "string"}},
        {"run": _nothing, "input_schema": {"type": "object", "properties": 3}},
        {"run": _nothing, "needs_approval": _nothing},
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(fields):
    with pytest.raises(ValueError):
        Tool(**{"name": "t", "description": "", "input_schema": {"type": "object"}, **fields})


class Place(BaseModel):
    city: str
    zoom: int = 3


def test_client_tools_are_declared_by_model_schema_signature_or_nothing():
    def signature(city: str, zoom: int = 3) -> None: ...

    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "zoom": {"type": "integer", "default": 3}},
        "required": ["city"],
    }
    for declared in (Place, schema, signature):
        made = client_tool("t", "d", declared)
        assert made.check({"city": "Oslo"}) == {"city": "Oslo", "zoom": 3}
        assert made.kind_for({}) is Kind.CLIENT
        with pytest.raises(InvalidInput):
            made.check({"city": 1})
    assert client_tool("t", "d").check(None) == {}


def test_a_subagent_takes_a_topic_unless_it_declares_more():
    made = subagent("research", "d", "researcher")
    assert made.kind_for({}) is Kind.SUBAGENT
    assert made.check({"topic": "tea"}) == {"topic": "tea"}
    with pytest.raises(InvalidInput):
        made.check({})
    assert subagent("r", "d", "a", Place).check({"city": "x"}) == {"city": "x", "zoom": 3}


def test_an_output_is_judged_only_where_a_schema_is_declared():
    made = client_tool("t", "d", output_schema={"type": "object", "required": ["lat"]})
    made.check_output({"lat": 1})
    with pytest.raises(InvalidInput, match="Missing: lat"):
        made.check_output({})
    client_tool("t", "d").check_output(object())


def test_an_approval_is_asked_always_or_by_a_predicate():
    def pay(amount: int) -> None: ...

    assert tool(needs_approval=True)(pay).kind_for({}) is Kind.APPROVAL
    careful = tool(needs_approval=lambda given: given["amount"] > 100)(pay)
    assert careful.kind_for({"amount": 5}) is Kind.SERVER
    assert careful.kind_for({"amount": 500}) is Kind.APPROVAL
    assert careful.kind_for({}) is Kind.APPROVAL, "a predicate that fails asks"


# --- inputs


class Colour(enum.Enum):
    RED = "red"


@tool
def everything(
    when: dt.date,
    colour: Colour,
    who: Place,
    tags: set[str] | None = None,
    mode: Literal["a", "b"] = "a",
) -> dict[str, Any]:
    return {"year": when.year, "colour": colour, "city": who.city, "tags": tags, "mode": mode}


GOOD = {"when": "2026-01-31", "colour": "red", "who": {"city": "Oslo"}}


async def test_a_checked_input_is_json_and_the_function_gets_its_types():
    checked = everything.check(GOOD)
    assert checked == {**GOOD, "who": {"city": "Oslo", "zoom": 3}, "tags": None, "mode": "a"}
    assert everything.check(checked) == checked
    result = await everything.call(CONTEXT, checked)
    assert result == {"year": 2026, "colour": "red", "city": "Oslo", "tags": None, "mode": "a"}


def test_an_unparsed_input_is_parsed():
    assert client_tool("t", "d").check("") == {}
    assert client_tool("t", "d").check("{}") == {}
    assert client_tool("t", "d", Place).check('{"city": "\\ud83d\\ude00"}')["city"] == "😀"


DEEP: Any = functools.reduce(lambda inner, _: [inner], range(MAX_DEPTH + 1), 1)


@pytest.mark.parametrize(
    "raw",
    [
        "{",
        "[" * 100_000,
        '{"city": NaN}',
        [],
        "[]",
        3,
        True,
        {"city": math.inf},
        {"city": 2**70},
        {"city": DEEP},
        {"city": "x", "more": 1},
    ],
)
def test_what_is_no_input_is_refused(raw):
    @tool
    def locate(city: Any) -> None: ...

    with pytest.raises(InvalidInput):
        locate.check(raw)


def test_a_refusal_names_paths_and_expectations_and_no_values():
    secret = "hunter2"
    bad = {"when": secret, "colour": secret, "who": {"zoom": secret}, "mode": secret, "tags": 5}
    with pytest.raises(InvalidInput) as caught:
        everything.check(bad)
    text = str(caught.value)
    assert secret not in text
    assert "who.city: Field required" in text
    assert "colour: Input should be 'red'" in text
    assert "and 1 more" in text
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "integer"}}}
    with pytest.raises(InvalidInput) as caught:
        client_tool("t", "d", schema).check({"a": secret, "b": secret})
    assert secret not in str(caught.value)
    assert 'a: Expected enum: ["x", "y"]' in str(caught.value)


def test_a_schema_never_fetches_its_references():
    made = client_tool("t", "d", {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/s"}}})
    with pytest.raises(ValueError):
        made.check({"a": 1})


# --- values


@dataclasses.dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ({"a": (1, 2.5, True)}, {"a": [1, 2.5, True]}),
        (Place(city="x"), {"city": "x", "zoom": 3}),
        ([Point(1)], [{"x": 1}]),
        (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "2026-01-01T00:00:00Z"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.50"), "1.50"),
        (Colour.RED, "red"),
        (b"\xff", "_w=="),
        (Path("a/b"), "a/b"),
        ({1: "a", None: "b", (1, 2): "c"}, {"1": "a", "None": "b", "1,2": "c"}),
        ([math.nan, {"x": -math.inf}], [None, {"x": None}]),
        (2**70, float(2**70)),
        (10**400, None),
        ("a\ud800b", "a\ufffdb"),
        ("\ud83d\ude00", "😀"),
        ({"\udfff": 1}, {"\ufffd": 1}),
        ("nul \x00", "nul \x00"),
    ],
)
def test_any_value_becomes_plain_json(value, expected):
    assert plain(value) == expected


def test_what_was_replaced_is_logged(logged):
    plain([math.nan, "\ud800", 2**70])
    assert [(entry["event"], entry["kinds"]) for entry in logged] == [
        ("tool_value.replaced", ["big_integer", "not_finite", "surrogate"])
    ]
    logged.clear()
    plain({"fine": "ünïcode 😀"})
    assert not logged


def test_what_json_cannot_say_is_an_error():
    circle: list[Any] = []
    circle.append(circle)
    for value in (object(), circle, DEEP, open, {"x": object()}):
        with pytest.raises((ValueError, TypeError)):
            plain(value)


# --- runs


def running(function: Any, **options: Any) -> Tool:
    return tool(name="t", **options)(function)


async def test_a_run_gives_the_output_of_sync_and_async_functions():
    async def async_(context: ToolContext) -> str:
        return context.owner

    def sync(context: ToolContext) -> str:
        return f"{context.request['tone']} {threading.current_thread() is threading.main_thread()}"

    assert await run_tool(running(async_), CONTEXT, {}) == ToolResult(Outcome.OK, "ada")
    assert await run_tool(running(sync), CONTEXT, {}) == ToolResult(Outcome.OK, "dry False")


async def test_a_tool_sees_the_context_variables_of_its_run():
    structlog.contextvars.bind_contextvars(run="r1")

    def sync() -> Any:
        return structlog.contextvars.get_contextvars()["run"]

    try:
        assert (await run_tool(running(sync), CONTEXT, {})).value == "r1"
    finally:
        structlog.contextvars.clear_contextvars()


SECRET = "postgres://user:hunter2@db"


def raising(error: BaseException) -> list[Tool]:
    async def async_() -> None:
        raise error

    def sync() -> None:
        raise error

    return [running(async_), running(sync)]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(SECRET),
        SystemExit(SECRET),
        KeyboardInterrupt(SECRET),
        BaseExceptionGroup("g", [KeyboardInterrupt(SECRET)]),
        ExceptionGroup("g", [ValueError(SECRET)]),
        asyncio.CancelledError(SECRET),
        RecursionError(SECRET),
        MemoryError(SECRET),
    ],
)
async def test_whatever_a_tool_raises_is_a_failed_result_with_one_fixed_sentence(error, logged):
    for raiser in raising(error):
        result = await run_tool(raiser, CONTEXT, {})
        assert result == ToolResult(Outcome.ERROR, "The tool failed.", "tool_failed", "The tool failed.")
    entry = logged[0]
    assert (entry["event"], entry["log_level"], entry["tool"]) == ("tool.failed", "warning", "t")
    assert entry["error"] == type(error).__name__
    assert entry["exc_info"] is error


async def test_a_tool_error_is_told_as_it_is_but_not_without_end():
    for raiser in raising(ToolError("No such city.")):
        assert await run_tool(raiser, CONTEXT, {}) == ToolResult(
            Outcome.ERROR, "No such city.", "tool_error", "No such city."
        )
    long = await run_tool(raising(ToolError("é" * 10_000))[0], CONTEXT, {})
    assert long.error_text == "é" * tool_run.MAX_PUBLIC_TEXT
    assert (await run_tool(raising(ToolError("\ud800"))[0], CONTEXT, {})).error_text == "\ufffd"
    assert (await run_tool(raising(ToolError())[0], CONTEXT, {})).error_text == "The tool failed."


async def test_a_tool_that_hangs_times_out():
    release = threading.Event()

    async def async_() -> None:
        await asyncio.Event().wait()

    def sync() -> None:
        release.wait()

    for hanging in (running(async_, timeout_s=0.01), running(sync, timeout_s=0.01)):
        result = await run_tool(hanging, CONTEXT, {})
        assert (result.outcome, result.error_code) == (Outcome.ERROR, "tool_timeout")
        assert result.error_text == "The tool did not answer in time."
    release.set()


async def test_a_timeout_of_the_tools_own_making_is_one_too():
    for raiser in raising(TimeoutError(SECRET)):
        assert (await run_tool(raiser, CONTEXT, {})).error_code == "tool_timeout"


async def test_a_tool_that_ignores_its_cancellation_is_left_behind(monkeypatch, logged):
    monkeypatch.setattr(tool_run, "GRACE_S", 0.01)
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    result = await run_tool(running(stubborn, timeout_s=0.01), CONTEXT, {})
    assert result.error_code == "tool_timeout"
    assert "tool.left_behind" in [entry["event"] for entry in logged]
    release.set()


async def test_cancelling_the_run_cancels_the_tool_and_passes_through(logged):
    began, cleaned = asyncio.Event(), asyncio.Event()

    async def careful() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    task = asyncio.create_task(run_tool(running(careful), CONTEXT, {}))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned.is_set()
    assert not logged, "a stop is no failure"


async def test_an_output_that_json_cannot_say_is_a_failure():
    async def odd() -> object:
        return object()

    result = await run_tool(running(odd), CONTEXT, {})
    assert (result.outcome, result.error_code) == (Outcome.ERROR, "tool_failed")


async def test_a_stored_input_that_no_longer_fits_is_refused():
    result = await run_tool(everything, CONTEXT, {"when": "never"})
    assert result.error_code == "tool_invalid_input"
    assert result.error_text == "The tool was given arguments that it does not accept."


def test_the_model_reads_more_of_a_refusal_than_the_user():
    result = invalid_input(InvalidInput("city: Field required"))
    assert result.outcome is Outcome.ERROR
    assert "city: Field required" in result.value
    assert result.error_text is not None
    assert "city" not in result.error_text
    assert unknown_tool().error_code == "tool_unknown"
