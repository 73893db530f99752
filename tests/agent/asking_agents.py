"""Agents of plain pydantic-ai whose tools ask in their own bodies, as its documentation shows it; registered as they are.

``AGENT_SERVER_AGENTS=tests.agent.asking_agents:AGENTS``, with scripts for a model.
"""

from typing import Any

from pydantic_ai import Agent, ApprovalRequired, CallDeferred, RunContext
from pydantic_ai.models.test import TestModel

from app.agent.declare import Agent as Declared
from app.agent.declare import model, subagent

PROTECTED = {".env"}
files: dict[str, str] = {}
tasks: dict[str, str] = {}

editor = Agent(TestModel(), name="editor")


@editor.tool
def update_file(ctx: RunContext, path: str, content: str) -> str:
    """Write a file. A protected one needs somebody's yes."""
    if path in PROTECTED and not ctx.tool_call_approved:
        raise ApprovalRequired(metadata={"reason": "protected"})
    files[path] = content
    return f"File {path!r} updated: {content!r}"


@editor.tool_plain(requires_approval=True)
def delete_file(path: str) -> str:
    """Delete a file."""
    files.pop(path, None)
    return f"File {path!r} deleted"


@editor.tool
async def calculate_answer(ctx: RunContext, question: str) -> Any:
    """A long computation, done by somebody else."""
    tasks[ctx.tool_call_id or ""] = question
    raise CallDeferred(metadata={"task_id": ctx.tool_call_id})


boss = Declared("boss", "", model("test"), [subagent("edit", "Edits files.", "editor")])
AGENTS = [editor, boss]
