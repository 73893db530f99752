"""Histories of every version are sent as they always were; one that this release does not know fails its run, and stays.

``history_v1.json`` holds entries as the fakes of the providers gave them (text, thoughts with their seals, searches of a
provider, calls of each outcome, files, the text of a cut response) and the requests that become of them. It is never made anew.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.agent.model import ModelRequest
from app.agent.pydantic_ai_model import PydanticAiModel
from app.domain.history import is_readable, unpaired
from tests.fakes.openai_server import OpenAIServer, openai_server, refuse
from tests.inprocess.chat import Page, call, calls
from tests.inprocess.fixtures import fresh_agents, logs, serve, server
from tests.inprocess.server import Logs, Server

__all__ = ["fresh_agents", "logs", "serve", "server"]
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

HERE = Path(__file__).parent
V1: dict[str, Any] = json.loads((HERE / "history_v1.json").read_text())


@pytest.fixture
async def provider(monkeypatch) -> AsyncIterator[OpenAIServer]:
    async with openai_server() as running:
        for key in ("OPENAI", "ANTHROPIC"):
            monkeypatch.setenv(f"{key}_BASE_URL", running.url)
            monkeypatch.setenv(f"{key}_API_KEY", "k")
        yield running


@pytest.mark.parametrize("name", V1["requests"])
async def test_version_1_becomes_the_request_it_always_was(provider, name):
    entries = V1["entries"]
    assert all(is_readable(entry) for entry in entries)
    assert unpaired(entries) == []
    provider.replies.append(refuse(400, "seen"))
    model = PydanticAiModel(name)
    with pytest.raises(Exception, match="provider_bad_response"):
        _ = [event async for event in model.step(ModelRequest("", entries))]
    await model.aclose()
    sent = provider.requests[-1]
    assert sent.get("messages", sent.get("input")) == V1["requests"][name]


UNKNOWN: list[Any] = [
    {"v": 2, "role": "assistant", "parts": [{"type": "text", "text": "hi"}]},
    {"v": 1, "role": "system", "parts": []},
    {"v": 1, "role": "assistant", "parts": [{"type": "hologram", "text": "hi"}]},
    {"v": 1, "role": "assistant", "parts": [{"type": "text"}]},
    {"v": 1, "role": "assistant", "parts": {"type": "text"}},
    {"v": 1, "role": "tool", "results": [{"id": "c", "tool": "t", "outcome": "maybe", "value": 1}]},
    {"v": 1, "role": "tool"},
    {"role": "user", "parts": []},
    [],
    "text",
    None,
]


@pytest.mark.parametrize("entry", UNKNOWN, ids=[json.dumps(entry)[:60] for entry in UNKNOWN])
def test_what_another_release_may_have_written_is_told_apart(entry):
    assert not is_readable(entry)


LAST = "select position, body::text from history order by position desc limit 1"
NEWER = json.dumps(UNKNOWN[0])


async def overwritten(server: Server, body: str) -> str:
    """Puts ``body`` in place of the newest entry; gives what stood there."""
    ((position, before),) = await server.sql(LAST)
    await server.sql("update history set body = $2::json where position = $1", position, body)
    return before


async def test_a_newer_entry_fails_the_run_with_one_line_and_is_kept(server: Server, logs: Logs):
    page = Page(server)
    await page.play({"text": "one"})
    before = await overwritten(server, NEWER)
    reply = await page.send("two")
    assert reply.status == 200
    assert json.loads(reply.frames[-1]["errorText"])["code"] == "framework_internal_error"
    snapshot = await server.snapshot("chat")
    assert (snapshot["run"]["status"], snapshot["status"], len(snapshot["messages"])) == ("failed", "idle", 3)
    (line,) = logs.failures
    assert (line["event"], line["level"]) == ("run.failed", "error")
    bodies = [row[0] for row in await server.sql("select body::text from history order by position")]
    assert NEWER in bodies
    await server.sql("update history set body = $1::json where body::text = $2", before, NEWER)
    await page.reload()
    await page.play({"text": "three"})
    assert page.text == "three"


@pytest.mark.parametrize("how", ["answered", "stopped", "abandoned"])
async def test_a_run_can_end_beside_a_newer_entry(server: Server, how):
    page = Page(server)
    await page.play(calls(call("get_location", "c1")))
    await overwritten(server, NEWER)
    if how == "stopped":
        await server.stop("chat")
    elif how == "answered":
        reply = await page.output("c1", 1).post()
        assert json.loads(reply.frames[-1]["errorText"])["code"] == "framework_internal_error"
    else:
        reply = await page.send("never mind")
        assert json.loads(reply.frames[-1]["errorText"])["code"] == "framework_internal_error"
    snapshot = await server.snapshot("chat")
    assert (snapshot["status"], snapshot["pending"]) == ("idle", [])
