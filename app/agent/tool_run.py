"""One run of a tool, and what became of it: the only place where a tool's failure is classified.

Whatever a tool raises, ``SystemExit`` included, is a failed result, unless it asks (``Asks``); the live frame and
the stored part are rendered from the same ``ToolResult``. ``str(exception)`` leaves the process only in the log
(``tool.failed``), except for a ``ToolError``.

A tool is run in a task of its own, so that one which ignores its cancellation is left behind after
``GRACE_S`` instead of holding its run up.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from app.agent.plain import plain
from app.agent.tasks import watched
from app.agent.tool_input import InvalidInput
from app.domain.call_state import CallKind, Outcome
from app.log import get_logger

log = get_logger(__name__)

MAX_PUBLIC_TEXT = 4000
"""Characters of a ``ToolError`` that are kept."""
GRACE_S = 1.0

FAILED = "The tool failed."
TIMED_OUT = "The tool did not answer in time."
BAD_INPUT = "The tool was given arguments that it does not accept."
NO_SUCH_TOOL = "There is no such tool."
ASKED_AGAIN = "The tool asked once more for what it had been given."
TOO_LARGE = "The tool's output was too large."


class ToolError(Exception):
    """Raised by a tool to say in public why it failed: the model and the user read the text."""


class Asks(Exception):
    """A tool asks while it runs. ``kind``: what its call becomes."""

    kind: ClassVar[CallKind]


class ApprovalRequired(Asks):
    """Raised by a tool that a person has to allow: its call waits for a yes, and then the tool runs again from its
    beginning, with ``context.approved``. What it did before it raised is not undone."""

    kind = CallKind.APPROVAL


class CallDeferred(Asks):
    """Raised by a tool whose output comes from elsewhere: its call waits for ``POST /chat/{id}/answers``, or the
    page. The tool does not run again."""

    kind = CallKind.CLIENT


@dataclass(frozen=True, slots=True)
class ToolResult:
    """``ok``: ``value`` is the output, plain JSON. ``error``: ``value`` is the text the model reads,
    ``error_text`` the one the user reads, ``error_code`` is for the row and the log: ``tool_error``,
    ``tool_failed``, ``tool_timeout``, ``tool_invalid_input``, ``tool_unknown``, ``tool_asked_again``
    or ``tool_output_too_large``."""

    outcome: Outcome
    value: Any
    error_code: str | None = None
    error_text: str | None = None


Context_contra = TypeVar("Context_contra", contravariant=True)


class Runnable(Protocol, Generic[Context_contra]):
    """The part of a tool that is needed here."""

    @property
    def name(self) -> str: ...
    @property
    def timeout_s(self) -> float | None: ...
    async def call(self, context: Context_contra, arguments: dict[str, Any], /) -> Any: ...


def invalid_input(error: InvalidInput) -> ToolResult:
    """The result of a call whose arguments ``Tool.check`` refused: the model reads what was wrong, so that it
    can do better."""
    return _error("tool_invalid_input", BAD_INPUT, f"{BAD_INPUT} {error}")


def unknown_tool() -> ToolResult:
    """The result of a call of a tool that the agent has not got."""
    return _error("tool_unknown", NO_SUCH_TOOL)


def asked_again() -> ToolResult:
    """The result of a call whose tool asks although it has its answer."""
    return _error("tool_asked_again", ASKED_AGAIN)


def too_large() -> ToolResult:
    """The result of a call whose output the message cannot hold."""
    return _error("tool_output_too_large", TOO_LARGE)


async def run_tool(
    tool: Runnable[Context_contra], context: Context_contra, arguments: dict[str, Any]
) -> ToolResult:
    """Run ``tool`` with a checked input, within its ``timeout_s``. Raises ``Asks`` when the tool does, and
    ``CancelledError`` when the caller is cancelled."""
    task = watched(_contained(tool, context, arguments), f"tool {tool.name}")
    try:
        done, _ = await asyncio.wait({task}, timeout=tool.timeout_s)
        if done:
            return task.result()
        await _give_up(task, tool.name)
    except asyncio.CancelledError:
        await _give_up(task, tool.name)
        raise
    log.warning("tool.failed", tool=tool.name, code="tool_timeout", error="timeout", timeout_s=tool.timeout_s)
    return _error("tool_timeout", TIMED_OUT)


async def _contained(
    tool: Runnable[Context_contra], context: Context_contra, arguments: dict[str, Any]
) -> ToolResult:
    """Ends in a result whatever else the tool raises: an exception that left this task could stop the loop."""
    try:
        return ToolResult(Outcome.OK, await tool.call(context, arguments))
    except (GeneratorExit, Asks):
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # ours; one that the tool raised by itself is its failure
        result = _classified(error)
        log.warning(
            "tool.failed",
            tool=tool.name,
            code=result.error_code,
            error=type(error).__name__,
            exc_info=error,
        )
        return result


def _classified(error: BaseException) -> ToolResult:
    if isinstance(error, ToolError):
        text = plain(str(error)[:MAX_PUBLIC_TEXT]).strip()
        return _error("tool_error", text or FAILED)
    if isinstance(error, InvalidInput):
        return invalid_input(error)
    if isinstance(error, TimeoutError):
        return _error("tool_timeout", TIMED_OUT)
    return _error("tool_failed", FAILED)


def _error(code: str, text: str, for_the_model: str | None = None) -> ToolResult:
    return ToolResult(Outcome.ERROR, for_the_model or text, code, text)


_left_behind: set[asyncio.Task[ToolResult]] = set()
"""A loop holds its tasks weakly; these are nobody's any more, and still have to be able to end."""


async def _give_up(task: asyncio.Task[ToolResult], name: str) -> None:
    task.cancel()
    _left_behind.add(task)
    task.add_done_callback(_left_behind.discard)
    _, pending = await asyncio.wait({task}, timeout=GRACE_S)
    if pending:
        log.warning("tool.left_behind", tool=name)
