"""Scripted turns, and the agents that play them: the demo's, with two more tools.

``note`` runs on the server without being asked for and leaves one line in the outbox, so that running it twice is seen.
``timed_location`` is a client tool with a deadline of a second.
"""

import json
from dataclasses import replace
from typing import Any

from app.agent.registry import Limits
from app.agent.tools import ToolContext, client_tool, tool
from app.agents import demo, outbox

LOCATION = {"lat": 59.9, "lon": 10.7}


@tool
def note(text: str, context: ToolContext) -> dict[str, str]:
    """Writes a line into the outbox."""
    outbox.append(context, "noted", {"text": text})
    return {"noted": text}


timed_location = client_tool("timed_location", "Where the user is, within a second.", deadline_s=1.0)

_demo, *_others = demo.agents(Limits())
AGENTS = [replace(_demo, tools=(*_demo.tools, note, timed_location)), *_others]


def script(*steps: dict[str, Any]) -> str:
    """The text of a user message that drives its turn."""
    return "script:" + json.dumps(steps)


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"text": said, **more}


def slowly(said: str, seconds: float, pieces: int = 20) -> dict[str, Any]:
    """A text that takes its time."""
    return {"text": said, "chunks": pieces, "delay_ms": seconds * 1000 / pieces}


def calls(*made: dict[str, Any], said: str = "") -> dict[str, Any]:
    return {"text": said, "calls": list(made)} if said else {"calls": list(made)}


def call(tool_name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool_name, "input": arguments, "id": call_id}


def noting(call_id: str) -> dict[str, Any]:
    return call("note", call_id, text="n")


def location(call_id: str) -> dict[str, Any]:
    return call("get_location", call_id)


def email(call_id: str) -> dict[str, Any]:
    return call("send_email", call_id, to="ada@example.com", subject="s", body="b")
