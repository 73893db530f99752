"""The built-in tools: at least one of every kind, so that a first look shows each of them working.

Server tools (``get_weather``, ``slow``, ``fail``), client tools (``get_location``, ``pick_option``), one that
waits for an approval (``send_email``) and a sub-agent (``research``); the sub-agent has one of each kind of
its own. Nothing here leaves the machine: the weather is made up and the mail goes to the outbox file.
"""

import asyncio
import hashlib
from typing import Annotated, Any, Literal

from pydantic import Field

from app.agent.tools import Tool, ToolContext, ToolError, client_tool, subagent, tool
from app.agents import outbox

Text = Annotated[str, Field(min_length=1, max_length=10_000)]

_SKIES = ("sunny", "cloudy", "rainy", "windy", "foggy", "snowy")


@tool(retry_safe=True)
def get_weather(city: Annotated[str, Field(min_length=1, max_length=200)]) -> dict[str, Any]:
    """The present weather in a city.

    Args:
        city: Name of the city.
    """
    # Made up from the name, so that a repeat says the same.
    seed = hashlib.sha256(city.strip().casefold().encode("utf-8", "replace")).digest()
    sky = _SKIES[seed[0] % len(_SKIES)]
    celsius = -5 + seed[1] % 6 if sky == "snowy" else 8 + seed[1] % 22
    return {"city": city, "temperatureC": celsius, "conditions": sky, "humidity": 30 + seed[2] % 60}


@tool(timeout_s=None)
async def slow(ms: Annotated[int, Field(ge=0, le=600_000)], context: ToolContext) -> dict[str, int]:
    """Wait, then answer: shows a tool that takes its time.

    Args:
        ms: How long to wait, in milliseconds.
    """
    context.emit({"waiting": ms})
    await asyncio.sleep(ms / 1000)
    return {"waitedMs": ms}


@tool(timeout_s=1.0)
async def fail(kind: Literal["public", "private", "timeout"] = "public") -> None:
    """Fail on purpose: shows what the user gets to see of a tool's failure.

    Args:
        kind: "public" explains itself, "private" raises an error that only the log may hold, "timeout" hangs.
    """
    if kind == "public":
        raise ToolError("The demonstration failed, as you asked.")
    if kind == "timeout":
        await asyncio.Event().wait()
    raise RuntimeError("an internal detail that no user should read: password=hunter2")


@tool(needs_approval=True)
def send_email(to: Text, subject: str, body: str, context: ToolContext) -> dict[str, Any]:
    """Send an e-mail. The user is asked for approval first.

    Args:
        to: Address of the recipient.
        subject: Subject line.
        body: Text of the mail.
    """
    outbox.append(context, "email", {"to": to, "subject": subject, "body": body})
    return {"sent": True, "to": to, "subject": subject}


get_location = client_tool("get_location", "Where the user is, asked of the user's browser.")


def _options(question: Text, options: Annotated[list[str], Field(min_length=1, max_length=20)]) -> None: ...


pick_option = client_tool("pick_option", "Let the user pick one of several options.", _options)


def research(agent: str) -> Tool:
    """The sub-agent tool, answered by the agent registered as ``agent``."""
    return subagent(
        "research", "Have a colleague look into a topic and write a note about it; gives its summary.", agent
    )


# --- the researcher's
# ------------------------------------------------------------------------------------------

_NOTES = (
    ("streams", "A stream that breaks is resumed from its log; the run itself never noticed."),
    ("approvals", "An approval waits as long as it must; nothing runs meanwhile and nothing is lost."),
    ("leases", "A run belongs to the process that holds its lease; a lapsed one is taken over."),
    ("tea", "Green tea is best at about 80 °C; boiling water makes it bitter."),
)


@tool(retry_safe=True)
def search_notes(query: Annotated[str, Field(max_length=1000)]) -> list[dict[str, str]]:
    """Search the notebook.

    Args:
        query: Words to look for.
    """
    words = set(query.casefold().split())
    found = [
        {"title": title, "text": text}
        for title, text in _NOTES
        if words & {title, *text.casefold().replace(",", "").replace(".", "").split()}
    ]
    return found or [{"title": _NOTES[0][0], "text": _NOTES[0][1]}]


def _question(question: Text) -> None: ...


ask_user = client_tool("ask_user", "Ask the user a question and get an answer as text.", _question)


@tool(needs_approval=True)
def publish_note(title: Text, context: ToolContext) -> dict[str, Any]:
    """Publish the note under a title. The user is asked for approval first.

    Args:
        title: Title of the note.
    """
    outbox.append(context, "note", {"title": title})
    return {"published": True, "title": title}


RESEARCHER_TOOLS: tuple[Tool, ...] = (search_notes, ask_user, publish_note)


def assistant_tools(researcher: str) -> tuple[Tool, ...]:
    """The tools of the demo and of the assistant; ``researcher`` is the name of the agent behind
    ``research``."""
    return (get_weather, slow, fail, get_location, pick_option, send_email, research(researcher))
