"""Scripted turns: the step is found from the history alone, and everything a script says happens."""

import json
from typing import Any

import pytest

from app.agent.model import (
    ModelFailure,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolInputDelta,
    Usage,
)
from app.agent.scripted import ScriptedModel
from app.domain.history import Entry, assistant_entry, tool_entry, user_entry
from app.errors import Code

pytestmark = pytest.mark.anyio


class Inner:
    closed = False

    async def step(self, request):
        yield ModelResponse([{"type": "text", "text": "inner"}])

    async def aclose(self):
        self.closed = True


def said(text: str) -> Entry:
    return user_entry([{"type": "text", "text": text}])


def script(*steps: Any) -> Entry:
    return said("script:" + json.dumps(steps))


async def run(*history: Entry) -> list[Any]:
    return [event async for event in ScriptedModel(Inner()).step(ModelRequest("", history))]


async def text_of(*history: Entry) -> str:
    *_, response = await run(*history)
    return "".join(part["text"] for part in response.parts if part["type"] == "text")


def called(*ids: str) -> Entry:
    return assistant_entry([{"type": "call", "id": one, "tool": "t", "input": {}} for one in ids])


def answered(*results: tuple[str, str, Any]) -> Entry:
    return tool_entry([{"id": i, "tool": "t", "outcome": outcome, "value": v} for i, outcome, v in results])


async def test_a_step_says_reasoning_text_in_chunks_and_calls():
    step = {
        "text": "abcdefg",
        "chunks": 3,
        "reasoning": "hm",
        "calls": [{"tool": "t", "input": {"a": 1}}, {"tool": "u", "input": {}, "id": "mine"}],
    }
    *events, response = await run(script(step))
    assert [event for event in events if not isinstance(event, ToolInputDelta)] == [
        ReasoningDelta(0, "hm"),
        TextDelta(1, "ab"),
        TextDelta(1, "cd"),
        TextDelta(1, "efg"),
    ]
    inputs = [event for event in events if isinstance(event, ToolInputDelta)]
    assert "".join(event.text for event in inputs if event.part == 2) == '{"a":1}'
    assert {(event.part, event.call_id, event.tool) for event in inputs} == {
        (2, "call_0_0", "t"),
        (3, "mine", "u"),
    }
    assert response.parts == [
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "abcdefg"},
        {"type": "call", "id": "call_0_0", "tool": "t", "input": {"a": 1}},
        {"type": "call", "id": "mine", "tool": "u", "input": {}},
    ]
    assert response.usage == Usage(1, 3)


async def test_more_chunks_than_characters_are_characters():
    *events, _ = await run(script({"text": "ab", "chunks": 9}))
    assert events == [TextDelta(0, "a"), TextDelta(0, "b")]


async def test_the_step_is_the_number_of_responses_since_the_user_spoke():
    asked = script({"text": "one", "calls": [{"tool": "t", "input": {}}]}, {"text": "two"})
    before = [said("hi"), assistant_entry([{"type": "text", "text": "hello"}])]
    assert await text_of(*before, asked) == "one"
    assert await text_of(*before, asked, called("a"), answered(("a", "ok", 1))) == "two"
    same = (*before, asked, called("a"), answered(("a", "ok", 1)))
    assert await run(*same) == await run(*same)


async def test_past_the_last_step_the_results_of_this_turn_are_told_in_order():
    earlier = [script({"text": "x"}), called("z"), answered(("z", "ok", 0))]
    turn = [
        script({"text": "x"}),
        called("a", "b"),
        answered(("a", "ok", {"k": "ü"}), ("b", "denied", "no")),
        called("c"),
        answered(("c", "error", "The tool failed.")),
    ]
    text = await text_of(*earlier, *turn)
    assert text == (
        'done [{"id":"a","outcome":"ok","value":{"k":"ü"}},{"id":"b","outcome":"denied","value":"no"},'
        '{"id":"c","outcome":"error","value":"The tool failed."}]'
    )
    assert await text_of(script()) == "done []"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("rate_limited", Code.PROVIDER_RATE_LIMITED),
        ("unavailable", Code.PROVIDER_UNAVAILABLE),
        ("drop", Code.PROVIDER_UNAVAILABLE),
        ("no_finish", Code.PROVIDER_BAD_RESPONSE),
        ("context", Code.PROVIDER_CONTEXT_TOO_LONG),
    ],
)
async def test_an_error_comes_after_the_text_or_at_once(error, code):
    model = ScriptedModel(Inner())
    steps = model.step(ModelRequest("", [script({"text": "half", "error": error})]))
    assert await anext(steps) == TextDelta(0, "half")
    with pytest.raises(ModelFailure) as caught:
        await anext(steps)
    assert caught.value.code is code
    with pytest.raises(ModelFailure):
        await anext(model.step(ModelRequest("", [script({"error": error})])))


async def test_a_drop_may_leave_half_a_call():
    call = {"tool": "t", "input": {"key": "value"}}
    steps = ScriptedModel(Inner()).step(ModelRequest("", [script({"calls": [call], "error": "drop"})]))
    first = await anext(steps)
    assert isinstance(first, ToolInputDelta)
    with pytest.raises(ValueError):
        json.loads(first.text)
    with pytest.raises(ModelFailure):
        await anext(steps)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("script:", "not JSON"),
        ("script:{", "not JSON"),
        ("script:" + "[" * 100_000, "not JSON"),
        ("script:{}", "list of steps"),
        ("script:[3]", "step 0 is not an object"),
        ('script:[{"txt":"x"}]', "unknown key 'txt'"),
        ('script:[{"text":3}]', "text is of the wrong type"),
        ('script:[{"chunks":0}]', "at least 1"),
        ('script:[{"chunks":true}]', "wrong type"),
        ('script:[{"error":"boom"}]', "error is one of"),
        ('script:[{"calls":[{"input":{}}]}]', "a call is"),
        ('script:[{"calls":[3]}]', "a call is"),
        ('script:[{"calls":[{"tool":"t","id":""}]}]', "a call is"),
        ('script:[{"calls":[{"tool":"t","args":1}]}]', "unknown key 'args'"),
    ],
)
async def test_a_script_that_cannot_be_played_is_answered_with_the_reason(text, why):
    answer = await text_of(said(text))
    assert answer.startswith("This script cannot be played: ")
    assert why in answer


async def test_any_other_message_goes_to_the_agents_own_model():
    assert await text_of(said("hello script:[]")) == "inner"
    assert await text_of(script({"text": "x"}), called("a"), answered(("a", "ok", 1)), said("hi")) == "inner"
    assert await text_of() == "inner"


async def test_closing_it_closes_the_agents_own_model():
    inner = Inner()
    await ScriptedModel(inner).aclose()
    assert inner.closed
