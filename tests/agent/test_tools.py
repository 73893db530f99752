"""Tools: what their declaration becomes, and which inputs they take."""

import datetime as dt
import enum
import functools
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from app.agent.plain import MAX_DEPTH
from app.agent.tools import InvalidInput, Kind, Tool, ToolContext, client_tool, run_tool, subagent, tool

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext("ada", "chat", "run", {"tone": "dry"}, "call", Path("unused"))


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


async def test_a_stored_input_that_no_longer_fits_is_refused():
    result = await run_tool(everything, CONTEXT, {"when": "never"})
    assert result.error_code == "tool_invalid_input"
    assert result.error_text == "The tool was given arguments that it does not accept."
