"""Runs of tools: every way of failing ends in a result, and only the run's own cancellation passes through."""

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import structlog

from app.agent import tool_run
from app.agent.emitter import Emitter
from app.agent.tools import (
    ApprovalRequired,
    Asks,
    CallDeferred,
    InvalidInput,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    invalid_input,
    run_tool,
    tool,
    unknown_tool,
)
from app.domain.call_state import CallKind, Outcome

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext("ada", "chat", "run", {"tone": "dry"}, "call", Path("unused"))


@pytest.fixture(autouse=True)
def logged():
    with structlog.testing.capture_logs() as entries:
        yield entries


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


@pytest.mark.parametrize(
    ("error", "kind"), [(ApprovalRequired(), CallKind.APPROVAL), (CallDeferred(), CallKind.CLIENT)]
)
async def test_a_tool_that_asks_has_not_failed(error, kind, logged):
    for raiser in raising(error):
        with pytest.raises(Asks) as asking:
            await run_tool(raiser, CONTEXT, {})
        assert asking.value.kind is kind
    assert logged == []


async def test_a_tool_that_asks_too_late_has_timed_out():
    async def asks() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise ApprovalRequired

    assert (await run_tool(running(asks, timeout_s=0.01), CONTEXT, {})).error_code == "tool_timeout"


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


def test_the_model_reads_more_of_a_refusal_than_the_user():
    result = invalid_input(InvalidInput("city: Field required"))
    assert result.outcome is Outcome.ERROR
    assert "city: Field required" in result.value
    assert result.error_text is not None
    assert "city" not in result.error_text
    assert unknown_tool().error_code == "tool_unknown"


async def test_what_a_tool_shows_is_told_in_the_loops_thread_wherever_the_tool_runs():
    told: list[tuple[Any, bool]] = []

    def say(chunk: dict[str, Any]) -> None:
        told.append((chunk["data"], threading.current_thread() is threading.main_thread()))

    async def async_(context: ToolContext) -> None:
        context.data("step", 1)

    def sync(context: ToolContext) -> None:
        context.data("step", 2)

    async def elsewhere(context: ToolContext) -> None:
        await asyncio.to_thread(context.data, "step", 3)

    for fn in (async_, sync, elsewhere):
        emitter = Emitter("call", say)
        result = await run_tool(
            running(fn), ToolContext("ada", "chat", "run", {}, "call", Path("unused"), emitter), {}
        )
        assert result.outcome is Outcome.OK
    assert told == [(1, True), (2, True), (3, True)]
