"""What models get wrong in a call, and what tools give: the call fails, or its value is plain JSON; the turn goes on and so does
the next. End to end, on a provider that refuses whatever it could not have made or been given.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.agent.provider_agents import VALUES
from tests.fakes import responses_server
from tests.fakes.responses_server import ResponsesServer, call, reasoning, text, turn
from tests.inprocess.chat import Page
from tests.inprocess.fixtures import fresh_agents, logs
from tests.inprocess.server import Server, serving

__all__ = ["fresh_agents", "logs"]
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture
async def provider(monkeypatch) -> AsyncIterator[ResponsesServer]:
    async with responses_server.responses_server() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield running
        assert running.faults == []


@pytest.fixture
async def server(database_url, tmp_path, logs, provider) -> AsyncIterator[Server]:
    chosen = {"agents": "tests.agent.provider_agents:agents", "scripted": False, "model": "openai:gpt-5"}
    async with serving(database_url, tmp_path, logs, **chosen) as running:
        yield running


def outputs(provider: ResponsesServer) -> dict[str, str]:
    """By call, what the newest request tells of it."""
    items = (item for item in provider.sent if item.get("type") == "function_call_output")
    return {item["call_id"]: item["output"] for item in items}


def arguments(provider: ResponsesServer) -> dict[str, Any]:
    items = (item for item in provider.sent if item.get("type") == "function_call")
    return {item["call_id"]: json.loads(item["arguments"]) for item in items}


async def and_then(page: Page, provider: ResponsesServer) -> None:
    live = json.loads(json.dumps(page.messages))
    await page.reload()
    assert page.messages == live
    provider.replies.append(turn(text("Next.")))
    await page.send("And then?")
    assert page.text == "Next."


NO_INPUT = ['{"a":', "[1]", '"text"', "7", '{"at": [], "number": "x", "cents": "x"}', "", "null", "{}"]


@pytest.mark.parametrize("tool", ["seen", "pick", "pay", "ask", "nobody", "no.such tool"])
async def test_a_call_that_cannot_be_run_fails_alone(server, provider, tool):
    wrong = [call(f"call_{n}", tool, written) for n, written in enumerate(NO_INPUT)]
    provider.replies += [turn(reasoning("hm"), *wrong, call("call_ok", "seen", at="x")), turn(text("I see."))]
    page = Page(server)
    await page.send("Go", agent="user")
    assert page.text == "I see."
    for n in range(len(NO_INPUT)):
        part = page.part(f"call_{n}")
        assert (part["state"], part["providerExecuted"]) == ("output-error", True), NO_INPUT[n]
        assert "approval" not in part
    assert page.part("call_ok")["output"] == "seen: x"
    assert (await server.snapshot("chat"))["pending"] == []
    told = outputs(provider)
    assert all("This call failed" in told[f"call_{n}"] for n in range(len(NO_INPUT)))
    kept = arguments(provider)
    assert kept["call_0"] == {"INVALID_JSON": '{"a":'}
    assert kept["call_1"] == {"INVALID_JSON": [1]}
    assert [kept[f"call_{n}"] for n in (5, 6, 7)] == [{}] * 3
    await and_then(page, provider)


async def test_a_call_without_arguments_is_one_of_an_empty_object(server, provider):
    written = ["", "null", "{}", "  "]
    provider.replies += [
        turn(*(call(f"call_{n}", "now", w) for n, w in enumerate(written))),
        turn(text("ok")),
    ]
    page = Page(server)
    await page.send("Go", agent="user")
    for n in range(len(written)):
        assert (page.part(f"call_{n}")["input"], page.part(f"call_{n}")["output"]) == ({}, "now")
    assert arguments(provider) == {f"call_{n}": {} for n in range(len(written))}
    await and_then(page, provider)


GIVEN: dict[str, Any] = {
    "a time": "2026-01-02T00:00:00Z",
    "a decimal": "1.10",
    "a uuid": "00000000-0000-0000-0000-000000000001",
    "bytes": "_w==",
    "a set": [1],
    "a dataclass": {"x": 1},
    "an enum": "red",
    "int keys": {"1": "a"},
    "a generator": [1, 2],
    "not a number": None,
    "19 digits": 1234567890123456789,
    "half a surrogate pair": "a\ufffdb",
    "a NUL": "a\x00b",
    "nothing": None,
}


async def test_user_and_model_are_given_the_same_plain_value(server, provider):
    ids = {f"call_{n}": what for n, what in enumerate(VALUES)}
    provider.replies += [turn(*(call(i, "give", what=what) for i, what in ids.items())), turn(text("ok"))]
    page = Page(server)
    await page.send("Go", agent="user")
    assert page.text == "ok"
    told = outputs(provider)
    for call_id, what in ids.items():
        part = page.part(call_id)
        if what not in GIVEN:
            assert part["state"] == "output-error", what
            assert "This call failed" in told[call_id], what
            continue
        assert part["output"] == GIVEN[what], what
        read = told[call_id] if isinstance(GIVEN[what], str) else json.loads(told[call_id])
        assert read == GIVEN[what], what
    assert "too large" in page.part(f"call_{list(VALUES).index('too much')}")["errorText"]
    await and_then(page, provider)


async def test_what_a_sub_agent_says_and_is_told_is_not_the_parents(server, provider):
    provider.replies += [
        turn(reasoning("ask"), call("call_a", "ask", topic="tea")),
        turn(reasoning("CHILD thinks"), text("CHILD says"), call("call_b", "seen", at="CHILD place")),
        turn(text("Tea is a drink.")),
        turn(text("So it is.")),
    ]
    page = Page(server)
    await page.send("PARENT asks", agent="user")
    assert page.text == "So it is."
    child, parent = provider.requests[2]["input"], provider.requests[3]["input"]
    assert "PARENT" not in json.dumps(child)
    assert "CHILD" not in json.dumps(parent)
    assert outputs(provider) == {"call_a": "Tea is a drink."}
    await and_then(page, provider)
    assert "CHILD" not in json.dumps(provider.sent)
