"""The present turn, read from a history: what the user asked, what the agent has done since. For models made
of rules.

A turn begins with the last user entry. Everything here is a pure function of the history, so that a run which
another process goes on with behaves the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.history import Entry


@dataclass(frozen=True, slots=True)
class PresentTurn:
    """``text`` is the text of the user's message, ``step`` the number of model responses since, ``results``
    every tool result since, in order, and ``newest`` those of the last step alone (results as in
    ``domain.history``)."""

    text: str
    step: int
    results: tuple[dict[str, Any], ...]
    newest: tuple[dict[str, Any], ...]


def present_turn(history: Sequence[Entry]) -> PresentTurn:
    """The turn a history stands in; an empty text when nobody has said anything."""
    start = max((index for index, entry in enumerate(history) if entry["role"] == "user"), default=-1)
    since = history[start + 1 :]
    parts: list[dict[str, Any]] = history[start]["parts"] if start >= 0 else []
    text = "\n".join(part["text"] for part in parts if part["type"] == "text").strip()
    results = [entry["results"] for entry in since if entry["role"] == "tool"]
    return PresentTurn(
        text=text,
        step=sum(entry["role"] == "assistant" for entry in since),
        results=tuple(result for step in results for result in step),
        newest=tuple(since[-1]["results"]) if since and since[-1]["role"] == "tool" else (),
    )
