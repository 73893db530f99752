"""From a model's response to what is committed of it: call rows, the child runs these start, and the frames that show them.

Each call is classified once, here: unknown tools and refused arguments are results already; a client tool or an approval waits; a
sub-agent's call has begun with its child run; a server tool is ready. The frames are shown only after the commit, so that an answer
can never arrive before its call is known.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from app.agent.model import ModelResponse
from app.agent.registry import AgentStep
from app.agent.tools import InvalidInput, Tool, ToolResult, invalid_input, unknown_tool
from app.clock import NewId
from app.domain import frames
from app.domain.answers import approval_id
from app.domain.call_state import ANSWERABLE, CallKind, CallState, first_state
from app.domain.frames import Chunk
from app.domain.history import Entry, user_entry
from app.domain.results import Result, shown
from app.sessions.runs import Child, Tree
from app.store.calls import Call
from app.store.runs import Run


@dataclass(slots=True)
class Planned:
    """``parts``: the response for the history, under stored call ids. ``chunks``: what the root's message shows of its calls."""

    parts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    calls: list[Call] = field(default_factory=list[Call])
    children: list[Child] = field(default_factory=list[Child])
    chunks: list[Chunk] = field(default_factory=list[Chunk])


def plan(
    run: Run,
    agent: AgentStep,
    response: ModelResponse,
    *,
    batch: int,
    stored_id: Callable[[str], str],
    new_id: NewId,
) -> Planned:
    """``stored_id`` maps a provider's call id to the stored one, in order. A child run shows only what a person answers."""
    planned = Planned()
    is_root = run.parent_run is None
    for part in response.parts:
        if part["type"] == "file" and is_root:
            planned.chunks.append(frames.file(part["mediaType"], part["url"]))
        if part["type"] != "call":
            planned.parts.append(dict(part))
            continue
        call = Call(
            stored_id(str(part["id"])),
            run.id,
            run.root_run,
            step=run.step + 1,
            ordinal=len(planned.calls),
            batch=batch,
            kind=CallKind.SERVER,
            tool=str(part["tool"]).replace("\x00", "\ufffd"),
            input={},
        )
        tool = agent.tool(call.tool)
        refused = _refused(tool, part["input"], call)
        chunks = [] if tool is None or refused else _kind(call, tool, new_id)
        if refused is not None:
            result = as_result(refused)
            call.state, call.outcome = CallState.SETTLED, result.outcome
            call.value, call.error_code = result.value, result.error_code
            flagged = tool is not None and tool.agent is not None
            chunks = [frames.tool_input_available(call.call_id, call.tool, call.input, flagged=flagged)]
            chunks += shown(CallKind.SERVER, call.call_id, call.tool, call.input, result)
        elif call.child_run is not None and tool is not None:
            planned.children.append(
                Child(call.child_run, call.call_id, tool.agent or "", child_entry(call.input))
            )
        if is_root or call.kind in ANSWERABLE:
            planned.chunks += chunks
        planned.parts.append({**part, "id": call.call_id})
        planned.calls.append(call)
    return planned


def _refused(tool: Tool | None, raw: object, call: Call) -> ToolResult | None:
    """Why the call cannot run; ``None`` when it can, and its input is checked. The row keeps a refused object as it came."""
    given: object = raw
    call.input = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if tool is None:
        return unknown_tool()
    try:
        call.input = tool.check(raw)
    except InvalidInput as error:
        return invalid_input(error)
    return None


def _kind(call: Call, tool: Tool, new_id: NewId) -> list[Chunk]:
    """Makes the row what its tool says; gives the frames that show the call."""
    call.kind = tool.kind_for(call.input)
    call.state = first_state(call.kind)
    call.deadline_s = tool.deadline_s
    call.output_schema = dict(tool.output_schema) if tool.output_schema else None
    if call.kind is CallKind.SUBAGENT:
        call.child_run = new_id()
        return []  # shown only when it is settled: an unfinished part would hold every stock predicate back
    chunks = [frames.tool_input_available(call.call_id, call.tool, call.input)]
    if call.kind is CallKind.APPROVAL:
        call.approval_id = approval_id(call.root_run, new_id())
        chunks.append(frames.tool_approval_request(call.call_id, call.approval_id))
    return chunks


def child_entry(input_: Mapping[str, Any]) -> Entry:
    """The first entry of a child run's history: its ``topic``, or its whole input as JSON."""
    topic = input_.get("topic")
    text = topic if isinstance(topic, str) else orjson.dumps(dict(input_)).decode()
    return user_entry([{"type": "text", "text": text}])


def as_result(result: ToolResult) -> Result:
    return Result(result.outcome, result.value, result.error_code, result.error_text)


def output_of(entry: Entry) -> Any:
    """A child run's output, of its last entry: the value of a structured one, else its text."""
    for part in entry["parts"]:
        if part.get("output"):
            return orjson.loads(part["text"])
    return "".join(part["text"] for part in entry["parts"] if part["type"] == "text")


def add_usage(usage: Mapping[str, Any] | None, response: ModelResponse, tool_calls: int) -> dict[str, Any]:
    """A run's usage after one more request: ``{inputTokens, outputTokens, requests, toolCalls}``."""
    before = usage or {}
    return {
        "inputTokens": before.get("inputTokens", 0) + response.usage.input_tokens,
        "outputTokens": before.get("outputTokens", 0) + response.usage.output_tokens,
        "requests": before.get("requests", 0) + 1,
        "toolCalls": before.get("toolCalls", 0) + tool_calls,
    }


def summed(usages: Iterable[Mapping[str, Any] | None]) -> dict[str, Any]:
    """The usage of several runs together."""
    known = [usage for usage in usages if usage is not None]
    keys = ("inputTokens", "outputTokens", "requests", "toolCalls")
    return {key: sum(usage.get(key, 0) for usage in known) for key in keys}


def usage_metadata(tree: Tree, run: Run, usage: Mapping[str, Any]) -> Chunk:
    """The chunk that tells what the tree has used, ``usage`` being what ``run`` has with the commit that the chunk is part of."""
    others = [each.usage for each in tree.runs if each is not run]
    return frames.message_metadata({"usage": summed([usage, *others])})


def tokens_of(response: ModelResponse) -> dict[str, int]:
    """What one request has used, for its history entry."""
    return {"inputTokens": response.usage.input_tokens, "outputTokens": response.usage.output_tokens}


def child_run(parent: Run, child: Child) -> Run:
    """A new child run, as its row says it."""
    return Run(
        id=child.run_id,
        session_id=parent.session_id,
        root_run=parent.root_run,
        parent_run=parent.id,
        parent_call=child.call_id,
        agent=child.agent,
        state=parent.state,
        input_message=None,
        message=None,
        request=None,
        headers=None,
        step=0,
        batch=1,
        epoch=0,
        commits=0,
        lease_owner=None,
        attempts=0,
        stop_requested=False,
        frame_seq=0,
        step_open=False,
        error_code=None,
        usage=None,
        lapsed=False,
        unclaimed=False,
    )
