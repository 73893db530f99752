"""Tools that the provider runs by itself: shown as settled, sent back to it as they were, and to no other model."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.fakes import anthropic_server, responses_server
from tests.fakes.anthropic_server import AnthropicServer
from tests.fakes.responses_server import Pause, ResponsesServer, call, cited, reasoning, searched, text, turn
from tests.inprocess.chat import Page
from tests.inprocess.fixtures import fresh_agents, logs
from tests.inprocess.server import Server, serving

__all__ = ["fresh_agents", "logs"]
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

FOUND = "https://example.com/tea"


@pytest.fixture
async def openai(monkeypatch) -> AsyncIterator[ResponsesServer]:
    async with responses_server.responses_server() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield running
        assert running.faults == []


@pytest.fixture
async def anthropic(monkeypatch) -> AsyncIterator[AnthropicServer]:
    async with anthropic_server.anthropic_server() as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        yield running
        assert running.faults == []


@pytest.fixture
async def serve(database_url, tmp_path, logs, openai, anthropic) -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:

        async def start(model: str) -> Server:
            chosen = {"agents": "tests.agent.provider_agents:agents", "scripted": False, "model": model}
            return await stack.enter_async_context(serving(database_url, tmp_path, logs, **chosen))

        yield start


def shown(page: Page) -> list[str]:
    return [part["type"] for part in page.last["parts"] if part["type"] != "step-start"]


async def as_reloaded(page: Page) -> None:
    """Live equals reload."""
    live = json.loads(json.dumps(page.messages))
    await page.reload()
    assert page.messages == live


async def test_a_search_stays_in_its_place_over_turns(serve, openai):
    page = Page(await serve("openai:gpt-5"))
    openai.replies += [
        turn(
            reasoning("look it up"), searched("tea", FOUND), reasoning("and"), call("call_a", "look", at="x")
        ),
        turn(reasoning("so"), cited(f"Tea is a drink ({FOUND}).", FOUND, "Tea")),
        turn(text("Green.")),
    ]
    await page.send("What is tea?")
    assert shown(page) == ["reasoning", "tool-web_search", "reasoning", "tool-look", "reasoning", "text"]
    part = next(p for p in page.last["parts"] if p["type"] == "tool-web_search")
    assert (part["state"], part["providerExecuted"]) == ("output-available", True)
    assert part["input"]["query"] == "tea"
    assert part["output"]["status"] == "completed"
    await as_reloaded(page)
    await page.send("Which?")
    assert page.text == "Green."
    assert [item.get("type", item.get("role")) for item in openai.sent] == [
        *("user", "reasoning", "web_search_call", "reasoning", "function_call", "function_call_output"),
        *("reasoning", "message", "user"),
    ]
    assert openai.sent[2]["action"]["query"] == "tea"
    assert openai.sent[7]["content"][0]["annotations"][0]["url"] == FOUND


async def test_sealed_results_go_back_and_are_not_shown(serve, anthropic):
    page = Page(await serve("anthropic:some-model"))
    anthropic.replies += [
        [
            anthropic_server.thinking("hm", "SIG"),
            *anthropic_server.searched("srvtoolu_1", "tea"),
            anthropic_server.text("Tea is a drink."),
            anthropic_server.tool_use("toolu_1", "look", at="x"),
        ],
        [anthropic_server.text("Yes.")],
        [anthropic_server.text("Green.")],
    ]
    await page.send("What is tea?")
    assert shown(page) == ["reasoning", "tool-web_search", "text", "tool-look", "text"]
    part = page.part("srvtoolu_1")
    assert part["input"] == {"query": "tea"}
    assert "SEALED" not in json.dumps(page.messages)
    await as_reloaded(page)
    await page.send("Which?")
    assert page.text == "Green."
    blocks = anthropic.requests[-1]["messages"][1]["content"]
    kinds = ["thinking", "server_tool_use", "web_search_tool_result", "text", "tool_use"]
    assert [block["type"] for block in blocks] == kinds
    assert blocks[2]["content"][0]["encrypted_content"] == "SEALED"


async def test_another_model_is_told_of_neither_search_nor_thought(serve, openai, anthropic):
    page = Page(await serve("openai:gpt-5"))
    openai.replies.append(turn(reasoning("look it up"), searched("tea", FOUND), text("Tea.")))
    await page.send("What is tea?")
    other = Page(await serve("anthropic:some-model"), messages=page.messages)
    anthropic.replies.append([anthropic_server.text("Green.")])
    await other.send("Which?")
    said = anthropic.requests[-1]["messages"]
    assert [block["type"] for block in said[1]["content"]] == ["text"]


async def test_a_search_that_a_stop_cuts_is_not_shown_and_one_before_it_is(serve, openai):
    page = Page(server := await serve("openai:gpt-5"))
    pause = Pause()
    openai.replies += [
        turn(reasoning(), searched("tea", FOUND), reasoning(), searched("milk"), pause=pause),
        turn(text("Go on.")),
    ]
    reply = await page.say("What is tea?").open()
    await pause.reached.wait()
    await server.stop("chat")
    pause.over.set()
    await page.take(reply)
    assert shown(page) == ["tool-web_search"]
    await as_reloaded(page)
    await page.send("Which?")
    assert page.text == "Go on."
    assert [item.get("type", item.get("role")) for item in openai.sent] == ["user", "user"]


async def test_a_thought_does_not_outlive_the_output_call_that_followed_it(serve, openai):
    page = Page(await serve("openai:gpt-5"))
    openai.replies += [turn(reasoning("hm"), call("call_a", "final_result", name="Oslo"))]
    await page.send("Which city?", agent="placer")
    assert json.loads(page.text) == {"name": "Oslo"}
    openai.replies.append(turn(reasoning("again"), call("call_b", "final_result", name="Rome")))
    await page.send("And the next?")
    assert json.loads(page.text) == {"name": "Rome"}
