"""MCP servers as toolsets: real ones, in processes of their own, that crash, are down and come back."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.agent import mcp_servers
from app.agent.context import RequestContext, ToolContext
from app.agent.declaration import Agent
from app.agent.mcp_servers import McpServer, mcp
from app.agent.tools import InvalidInput, Kind, ToolResult, run_tool, tool
from app.domain.call_state import Outcome
from app.tracing import incoming
from tests.acceptance.replica import free_port
from tests.inprocess.fixtures import logs

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ODD = [sys.executable, str(Path(__file__).parents[1] / "fakes" / "mcp_odd.py")]
NOTES = [sys.executable, str(Path(__file__).parents[1] / "fakes" / "mcp_notes.py")]
CONTEXT = ToolContext("ada", "chat", "run", {}, "call", Path("unused"))
HERE = RequestContext("ada", "chat", "run", {})


__all__ = ["logs"]  # a fixture


@pytest.fixture(autouse=True)
def at_once(logs, monkeypatch) -> None:
    monkeypatch.setattr(mcp_servers, "RETRY_AFTER_S", 0.0)


@pytest.fixture
async def closing() -> AsyncIterator[list[McpServer]]:
    servers: list[McpServer] = []
    yield servers
    for server in servers:
        await server.aclose()


async def call(server: McpServer, name: str, **given: Any) -> ToolResult:
    found = next(each for each in await server.tools() if each.name == name)
    return await run_tool(found, CONTEXT, given)


async def test_tools_are_listed_and_run_over_stdio(closing, tmp_path):
    started = tmp_path / "started"
    server = mcp(
        command=NOTES,
        prefix="n-",
        needs_approval=["forget"],
        retry_safe="*",
        env={"STARTED_FILE": str(started)},
    )
    closing.append(server)
    tools = {each.name: each for each in await server.tools()}
    assert set(tools) == {"n-add", "n-count", "n-forget", "n-fail", "n-sent_with", "n-crash"}
    assert tools["n-add"].description == "Keep a note."
    assert tools["n-add"].check({"text": "a"}) == {"text": "a"}
    with pytest.raises(InvalidInput):
        tools["n-add"].check({})
    assert [tools[name].kind_for({}) for name in ("n-add", "n-forget")] == [Kind.SERVER, Kind.APPROVAL]
    added = await asyncio.gather(*(call(server, "n-add", text="x") for _ in range(5)))
    assert {each.outcome for each in added} == {Outcome.OK}
    assert (await call(server, "n-count")).value == 5
    failed = await call(server, "n-fail")
    assert (failed.outcome, failed.error_code) == (Outcome.ERROR, "tool_error")
    assert len(started.read_text().split()) == 1, "one process serves them all"
    await server.aclose()
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


DECLARED = """
import sys
from app.agent.declare import mcp
print('fastmcp' in sys.modules)
mcp(command='x')
before = set(sys.modules)
import mcp_types
from fastmcp.client.transports import StdioTransport
print(len(set(sys.modules) - before))
"""


def test_the_client_library_is_loaded_by_a_declaration_and_not_by_a_run():
    here = Path(__file__).parents[2]
    found = subprocess.run([sys.executable, "-c", DECLARED], check=True, capture_output=True, cwd=here)
    assert found.stdout.split() == [b"False", b"0"]


async def test_a_server_that_crashes_is_a_failed_tool_and_comes_back(closing):
    server = mcp(command=NOTES)
    closing.append(server)
    await call(server, "add", text="x")
    crashed = await call(server, "crash")
    assert (crashed.outcome, crashed.value) == (Outcome.ERROR, "The server of this tool went away.")
    assert (await call(server, "count")).value == 0, "another process answers"


async def test_a_server_that_is_down_has_no_tools_and_a_late_call_fails(closing, tmp_path):
    server = mcp(command=[str(tmp_path / "missing")], prefix="n_")
    closing.append(server)
    agent = Agent("a", "", _Silent(), toolsets=[server])
    assert (await agent.for_step(HERE)).tools == ()
    assert agent.tool("other") is None
    late = agent.tool("n_add")
    assert late is not None
    failed = await run_tool(late, CONTEXT, {})
    assert (failed.outcome, failed.value) == (Outcome.ERROR, "The server of this tool cannot be reached.")


async def test_a_server_that_says_nothing_holds_a_step_up_for_its_timeout_only(closing):
    server = mcp(command=[sys.executable, "-c", "import time; time.sleep(60)"], connect_timeout_s=0.3)
    closing.append(server)
    assert await server.tools() == []


async def test_an_agents_own_tool_wins_over_a_servers(closing):
    @tool
    def add(text: str) -> str:
        return text

    server = mcp(command=NOTES, only=["add", "count"])
    closing.append(server)
    step = await Agent("a", "", _Silent(), [add], toolsets=[server]).for_step(HERE)
    assert [each.name for each in step.tools] == ["add", "count"]
    assert step.tool("add") is add
    assert step.tool("forget") is None


async def test_which_calls_may_be_repeated_after_a_crash_is_asked_of_the_server_itself(closing):
    server = mcp(command=NOTES, prefix="n-", retry_safe=["count"], connect_timeout_s=30)
    down = mcp(command=[sys.executable, "-c", "1"], prefix="d-", retry_safe="*")
    closing += [server, down]

    @tool(retry_safe=True)
    def here() -> None: ...

    agent = Agent("a", "", _Silent(), [here], toolsets=[server, down])
    asked = ["n-count", "n-add", "n-gone", "d-any", "here", "gone"]
    assert [name for name in asked if await agent.is_retry_safe(name)] == ["n-count", "here"]


async def test_a_server_over_http_keeps_its_tools_while_it_is_down(closing):
    port = free_port()
    server = mcp(url=f"http://127.0.0.1:{port}/mcp", timeout_s=10)
    closing.append(server)
    assert await server.tools() == []
    process = _started(port)
    try:
        while not await server.tools():
            await asyncio.sleep(0.05)
        assert (await call(server, "add", text="x")).value == {"notes": 1}
        known = {each.name: each for each in await server.tools()}
        process.kill()
        process.wait()
        failed = await run_tool(known["count"], CONTEXT, {})
        assert (failed.outcome, failed.error_code) == (Outcome.ERROR, "tool_error")
        assert {each.name for each in await server.tools()} == set(known)
        process = _started(port)
        while (counted := await call(server, "count")).outcome is not Outcome.OK:
            await asyncio.sleep(0.05)
        assert counted.value == 0
    finally:
        process.kill()
        process.wait()


async def test_a_call_over_http_carries_its_callers_trace_and_no_other_ones(closing):
    port = free_port()
    server = mcp(url=f"http://127.0.0.1:{port}/mcp", headers={"x-key": "k"}, timeout_s=10)
    closing.append(server)
    process = _started(port)
    traces = [f"{n:032x}" for n in range(1, 4)]

    async def traced(trace: str | None) -> dict[str, str]:
        with incoming(f"00-{trace}-b7ad6b7169203331-01" if trace else "", "vendor=7"):
            return (await call(server, "sent_with")).value

    try:
        while not await server.tools():
            await asyncio.sleep(0.05)
        sent = await asyncio.gather(*(traced(trace) for trace in traces), traced(None))
    finally:
        process.kill()
        process.wait()
    assert [each["traceparent"].split("-")[1] for each in sent[:3]] == traces
    assert [each["tracestate"] for each in sent[:3]] == ["vendor=7"] * 3
    assert [each["x-key"] for each in sent] == ["k"] * 4
    assert not {"traceparent", "tracestate", "baggage"} & set(sent[3])
    assert all("baggage" not in each for each in sent)


async def test_names_that_no_model_takes_and_names_that_become_one(closing, logs):
    server = mcp(command=ODD, needs_approval=["dot_ted", "a/b"], connect_timeout_s=30)
    closing.append(server)
    tools = await server.tools()
    names = [each.name for each in tools]
    assert len(names) == len(set(names)) > 300
    assert (await call(server, "dot_ted")).value == "called dot_ted", (
        "a name as it is comes before a changed one"
    )
    assert (await call(server, "a_b")).value == "called a.b"
    approvals = [each.name for each in tools if each.kind_for({}) is Kind.APPROVAL]
    assert approvals == ["dot_ted"], "no rule is applied to a tool that it does not name"
    left_out = {line["tool"] for line in logs.of("mcp.tool_left_out")}
    assert left_out == {"dot.ted", "a/b", "x" * 65}


async def test_every_kind_of_content_is_a_result(closing):
    server = mcp(command=ODD, timeout_s=10, connect_timeout_s=30)
    closing.append(server)
    shown = ["a text", "[image, not carried]", "a page", "[resource notes://2, not carried]"]
    assert (await call(server, "picture")).value == "\n".join(shown)
    assert (await call(server, "structured")).value == {"a": [1, None]}
    failed = await call(server, "failing")
    assert (failed.outcome, failed.value) == (Outcome.ERROR, "a text\n[image, not carried]")
    nothing = await call(server, "nothing")
    assert (nothing.outcome, nothing.value) == (Outcome.OK, "")


async def test_a_call_that_hangs_times_out_and_the_server_goes_on(closing):
    server = mcp(command=ODD, timeout_s=3, connect_timeout_s=30)
    closing.append(server)
    hung = await call(server, "hang")
    assert (hung.outcome, hung.error_code) == (Outcome.ERROR, "tool_timeout")
    assert (await call(server, "many_299")).value == "called 299"


async def test_a_server_from_the_registry_is_served(closing):
    fetched = [
        sys.executable,
        "-m",
        "uv",
        "tool",
        "run",
        "--from",
        "mcp-server-time==2026.10.19",
        "python",
        "-c",
    ]
    where = "import mcp_server_time, sys; print(sys.executable)"
    try:
        found = subprocess.run([*fetched, where], check=True, capture_output=True, timeout=40)
    except (subprocess.SubprocessError, OSError):
        pytest.skip("the package cannot be fetched")
    python = found.stdout.decode().strip()
    server = mcp(command=[python, "-m", "mcp_server_time"], prefix="time_")
    closing.append(server)
    assert {"time_get_current_time", "time_convert_time"} <= {each.name for each in await server.tools()}
    given = {"source_timezone": "Europe/Oslo", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    converted = await call(server, "time_convert_time", **given)
    assert converted.outcome is Outcome.OK, converted
    assert "Asia/Tokyo" in str(converted.value)
    failed = await call(server, "time_get_current_time", timezone="Nowhere/None")
    assert failed.outcome is Outcome.ERROR


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "either"),
        ({"command": "a", "url": "http://b"}, "either"),
        ({"command": ""}, "empty"),
        ({"command": "a", "prefix": "no spaces"}, "prefix"),
    ],
)
def test_a_bad_declaration_is_refused(given, why):
    with pytest.raises(ValueError, match=why):
        mcp(**given)


def _started(port: int) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen([*NOTES, str(port)], stdin=quiet, stdout=quiet, stderr=quiet)


class _Silent:
    async def step(self, request):
        raise AssertionError
        yield
