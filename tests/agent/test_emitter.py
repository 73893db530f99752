"""What a tool shows on the page: what may be sent, how much of it, and how an agent of the library does it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext, ToolReturn
from pydantic_ai.models.test import TestModel
from pydantic_ai.ui.vercel_ai.response_types import DataChunk, FileChunk, SourceDocumentChunk, SourceUrlChunk

from app.agent.context import RequestContext, ToolContext
from app.agent.emitter import Emitter
from app.agent.own import own
from app.agent.pydantic_ai_agent import served
from app.agent.tools import ToolError, run_tool
from app.domain.call_state import Outcome
from tests.inprocess.fixtures import logs

__all__ = ["logs"]  # a fixture

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("logs")]

Chunks = list[dict[str, Any]]


def context(said: Chunks, **more: Any) -> ToolContext:
    emitter = Emitter("c1", said.append, under=("root", "research"), **more)
    return ToolContext("ada", "chat", "run", {}, "c1", Path("unused"), emitter)


def test_the_chunks_of_everything_that_can_be_shown():
    said: Chunks = []
    page = context(said)
    page.data("chart", {"n": {1}}, id="mine")
    page.data("chart", float("nan"))
    page.data("note", "seen", transient=True)
    page.data("note", "seen", id="n", transient=True)
    page.source_url("https://a.example")
    page.source_url("https://a.example", "A", id="a")
    page.source_document("application/pdf", "Paper")
    page.source_document("application/pdf", "Paper", "p.pdf", id="p")
    page.emit({"done": 1})
    page.emit("x" * 2000)
    progress = {"toolCallId": "root", "tool": "research", "status": "progress"}
    assert said == [
        {"type": "data-chart", "data": {"n": [1]}, "id": "mine"},
        {"type": "data-chart", "data": None, "id": "c1-1"},
        {"type": "data-note", "data": "seen", "transient": True},
        {"type": "data-note", "data": "seen", "id": "n", "transient": True},
        {"type": "source-url", "sourceId": "c1-2", "url": "https://a.example"},
        {"type": "source-url", "sourceId": "a", "url": "https://a.example", "title": "A"},
        {"type": "source-document", "sourceId": "c1-3", "mediaType": "application/pdf", "title": "Paper"},
        {
            "type": "source-document",
            "sourceId": "p",
            "mediaType": "application/pdf",
            "title": "Paper",
            "filename": "p.pdf",
        },
        {"type": "data-subagent", "data": {**progress, "text": '{"done":1}'}, "transient": True},
        {"type": "data-subagent", "data": {**progress, "text": "x" * 1000}, "transient": True},
    ]


def test_what_has_no_json_form_is_refused_where_it_is_shown():
    said: Chunks = []
    with pytest.raises(ValueError, match=r"no JSON form|serialize"):
        context(said).data("chart", object())
    with pytest.raises(ValueError, match=r"no JSON form|serialize"):
        context(said).emit(object())
    assert said == []


def test_a_context_made_by_hand_shows_nothing_and_fails_nothing():
    ToolContext("ada", "chat", "run", {}, "c1", Path("unused")).data("chart", 1)


def test_one_call_has_a_limit_beyond_which_progress_is_left_out_and_parts_are_refused():
    said: Chunks = []
    page = context(said, max_bytes=1000)
    for number in range(100):
        page.data("note", number, transient=True)
    assert 0 < len(said) < 10
    with pytest.raises(ToolError):
        page.data("note", 1)


def test_a_message_without_room_refuses_and_goes_on_refusing():
    def full(_: Any) -> None:
        raise ToolError("full")

    page = ToolContext("ada", "chat", "run", {}, "c1", Path("unused"), Emitter("c1", full))
    for _ in range(2):
        with pytest.raises(ToolError, match="full"):
            page.data("chart", 1)


def test_a_call_that_is_over_shows_nothing():
    said: Chunks = []
    page = context(said)
    page.emitter.close()
    page.data("chart", 1)
    page.emit("late")
    assert said == []


# --- agents of the library ------------------------------------------------------------------------------------------------


async def shown_by(agent: Agent[Any, Any], **more: Any) -> Chunks:
    said: Chunks = []
    ours = served(own(agent, **more), "a", None)
    tool = ours.tool("look")
    assert tool is not None
    result = await run_tool(tool, replace(context(said)), {})
    assert (result.outcome, result.value) == (Outcome.OK, "looked")
    return said


async def test_chunks_in_the_metadata_of_a_tool_return_are_shown():
    agent = Agent(TestModel())

    @agent.tool_plain
    def look() -> ToolReturn[str]:
        chunks = [
            DataChunk(type="data-chart", data=1),
            DataChunk(type="data-chart", id="mine", data=2),
            DataChunk(type="data-note", data=3, transient=True),
            SourceUrlChunk(source_id="a", url="https://a.example", title="A"),
            SourceDocumentChunk(source_id="p", media_type="application/pdf", title="Paper"),
            FileChunk(url="https://a.example/f.png", media_type="image/png"),
            {"type": "data-chart", "data": "no chunk of the library"},
        ]
        return ToolReturn("looked", metadata=chunks)

    assert await shown_by(agent) == [
        {"type": "data-chart", "data": 1, "id": "c1-1"},
        {"type": "data-chart", "data": 2, "id": "mine"},
        {"type": "data-note", "data": 3, "transient": True},
        {"type": "source-url", "sourceId": "a", "url": "https://a.example", "title": "A"},
        {"type": "source-document", "sourceId": "p", "mediaType": "application/pdf", "title": "Paper"},
    ]


@pytest.mark.parametrize("name", ["data-subagent", "data-a b"])
async def test_a_tool_return_that_cannot_be_shown_is_still_what_the_tool_has_done(name: str):
    agent = Agent(TestModel())
    chunks = [DataChunk(type="data-chart", data=1), DataChunk(type=name, data=2)]
    agent.tool_plain(name="look")(lambda: ToolReturn("looked", metadata=chunks))
    assert await shown_by(agent) == [{"type": "data-chart", "data": 1, "id": "c1-1"}]


@pytest.mark.parametrize("metadata", [None, {"a": 1}, "text", 7])
async def test_other_metadata_of_a_tool_return_stays_the_apps(metadata: Any):
    agent = Agent(TestModel())
    agent.tool_plain(name="look")(lambda: ToolReturn("looked", metadata=metadata))
    assert await shown_by(agent) == []


async def test_a_dependency_may_keep_what_a_tool_shows_things_with():
    @dataclass
    class Deps:
        context: RequestContext

    agent = Agent(TestModel(), deps_type=Deps)

    @agent.tool
    def look(ctx: RunContext[Deps]) -> str:  # in a thread of the library's
        assert isinstance(ctx.deps.context, ToolContext)
        ctx.deps.context.data("chart", 1)
        return "looked"

    assert await shown_by(agent, deps=Deps) == [{"type": "data-chart", "data": 1, "id": "c1-1"}]
