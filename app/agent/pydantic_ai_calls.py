"""One tool call in the machinery of a ``pydantic_ai.Agent``, and what the calls of a response mean.

A call is ``agent.iter`` on a history that ends in that call alone, left after the tool. So validators, hooks, prepared
and dynamic tools are the library's own, and the ledger is ours.

A tool that asks for an approval only for some arguments is asked before it begins: by running its validators, and its
toolsets around tools that do not run.
"""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError
from pydantic_ai import exceptions, messages
from pydantic_ai.run import AgentRun
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ApprovalRequiredToolset, CombinedToolset, WrapperToolset

from app.agent.context import RequestContext, ToolContext
from app.agent.model_words import read_input
from app.agent.output import NOT_YET
from app.agent.pydantic_ai_messages import to_messages
from app.agent.pydantic_ai_trace import traced
from app.agent.tool_input import InputShape, InvalidInput, refusal
from app.agent.tool_run import ApprovalRequired, CallDeferred, ToolError
from app.agent.tools import Tool
from app.domain.history import Entry
from app.log import get_logger

if TYPE_CHECKING:
    from app.agent.pydantic_ai_agent import Driver

log = get_logger(__name__)

CHUNKS = "pydantic_ai.ui.vercel_ai.response_types"
NO_CALLS: frozenset[str] = frozenset()

Run = AgentRun[Any, Any]
Manager = ToolManager[Any]


def manager_of(run: Run) -> Manager:
    return run.ctx.deps.tool_manager


@asynccontextmanager
async def begun(
    driver: "Driver",
    context: RequestContext,
    history: Sequence[Entry],
    call: messages.ToolCallPart | None = None,
) -> AsyncGenerator[Run]:
    """A run of the agent that stands before its first node."""
    agent = await driver.entered()
    deps = await driver.deps_for(context)
    sent = to_messages(history, driver.model)
    prompts = await agent.system_prompt_parts(deps=deps, model=driver.model)
    if prompts and sent and isinstance(first := sent[0], messages.ModelRequest):
        first.parts = [*prompts, *first.parts]
    if call is not None:
        sent.append(messages.ModelResponse([call]))
    async with agent.iter(
        message_history=sent,
        deps=deps,
        model=driver.model,
        model_settings=_settings,
        conversation_id=context.session_id,
        infer_name=False,
    ) as run:
        yield run


def _settings(about: RunContext[Any]) -> ModelSettings:
    """What is ours to say of a request, over what the agent says: the step loop repeats, and it alone."""
    given = {**(about.model_settings or {}), "max_retries": 0}
    return cast("ModelSettings", traced(given, about.model))


async def run_call(driver: "Driver", name: str, context: ToolContext, arguments: dict[str, Any]) -> Any:
    """Runs one call of a tool, and gives its output.

    Raises ``ApprovalRequired`` and ``CallDeferred`` for a tool that asks, ``ToolError`` for what it says to the
    model, ``InvalidInput`` for arguments that no longer fit, and whatever else the tool raises."""
    call = messages.ToolCallPart(name, arguments, context.call_id)
    async with begun(driver, context, _before(context), call) as run:
        await run.next(cast("Any", run.next_node))
        manager = manager_of(run)
        try:
            checked = await manager.validate_tool_call(
                call, approved=context.approved, wrap_validation_errors=False
            )
            output = await manager.execute_tool_call(checked, wrap_validation_errors=False)
        except exceptions.ApprovalRequired as error:
            raise ApprovalRequired from error
        except exceptions.CallDeferred as error:
            raise CallDeferred from error
        except (exceptions.ModelRetry, exceptions.ToolFailed) as error:
            raise ToolError(error.message) from error
        except ValidationError as error:
            raise refusal(error) from None
    if not isinstance(output, messages.ToolReturn):
        return output
    try:
        _show(context, output.metadata)
    except (ToolError, ValueError) as error:  # the tool has done its work: its output stands
        log.warning("tool.not_shown", tool=name, error=type(error).__name__, exc_info=error)
    return output.return_value


