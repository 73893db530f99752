"""Agents on the model of the server: plain ``pydantic_ai.Agent``s, one whose provider searches the web by itself and one whose
output is a place; and one of ours with a tool of each kind.
"""

import dataclasses
import datetime as dt
import enum
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent as LibraryAgent
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.native_tools import WebSearchTool

from app.agent.declare import Agent, client_tool, model, subagent, tool

searcher = LibraryAgent(name="searcher", capabilities=[NativeTool(WebSearchTool())])


@searcher.tool_plain
def look(at: str) -> str:
    """Looks at something."""
    return f"seen: {at}"


class Place(BaseModel):
    name: str


placer = LibraryAgent(name="placer", output_type=Place)


@tool
def seen(at: str) -> str:
    """Looks at something."""
    return f"seen: {at}"


@tool
def now() -> str:
    """Takes nothing."""
    return "now"


@tool(needs_approval=True)
def pay(cents: int) -> str:
    """Pays."""
    return f"paid {cents}"


def _pick(number: int) -> None: ...


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int


def _circle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


VALUES: dict[str, Callable[[], Any]] = {
    "a time": lambda: dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
    "a decimal": lambda: Decimal("1.10"),
    "a uuid": lambda: uuid.UUID(int=1),
    "bytes": lambda: b"\xff",
    "a set": lambda: {1},
    "a dataclass": lambda: Point(1),
    "an enum": lambda: Colour.RED,
    "int keys": lambda: {1: "a"},
    "a generator": lambda: (n for n in (1, 2)),
    "not a number": lambda: math.nan,
    "19 digits": lambda: 1234567890123456789,
    "half a surrogate pair": lambda: "a\ud800b",
    "a NUL": lambda: "a\x00b",
    "nothing": lambda: None,
    "a circle": _circle,
    "an object": object,
    "too much": lambda: "x" * 5_000_000,
}


@tool
def give(what: str) -> Any:
    """Gives a value of a kind."""
    return VALUES[what]()


user = Agent(
    "user",
    "Use the tools.",
    model(),
    [seen, now, pay, give, client_tool("pick", "Picks.", _pick), subagent("ask", "Asks.", "asked")],
)
asked = Agent("asked", "Answer.", model(), [seen])
agents = [searcher, placer, user, asked]
