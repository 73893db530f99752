"""Scripted agents whose tools wait for the test, and whose model keeps what it was sent.

``AGENT_SERVER_AGENTS=tests.inprocess.agents:AGENTS``. Every turn is a script (``app.agent.scripted``).
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from app.agent.context import RequestContext
from app.agent.model import ModelEvent, ModelRequest, ModelResponse, TextDelta
from app.agent.present_turn import present_turn
from app.agent.registry import Agent
from app.agent.scripted import ScriptedModel
from app.agent.tools import ApprovalRequired, CallDeferred, Tool, ToolContext, client_tool, subagent, tool
from app.agents import outbox
from app.agents.tools import ask_user, fail, get_location, get_weather, pick_option, publish_note, send_email
from tests.inprocess.showing import show_all


@dataclass
class Gate:
    """A named place in a run: the run says that it is there and goes on when it is let."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self) -> None:
        self.opened.set()


gates: defaultdict[str, Gate] = defaultdict(Gate)
asked: list[ModelRequest] = []
"""Every request the model was sent, in order."""


def forget() -> None:
    gates.clear()
    asked.clear()


async def wait_at(name: str) -> None:
    gates[name].reached.set()
    await gates[name].opened.wait()


class _Echo:
    """For turns that are no script."""

    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        yield TextDelta(0, "ok")
        yield ModelResponse([{"type": "text", "text": "ok"}])


class GatedModel:
    """Plays scripts; ``[at NAME]`` in a text waits at that gate right after the piece that holds it was said."""

    def __init__(self) -> None:
        self._inner = ScriptedModel(_Echo())

    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        asked.append(request)
        stream = self._inner.step(request)
        try:
            async for event in stream:
                yield event
                if isinstance(event, TextDelta):
                    for name in re.findall(r"\[at (\w+)\]", event.text):
                        await wait_at(name)
        finally:
            await stream.aclose()


@tool
async def hold(gate: str) -> str:
    """Waits at a gate."""
    await wait_at(gate)
    return f"held at {gate}"


@tool
async def told_headers(context: ToolContext) -> dict[str, str]:
    """The headers that the agent is told."""
    return dict(context.headers)


@tool
async def nothing() -> None:
    """Gives nothing."""


@tool
async def much(size: int) -> str:
    """Gives a text of this many characters."""
    return "x" * size


@tool(needs_approval=True)
async def guarded_hold(gate: str, context: ToolContext) -> str:
    """Waits at a gate once it is approved; one line in the outbox says that it began."""
    outbox.append(context, "guarded", {"gate": gate})
    await wait_at(gate)
    return f"held at {gate}"


@tool(needs_approval=True, deadline_s=3600)
async def timed_email(to: str, context: ToolContext) -> str:
    """An approval with a deadline."""
    outbox.append(context, "email", {"to": to})
    return "sent"


@tool(deadline_s=3600)
async def asks(context: ToolContext, gate: str = "") -> str:
    """Asks for an approval while it runs; one line in the outbox says that it went on."""
    if not context.approved:
        if gate:
            await wait_at(gate)
        raise ApprovalRequired
    outbox.append(context, "asked", {"gate": gate})
    return "allowed"


@tool
def defers(context: ToolContext) -> str:
    """Its output comes from elsewhere."""
    outbox.append(context, "deferred", {})
    raise CallDeferred


@tool(needs_approval=True)
async def insists(context: ToolContext, on: str) -> str:
    """Asks although it was asked for."""
    raise ApprovalRequired if on == "approval" else CallDeferred


@tool
async def show(
    what: list[dict[str, Any]], context: ToolContext, gate: str = "", then: list[dict[str, Any]] | None = None
) -> str:
    """Shows things, waits at a gate when there is one, and shows what then follows."""
    show_all(context, what)
    if gate:
        await wait_at(gate)
    show_all(context, then or [])
    return "shown"


@tool
def show_in_thread(what: list[dict[str, Any]], context: ToolContext) -> str:
    """Shows things from a thread of its own."""
    show_all(context, what)
    return "shown"


@tool(retry_safe=True)
async def show_again(what: list[dict[str, Any]], gate: str, context: ToolContext) -> str:
    """Shows things; may be run again."""
    show_all(context, what)
    await wait_at(gate)
    return "shown"


