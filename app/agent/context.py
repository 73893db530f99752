"""What an agent's own code is told about the turn it serves: dynamic instructions, dependencies and tools.

Plain values, made anew for every step and every call; nothing here reaches the store or the wire.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.domain.history import Entry


@dataclass(frozen=True, slots=True)
class RequestContext:
    """``owner`` is the authenticated principal; ``session_id`` the chat's id; ``request`` holds the extra keys of
    the body that began the turn (a language, a page, a tenant), as the client sent them: check before you trust."""

    owner: str
    session_id: str
    run_id: str
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolContext(RequestContext):
    """What a tool may know about its call. ``emit`` sends transient progress to whoever watches (any JSON value,
    never stored); ``outbox`` is a file to append to. ``approved``: a person has said yes to this very call.
    ``history`` is what the model had been sent when it made the call, and last its response with the call (entries of
    ``domain.history``)."""

    call_id: str
    outbox: Path
    emit: Callable[[Any], None] = lambda _: None
    approved: bool = False
    history: Sequence[Entry] = ()