def _show(context: ToolContext, metadata: object) -> None:
    """What a tool returns for the page, as the library's own Vercel adapter takes it: data and source chunks in the metadata.

    Raises what ``ToolContext.data`` raises for one that cannot be shown."""
    listed = isinstance(metadata, list | tuple)
    for item in cast("Sequence[object]", metadata) if listed else (metadata,):
        if not any(kind.__module__ == CHUNKS for kind in type(item).__mro__):
            continue
        chunk = cast("Any", item).model_dump(by_alias=True, exclude_none=True)
        match chunk["type"].partition("-"):
            case ("data", _, name):
                context.data(name, chunk["data"], id=chunk.get("id"), transient=chunk.get("transient", False))
            case ("source", _, "url"):
                context.source_url(chunk["url"], chunk.get("title"), id=chunk["sourceId"])
            case ("source", _, "document"):
                context.source_document(
                    chunk["mediaType"], chunk["title"], chunk.get("filename"), id=chunk["sourceId"]
                )
            case _:
                pass


def _before(context: ToolContext) -> list[Entry]:
    """The history up to the response that made the call."""
    history = list(context.history)
    while history and history[-1]["role"] != "user" and history[-1]["role"] != "tool":
        history.pop()
    return history


async def tools_of(driver: "Driver", run: Run, response: messages.ModelResponse) -> dict[str, Tool]:
    """The step's tools, as the calls of this response mean them."""
    manager = manager_of(run)
    approvals = await _approvals(manager, response)
    tools: dict[str, Tool] = {}
    for name, tool in (manager.tools or {}).items():
        if tool.tool_def.kind == "output":
            tools[name] = driver.tool(tool.tool_def, shape=_refusing(tool.tool_def))
        else:
            asked = approvals.get(name, NO_CALLS)
            tools[name] = driver.tool(
                tool.tool_def,
                cast("Any", tool.args_validator),
                needs_approval=lambda given, asked=asked: _canonical(given) in asked,
            )
    return tools


def _refusing(definition: ToolDefinition) -> InputShape:
    def check(_: Any) -> dict[str, Any]:
        raise InvalidInput(NOT_YET)

    return InputShape(definition.parameters_json_schema, check, lambda stored: stored)


def _canonical(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True)


async def _approvals(manager: Manager, response: messages.ModelResponse) -> dict[str, set[str]]:
    """By tool, the arguments for which the agent asks an approval before it begins."""
    probe = await _probe(manager)
    found: dict[str, set[str]] = {}
    for call in response.tool_calls:
        tool = (manager.tools or {}).get(call.tool_name)
        if tool is None or tool.tool_def.kind != "function":
            continue
        try:
            if tool.args_validator_func is not None or probe is not None:
                checked = await manager.validate_tool_call(call, wrap_validation_errors=False)
                if checked.deferral is not None:
                    raise checked.deferral
                if probe is not None and checked.validated_args is not None:
                    toolset, tools = probe
                    context = replace(checked.ctx, tool_call_approved=False)
                    await toolset.call_tool(
                        call.tool_name, checked.validated_args, context, tools[call.tool_name]
                    )
        except exceptions.ApprovalRequired:
            found.setdefault(call.tool_name, set()).add(_canonical(read_input(call.args)))
        except (
            _Reached,
            exceptions.CallDeferred,
            exceptions.ModelRetry,
            exceptions.ToolFailed,
            ValidationError,
        ):
            pass  # whatever is wrong with it is said when it runs
    return found


class _Reached(Exception):
    """The tool itself would run now."""


class _Unrun(WrapperToolset[Any]):
    """The tools of a toolset, none of which is ever run."""

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        raise _Reached


async def _probe(manager: Manager) -> tuple[AbstractToolset[Any], Mapping[str, Any]] | None:
    """The same toolsets around tools that do not run; ``None`` when none of them asks for approvals."""
    if not _asks_for_approvals(manager.toolset):
        return None
    unrun = manager.toolset.visit_and_replace(_Unrun)
    return unrun, await unrun.get_tools(cast("Any", manager.ctx))


def _asks_for_approvals(toolset: AbstractToolset[Any]) -> bool:
    if isinstance(toolset, ApprovalRequiredToolset):
        return True
    if isinstance(toolset, WrapperToolset):
        return _asks_for_approvals(toolset.wrapped)
    return isinstance(toolset, CombinedToolset) and any(map(_asks_for_approvals, toolset.toolsets))