@tool(needs_approval=True)
async def show_approved(what: list[dict[str, Any]], context: ToolContext) -> str:
    """Shows things once it is approved."""
    show_all(context, what)
    return "shown"


@tool
async def show_for_ever(context: ToolContext, stored: bool = True) -> str:
    """Shows more and more, and does not mind what becomes of it."""
    number = 0
    while True:
        context.data("more", "x" * 1000, id=f"{number}", transient=not stored)
        number += 1
        if number % 100 == 0:
            await asyncio.sleep(0)


@tool(timeout_s=0.2)
async def show_too_late(what: list[dict[str, Any]], gate: str, context: ToolContext) -> str:
    """Shows things when its call is over, and nobody waits for it any more."""
    while not gates[gate].opened.is_set():
        with suppress(asyncio.CancelledError):
            await wait_at(gate)
    show_all(context, what)
    gates[f"{gate}_over"].reached.set()
    return "shown"


timed_location = client_tool("timed_location", "A client tool with a deadline.", deadline_s=3600)
typed_answer = client_tool(
    "typed_answer",
    "A client tool with an output schema.",
    output_schema={"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
)


class _Unruly:
    """A model that raises what is not its to raise."""

    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        yield TextDelta(0, "so far")
        raise ValueError("a private detail of the model")


class _Endless:
    """A model that delegates whatever it is asked."""

    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        turn = present_turn(request.history)
        delegated = {"type": "call", "id": "e", "tool": "endless", "input": {"topic": turn.text}}
        outcomes = [result["outcome"] for result in turn.results]
        yield ModelResponse([{"type": "text", "text": f"was told {outcomes}"}] if outcomes else [delegated])


def _no_instructions(_: RequestContext) -> str:
    raise ValueError("a private detail of the instructions")


class Later:
    """A toolset: tools that are only known at run time."""

    async def tools(self) -> list[Tool]:
        return [replace(hold, name=f"later_{name}", retry_safe=name == "again") for name in ("once", "again")]

    def may_have(self, name: str) -> bool:
        return name.startswith("later_")

    async def aclose(self) -> None: ...


_ASKING: tuple[Any, ...] = (asks, defers, insists)
_SHOWING: tuple[Any, ...] = (show, show_in_thread, show_again, show_approved, show_for_ever, show_too_late)
_OWN: tuple[Any, ...] = (
    hold,
    told_headers,
    nothing,
    much,
    guarded_hold,
    timed_email,
    timed_location,
    typed_answer,
    *_ASKING,
    *_SHOWING,
)
_BUILT_IN: tuple[Any, ...] = (get_weather, fail, get_location, pick_option, send_email)

model = GatedModel()
AGENTS = [
    Agent(
        "tester",
        "Play the script.",
        model,
        (
            *_OWN,
            *_BUILT_IN,
            subagent("research", "A child.", "child"),
            subagent("unruly", "A child whose model raises anything.", "unruly"),
            subagent("lost", "A child whose instructions cannot be had.", "lost"),
            subagent("endless", "A child that asks another one like itself.", "endless"),
        ),
        toolsets=[Later()],
    ),
    Agent(
        "child",
        "Play the script.",
        model,
        (*_OWN, *_BUILT_IN, ask_user, publish_note, subagent("deeper", "A grandchild.", "grandchild")),
    ),
    Agent("grandchild", "Play the script.", model, (*_OWN, *_BUILT_IN, ask_user, publish_note)),
    Agent("unruly", "", _Unruly()),
    Agent("lost", _no_instructions, model),
    Agent("endless", "", _Endless(), [subagent("endless", "One more.", "endless")]),
    Agent("other", "Play the script.", model, _OWN),
    Agent(
        "counted",
        "Play the script.",
        model,
        (*_OWN, *_BUILT_IN, subagent("research", "A child.", "child")),
        usage_metadata=True,
    ),
]


def told(request: ModelRequest | None = None) -> list[tuple[str, str]]:
    """(call id, outcome) of every result in a request, the last one if none is given."""
    history = (request or asked[-1]).history
    return [(r["id"], r["outcome"]) for entry in history if entry["role"] == "tool" for r in entry["results"]]
