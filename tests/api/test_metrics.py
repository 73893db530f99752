"""What was counted, where it is read, and the trace that a request belongs to."""

import asyncio
import re
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.metrics import Metrics
from tests.inprocess import agents
from tests.inprocess.chat import Page, call, calls
from tests.inprocess.fixtures import Serve
from tests.inprocess.server import Server

TRACE = "0af7651916cd43dd8448eb211c80319c"


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(name, labels) → value."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def read(server: Server) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    reply = await server.ask("GET", "/metrics")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain")
    return samples((await reply.body()).decode())


def value(found: dict[Any, float], name: str, **labels: str) -> float:
    """The sum of the samples of this name that have these labels."""
    return sum(
        number
        for (sample, given), number in found.items()
        if sample == f"agent_server_{name}" and labels.items() <= dict(given).items()
    )


async def test_what_a_chat_does_is_counted_where_it_happens(server: Server):
    page = Page(server)
    await page.play(
        calls(call("get_weather", "w", city="Oslo"), call("fail", "f", kind="private")), {"text": "x"}
    )
    await page.play(calls(call("get_location", "loc")))
    await page.play({"error": "no_finish"})
    await server.ask("GET", "/chat/nothing")
    await server.ask("GET", "/no/such/route")
    found = await read(server)
    assert value(found, "requests_total", route="/chat", status="200", code="") == 3
    assert (
        value(
            found,
            "requests_total",
            route="/chat/{chat_id:path}",
            status="404",
            code="state_session_not_found",
        )
        == 1
    )
    assert value(found, "requests_total", route="(none)", status="404") == 1
    assert value(found, "request_seconds_count", route="/chat") == 3
    assert value(found, "first_frame_seconds_count") == 3
    assert value(found, "runs_ended_total", agent="tester", end="completed") == 1
    assert value(found, "runs_ended_total", agent="tester", end="suspended") == 1
    assert value(found, "runs_ended_total", agent="tester", end="failed") == 1
    assert value(found, "run_failures_total", code="provider_bad_response") == 1
    codes = {dict(given)["code"] for sample, given in found if sample == "agent_server_run_failures_total"}
    assert "provider_auth" in codes, "from 0, so that the first one is an increase"
    assert value(found, "step_seconds_count", agent="tester", outcome="ok") == 3
    assert value(found, "step_seconds_count", outcome="provider_bad_response") == 1
    assert value(found, "tool_seconds_count", tool="get_weather", outcome="ok") == 1
    assert value(found, "tool_seconds_count", tool="fail", outcome="tool_failed") == 1
    assert value(found, "frames_written_total") > 0
    assert value(found, "frame_batch_seconds_count") > 0
    assert value(found, "live_runs") == 0
    assert value(found, "open_streams") == 0
    assert value(found, "pool_connections") >= 1
    assert value(found, "pool_limit") == 8
    assert value(found, "build_info") == 1


async def test_what_is_going_on_is_read_as_it_is(serve: Serve):
    async with serve(max_running=1) as server:
        page = Page(server, "a").say("script:" + '[{"calls": [{"tool": "hold", "input": {"gate": "here"}}]}]')
        first = await page.open()
        await agents.gates["here"].reached.wait()
        waiting = await Page(server, "b").say("hello").open()
        await server.running.sweeper.sweep()
        found = await read(server)
        assert value(found, "live_runs") == 1
        assert value(found, "waiting_runs") == 1
        assert value(found, "open_streams") == 2
        agents.gates["here"].open()
        await page.take(first)
        await waiting.rest()


async def test_a_run_that_is_taken_over_is_counted_by_the_replica_that_took_it(serve: Serve):
    async with serve() as one, serve() as two:
        page = Page(one).say("script:" + '[{"calls": [{"tool": "hold", "input": {"gate": "here"}}]}]')
        await page.open()
        await agents.gates["here"].reached.wait()
        await one.crash()
        await two.ask("POST", "/chat", {**page.body()})
        assert value(await read(two), "takeovers_total") + value(await read(one), "takeovers_total") == 1


async def test_no_label_holds_what_a_client_wrote(server: Server):
    await Page(server, "my-own-chat").play({"text": "x"})
    await server.ask("GET", "/chat/my-own-chat")
    await server.ask("GET", "/my-own-path")
    await server.ask("MYOWN", "/chat")
    await server.ask(
        "POST", "/chat", {"id": "c", "agent": "my-own-agent", "messages": [{"role": "user", "content": "x"}]}
    )
    reply = await server.ask("GET", "/metrics")
    text = (await reply.body()).decode()
    assert "my-own" not in text
    assert "MYOWN" not in text


async def test_with_a_port_of_its_own_metrics_are_served_there_to_everybody(serve: Serve):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def fetch(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as response:
            return response.read().decode()

    async with serve(auth="api_key", api_keys="ada:k", metrics_port=port) as server:
        assert (await server.ask("GET", "/metrics")).status == 404
        reply = await server.ask("GET", "/metrics", headers={"authorization": "Bearer k"})
        assert (await reply.json())["code"] == "framework_not_found"
        text = await asyncio.to_thread(fetch, "/metrics")
        assert "agent_server_build_info" in text
        assert 'code="framework_not_found"' in text
    with pytest.raises(urllib.error.URLError):
        await asyncio.to_thread(fetch, "/metrics")


def test_two_applications_in_one_process_count_for_themselves():
    one, two = Metrics(), Metrics()
    one.takeovers.inc()
    assert value(samples(two.render().decode()), "takeovers_total") == 0


# --- traces


async def test_the_trace_of_the_caller_is_on_every_line_of_its_request_and_run(server: Server):
    server.headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    await Page(server).play({"text": "x"})
    for event in ("request.ended", "run.ended"):
        (line,) = server.logs.of(event)
        assert line["trace_id"] == TRACE
    assert re.fullmatch(r"[0-9a-f-]{36}", server.logs.of("request.ended")[0]["request_id"])


@pytest.mark.parametrize(
    "header",
    ["", "x", f"00-{TRACE}", f"00-{'0' * 32}-b7ad6b7169203331-01", f"ff-{TRACE}-b7ad6b7169203331-01"],
)
async def test_a_malformed_trace_is_no_trace(server: Server, header: str):
    await server.ask("GET", "/chats", headers={"traceparent": header, "tracestate": "a=b"})
    (line,) = server.logs.of("request.ended")
    assert "trace_id" not in line
