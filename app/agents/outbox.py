"""Where the built-in tools with consequences leave them: a file of JSON lines instead of a mail server.

One line is one ``write`` to a descriptor opened for appending, so that lines of several processes never mix.
"""

import json
import os
from typing import Any

from app.agent.tools import ToolContext


def append(context: ToolContext, kind: str, fields: dict[str, Any]) -> None:
    """Append ``{kind, callId, runId, sessionId, owner, …fields}`` to the context's outbox; makes the folders
    that are missing.

    Raises ``OSError``, also when the line could not be written whole."""
    line = {
        "kind": kind,
        "callId": context.call_id,
        "runId": context.run_id,
        "sessionId": context.session_id,
        "owner": context.owner,
        **fields,
    }
    data = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    context.outbox.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(context.outbox, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError("the outbox is full: a line was cut")
    finally:
        os.close(descriptor)
