"""How much of what its tools show a message takes. The rest of it is for texts and outputs: no tool that shows ends the run."""

from collections.abc import Iterable
from typing import Any

import orjson

from app.agent.tool_run import ToolError
from app.domain.frames import Chunk
from app.domain.ui_message import identity

FULL = "The message is full: the tool cannot show more."


class Room:
    """Counts data parts and sources when they are said, also those that wait for a commit. ``parts``: the message's so far."""

    def __init__(self, parts: Iterable[dict[str, Any]], *, max_parts: int, max_bytes: int) -> None:
        self._sizes = {key: _size(part) for part in parts if (key := identity(part)) is not None}
        self._bytes = sum(self._sizes.values())
        self._max_parts = max_parts
        self._max_bytes = max_bytes

    def take(self, chunk: Chunk) -> None:
        """Raises ``ToolError`` when there is no room; a part that is replaced makes room for its new value."""
        key = identity(chunk)
        if key is None or chunk.get("transient"):
            return
        size, before = _size(chunk), self._sizes.get(key)
        taken = self._bytes + size - (before or 0)
        if taken > self._max_bytes or (before is None and len(self._sizes) >= self._max_parts):
            raise ToolError(FULL)
        self._sizes[key], self._bytes = size, taken


def _size(part: dict[str, Any]) -> int:
    return len(orjson.dumps(part))
