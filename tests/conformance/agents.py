"""The agents of the acceptance tests (the built-in demo, three levels deep) as the scenarios need them: a run can be held.

``AGENT_SERVER_AGENTS=tests.conformance.agents:AGENTS``, in place of ``AGENT_SERVER_SCRIPTED``.

``[at NAME]`` in a scripted text, and the tool ``hold``, wait at a gate of that name, which any other chat opens with the tool
``let_go``: so a scenario decides how long a run runs, and not the speed of the machine. ``effects`` reads what a chat left in
the outbox. ``sent`` tells what the model had been sent. ``asks`` and ``defers`` ask while they run, ``show`` shows data parts and
sources on the page. The agent ``counted`` tells what it uses.
"""

import json
import re
from collections.abc import AsyncGenerator
from dataclasses import replace

from app.agent.declare import Agent, Tool, ToolContext, tool
from app.agent.model import Model, ModelEvent, ModelRequest, ModelResponse, TextDelta
from app.agent.scripted import ScriptedModel
from app.domain.history import Entry, calls_of
from tests.acceptance import scripts
from tests.inprocess.agents import asks, defers, gates, hold, show, wait_at

MARK = re.compile(r"\[at ([\w-]+)\]")


class HeldModel:
    """Plays scripts, and is held at the marks in their texts; hands every other turn to ``inner``."""

    def __init__(self, inner: Model) -> None:
        self._inner = ScriptedModel(inner)

    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        said = ""
        stream = self._inner.step(request)
        try:
            async for event in stream:
                yield event
                if isinstance(event, TextDelta):
                    said += event.text
                    for name in MARK.findall(said):
                        await wait_at(name)
        finally:
            await stream.aclose()


@tool
async def let_go(gate: str) -> None:
    """Opens a gate."""
    gates[gate].open()


@tool
async def effects(chat: str, context: ToolContext) -> list[str]:
    """The calls of a chat that took effect, once for each time they did."""
    lines = context.outbox.read_text().splitlines() if context.outbox.exists() else []
    found = [json.loads(line) for line in lines if chat in line]
    return sorted(line["callId"] for line in found if line["sessionId"] == chat)


@tool
async def sent(context: ToolContext) -> list[str]:
    """What the model had been sent when it made this call: one line for each entry."""
    return [_line(entry) for entry in context.history[:-1]]


def _line(entry: Entry) -> str:
    match entry["role"]:
        case "assistant":
            return " ".join(["assistant", *(part["id"] for part in calls_of(entry))])
        case "tool":
            return " ".join(["tool", *(f"{result['id']}:{result['outcome']}" for result in entry["results"])])
        case role:
            return role


def _served(agent: Agent, *more: Tool) -> Agent:
    tools = (*agent.tools, hold, sent, asks, defers, show, *more)
    return replace(agent, model=HeldModel(agent.model), tools=tools)


_root, *_sub_agents = scripts.AGENTS
_served_root = _served(_root, let_go, effects)
AGENTS = [
    _served_root,
    *(_served(agent) for agent in _sub_agents),
    replace(_served_root, name="counted", usage_metadata=True),
]
