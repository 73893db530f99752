"""One client's stream: from a run's frames to the chunks this client may be sent.

- **The prefix of every 200 that continues a message**: ``start`` → ``start-step`` → ``start`` → … The second ``start`` is the chunk
  that writes: without it a client whose state copies messages never sees the new step and sends the same answer for ever.
- Joins: a replay and the frames after it may disagree about an open step; the stream the client gets never does.
- A result for a call that this client does not hold comes with its input: a bare one would end the client's stream in an error.
- A source comes once: no chunk replaces one that the client holds, so it is left out.
- Endings: what is open is closed, and no last step is left that satisfies a stock predicate.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from app.domain import frames
from app.domain.frames import ENDINGS, Chunk
from app.domain.grammar import Place, StreamState
from app.domain.ui_message import Part, identity


class Encoder:
    """``continued``: whether the client appends to a message that it holds. ``held``: the calls that this shows; ``shown``: its data
    and sources, by ``identity``.

    ``aside``: chunks that ride inside the first step (rejections). ``part_of`` finds a call's part in the run's message."""

    def __init__(
        self,
        message_id: str,
        *,
        continued: bool = False,
        held: Collection[str] = (),
        shown: Collection[tuple[str, str]] = (),
        aside: Sequence[Chunk] = (),
        part_of: Callable[[str], Part | None] = lambda _: None,
    ) -> None:
        self._message_id = message_id
        self._waiting = [frames.start(message_id), *aside] if continued else []
        self._state = StreamState()
        self._stepped = False
        self._held = set(held)
        self._shown = shown
        self._continued = continued
        self._part_of = part_of

    @property
    def ended(self) -> bool:
        return self._state.place is Place.ENDED

    def start(self, metadata: Mapping[str, Any] | None = None) -> Iterator[Chunk]:
        """``metadata``: the message's, as it is stored."""
        yield from self._out(frames.start(self._message_id, dict(metadata or {})))

    def feed(self, chunk: Chunk) -> Iterator[Chunk]:
        """The chunks to send for one frame of the run."""
        kind: str = chunk["type"]
        if kind in ENDINGS:
            yield from self._ending(chunk)
            return
        if kind.startswith("source-") and identity(chunk) in self._shown:
            return
        in_step = self._state.place is Place.STEP
        if kind == "start-step":
            for closing in self._state.closing():
                yield from self._out(closing)
            yield from self._step()
            return
        if kind == "finish-step":
            for closing in self._state.closing():
                yield from self._out(closing)
            return
        if not in_step and not chunk.get("transient"):
            yield from self._step()
        for each in self._with_input(kind, chunk):
            yield from self._out(each)

    def _step(self) -> Iterator[Chunk]:
        self._stepped = True
        yield from self._out(frames.START_STEP)
        waiting, self._waiting = self._waiting, []
        for chunk in waiting:
            yield from self._out(chunk)

    def _with_input(self, kind: str, chunk: Chunk) -> Iterator[Chunk]:
        """The chunk; before it the input of its call, when this client does not hold it."""
        call_id = chunk.get("toolCallId")
        unheld = self._continued and call_id not in self._held and kind.startswith("tool-output-")
        part = self._part_of(call_id) if unheld and call_id is not None else None
        if kind.startswith("tool-") and call_id is not None:
            self._held.add(call_id)
        if part is None or call_id is None:
            yield chunk
            return
        name, denied = part["type"].removeprefix("tool-"), kind == "tool-output-denied"
        yield frames.tool_input_available(call_id, name, part.get("input", {}), flagged=not denied)
        if denied and "approval" in part:
            yield frames.tool_approval_request(call_id, part["approval"]["id"])
        # A result without a flag is the client's own: it clears the one of its input.
        yield chunk if denied else {"providerExecuted": False, **chunk}

    def _ending(self, chunk: Chunk) -> Iterator[Chunk]:
        for closing in self._state.closing():
            yield from self._out(closing)
        if not self._stepped:  # nothing opened a step: a client's own must end all the same
            yield from self._step()
            yield from self._out(frames.FINISH_STEP)
        if chunk["type"] != "error" and self._state.needs_boundary():
            for each in frames.boundary(self._message_id):
                yield from self._out(each)
        yield from self._out(chunk)

    def _out(self, chunk: Chunk) -> Iterator[Chunk]:
        self._state.accept(chunk)
        yield chunk


def harmless_step(message_id: str, aside: Sequence[Chunk]) -> list[Chunk]:
    """Case B whole: a step that writes and holds no tool part, then the end. Nothing of it is stored."""
    return [
        frames.start(message_id),
        frames.START_STEP,
        frames.start(message_id),
        *aside,
        frames.FINISH_STEP,
        frames.FINISH,
    ]
