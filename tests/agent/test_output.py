"""The structured output of a declared agent: what is taken, what is asked for again, and what the parent of a child is given."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pydantic import BaseModel, Field

from app.agent.context import RequestContext
from app.agent.declaration import Agent, Limits, RegistryError
from app.agent.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolInputDelta,
)
from app.agent.output import NAME, output_part
from app.agent.scripted import ScriptedModel
from app.agent.tools import InvalidInput, subagent, tool
from app.domain.history import user_entry
from tests.inprocess.chat import Page, call, calls, script
from tests.inprocess.fixtures import logs, serve

__all__ = ["logs", "serve"]  # fixtures

pytestmark = pytest.mark.anyio


class City(BaseModel):
    """A city, as it is known."""

    name: str
    size: int = Field(ge=0)
    country: str = "Norway"


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer", "minimum": 0}},
    "required": ["name", "size"],
}
GOOD, BAD = {"name": "Oslo", "size": 7}, {"name": "Oslo", "size": -1}
HERE = RequestContext("ada", "chat", "run", {})


class Says:
    """A model that says one response, and keeps what it was sent."""

    def __init__(self, *parts: dict[str, Any]) -> None:
        self._parts = parts
        self.asked: list[ModelRequest] = []

    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        self.asked.append(request)
        for number, part in enumerate(self._parts):
            match part["type"]:
                case "text":
                    yield TextDelta(number, part["text"])
                case "reasoning":
                    yield ReasoningDelta(number, part["text"])
                case _:
                    given = json.dumps(part["input"])
                    yield ToolInputDelta(number, given, part["id"], part["tool"])
        yield ModelResponse(
            self._parts, provider={"name": "p", "version": 1, "body": [{}] * len(self._parts)}
        )


@tool
def look() -> int:
    """Looks."""
    return 1


def made(call_id: str, name: str = NAME, /, **given: Any) -> dict[str, Any]:
    return {"type": "call", "id": call_id, "tool": name, "input": given}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


async def ask(*parts: dict[str, Any], output: Any = SCHEMA) -> tuple[list[ModelEvent], ModelResponse, Any]:
    step = await Agent("a", "", Says(*parts), [look], output=output).for_step(HERE)
    history = [user_entry([said("hi")])]
    *events, response = [event async for event in step.model.step(ModelRequest("", history))]
    assert isinstance(response, ModelResponse)
    return [event for event in events if not isinstance(event, ModelResponse)], response, step


@pytest.mark.parametrize("output", [SCHEMA, City])
async def test_the_model_is_offered_the_output_as_a_tool_of_its_own(output):
    says = Says(made("c1", **GOOD))
    step = await Agent("a", "", says, [look], output=output).for_step(HERE)
    assert [event async for event in step.model.step(ModelRequest("", [], [look.spec]))]
    offered = {spec.name: spec for spec in says.asked[0].tools}
    assert [(name, spec.output) for name, spec in offered.items()] == [("look", False), (NAME, True)]
    assert offered[NAME].input_schema["required"] == ["name", "size"]
    assert offered[NAME].description


async def test_an_output_that_fits_is_the_responses_last_text():
    events, response, _ = await ask(
        {"type": "reasoning", "text": "hm"}, said("Here."), made("c1", **GOOD), output=City
    )
    whole = {**GOOD, "country": "Norway"}
    assert response.parts == [
        {"type": "reasoning", "text": "hm"},
        said("Here."),
        output_part(json.dumps(whole)),
    ]
    assert response.provider is None, "a part of the response is no whole one"
    assert events == [ReasoningDelta(0, "hm"), TextDelta(1, "Here."), TextDelta(3, json.dumps(whole))]


@pytest.mark.parametrize(
    "text", [json.dumps(GOOD), f"```json\n{json.dumps(GOOD)}\n```", f" {json.dumps(GOOD)}\n"]
)
async def test_a_text_that_is_the_output_is_taken_in_its_place(text):
    events, response, _ = await ask(said(text))
    assert response.parts == [output_part(json.dumps(GOOD))]
    assert events == [TextDelta(1, json.dumps(GOOD))]


async def test_of_several_the_first_that_fits_is_taken():
    _, response, _ = await ask(made("c1", **BAD), made("c2", **GOOD), made("c3", name="Bergen", size=3))
    assert response.parts == [output_part(json.dumps(GOOD))]


REFUSED = [
    ([made("c1", **BAD)], ["c1"], "minimum", []),
    ([said("Here."), made("c1", **BAD)], ["c1"], "minimum", ["Here."]),
    ([made("c1", "look"), made("c2", **GOOD)], ["c1", "c2"], "other tools were called", ["c1"]),
    ([said("It is Oslo.")], [NAME], "A text is not the output", ["It is Oslo."]),
    ([said(json.dumps(BAD))], [NAME], "A text is not the output", [json.dumps(BAD)]),
    ([], [NAME], "A text is not the output", []),
]


@pytest.mark.parametrize(("parts", "left", "why", "shown"), REFUSED)
async def test_what_is_not_the_output_is_a_failed_call_that_says_why(parts, left, why, shown):
    events, response, step = await ask(*parts)
    found = [part for part in response.parts if part["type"] == "call"]
    assert [part["id"] for part in found] == left
    given = next(part["input"] for part in found if part["tool"] == NAME)
    with pytest.raises(InvalidInput, match=why):
        step.tool(NAME).check(given)
    assert [e.text if isinstance(e, TextDelta) else getattr(e, "call_id", None) for e in events] == shown
    assert step.tool("look") is look


def test_what_cannot_be_an_output_is_refused_at_the_start():
    @tool(name=NAME)
    def named_as_it() -> None: ...

    for output, tools, why in (
        ({"type": "array"}, [], '"type": "object"'),
        ({"type": "object", "properties": {"a": {"type": "nonsense"}}}, [], "not a JSON schema"),
        (int, [], "a pydantic model or a JSON schema"),
        (SCHEMA, [named_as_it], "two tools are called final_result"),
    ):
        with pytest.raises(RegistryError, match=why):
            Agent("a", "", Says(), tools, output=output)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("limit", ["max_steps", "max_tool_calls", "max_tokens", "max_seconds"])
@pytest.mark.parametrize("most", [0, -1])
def test_a_limit_is_positive(limit, most):
    with pytest.raises(RegistryError, match=limit):
        Limits(**{limit: most})


# --- in a run

geographer = Agent("geographer", "", ScriptedModel(Says()), [look], Limits(max_steps=4), output=City)
AGENTS = [
    Agent("boss", "", ScriptedModel(Says()), [subagent("find", "Finds a city.", "geographer")]),
    geographer,
]


@pytest.fixture
async def server(serve):
    async with serve(agents="tests.agent.test_output:AGENTS") as server:
        yield server


async def test_a_run_goes_on_until_its_output_fits_and_shows_it_as_text(server):
    page = Page(server)
    reply = await page.send(
        script(
            calls(call("look", "l"), call(NAME, "early", **GOOD)),
            calls(call(NAME, "bad", **BAD)),
            {"text": "It is Oslo."},
            calls(call(NAME, "good", **GOOD), text="Here."),
        ),
        agent="geographer",
    )
    assert reply.types[-1] == "finish"
    texts = [part["text"] for part in page.last["parts"] if part["type"] == "text"]
    assert texts[:-1] == ["It is Oslo.", "Here."]
    assert json.loads(texts[-1]) == {**GOOD, "country": "Norway"}
    failed = [p["toolCallId"] for p in page.last["parts"] if p.get("state") == "output-error"]
    assert failed == ["early", "bad", NAME]
    assert page.part("l")["output"] == 1
    live = page.messages
    await page.reload()
    assert page.messages == live
    rows = await server.sql("select call_id, error_code, value from call order by created_at")
    assert {row["call_id"]: row["error_code"] for row in rows} == {
        "l": None,
        "early": "tool_invalid_input",
        "bad": "tool_invalid_input",
        NAME: "tool_invalid_input",
    }


async def test_an_output_that_never_fits_ends_at_the_limit(server):
    page = Page(server)
    reply = await page.send(script(*[calls(call(NAME, **BAD))] * 5), agent="geographer")
    assert json.loads(reply.frames[-1]["errorText"])["code"] == "run_limit_exceeded"


async def test_the_next_turn_goes_on_from_the_output(server):
    page = Page(server)
    await page.send(script(calls(call(NAME, "one", **GOOD))), agent="geographer")
    await page.send(script(calls(call(NAME, "two", name="Bergen", size=3))))
    assert json.loads(page.text)["name"] == "Bergen"


async def test_of_a_sub_agent_the_value_is_the_result_of_the_parents_call(server):
    page = Page(server)
    topic = script(calls(call(NAME, "bad", **BAD)), calls(call(NAME, "good", **GOOD), text="Here."))
    await page.send(script(calls(call("find", "f", topic=topic))))
    assert page.part("f")["output"] == {**GOOD, "country": "Norway"}
    told = json.loads(page.text.removeprefix("done "))
    assert told == [{"id": "f", "outcome": "ok", "value": {**GOOD, "country": "Norway"}}]
