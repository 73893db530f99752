"""A small MCP server: notes, kept as long as it lives. Started as a script, in a process of its own: over stdio, or over
streamable HTTP on the port that is its argument.
"""

import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("notes", log_level="CRITICAL")
_notes: list[str] = []


@server.tool()
def add(text: str) -> dict[str, int]:
    """Keep a note."""
    _notes.append(text)
    return {"notes": len(_notes)}


@server.tool()
def count() -> int:
    """How many notes there are."""
    return len(_notes)


@server.tool()
def forget() -> str:
    """Forget all notes."""
    _notes.clear()
    return "forgotten"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no")


@server.tool()
def sent_with(context: Context[Any, Any]) -> dict[str, str]:
    """The headers that this call came with, over HTTP."""
    return dict(context.headers or {})


@server.tool()
def crash() -> str:
    """Ends the server in the middle of a call."""
    os._exit(1)


if __name__ == "__main__":
    if started := os.environ.get("STARTED_FILE"):
        with Path(started).open("a") as file:
            file.write(f"{os.getpid()}\n")
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
