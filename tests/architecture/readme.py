"""The README's tables, written from the code between markers: ``python -m tests.architecture.readme``.

A block stands between ``<!-- from code: name -->`` and ``<!-- end -->``. A test compares every block with what this file would write.
"""

import re
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from app import settings
from app.domain import call_state, path, run_state
from app.domain.answers import SUBMIT
from app.domain.call_state import CallEvent, CallState
from app.domain.chat_answer import CHAT_ANSWER, ChatAnswer
from app.domain.continuation import CONTINUATION
from app.domain.decision import Table
from app.domain.path import PATH, Ask
from app.domain.run_state import RunEvent, RunState
from app.errors import ERRORS
from tests.architecture import ROOT, shapes
from tests.architecture.members import listed

README = ROOT / "README.md"
_BLOCK = re.compile(r"<!-- from code: ([a-z-]+) -->\n(.*?)<!-- end -->", re.DOTALL)


def _grid(table: Table[Any], outcome: type[StrEnum] | None = None) -> str:
    """A decision table and what its words mean. Combinations that cannot happen are left blank."""
    kinds = dict(table.axes) | ({table.name: outcome} if outcome is not None else {})
    words = {name: listed(kind, leave_out=("impossible",)) for name, kind in kinds.items()}
    cells = table.markdown().replace("| impossible ", "| ")
    return "\n\n".join([cells, *(f"{name}:\n\n{lines}" for name, lines in words.items() if lines)])


def _path() -> str:
    interrupt = ", ".join(f"`{ask}`" for ask in Ask if ask in path.INTERRUPTIBLE)
    return f"{_grid(PATH, path.Path)}\n\nWith `AGENT_SERVER_ON_BUSY=interrupt`, {interrupt} close the live run instead of `busy`."


def _diagram(
    states: Mapping[tuple[RunState, RunEvent], RunState] | Mapping[tuple[CallState, CallEvent], CallState],
    first: Mapping[str, list[str]],
    last: list[str],
) -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    [*] --> {state}: {', '.join(kinds)}" for state, kinds in first.items()]
    lines += [f"    {state} --> {then}: {event}" for (state, event), then in states.items()]
    lines += [f"    {state} --> [*]" for state in last]
    return "\n".join([*lines, "```"])


def _run_states() -> str:
    settled = [str(state) for state in RunState if state in run_state.SETTLED]
    return _diagram(run_state.NEXT_STATE, {"running": ["a user message"]}, settled)


def _call_states() -> str:
    first: dict[str, list[str]] = {}
    for kind in call_state.CallKind:
        first.setdefault(call_state.first_state(kind), []).append(str(kind))
    return _diagram(call_state.NEXT_STATE, first, ["settled"])


def _closed() -> str:
    lines = ["| `errorCode` of the row | the model is told | the user reads |", "|---|---|---|"]
    lines += [f"| `{code}` | `{outcome}` | {text} |" for code, (outcome, text) in call_state.CLOSED.items()]
    return "\n".join(lines)


def _errors() -> str:
    head = ["code", "before a commit", "after", "retryable", "log", "the user reads", "what to do"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for code_, row in ERRORS.items():
        in_stream = row.uncommitted is None and row.committed is None
        statuses = (
            ["in the stream", ""] if in_stream else [str(row.uncommitted or ""), str(row.committed or "")]
        )
        cells = [
            f"`{code_}`",
            *statuses,
            "yes" if row.retryable else "no",
            row.level,
            row.sentence,
            row.do,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


BLOCKS: dict[str, Callable[[], str]] = {
    "path": _path,
    "submit": lambda: _grid(SUBMIT),
    "chat-answer": lambda: _grid(CHAT_ANSWER, ChatAnswer),
    "continuation": lambda: _grid(CONTINUATION),
    "shapes": shapes.markdown,
    "run-states": _run_states,
    "call-states": _call_states,
    "closed-calls": _closed,
    "settings": settings.table,
    "errors": _errors,
}


def blocks(text: str) -> dict[str, str]:
    """Block's name → what stands in it."""
    return {name: body.strip() for name, body in _BLOCK.findall(text)}


def written(text: str) -> str:
    """The text with every block as the code says it is now. Raises ``KeyError`` for a block of an unknown name."""
    return _BLOCK.sub(
        lambda found: f"<!-- from code: {found[1]} -->\n{BLOCKS[found[1]]()}\n<!-- end -->", text
    )


def code(text: str, language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


if __name__ == "__main__":
    before = README.read_text()
    after = written(before)
    README.write_text(after)
    sys.stdout.write("README.md is written anew\n" if after != before else "README.md was up to date\n")
