"""What a tool shows on the page while it runs: progress, ``data-*`` parts and sources.

One ``Emitter`` for each run of a tool. It may be called from any thread; what it is given is checked there, so that a mistake is
raised in the tool that made it. Once the call is over it is silent, whoever still calls it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from threading import get_ident

import orjson

from app.agent.plain import plain
from app.agent.tool_run import ToolError
from app.domain import frames
from app.domain.frames import Chunk
from app.domain.turn import valid_id

MAX_PROGRESS_TEXT = 1000
FRAME_BYTES = 200
"""What a frame costs besides its JSON."""
MAX_BYTES = 2**25
TOO_MUCH = "The tool has shown more than one call may."


class Emitter:
    """``say`` takes chunks in the loop's thread, and raises ``ToolError`` for one that the message has no room for. ``under``: the
    root's call (id, tool) that progress is shown under. ``max_bytes``: of everything that one call sends."""

    def __init__(
        self,
        call_id: str = "",
        say: Callable[[Chunk], None] = lambda _: None,
        *,
        under: tuple[str, str] = ("", ""),
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._call_id = call_id
        self._say = say
        self._under = under
        self._left = max_bytes
        self._numbers = count(1)
        self._refused: ToolError | None = None
        self._over = False
        self._thread = get_ident()
        self._loop: asyncio.AbstractEventLoop | None = None
        with suppress(RuntimeError):  # a context made by hand, outside of any loop
            self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """The call is over."""
        self._over = True

    def progress(self, value: object) -> None:
        """A text is told as it is, any other value as JSON. What is beyond ``max_bytes`` is left out."""
        told = plain(value)
        text = told if isinstance(told, str) else orjson.dumps(told).decode()
        self._send(frames.subagent_progress(*self._under, "progress", text[:MAX_PROGRESS_TEXT]))

    def data(self, name: str, value: object, part_id: str | None, *, transient: bool) -> None:
        """Raises ``ValueError`` for a name or an id that cannot be sent, or a value that has no JSON form."""
        if not frames.is_data_name(name):
            raise ValueError(
                f"a data part's name is 1 to 64 letters, digits, _ or -, and not one of ours, not {name!r}"
            )
        if not transient:
            part_id = self._id(part_id)
        elif part_id is not None:
            part_id = _checked("id", part_id)
        self._send(frames.data(name, plain(value), transient=transient, part_id=part_id))

    def source_url(self, url: str, title: str | None, source_id: str | None) -> None:
        """Raises ``ValueError`` for an empty address."""
        self._send(frames.source_url(self._id(source_id), _text("url", url), _title(title)))

    def source_document(
        self, media_type: str, title: str, filename: str | None, source_id: str | None
    ) -> None:
        """Raises ``ValueError`` without a media type or a title."""
        kind, name = _text("media_type", media_type), _text("title", title)
        self._send(frames.source_document(self._id(source_id), kind, name, _title(filename)))

    def _id(self, given: str | None) -> str:
        """A part without an id gets one of its call: a tool that is run again shows the same parts, and not more of them."""
        return f"{self._call_id}-{next(self._numbers)}" if given is None else _checked("id", given)

    def _send(self, chunk: Chunk) -> None:
        if self._refused is not None:
            raise self._refused
        self._left -= len(orjson.dumps(chunk)) + FRAME_BYTES
        if self._left < 0:
            if chunk.get("transient"):
                return
            raise ToolError(TOO_MUCH)
        if self._loop is None or get_ident() == self._thread:
            self._deliver(chunk)
            if self._refused is not None:
                raise self._refused
        else:
            with suppress(RuntimeError):  # the loop has gone, and everybody who watched with it
                self._loop.call_soon_threadsafe(self._deliver, chunk)

    def _deliver(self, chunk: Chunk) -> None:
        if self._over or self._refused is not None:
            return
        try:
            self._say(chunk)
        except ToolError as refused:
            self._refused = refused


def _checked(what: str, value: str) -> str:
    if not valid_id(value):
        raise ValueError(f"the {what} of a part is 1 to 256 characters, none of them a control character")
    return value


def _text(what: str, value: str) -> str:
    if not isinstance(value, str) or not value:  # pyright: ignore[reportUnnecessaryIsInstance]  tools are not all typed
        raise ValueError(f"a source needs its {what}")
    return str(plain(value))


def _title(value: str | None) -> str | None:
    return str(plain(value)) if value else None
