"""What an agent's own code is told about the turn it serves: dynamic instructions, dependencies and tools.

Plain values, made anew for every step and every call; nothing here reaches the store or the wire.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.agent.emitter import Emitter
from app.domain.history import Entry


@dataclass(frozen=True, slots=True)
class RequestContext:
    """``owner`` is the authenticated principal; ``session_id`` the chat's id; ``request`` holds the extra keys of
    the body that began the turn (a language, a page, a tenant), as the client sent them: check before you trust. ``headers``:
    those of its headers that ``AGENT_SERVER_REQUEST_HEADERS`` names, in lower case; the same for the whole turn, whoever answers
    a call of it and wherever it is taken over."""

    owner: str
    session_id: str
    run_id: str
    request: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class ToolContext(RequestContext):
    """What a tool may know about its call, and what it may show while it runs: ``emit``, ``data``, ``source_url`` and
    ``source_document``, from any thread. ``outbox`` is a file to append to. ``approved``: a person has said yes to this very call.
    ``history`` is what the model had been sent when it made the call, and last its response with the call (entries of
    ``domain.history``)."""

    call_id: str
    outbox: Path
    emitter: Emitter = field(default_factory=Emitter, repr=False)
    approved: bool = False
    history: Sequence[Entry] = ()

    def emit(self, value: Any) -> None:
        """Transient progress for whoever watches (any JSON value, never stored), as ``data-subagent``."""
        self.emitter.progress(value)

    def data(self, name: str, value: Any, *, id: str | None = None, transient: bool = False) -> None:  # noqa: A002  the chunk's word
        """Shows a ``data-<name>`` part in the message. The same ``id`` again replaces the value where the part stands.

        A ``transient`` one reaches whoever watches and is never stored. Raises ``ValueError`` for a name, an id or a value that
        cannot be sent, and ``ToolError`` when the message is full."""
        self.emitter.data(name, value, id, transient=transient)

    def source_url(self, url: str, title: str | None = None, *, id: str | None = None) -> None:  # noqa: A002
        """Shows a web page that the answer rests on. A source whose ``id`` the message holds is not shown again."""
        self.emitter.source_url(url, title, id)

    def source_document(
        self,
        media_type: str,
        title: str,
        filename: str | None = None,
        *,
        id: str | None = None,  # noqa: A002
    ) -> None:
        """Shows a document that the answer rests on, as ``source_url``."""
        self.emitter.source_document(media_type, title, filename, id)
