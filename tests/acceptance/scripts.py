"""Scripted turns, and the agents that play them: the demo's, with two more tools and a third level.

``note`` runs on the server without being asked for and leaves one line in the outbox, so that running it twice is seen.
``careful_note`` asks for a yes while it runs, and leaves its line then.
``timed_location`` is a client tool with a deadline of a second. The researcher has a sub-agent of its own, ``deeper``.
"""

import json
from dataclasses import replace
from typing import Any

from app.agent.registry import Agent, Limits
from app.agent.tools import ApprovalRequired, ToolContext, client_tool, subagent, tool
from app.agents import demo, outbox
from app.agents.tools import slow

LOCATION = {"lat": 59.9, "lon": 10.7}


@tool
def note(text: str, context: ToolContext) -> dict[str, str]:
    """Writes a line into the outbox."""
    outbox.append(context, "noted", {"text": text})
    return {"noted": text}


@tool
async def careful_note(text: str, context: ToolContext) -> dict[str, str]:
    """Writes a line into the outbox once somebody has allowed it."""
    if not context.approved:
        raise ApprovalRequired
    outbox.append(context, "noted", {"text": text})
    return {"noted": text}


timed_location = client_tool("timed_location", "Where the user is, within a second.", deadline_s=1.0)

deeper = subagent("deeper", "Has the librarian look into a topic.", "librarian")

_demo, _researcher = demo.agents(Limits())
AGENTS = [
    replace(_demo, tools=(*_demo.tools, note, careful_note, timed_location)),
    replace(_researcher, tools=(*_researcher.tools, slow, note, deeper)),
    Agent("librarian", "", _researcher.model, (*_researcher.tools, slow, note)),
]


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


def question(call_id: str) -> dict[str, Any]:
    return call("ask_user", call_id, question="Sure?")


def publishing(call_id: str) -> dict[str, Any]:
    return call("publish_note", call_id, title="n")


def research(call_id: str, *steps: dict[str, Any], tool: str = "research") -> dict[str, Any]:
    """A child run that plays these steps; with the tool ``deeper`` it is one of the third level."""
    return call(tool, call_id, topic=script(*steps))


def told(said: str) -> dict[str, Any]:
    """What a run was told, from the last words of its script: call id → outcome; for a sub-agent's result, what that one was told."""
    results = json.loads(said.removeprefix("done "))
    return {result["id"]: _told(result["outcome"], result["value"]) for result in results}


def _told(outcome: str, value: Any) -> Any:
    nested = outcome == "ok" and isinstance(value, str) and value.startswith("done ")
    return told(value) if nested else outcome


def location(call_id: str) -> dict[str, Any]:
    return call("get_location", call_id)


def email(call_id: str) -> dict[str, Any]:
    return call("send_email", call_id, to="ada@example.com", subject="s", body="b")
